"""Lowers the function of a generated Pallas file for a TPU, with none attached.

    pallas_lower.py FILE OUT.stablehlo.mlir --types q=bfloat16,k=bfloat16,...
"""

import argparse
import runpy

import jax


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("file")
    p.add_argument("out")
    p.add_argument("--types", required=True)
    a = p.parse_args()
    module = runpy.run_path(a.file)
    types = dict(t.split("=") for t in a.types.split(","))
    inputs = {n: jax.ShapeDtypeStruct(s, types[n]) for n, s in module["SHAPES"].items()}
    f = jax.jit(lambda **x: module["gated_delta_rule"](**x, interpret=False))
    with open(a.out, "w") as out:
        out.write(f.trace(**inputs).lower(lowering_platforms=("tpu",)).as_text())


if __name__ == "__main__":
    main()
