"""Lowers public kernels of the gated delta rule for TPUs, with none attached.

    lower.py OUT --target v6e [--only tokamax]

Each peer becomes OUT/NAME.mlir, StableHLO as `gdngen explain` reads it, for the bench work: B 1, T 4096, 4 heads of
q and k, 8 of v, K = V = 128, bf16 q, k and v. Those of rules with a decay a channel have 8 heads of q and k too, or say otherwise.
OUT/peers.json lists the peers with their versions, and why one has no module.
"""

import argparse
import ast
import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import sys
import types

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy
from jax import ShapeDtypeStruct as Shape

TOKENS, HEADS_K, HEADS, DIM, CONV = 4096, 4, 8, 128, 4
WIDTH = (2 * HEADS_K + HEADS) * DIM
BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32

# What JAX calls a core of each target.
KINDS = {"v5e": "TPU v5 lite", "v6e": "TPU v6 lite", "tpu7x": "TPU7x"}


def pretend(target):
    """Makes kernels that ask which TPU they run on see the target."""
    for name in ("jax._src.tpu_info", "jax._src.pallas.mosaic.tpu_info"):
        module = importlib.import_module(name)
        module.get_device_kind = lambda: KINDS[target]
        module.get_num_device_cores = lambda: 1
    jax.default_backend = lambda: "tpu"


def bare(package):
    """Registers a package whose __init__ is not run, so that a kernel of it loads without the package's dependencies."""
    if package in sys.modules:
        return
    parent, _, name = package.rpartition(".")
    if parent:
        bare(parent)
        paths = [os.path.join(p, name) for p in sys.modules[parent].__path__]
    else:
        paths = list(importlib.util.find_spec(package).submodule_search_locations)
    module = types.ModuleType(package)
    module.__path__ = [p for p in paths if os.path.isdir(p)]
    sys.modules[package] = module


def kernel(package, module):
    bare(package)
    return importlib.import_module(f"{package}.{module}")


def rule(heads_k, gates=F32):
    """Shapes of q, k, v, log decay and beta."""
    return [
        Shape((1, TOKENS, heads_k, DIM), BF16),
        Shape((1, TOKENS, heads_k, DIM), BF16),
        Shape((1, TOKENS, HEADS, DIM), BF16),
        Shape((1, TOKENS, HEADS), gates),
        Shape((1, TOKENS, HEADS), gates),
    ]


def one_sequence():
    """query_start_loc, state_indices and distribution of one prompt of all tokens, its state in slot 1 of 2."""
    return jnp.array([0, TOKENS], I32), jnp.array([1], I32), jnp.array([0, 1, 1], I32)


def folded(call, tables):
    """call, with what follows from its constants alone computed now: costs depend on the tables that steer a kernel.

    The tables of each kernel go to the list, by operand: the compiler's dump leaves out long ones.
    """

    def run(*args):
        traced = jax.make_jaxpr(call)(*args)
        values = dict(zip(traced.jaxpr.constvars, traced.consts)) | dict(zip(traced.jaxpr.invars, args))

        def read(v):
            return v.val if hasattr(v, "val") else values[v]

        for e in traced.jaxpr.eqns:
            inputs = [read(v) for v in e.invars]
            known = not any(isinstance(x, jax.core.Tracer) for x in inputs)
            with jax.ensure_compile_time_eval() if known else contextlib.nullcontext():
                outputs = e.primitive.bind(*inputs, **e.primitive.get_bind_params(e.params))
            if e.primitive.name == "pallas_call":
                whole = {i: x for i, x in enumerate(inputs) if not isinstance(x, jax.core.Tracer) and jnp.issubdtype(x.dtype, jnp.integer)}
                tables.append({i: numpy.ravel(x).tolist() for i, x in whole.items()})
            values.update(zip(e.outvars, outputs if e.primitive.multiple_results else [outputs]))
        return [read(v) for v in traced.jaxpr.outvars]

    return run


def tokamax():
    f = kernel("tokamax._src.ops.causal_conv1d_gated_delta_rule", "wrapper").fused_conv1d_gdn.__wrapped__
    starts, slots, split = one_sequence()

    def call(qkv, b, a, conv, state, weight, a_log, dt_bias):
        return f(
            qkv, b, a, conv, state, weight, None, a_log, dt_bias, starts, slots, split, jnp.array([TOKENS], I32),
            n_kq=HEADS_K, n_v=HEADS, d_k=DIM, d_v=DIM, kernel_size=CONV,
        )  # fmt: skip

    return call, [
        Shape((TOKENS, WIDTH), BF16),
        Shape((TOKENS, HEADS), BF16),
        Shape((TOKENS, HEADS), BF16),
        Shape((2, CONV - 1, WIDTH), BF16),
        Shape((2, HEADS, DIM, DIM), F32),
        Shape((WIDTH, 1, CONV), BF16),
        Shape((HEADS,), F32),
        Shape((HEADS,), F32),
    ]


