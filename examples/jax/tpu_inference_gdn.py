"""Calls a package by gdngen where tpu-inference calls its convolution and rule.

tpu-inference 0.32 has them in tpu_inference/kernels/gdn/v3/wrapper.py, with the
arguments of tokamax but for KDA. So `replaced(package)` is that of tokamax_gdn.py,
which stands beside this file:

    from tpu_inference.kernels.gdn.v3 import wrapper
    import gdnop, tpu_inference_gdn

    wrapper.fused_conv1d_gdn = tpu_inference_gdn.replaced(gdnop)

`reordered` brings the columns of a projection, the rows of the taps and a bias into the
order in which a mesh of n devices along the heads has q, k and v of its own heads side
by side: an unsplit q|k|v does not shard on its last axis.
"""

import jax.numpy as jnp

from tokamax_gdn import replaced

__all__ = ["reordered", "replaced"]


def reordered(x, n, *, n_kq, n_v, d_k, d_v, axis=-1):
    """x, whose axis is q|k|v of all heads, in parts of q|k|v for n devices in turn."""
    sizes = (n_kq * d_k, n_kq * d_k, n_v * d_v)
    parts = jnp.split(x, (sizes[0], sizes[0] + sizes[1]), axis=axis)
    parts = [jnp.split(p, n, axis=axis) for p in parts]
    own = [jnp.concatenate(p, axis=axis) for p in zip(*parts, strict=True)]
    return jnp.concatenate(own, axis=axis)
