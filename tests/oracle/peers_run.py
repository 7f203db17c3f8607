"""Holds modules of examples/jax over a package of mixed batches to what the references of the functions that they replace gave.

    peers_run.py MIXED.safetensors WINDOW BACKEND...

The package gdnop and the modules are on the path. WINDOW is its number of tokens of a window: cases of windows are for 5, others for 1.
"""

import importlib
import sys

import gdnop
import jax.numpy as jnp
import numpy as np

from mosaic_eval import read_tensors

SIZES = {"n_kq": 1, "n_v": 2, "d_k": 16, "d_v": 16, "kernel_size": 4}


def main():
    path, window, *backends = sys.argv[1:]
    cases, done = {}, 0
    for name, t in read_tensors(path).items():
        case, argument = name.split("/")
        cases.setdefault(case, {})[argument] = t
    for case, x in cases.items():
        if ("read_offsets" in x) != (window != "1"):
            continue
        want = [x.pop(f"want_{n}") for n in ("conv", "state", "o")]
        x.setdefault("read_state_indices", x["state_indices"])
        module = importlib.import_module(case.split(".")[0] + "_gdn")
        for backend in backends:
            call = module.replaced(gdnop, backend)
            args = {n: jnp.asarray(t) for n, t in x.items()}
            args |= SIZES | {"num_spec_tokens": int(window) - 1}
            (conv, state), o = call(**args)
            np.testing.assert_array_equal(conv, want[0], case)
            for got, y in zip((state, o), want[1:], strict=True):
                np.testing.assert_allclose(got, y, rtol=2e-4, atol=2e-4, err_msg=case)
            done += 1
    print(done, "calls agree")


if __name__ == "__main__":
    main()
