"""Stores what the reference functions of tokamax and tpu-inference give for small mixed batches.

    PYTHON tests/peers/mixed.py WHEELS tests/fixtures/peers/mixed.safetensors

PYTHON has JAX and NumPy; WHEELS has the unpacked wheels of tokamax 0.0.18.dev20261026 and tpu-inference 0.32.0. Their references are
plain JAX in their test files, gdn_attention_ref and gdn_attention_spec_ref, which are taken from there by name: nothing of their code is
copied, and their kernels do not run. Inputs are stored beside what they give, in float32, named PROJECT.CASE/ARGUMENT.
"""

import ast
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "oracle"))

from mosaic_eval import write_tensors  # noqa: E402

FILES = {
    "tokamax": "tokamax/_src/ops/causal_conv1d_gated_delta_rule/gdn_attention_test.py",
    "tpu_inference": "tests/kernels/gdn_attention_v3_test.py",
}
SIZES = {"n_kq": 1, "n_v": 2, "d_k": 16, "d_v": 16, "kernel_size": 4}
WINDOW = 5

# Lengths of decodes or windows, of prompts, contexts of all, offsets of windows, as in their tests.
CASES = {
    "prefill": ([], [60], [0], None),
    "mixed": ([1, 1], [30, 7, 1], [9, 0, 0, 4, 9], None),
    "decode": ([1] * 5, [], [8, 0, 3, 9, 1], None),
    "windows": ([5, 1, 3, 2, 4], [], [16] * 5, [0, 1, 2, 3, 4]),
    "windows_and_prefill": ([5, 2], [40], [16, 16, 0], [3, 1, 0]),
}


def functions(path):
    """The functions of a file by name, without what it imports."""
    tree = ast.parse(path.read_text())
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    space = {"jax": jax, "jnp": jnp, "np": np}
    exec(compile(tree, str(path), "exec"), space)
    return space


def inputs(case):
    first, prompts, contexts, offsets = CASES[case]
    r = np.random.default_rng(sorted(CASES).index(case))
    lengths, window = [*first, *prompts], WINDOW if offsets else 1
    n, tokens = len(lengths), sum(lengths)
    slots = 1 + n * window
    dim = 2 * SIZES["n_kq"] * SIZES["d_k"] + SIZES["n_v"] * SIZES["d_v"]
    heads = SIZES["n_v"]
    normal = lambda *shape: r.standard_normal(shape).astype("f4")  # noqa: E731
    x = {
        "qkv": normal(tokens, dim),
        "b": normal(tokens, heads),
        "a": normal(tokens, heads),
        "conv_state": normal(slots, SIZES["kernel_size"] - 1, dim),
        "recurrent_state": normal(slots, heads, SIZES["d_k"], SIZES["d_v"]),
        "conv_weight": normal(dim, 1, SIZES["kernel_size"]),
        "conv_bias": normal(dim),
        "a_log": normal(heads),
        "dt_bias": normal(heads),
        "query_start_loc": np.cumsum([0, *lengths]),
        "state_indices": 1 + np.arange(n) * window,
        "distribution": np.array([len(first), len(first), n]),
        "seq_lens": np.array(lengths) + np.array(contexts),
    }
    if offsets:
        x["read_offsets"] = np.array(offsets)
    else:
        x["read_state_indices"] = r.permutation(x["state_indices"])
    return {k: v if v.dtype == "f4" else v.astype("i4") for k, v in x.items()}


def computed(space, x):
    """Both caches and o by a project's references; windows by their own, and prompts behind them by the other."""
    offsets = x.get("read_offsets")
    shared = {k: jnp.asarray(v) for k, v in x.items() if k not in ("distribution", "read_offsets")}
    if offsets is None:
        return space["gdn_attention_ref"](**shared, distribution=x["distribution"], **SIZES)
    first, everything = int(x["distribution"][0]), int(x["distribution"][2])
    caches, o = space["gdn_attention_spec_ref"](**shared, read_offsets=offsets, num_spec_seqs=first, **SIZES)
    if everything > first:
        names = ("query_start_loc", "state_indices", "seq_lens")
        rest = {k: shared[k][first:] for k in names}
        conv, state = caches
        shared |= rest | {"conv_state": conv, "recurrent_state": state}
        caches, p = space["gdn_attention_ref"](**shared, distribution=np.array([0, 0, everything - first]), **SIZES)
        o = o.at[int(x["query_start_loc"][first]) :].set(p[int(x["query_start_loc"][first]) :])
    return caches, o


def main():
    wheels, out = map(pathlib.Path, sys.argv[1:])
    stored = {}
    for project, path in FILES.items():
        found = [p for p in (wheels / path, wheels / project / path) if p.exists()]
        space = functions(found[0])
        for case in CASES:
            x = inputs(case)
            (conv, state), o = computed(space, x)
            y = x | {"want_conv": conv, "want_state": state, "want_o": o}
            stored |= {f"{project}.{case}/{k}": np.ascontiguousarray(v) for k, v in y.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(str(out), stored)


if __name__ == "__main__":
    main()