def tpu_inference():
    f = kernel("tpu_inference.kernels.gdn.v2", "recurrent_scan_v2").recurrent_scan.__wrapped__
    starts, slots, split = one_sequence()

    def call(qkv, b, a, state, a_log, dt_bias):
        return f(qkv, b, a, state, a_log, dt_bias, starts, slots, split, n_kq=HEADS_K, n_v=HEADS, d_k=DIM, d_v=DIM)

    return call, [
        Shape((TOKENS, WIDTH), BF16),
        Shape((TOKENS, HEADS), F32),
        Shape((TOKENS, HEADS), F32),
        Shape((2, HEADS, DIM, DIM), F32),
        Shape((HEADS,), F32),
        Shape((HEADS,), F32),
    ]


def deltanet():
    f = importlib.import_module("deltanet_tpu").chunk_gdn
    return lambda *x: f(*x, output_final_state=True, is_inference=True), rule(HEADS_K)


def channels(heads_k, vectors=()):
    """Shapes of q, k, v, and of raw bf16 gates: a decay a channel, then beta, or a vector of each width for each of its heads."""
    gates = [(heads_k, DIM), *(vectors or [(heads_k,)])]
    return rule(heads_k)[:3] + [Shape((1, TOKENS, *g), BF16) for g in gates]


def step(call, shapes):
    """A training step: outputs of call, and the gradients of all inputs by that of its outputs."""

    def train(do, *inputs):
        o, back = jax.vjp(call, *inputs)
        return o, *back(do)

    return train, [Shape((1, TOKENS, HEADS, DIM), BF16), *shapes]


def deltanet_fused(name, shapes, train=False):
    """By the form with norms and gates in its kernel; its decay is -exp(g), without a bound."""
    f = functools.partial(getattr(importlib.import_module("deltanet_tpu"), name), qk_l2norm=True, fuse_prologue=True)
    if train:
        return step(f, shapes)
    return lambda *x: f(*x, output_final_state=True, is_inference=True), shapes


def tokamax_kda(train=False):
    """What tokamax's operator does around its kernels is here: the operator's own file wants packages that have no part in it."""
    kernels = kernel("tokamax._src.ops.kda", "pallas_mosaic_tpu_kernel")
    norm = kernel("tokamax._src.ops.kda", "utils").l2norm_fwd
    scale, bound = DIM**-0.5, -5.0

    def forward(q, k, v, a, beta, a_log, dt_bias):
        (q, q_rstd), (k, k_rstd) = norm(q), norm(k)
        return kernels.chunk_kda_fwd_custom(
            q, k, v, a, beta, a_log=a_log, delta_time_bias=dt_bias, scale=scale, lower_bound=bound, use_gate_in_kernel=True,
            output_final_state=not train, return_residuals=train, q_rstd=q_rstd, k_rstd=k_rstd,
        )  # fmt: skip

    def both(do, *inputs):
        (o, state), kept = forward(*inputs)
        return o, kernels.chunk_kda_bwd_custom(
            scale, use_qk_l2norm=True, use_gate_in_kernel=True, lower_bound=bound, disable_recompute=True, context_parallel_metadata=None,
            chunk_size=64, max_num_segments=None, has_initial_state=False, residuals=kept, grad_outputs=(do, state),
        )  # fmt: skip

    x = Shape((HEADS, 1, TOKENS, DIM), BF16)
    shapes = [x, x, x, x, Shape((HEADS, 1, TOKENS), BF16), Shape((HEADS,), F32), Shape((HEADS * DIM,), F32)]
    return (both, [x, *shapes]) if train else (lambda *inputs: forward(*inputs)[0], shapes)


def ejkernel():
    bare("ejkernel.kernels._xla.gated_delta_rule")
    f = kernel("ejkernel.kernels._pallas.tpu.gated_delta_rule", "_pallas_impl_fwd")._chunk_gdr_fwd_pallas_chunk
    x, gate = Shape((1, HEADS, TOKENS, DIM), BF16), Shape((1, HEADS, TOKENS), F32)

    def call(q, k, v, beta, decay):
        return f(q, k, v, beta, decay, 64, None, False)

    return call, [x, x, x, gate, gate]


