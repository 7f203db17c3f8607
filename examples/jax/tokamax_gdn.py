"""Calls a package by gdngen where tokamax calls its convolution and gated delta rule.

tokamax has them as `causal_conv1d_gated_delta_rule` (wrapper.py). `replaced(package)`
is that function, with its arguments, over the kernels of a package of mixed batches:

    from tokamax._src.ops.causal_conv1d_gated_delta_rule import wrapper
    import gdnop, tokamax_gdn

    wrapper.fused_conv1d_gdn = tokamax_gdn.replaced(gdnop)

A package is for up to T tokens and S sequences, fewer are filled up, and for the heads,
widths, types and windows of its spec: gdngen gen --spec ...,mixed=1 --package gdnop.
Compiled for a CPU it runs token by token in plain JAX.
"""

import functools

import jax
import jax.numpy as jnp


def replaced(package, backend=None):
    """tokamax's fused_conv1d_gdn over a package; backend is that of the package."""
    api = package.api

    @functools.partial(
        jax.jit,
        static_argnames=(
            "n_kq",
            "n_v",
            "d_k",
            "d_v",
            "kernel_size",
            "attention_mode",
            "gate_lower_bound",
            "num_spec_tokens",
            "zero_initialize_out",
            "compute_precision",
            "decode_tile_size",
            "mixed_tile_size",
        ),
        donate_argnames=("conv_state", "recurrent_state"),
    )
    def fused_conv1d_gdn(
        qkv,
        b,
        a,
        conv_state,
        recurrent_state,
        conv_weight,
        conv_bias,
        a_log,
        dt_bias,
        query_start_loc,
        state_indices,
        distribution,
        seq_lens,
        read_state_indices=None,
        read_offsets=None,
        *,
        n_kq,
        n_v,
        d_k,
        d_v,
        kernel_size,
        attention_mode=None,
        gate_lower_bound=None,
        num_spec_tokens=0,
        zero_initialize_out=True,
        compute_precision=jnp.float32,
        decode_tile_size=None,
        mixed_tile_size=None,
    ):
        """Both caches, and o [T, n_v * d_v]; tiles are the kernels' own."""
        del zero_initialize_out, compute_precision, decode_tile_size, mixed_tile_size
        channels = getattr(attention_mode, "name", attention_mode) == "KDA"
        if channels != (api.DECAYS != api.HEADS_V) or gate_lower_bound != api.BOUND:
            raise ValueError(
                f"attention_mode {attention_mode}, bound {gate_lower_bound}: "
                f"the package has {api.DECAYS} decays a token, bound {api.BOUND}"
            )
        windows = {"anywhere": True} if num_spec_tokens else {}
        return package.fused_conv1d_gdn(
            qkv,
            b,
            a,
            conv_state,
            recurrent_state,
            conv_weight,
            conv_bias,
            a_log,
            dt_bias,
            query_start_loc,
            state_indices,
            distribution,
            seq_lens,
            read_state_indices,
            read_offsets,
            n_kq=n_kq,
            n_v=n_v,
            d_k=d_k,
            d_v=d_v,
            kernel_size=kernel_size,
            num_spec_tokens=num_spec_tokens,
            backend=backend,
            **windows,
        )

    return fused_conv1d_gdn
