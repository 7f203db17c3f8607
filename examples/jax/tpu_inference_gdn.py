"""Calls a package by gdngen where tpu-inference calls its convolution and rule.

tpu-inference 0.32 has them in tpu_inference/kernels/gdn/v3/wrapper.py, with the
arguments of tokamax but for KDA. `replaced(package)` is that function over a package of
mixed batches, as in tokamax_gdn.py, which stands beside this file:

    from tpu_inference.kernels.gdn.v3 import wrapper
    import gdnop, tpu_inference_gdn

    wrapper.fused_conv1d_gdn = tpu_inference_gdn.replaced(gdnop)

`reordered` brings the columns of a projection, the rows of the taps and a bias into the
order in which a mesh of n devices along the heads has q, k and v of its own heads side
by side: an unsplit q|k|v does not shard on its last axis.
"""

import jax.numpy as jnp

import tokamax_gdn


def replaced(package, backend=None):
    """tpu-inference's fused_conv1d_gdn over a package."""
    call = tokamax_gdn.replaced(package, backend)

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
        read_state_indices,
        read_offsets=None,
        *,
        n_kq,
        n_v,
        d_k,
        d_v,
        kernel_size,
        num_spec_tokens=0,
        zero_initialize_out=True,
        compute_precision=jnp.float32,
        decode_tile_size=4,
        mixed_tile_size=64,
    ):
        """Both caches, which are given up, and o [T, n_v * d_v]."""
        del zero_initialize_out, compute_precision, decode_tile_size, mixed_tile_size
        return call(
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
        )

    return fused_conv1d_gdn


def reordered(x, n, *, n_kq, n_v, d_k, d_v, axis=-1):
    """x, whose axis is q|k|v of all heads, in parts of q|k|v for n devices in turn."""
    sizes = (n_kq * d_k, n_kq * d_k, n_v * d_v)
    parts = jnp.split(x, (sizes[0], sizes[0] + sizes[1]), axis=axis)
    parts = [jnp.split(p, n, axis=axis) for p in parts]
    own = [jnp.concatenate(p, axis=axis) for p in zip(*parts, strict=True)]
    return jnp.concatenate(own, axis=axis)
