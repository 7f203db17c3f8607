"""Runs a kernel of a package by the interpreter of TPUs, with its text for a TPU.

pallas_races.py PACKAGE KERNEL; KERNEL is one of CASES. Copies wait until they are
awaited, memory that nothing wrote and what lies outside of an array is no number, and
two accesses to one place without an order between them are a race. The result is
compared with the rule in plain JAX.
"""

import functools
import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.state import types
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

path, kernel = sys.argv[1:]
sys.path.insert(0, path + "/src")
name = path.rstrip("/").rsplit("/", 1)[-1]
package, common = (
    importlib.import_module(name),
    importlib.import_module(name + ".common"),
)
rule = next(getattr(package, n) for n in package.__all__ if n.startswith("chunk_"))
step = importlib.import_module(name + ".forward").STEP
random = np.random.default_rng(0)
LIMIT = 2e-2  # of products in bf16, as for gradients of a file


def exact(a, b, i, j):
    """XLA on a CPU lacks some products of bf16; those of float32 are as exact."""
    dims = (((i,), (j,)), ((), ()))
    a, b, full = a.astype(jnp.float32), b.astype(jnp.float32), jax.lax.Precision.HIGHEST
    return jax.lax.dot_general(a, b, dims, full, jnp.float32)


for module in [m for n, m in sys.modules.items() if n.startswith(name)]:
    if hasattr(module, "_dot_general"):
        module._dot_general = exact
    if hasattr(module, "_pack"):  # nor has a CPU packing
        pack = module._pack
        module._pack = lambda low, high, _, pack=pack: pack(low, high, True)


class Words:
    """Rows of bf16 as words of two, which the interpreter does not read by itself."""

    def __init__(self, ref):
        self.ref = ref

    def halves(self, at):
        """The rows that are the lower and the upper halves of some words."""
        at = (at if isinstance(at, tuple) else (at,)) + (slice(None),)
        count = self.ref.shape[-2] // 2
        rows = pl.ds(0, count) if at[0] in (..., slice(None)) else at[0]
        if isinstance(rows, slice):
            rows = pl.ds(rows.start or 0, (rows.stop or count) - (rows.start or 0))
        for half in range(2):
            some = pl.ds(2 * rows.start + half, rows.size, stride=2 * rows.stride)
            yield (*(slice(None),) * (len(self.ref.shape) - 2), some, at[1])

    def __getitem__(self, at):
        rows = (self.ref[i] for i in self.halves(at))
        low, high = (jax.lax.bitcast_convert_type(x, jnp.uint16) for x in rows)
        return low.astype(jnp.uint32) | high.astype(jnp.uint32) << 16

    def __setitem__(self, at, words):
        for shift, i in zip((0, 16), self.halves(at), strict=True):
            bits = (words >> shift).astype(jnp.uint16)
            self.ref[i] = jax.lax.bitcast_convert_type(bits, jnp.bfloat16)


types.TransformedRef.bitcast = lambda ref, _: Words(ref)


def inputs(rows: int, tokens: int) -> dict[str, jax.Array]:
    """Arguments of the rule but the state, with keys of unit length."""
    size = {"B": rows, "T": tokens, "Q": common.HEADS_K, "H": common.HEADS_V}
    size |= {"K": common.WIDTH_K, "V": common.WIDTH_V}
    x = {}
    for n, axes in common.AXES.items():
        if n in ("o", "final_state"):
            continue
        y = random.standard_normal([size[a] for a in axes])
        if n == "k":
            y /= np.linalg.norm(y, axis=-1, keepdims=True)
        if n in ("g", "A_log"):
            y = -np.abs(y) / 4
        if n in ("beta", "erase", "write"):
            y = 1 / (1 + np.exp(-y))
        x[n] = jnp.asarray(y, common.DTYPES[n])
    return x


def whole(rows, tokens):
    x = inputs(rows, tokens)
    return lambda backend: rule(**x, backend=backend)


def gradient(rows, tokens):
    x = inputs(rows, tokens)
    weights = jnp.asarray(random.standard_normal(x["v"].shape), jnp.float32)

    def loss(x, backend):
        o, state = rule(**x, backend=backend)
        return jnp.sum(weights * o) + jnp.sum(jnp.sin(state))

    return lambda backend: jax.grad(functools.partial(loss, backend=backend))(x)


def packed():
    x = inputs(1, 61)
    x["initial_state"] = jnp.concatenate([x["initial_state"]] * 4)
    cu = jnp.asarray([0, 1, 1, 37, 60], jnp.int32)
    return lambda backend: rule(**x, cu_seqlens=cu, backend=backend)


def decode(rows):
    x = inputs(rows, 1)
    state = x.pop("initial_state")
    x = {n: y[:, 0] if "T" in common.AXES[n] else y for n, y in x.items()}
    return lambda backend: package.decode_step(**x, state=state, backend=backend)


def pool(rows):
    x = inputs(rows, 1)
    state = x.pop("initial_state")
    x = {n: y[:, 0] if "T" in common.AXES[n] else y for n, y in x.items()}
    states = np.asarray(
        random.standard_normal((rows + 3, *state.shape[1:])), np.float32
    )
    places = jnp.asarray(random.permutation(rows + 3)[:rows], jnp.int32).at[1].set(-1)

    def run(backend):
        given = jnp.asarray(states)
        return package.decode_pool(**x, pool=given, indices=places, backend=backend)

    return run


CASES = {
    "forward": lambda: whole(1, 2 * step),
    "rows": lambda: whole(2, step + 9),
    "short": lambda: whole(3, 17),
    "gradient": lambda: gradient(1, step + 9),
    "packed": packed,
    "decode": lambda: decode(3),
    "ring": lambda: decode(40),
    "pool": lambda: pool(5),
}

run = CASES[kernel]()
want = run("plain")
got = jax.tree.map(np.asarray, run("tpu-interpret"))
races = interpreter.races.races_found
pltpu.reset_tpu_interpret_mode_state()
worst = 0.0
for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not np.isfinite(a).all():
        sys.exit(f"{kernel}: a result is no number: it is made of what nothing wrote")
    worst = max(worst, np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
if races:
    sys.exit(f"{kernel}: races were found")
if worst > LIMIT:
    sys.exit(f"{kernel}: error {worst:.1e} of the largest value, limit {LIMIT}")
print(f"{kernel}: no race, largest error {worst:.1e} of the largest value")
