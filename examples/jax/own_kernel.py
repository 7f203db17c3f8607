"""A Pallas kernel of your own, as text for a TPU that is not there. What does it cost?

python3 examples/jax/own_kernel.py own_kernel.mlir    # needs jax alone
gdngen explain own_kernel.mlir --target v6e
"""

import sys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ROWS = 256  # of a step


def gated(x_ref, w_ref, gate_ref, o_ref):
    product = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = (product * jax.nn.silu(gate_ref[...].astype(jnp.float32))).astype(
        o_ref.dtype
    )


def project(x, w, gate):
    """(x w) * silu(gate): x [T, D], w [D, N], gate and result [T, N]."""
    (tokens, width), columns = x.shape, w.shape[1]
    rows = pl.BlockSpec((ROWS, columns), lambda i: (i, 0))
    return pl.pallas_call(
        gated,
        grid=(tokens // ROWS,),
        in_specs=[
            pl.BlockSpec((ROWS, width), lambda i: (i, 0)),
            pl.BlockSpec(w.shape, lambda i: (0, 0)),
            rows,
        ],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((tokens, columns), x.dtype),
        name="project",
    )(x, w, gate)


def main(path):
    shapes = [
        jax.ShapeDtypeStruct(s, jnp.bfloat16)
        for s in ((2048, 1024), (1024, 1024), (2048, 1024))
    ]
    lowered = jax.jit(project).trace(*shapes).lower(lowering_platforms=("tpu",))
    with open(path, "w", encoding="utf-8") as f:
        f.write(lowered.as_text(debug_info=True))


if __name__ == "__main__":
    main(sys.argv[1])
