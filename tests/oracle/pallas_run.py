"""Runs a generated Pallas file: its self-check as `python FILE` would, then its function on stored inputs.

    pallas_run.py FILE --inputs IN.safetensors --out OUT.safetensors [--vmap]

Tensors of IN are named CASE/PARAMETER. Where a case has do, outputs come with their gradients. With --vmap the first case is also
computed under vmap, for itself and for inputs that are half as large, and must be what single calls give.
"""

import argparse
import faulthandler
import runpy

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from mosaic_eval import read_tensors, write_tensors


def outputs(function, **inputs):
    """The outputs of the rule by name, and where their gradients are given those of the inputs."""
    given = [inputs.pop(n) for n in ("do", "dfinal_state") if n in inputs]
    rest = {n: inputs.pop(n) for n in ("cu_seqlens",) if n in inputs}
    call = lambda x: function(**x, **rest)
    if not given:
        return named(call(inputs))
    y, pullback = jax.vjp(call, inputs)
    (gradients,) = pullback(tuple(given) if isinstance(y, tuple) else given[0])
    return named(y) | {"d" + n: g for n, g in gradients.items()}


def named(y):
    return dict(zip(("o", "final_state"), y if isinstance(y, tuple) else (y,)))


def check_vmap(run, x):
    half = {n: t // 2 * 2 if n == "cu_seqlens" else t / 2 for n, t in x.items()}
    batch = {n: jnp.stack([t, half[n].astype(t.dtype)]) for n, t in x.items()}
    got = jax.jit(jax.vmap(lambda b: run(**b)))(batch)
    for i in range(2):
        want = run(**{n: t[i] for n, t in batch.items()})
        for n, w in want.items():
            w, y = (np.asarray(t, np.float64) for t in (w, got[n][i]))
            limit = 2**-7 if want[n].dtype == jnp.bfloat16 else 2e-5
            assert np.abs(y - w).max() <= limit * np.abs(w).max(), f"{n} of row {i} under vmap"


def check_nothing(function, axes, x):
    """No rows, or no tokens, give empty outputs and the states as they came."""
    for letter in "BT" if "cu_seqlens" not in x else "":
        part = {n: tuple(slice(0 if a == letter else None) for a in axes[n]) for n in x.keys() & axes.keys() - {"o", "final_state"}}
        none = {n: x[n][at] for n, at in part.items()}
        y = named(function(**none))
        assert y["o"].shape == none["v"].shape, f"no {letter}"
        if "final_state" in y:
            assert y["final_state"].shape[0] == none["v"].shape[0], f"no {letter}"
            np.testing.assert_array_equal(y["final_state"], none.get("initial_state", 0 * y["final_state"]))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("file")
    p.add_argument("--inputs", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--vmap", action="store_true")
    a = p.parse_args()
    faulthandler.dump_traceback_later(350)  # where it hangs
    module = runpy.run_path(a.file, run_name="__main__")
    function = module[module["__all__"][0]]
    cases = {}
    for name, t in read_tensors(a.inputs).items():
        case, parameter = name.split("/")
        cases.setdefault(case, {})[parameter] = jnp.asarray(t)
    run = jax.jit(lambda **x: outputs(function, **x))
    if all("do" not in x for x in cases.values()):
        run = lambda **x: named(jax.jit(function)(**x))  # what the self-check has compiled
    out = {}
    for case, x in cases.items():
        for name, y in run(**x).items():
            y = np.asarray(y)
            out[f"{case}/{name}"] = y.astype("f4") if y.dtype == ml_dtypes.bfloat16 else y
    check_nothing(function, module["AXES"], next(iter(cases.values())))
    if a.vmap:
        check_vmap(run, next(iter(cases.values())))
    write_tensors(a.out, out)


if __name__ == "__main__":
    main()
