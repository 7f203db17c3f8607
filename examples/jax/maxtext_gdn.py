"""Calls a package by gdngen where MaxText calls its own gated delta rule.

Qwen3-Next in MaxText (maxtext/models/qwen3.py) runs the rule by two functions: one over
prompts and training sequences, one for a token. `replaced(package)` gives both, with
their signatures, over the kernels of a package:

    from maxtext.models import qwen3
    import gdr, maxtext_gdn

    chunk, step = maxtext_gdn.replaced(gdr)
    qwen3.jax_chunk_gated_delta_rule, qwen3.jax_ar_gated_delta_rule = chunk, step

MaxText repeats q and k until each value head has its own. The kernels need none of it:
take the two `jnp.repeat` out, or a package for the repeated heads (`hk` equal to `hv`).
Run as a program it checks both against a loop over tokens:

    gdngen gen --spec bench --backend pallas --package gdr
    pip install gdr/dist/gdr-0.1.0-py3-none-any.whl
    python examples/jax/maxtext_gdn.py gdr
"""

import argparse
import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np


def replaced(package, backend=None):
    """The two functions of MaxText over a package whose gates are given (gates=given).

    Arrays are [B, T, heads, width]; states [B, heads, K, V]. backend is that of the
    package: None for kernels where a TPU is, interpret, or plain.
    """

    def unit(x):
        x = x.astype(jnp.float32)
        return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6)

    def prepared(query, key, value, g, beta, normalized, dtype):
        if normalized:
            query, key = unit(query), unit(key)
        query, key, value = (x.astype(dtype) for x in (query, key, value))
        return query, key, value, g.astype(jnp.float32), beta.astype(jnp.float32)

    def jax_chunk_gated_delta_rule(
        query,
        key,
        value,
        g,
        beta,
        chunk_size=64,
        initial_state=None,
        use_qk_norm_in_gdn=False,
        cp_axis=None,
        compute_dtype=jnp.bfloat16,
    ):
        """o [B, T, heads, V], and the last state where one was given."""
        del chunk_size  # the kernels have their own
        x = prepared(query, key, value, g, beta, use_qk_norm_in_gdn, compute_dtype)
        state = None if initial_state is None else initial_state.astype(jnp.float32)
        if cp_axis is None:
            run = package.chunk_gated_delta_rule
            o, final = run(*x, initial_state=state, backend=backend)
        else:  # inside a shard_map whose axis has parts of each sequence
            axis = cp_axis if isinstance(cp_axis, str) else cp_axis[0]
            run = package.parallel.context_parallel
            o, final = run(*x, initial_state=state, axis=axis, backend=backend)
        given = initial_state is not None
        return o.astype(query.dtype), final.astype(compute_dtype) if given else None

    def jax_ar_gated_delta_rule(
        query,
        key,
        value,
        g,
        beta,
        initial_state,
        use_qk_norm_in_gdn=False,
        compute_dtype=jnp.bfloat16,
    ):
        """o [B, 1, heads, V] of one token, and the state after it."""
        x = prepared(query, key, value, g, beta, use_qk_norm_in_gdn, compute_dtype)
        state = initial_state.astype(jnp.float32)
        o, final = package.decode_step(*(t[:, 0] for t in x), state, backend=backend)
        return o[:, None].astype(query.dtype), final.astype(compute_dtype)

    return jax_chunk_gated_delta_rule, jax_ar_gated_delta_rule


def by_tokens(query, key, value, g, beta, state):
    """The rule token by token, in float64: o, and the last state."""
    state, o = np.array(state, np.float64), np.zeros(value.shape)
    for t in range(value.shape[1]):
        q, k, v = query[:, t] / np.sqrt(query.shape[-1]), key[:, t], value[:, t]
        state *= np.exp(g[:, t])[..., None, None]
        u = beta[:, t, :, None] * (v - np.einsum("bhkv,bhk->bhv", state, k))
        state += k[..., :, None] * u[..., None, :]
        o[:, t] = np.einsum("bhkv,bhk->bhv", state, q)
    return o, state


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("package", help="the name of an installed package")
    p.add_argument("--backend", choices=("tpu", "interpret", "plain"))
    a = p.parse_args()
    package = importlib.import_module(a.package)
    chunk, step = replaced(package, a.backend)
    forward = importlib.import_module(a.package + ".forward")
    common = importlib.import_module(a.package + ".common")
    heads, width_k, width_v = common.HEADS_V, common.WIDTH_K, common.WIDTH_V
    dtype = common.DTYPES["v"]

    random = np.random.default_rng(0)
    batch, tokens = 2, 3 * forward.STEP // 2 + 5
    q, k = random.standard_normal((2, batch, tokens, heads, width_k))
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    v = random.standard_normal((batch, tokens, heads, width_v))
    g = -np.abs(random.standard_normal((batch, tokens, heads))) / 4
    beta = 1 / (1 + np.exp(-random.standard_normal(g.shape)))
    state = np.zeros((batch, heads, width_k, width_v))
    want, last = by_tokens(q, k, v, g, beta, state)

    # A prompt, then its last token by itself.
    x = [jnp.asarray(t, dtype) for t in (q, k, v)] + [jnp.asarray(t) for t in (g, beta)]
    options = {"use_qk_norm_in_gdn": True, "compute_dtype": jnp.dtype(dtype)}
    prompt, token = ([t[:, part] for t in x] for part in (np.s_[:-1], np.s_[-1:]))

    @functools.partial(jax.jit, compiler_options=package.compiler_options())
    def both(prompt, token, state):
        o, state = chunk(*prompt, initial_state=state, **options)
        return o, *step(*token, state, **options)

    o, o_last, after = both(prompt, token, jnp.asarray(state))
    limit = 2e-2 if dtype == jnp.bfloat16 else 1e-4
    for name, y, w in (
        ("prompt", o, want[:, :-1]),
        ("token", o_last, want[:, -1:]),
        ("state", after, last),
    ):
        error = np.abs(np.asarray(y, np.float64) - w).max() / np.abs(w).max()
        print(f"{name}: largest error {error:.1e} of the largest, limit {limit:.0e}")
        if not error <= limit:
            raise SystemExit("failed")


if __name__ == "__main__":
    main()
