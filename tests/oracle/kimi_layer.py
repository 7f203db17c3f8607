"""Writes stored cases of whole layers of Kimi Delta Attention: outputs, caches and gradients in float64, by JAX on the CPU.

    PYTHON tests/oracle/kimi_layer.py tests/fixtures/kimi

The layer is that of Kimi Linear (arXiv 2510.26692), token by token; it knows no chunks, and its gradients are JAX's. Weights are drawn in
float32, computed with in float64, and results are rounded to float32 once.
"""

import json
import pathlib
import struct
import sys
import zlib

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

CASES = {
    "k01_kimi_linear": dict(hidden=24, hk=2, hv=2, dk=16, dv=16, decay_rank=16, gate_rank=16, bound=0.0, prefill=37, steps=3),
    "k02_bounded": dict(hidden=20, hk=2, hv=2, dk=16, dv=16, decay_rank=8, gate_rank=0, bound=-5.0, prefill=35, steps=2),
    "k03_value_heads": dict(hidden=24, hk=1, hv=2, dk=16, dv=24, decay_rank=0, gate_rank=12, bound=0.0, prefill=33, steps=1),
}
BATCH, TAPS, NORM_EPS, L2_EPS = 2, 4, 1e-5, 1e-6


def weights(c, r):
    keys, values, decays = c["hk"] * c["dk"], c["hv"] * c["dv"], c["hv"] * c["dk"]
    shapes = {"b_proj.weight": (c["hv"], c["hidden"]), "o_proj.weight": (c["hidden"], values)}
    for name, width in ("q", keys), ("k", keys), ("v", values):
        shapes[f"{name}_proj.weight"], shapes[f"{name}_conv1d.weight"] = (width, c["hidden"]), (width, 1, TAPS)
    for name, rank, width in ("f", c["decay_rank"], decays), ("g", c["gate_rank"], values):
        if rank:
            shapes[f"{name}_a_proj.weight"], shapes[f"{name}_b_proj.weight"] = (rank, c["hidden"]), (width, rank)
        else:
            shapes[f"{name}_proj.weight"] = (width, c["hidden"])
    w = {name: r.normal(size=shape) * (shape[-1] ** -0.5) * 1.5 for name, shape in shapes.items()}
    w["A_log"] = np.log(r.uniform(0.5, 4, size=(1, 1, c["hv"], 1)))
    w["dt_bias"] = r.normal(size=decays) - 1.5
    w["o_norm.weight"] = 1 + 0.3 * r.normal(size=c["dv"])
    return {name: x.astype(np.float32) for name, x in sorted(w.items())}


def silu(x):
    return x * jax.nn.sigmoid(x)


def through(w, name, x):
    """A projection, of low rank where there are two factors."""
    if f"{name}_proj.weight" in w:
        return x @ w[f"{name}_proj.weight"].T
    return (x @ w[f"{name}_a_proj.weight"].T) @ w[f"{name}_b_proj.weight"].T


