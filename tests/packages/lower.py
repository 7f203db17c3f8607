"""Lowers the functions of the package gdr, in the folder that is named, for a TPU.

Says how many kernels each has; one without any, or one that does not lower, is an error.
"""

import gc
import sys

gc.disable()  # tracing makes millions of objects that live to its end: collections are a quarter of its time
sys.path.insert(0, sys.argv[1])

import gdr
import jax
import jax.numpy as jnp
from gdr import common, forward, packed

chunk = getattr(gdr, next(n for n in gdr.__all__ if n.startswith("chunk_")))


def arguments(axes: dict[str, str], tokens: int, rows: int = 1) -> dict[str, jax.ShapeDtypeStruct]:
    sizes = {"B": rows, "T": tokens, "Q": common.HEADS_K, "H": common.HEADS_V, "K": common.WIDTH_K, "V": common.WIDTH_V, "N": 3}
    return {n: jax.ShapeDtypeStruct([sizes[a] for a in axes[n]], dtype) for n, dtype in common.DTYPES.items() if n in axes}


def loss(x: dict[str, jax.Array]) -> jax.Array:
    return sum(jnp.sum(y.astype(jnp.float32)) for y in chunk(**x))


def along(x: dict[str, jax.Array], cu: jax.Array) -> tuple[jax.Array, ...]:
    return chunk(**x, cu_seqlens=cu)


token = arguments({n: a.replace("T", "") for n, a in common.AXES.items()}, 1, 3)
token["state"] = token.pop("initial_state")
long = arguments(common.AXES, 2 * forward.STEP + 9, 2)
cu = jax.ShapeDtypeStruct((4,), jnp.int32)
for name, function, args in (
    ("short", lambda x: chunk(**x), [arguments(common.AXES, 20)]),
    ("long", lambda x: chunk(**x), [long]),
    ("packed", along, [arguments(packed.AXES, 700), cu]),
    ("decode", lambda x: gdr.decode_step(**x), [token]),
    ("gradient", jax.grad(loss), [long]),
):
    try:
        text = jax.jit(function).trace(*args).lower(lowering_platforms=("tpu",)).as_text()
    except Exception as error:
        raise SystemExit(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}") from error
    kernels = text.count("@tpu_custom_call")
    if not kernels and name != "gradient":
        raise SystemExit(f"{name}: no kernel")
    print(f"{name} {kernels}", flush=True)
