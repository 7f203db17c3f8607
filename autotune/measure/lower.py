"""Lowers the function of a generated Pallas file for a TPU, with none attached.

    lower.py FILE OUT.mlir forward|gradient NAME=DTYPE ...
"""

import runpy
import sys

import jax


def main():
    file, out, what, *types = sys.argv[1:]
    module = runpy.run_path(file)
    types = dict(t.split("=") for t in types)
    inputs = {n: jax.ShapeDtypeStruct(s, types[n]) for n, s in module["SHAPES"].items()}

    def forward(x):
        return module[module["__all__"][0]](**x, interpret=False)

    def gradient(x, weights):
        results, backward = jax.vjp(forward, x)
        return results, backward(weights)

    if what == "forward":
        traced = jax.jit(forward).trace(inputs)
    else:
        traced = jax.jit(gradient).trace(inputs, jax.eval_shape(forward, inputs))
    with open(out, "w") as f:
        f.write(traced.lower(lowering_platforms=("tpu",)).as_text())


if __name__ == "__main__":
    main()