def layer(c, w, x, conv, state):
    """Tokens x [T, hidden] of one sequence after caches conv [channels, TAPS] and state [hv, dk, dv]."""
    tokens, group = len(x), c["hv"] // c["hk"]
    raw = jnp.concatenate([x @ w[f"{n}_proj.weight"].T for n in "qkv"], axis=1)
    taps = jnp.concatenate([w[f"{n}_conv1d.weight"][:, 0] for n in "qkv"])
    seen = jnp.concatenate([conv.T, raw])  # TAPS tokens of before, then these
    mixed = silu(sum(seen[j + 1 : j + 1 + tokens] * taps[:, j] for j in range(TAPS)))
    q, k, v = jnp.split(mixed, [c["hk"] * c["dk"], 2 * c["hk"] * c["dk"]], axis=1)
    q, k = (jnp.repeat(h.reshape(tokens, c["hk"], c["dk"]), group, axis=1) for h in (q, k))
    v = v.reshape(tokens, c["hv"], c["dv"])
    q, k = (h / jnp.sqrt((h**2).sum(-1, keepdims=True) + L2_EPS) for h in (q, k))

    a = (through(w, "f", x) + w["dt_bias"]).reshape(tokens, c["hv"], c["dk"])
    rate = jnp.exp(w["A_log"].reshape(c["hv"], 1))
    g = c["bound"] * jax.nn.sigmoid(rate * a) if c["bound"] else -rate * jnp.logaddexp(a, 0)
    beta = jax.nn.sigmoid(x @ w["b_proj.weight"].T)

    def token(s, now):
        q, k, v, g, beta = now
        s = jnp.exp(g)[:, :, None] * s
        error = v - jnp.einsum("hkv,hk->hv", s, k)
        s = s + jnp.einsum("hk,hv->hkv", k, beta[:, None] * error)
        return s, jnp.einsum("hkv,hk->hv", s, q) * c["dk"] ** -0.5

    state, o = jax.lax.scan(token, state, (q, k, v, g, beta))
    o = o / jnp.sqrt((o**2).mean(-1, keepdims=True) + NORM_EPS) * w["o_norm.weight"]
    o = o * jax.nn.sigmoid(through(w, "g", x).reshape(o.shape))
    return o.reshape(tokens, -1) @ w["o_proj.weight"].T, seen[tokens:].T, state


def results(c, w, x, dy):
    w = {name: jnp.asarray(a, jnp.float64) for name, a in w.items()}
    x, dy = jnp.asarray(x, jnp.float64), jnp.asarray(dy, jnp.float64)
    channels = 2 * c["hk"] * c["dk"] + c["hv"] * c["dv"]
    run = jax.jit(jax.vmap(lambda w, *rest: layer(c, w, *rest), (None, 0, 0, 0)))
    empty = jnp.zeros((BATCH, channels, TAPS)), jnp.zeros((BATCH, c["hv"], c["dk"], c["dv"]))
    out = {}
    out["y_prefill"], *caches = run(w, x[:, : c["prefill"]], *empty)
    out["conv_state_prefill"], out["recurrent_state_prefill"] = caches
    steps = []
    for t in range(c["prefill"], x.shape[1]):
        y, *caches = run(w, x[:, t : t + 1], *caches)
        steps.append(y)
    out["y_decode"] = jnp.concatenate(steps, axis=1)
    out["conv_state_end"], out["recurrent_state_end"] = caches
    out["y_full"] = run(w, x, *empty)[0]
    dw, out["dx"] = jax.grad(lambda w, x: (run(w, x, *empty)[0] * dy).sum(), (0, 1))(w, x)
    out.update({f"dw.{name}": a for name, a in dw.items()})
    return {name: np.asarray(a) for name, a in out.items()}


def write(path, tensors):
    header, at = {}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values())
    path.write_bytes(data)
    return {"bytes": len(data), "crc32": zlib.crc32(data)}


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
cases = []
for number, (name, c) in enumerate(CASES.items()):
    r = np.random.default_rng(number)
    w = weights(c, r)
    x, dy = (r.normal(size=(BATCH, c["prefill"] + c["steps"], c["hidden"])).astype(np.float32) for _ in range(2))
    expected = {n: a.astype(np.float32) for n, a in results(c, w, x, dy).items()}
    tensors = {"x": x, "dy": dy, **{"w." + n: a for n, a in w.items()}, **expected}
    cases.append({
        "name": name, "file": name + ".safetensors", "class": "full layer", "op": "kimi_delta_attention_layer",
        "tensors": {n: {"shape": list(a.shape), "dtype": "float32"} for n, a in tensors.items()},
        "config": {**{n: c[n] for n in ("hidden", "hk", "hv", "dk", "dv", "decay_rank", "gate_rank", "bound")},
                   "conv": TAPS, "rms_norm_eps": NORM_EPS, "act": "silu", "l2norm_eps": L2_EPS},
        "prefill_len": c["prefill"], "decode_steps": c["steps"],
        "tolerance": {n: {"f32_ratio": 1e-5 if n.startswith("d") else 4e-6} for n in expected},
        **write(folder / (name + ".safetensors"), tensors),
    })
(folder / "manifest.json").write_text(json.dumps({"cases": cases}, indent=1) + "\n")
