"""Gated delta rule for NVIDIA GPUs: Triton kernels.

For each token t of a sequence, with q_t and k_t [K], v_t [V] and the state S [K, V] of a value head:

    S_t = exp(g_t) S_t-1 + beta_t k_t (v_t - exp(g_t) S_t-1^T k_t)^T        o_t = scale S_t^T q_t

Written by gdngen vX; generate it anew instead of editing it.

  spec: b=64,t=1,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk,pool=128,inplace
  variant: bv=8,warps=1
"""

import triton
import triton.language as tl

HK, HV = tl.constexpr(4), tl.constexpr(8)  # key heads and value heads
K, V = tl.constexpr(128), tl.constexpr(128)  # widths of keys and values
BV = tl.constexpr(8)  # columns of the state that a program holds
TILES = tl.constexpr(16)  # programs over V
SEQUENCES, TOKENS = tl.constexpr(64), tl.constexpr(1)  # sequences, and the tokens of each
SCALE = tl.constexpr(0.08838834764831843)


@triton.jit
def gates(A_log, a, dt_bias, b, rows, ok, h):
    """Log decay g and beta of some tokens of a value head: g = -exp(A_log) softplus(a + dt_bias), beta = sigmoid(b); zeros where not ok.

    A log decay below -50 counts as -50: nothing that float32 holds is left behind either.
    """
    log = tl.load(A_log + h)
    held = tl.minimum(log, 64.0)  # its exponential is finite, and x has the rest
    x = tl.load(a + rows * HV + h, ok, 0.0).to(tl.float32) + (tl.load(dt_bias + h) + (log - held))
    e = tl.exp(tl.minimum(x, 20.0))
    u = 1.0 + e
    softplus = tl.where(x > 20.0, x, tl.where(u == 1.0, e, tl.log(u) * (e / tl.maximum(u - 1.0, 1e-30))))  # log1p(e), exact to float32
    log_decay = -tl.exp(held) * softplus
    rate = tl.sigmoid(tl.load(b + rows * HV + h, ok, 0.0).to(tl.float32))
    return tl.where(ok, tl.maximum(log_decay, -50.0), 0.0), tl.where(ok, rate, 0.0)


@triton.jit
def keys(x, rows, ok, h):
    """Rows of the key head that value head h shares, of q or k [tokens, HK, K]; zeros where not ok."""
    lane = tl.arange(0, K)
    row = tl.load(x + (rows * HK + h // (HV // HK))[:, None] * K + lane, ok[:, None], 0.0)
    return row


@triton.jit
def state_at(n, h, rk, rv):
    """Where S[rk, rv] of value head h of state n lies, in [states, HV, V, K]."""
    return (n * HV + h).to(tl.int64) * (K * V) + rv * K + rk


@triton.jit
def decode(q, k, v, A_log, a, dt_bias, b, initial_state, state_indices, o, final_state):
    """One token of each sequence, the recurrence itself. A program holds BV columns of the state of one value head, as rows [BV, K]."""
    tile, head = tl.program_id(0) % TILES, tl.program_id(0) // TILES
    n, h = head // HV, head % HV
    one = tl.arange(0, 1) + n
    ok = one >= 0
    rk, rv = tl.arange(0, K), tile * BV + tl.arange(0, BV)
    held = tl.load(state_indices + n)
    held = tl.where(held < 128, held, -1)  # the sequence is skipped
    at = state_at(tl.maximum(held, 0), h, rk, rv[:, None])
    S = tl.load(initial_state + at, (held >= 0), 0.0).to(tl.float32)
    q_t, k_t = keys(q, one, ok, h).to(tl.float32), keys(k, one, ok, h).to(tl.float32)  # [1, K]
    v_t = tl.load(v + (n * HV + h) * V + rv).to(tl.float32)
    log_decay, rate = gates(A_log, a, dt_bias, b, one, ok, h)
    S *= tl.exp(log_decay)[:, None]
    S += (rate * (v_t - tl.sum(S * k_t, 1)))[:, None] * k_t
    out = SCALE * tl.sum(S * q_t, 1)
    out = tl.where(held >= 0, out, 0.0)
    tl.store(o + (n * HV + h) * V + rv, out.to(o.dtype.element_ty))
    tl.store(final_state + at, S.to(final_state.dtype.element_ty), (held >= 0))


def run(q, k, v, A_log, a, dt_bias, b, initial_state, state_indices, o, final_state):
    """Computes o and final_state into the tensors given: q [64, 1, 4, 128] bf16, k [64, 1, 4, 128] bf16, v [64, 1, 8, 128] bf16, A_log [8] f32, a [64, 1, 8] bf16, dt_bias [8] f32, b [64, 1, 8] bf16, initial_state [128, 8, 128, 128] f32, state_indices [64] i32, o [64, 1, 8, 128] bf16, final_state [128, 8, 128, 128] f32. final_state may be initial_state."""
    decode[(8192,)](q, k, v, A_log, a, dt_bias, b, initial_state, state_indices, o, final_state, num_warps=1)