def maxtext():
    """The function alone, out of a file that imports a whole model."""
    path = pathlib.Path(importlib.util.find_spec("maxtext").submodule_search_locations[0]) / "models" / "qwen3.py"
    name = "jax_chunk_gated_delta_rule"
    tree = ast.parse(path.read_text())
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    space = {"jax": jax, "jnp": jnp, "lax": jax.lax, "Array": jax.Array}
    exec(compile(tree, str(path), "exec"), space)
    f = space[name]
    state = jnp.zeros((1, HEADS, DIM, DIM), F32)

    def call(q, k, v, g, beta):
        q, k = (jnp.repeat(x, HEADS // HEADS_K, axis=2) for x in (q, k))
        return f(q, k, v, g, beta, initial_state=state)

    return call, rule(HEADS_K)


HEADS_FIRST = "raw gates with bound -5, l2norm; beta given, heads before tokens; the package itself takes v6e and later"
FUSED = "raw gates without a bound, l2norm"
KEY_GATES = FUSED + "; 4 heads of q, k, decay and erase gate, 8 of v and write gate"
SHARED = channels(HEADS_K, [(HEADS_K, DIM), (HEADS, DIM)])

# Peers by the name that the table of results gives them: the distribution, its kernel, what it does beside the rule, and its work where
# that is not bench, in the words of a spec.
PEERS = {
    "tokamax causal_conv1d_gated_delta_rule": ("tokamax", tokamax, "also conv, l2norm, gates", ""),
    "tpu-inference v2": ("tpu-inference", tpu_inference, "also l2norm, gates", ""),
    "deltanet-tpu chunk_gdn": ("deltanet-tpu", deltanet, "for inference", ""),
    "ejkernel, Pallas": ("ejkernel", ejkernel, "8 heads of q and k; the package itself takes another path for prompts", ""),
    "MaxText, plain JAX": ("maxtext", maxtext, "loops of small ops: underestimated", ""),
    "deltanet-tpu chunk_gdn, training": (
        "deltanet-tpu", lambda: deltanet_fused("chunk_gdn", rule(HEADS_K, BF16), True), FUSED, "direction=train",
    ),
    "tokamax kimi_delta_attention": ("tokamax", tokamax_kda, HEADS_FIRST, "rule=kda"),
    "tokamax kimi_delta_attention, training": ("tokamax", lambda: tokamax_kda(True), HEADS_FIRST, "rule=kda,direction=train"),
    "deltanet-tpu chunk_kda": ("deltanet-tpu", lambda: deltanet_fused("chunk_kda", channels(HEADS)), FUSED, "rule=kda"),
    "deltanet-tpu chunk_kda, training": (
        "deltanet-tpu", lambda: deltanet_fused("chunk_kda", channels(HEADS), True), FUSED, "rule=kda,direction=train",
    ),
    "deltanet-tpu chunk_gdn2": ("deltanet-tpu", lambda: deltanet_fused("chunk_gdn2", SHARED), KEY_GATES, "rule=gdn2"),
    "deltanet-tpu chunk_gdn2, training": (
        "deltanet-tpu", lambda: deltanet_fused("chunk_gdn2", SHARED, True), KEY_GATES, "rule=gdn2,direction=train",
    ),
}  # fmt: skip


def lower(make):
    """The text of the module, and the tables of its kernel where it has one."""
    call, shapes = make()
    tables = []
    text = jax.jit(folded(call, tables)).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()
    return text, tables[0] if len(tables) == 1 else {}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--target", required=True, choices=KINDS)
    p.add_argument("--only", default="", help="peers whose name begins so")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    pretend(a.target)
    rows = []
    for name, (package, make, note, work) in PEERS.items():
        if not name.startswith(a.only):
            continue
        row = {"name": name, "package": package, "version": importlib.metadata.version(package), "note": note, "work": work}
        try:
            text, row["tables"] = lower(make)
            row["file"] = re.sub(r"\W+", "-", name) + ".mlir"
            (a.out / row["file"]).write_text(text)
        except Exception as e:  # a peer that does not lower is a row with its reason
            row.update(file="", refused=f"{type(e).__name__}: {e}".splitlines()[0])
        rows.append(row)
        print(name, row.get("refused", "ok"), file=sys.stderr)
    (a.out / "peers.json").write_text(json.dumps({"jax": jax.__version__, "peers": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
