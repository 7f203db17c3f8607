"""Calls the function run of a file as FlashInfer-Bench does: the reference of a definition, or the entry point of a solution.

    flashinfer_run.py SOURCE --inputs IN.safetensors --order q,k,v,... --scale 0.0 --out OUT.safetensors

A tensor of the order that IN lacks is None. A reference imports torch, which a small stand-in on numpy serves here; arguments of a
solution are arrays of JAX. Results are written as out0, out1, with bf16 widened to f32.
"""

import argparse
import runpy
import sys
from types import ModuleType

import ml_dtypes
import numpy as np

from mosaic_eval import read_tensors, write_tensors


class Tensor(np.ndarray):
    device = None

    def float(self):
        return self.astype(np.float32)

    def to(self, dtype):
        return self.astype(dtype)

    def repeat_interleave(self, n, dim):
        return np.repeat(self, n, axis=dim)


def torch_on_numpy():
    wrap = lambda a: np.asarray(a).view(Tensor)
    torch = ModuleType("torch")
    torch.float32 = np.float32
    torch.no_grad = lambda: (lambda f: f)
    torch.exp = lambda x: wrap(np.exp(x))
    torch.sigmoid = lambda x: wrap(1 / (1 + np.exp(-x)))
    torch.einsum = lambda s, *xs: wrap(np.einsum(s, *xs))
    torch.zeros = lambda *shape, dtype, device: wrap(np.zeros(shape, dtype))
    torch.zeros_like = lambda x: wrap(np.zeros(x.shape, x.dtype))
    torch.stack = lambda xs: wrap(np.stack(xs))
    nn, functional = ModuleType("torch.nn"), ModuleType("torch.nn.functional")
    functional.softplus = lambda x: wrap(np.logaddexp(x, 0).astype(x.dtype))
    torch.nn, nn.functional = nn, functional
    sys.modules.update({"torch": torch, "torch.nn": nn, "torch.nn.functional": functional})
    return wrap


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("source")
    for name in ("inputs", "order", "scale", "out"):
        p.add_argument("--" + name, required=True)
    a = p.parse_args()
    tensors = read_tensors(a.inputs)
    if "import jax" in open(a.source).read():
        run = runpy.run_path(a.source)["run"]
        import jax

        wrap = jax.numpy.asarray
    else:
        wrap = torch_on_numpy()
        run = runpy.run_path(a.source)["run"]
    arguments = [float(a.scale) if n == "scale" else wrap(tensors[n]) if n in tensors else None for n in a.order.split(",")]
    outputs = [np.asarray(x) for x in run(*arguments)]
    write_tensors(a.out, {f"out{i}": x.astype("f4") if x.dtype == ml_dtypes.bfloat16 else x for i, x in enumerate(outputs)})


if __name__ == "__main__":
    main()
