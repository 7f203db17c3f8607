"""Gated delta rule for NVIDIA GPUs: Triton kernels.

For each token t of a sequence, with q_t and k_t [K], v_t [V] and the state S [K, V] of a value head:

    S_t = exp(g_t) S_t-1 + beta_t k_t (v_t - exp(g_t) S_t-1^T k_t)^T        o_t = scale S_t^T q_t

Written by gdngen vX; generate it anew instead of editing it.

  spec: b=2,t=100,hk=2,hv=4,k=48,v=96,dtype=f32,gates=fused,l2norm
  variant: bv=32,warps=4,stages=2,chunk=32,kernels=one,part=0,inverse=masked,leaf=16,prec=tf32x3,solve=tf32x3
"""

import triton
import triton.language as tl

HK, HV = tl.constexpr(2), tl.constexpr(4)  # key heads and value heads
K, V = tl.constexpr(48), tl.constexpr(96)  # widths of keys and values
KP, VP = tl.constexpr(64), tl.constexpr(128)  # the same in powers of two, as Triton's blocks are
BV = tl.constexpr(32)  # columns of the state that a program holds
TILES = tl.constexpr(4)  # programs over V
SEQUENCES, TOKENS = tl.constexpr(2), tl.constexpr(100)  # sequences, and the tokens of each
SCALE = tl.constexpr(0.14433756729740646)
C = tl.constexpr(32)  # tokens of a chunk


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
    """Rows of the key head that value head h shares, of q or k [tokens, HK, K], normalised; zeros where not ok and beyond K."""
    lane = tl.arange(0, KP)
    row = tl.load(x + (rows * HK + h // (HV // HK))[:, None] * K + lane, ok[:, None] & (lane < K), 0.0)
    row = row.to(tl.float32)
    row = row * tl.rsqrt(tl.sum(row * row, 1) + 1e-6)[:, None]
    return row.to(tl.float32)


@triton.jit
def state_at(n, h, rk, rv):
    """Where S[rk, rv] of value head h of state n lies, in [states, HV, K, V]."""
    return (n * HV + h).to(tl.int64) * (K * V) + rk * V + rv


@triton.jit
def product(a, b):
    """A matrix product of float32 by tf32x3, summed in float32."""
    return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="tf32x3")


@triton.jit
def exact(a, b):
    """A product inside of the inverse: tf32x3."""
    return tl.dot(a, b, input_precision="tf32x3")


@triton.jit
def diagonal_blocks(X, SIDE: tl.constexpr):
    """Diagonal blocks of X [C, C], [C / SIDE, SIDE, SIDE]."""
    blocks: tl.constexpr = C // SIDE
    n = tl.arange(0, blocks)
    X = tl.reshape(X, (blocks, SIDE, blocks, SIDE))
    return tl.sum(tl.where((n[:, None] == n)[:, None, :, None], X, 0.0), 2)


@triton.jit
def leaves(A):
    """Inverses of the diagonal blocks of I + A with 16 rows, by substitution, all blocks at once: [C / 16, 16, 16]."""
    D = diagonal_blocks(A, 16)
    r = tl.arange(0, 16)
    L = tl.where((r[:, None] == r)[None], 1.0, tl.zeros_like(D))
    for j in tl.static_range(16 - 1):
        column = tl.sum(tl.where(r[None, None, :] == j, D, 0.0), 2)
        row = tl.sum(tl.where(r[None, :, None] == j, L, 0.0), 1)
        L -= column[:, :, None] * row[:, None, :]
    return L


@triton.jit
def inverse(A):
    """(I + A)^-1 of a strictly lower A [C, C]: leaves on the diagonal, then merges by products of the whole chunk.

    Where T inverts the diagonal blocks of SIDE rows, and M is what A has below them in blocks of 2 SIDE, T - T M T inverts those.
    """
    n, i = tl.arange(0, C // 16), tl.arange(0, C)
    T = tl.where((n[:, None] == n)[:, None, :, None], leaves(A)[:, :, None, :], 0.0)
    T = tl.reshape(T, (C, C))
    for level in tl.static_range(1):
        side = 16 << level
        M = tl.where((i[:, None] // (2 * side) == i // (2 * side)) & (i[:, None] // side > i // side), A, 0.0)
        T -= exact(T, exact(M, T))
    return T


@triton.jit
def operators(q_c, k_c, log_decay, rate):
    """What a chunk does to its values, whatever the state: T = (I + A)^-1 and P = scale tril(Q K^T . D), both [C, C], and G.

    G sums the log decay up to each token, D_ij = exp(G_i - G_j), A = diag(beta) tril(K K^T . D, -1). Then, from a state S:

        new = T diag(beta) (v - exp(G) K S)     o = scale exp(G) Q S + P new     S' = exp(G_C) S + (exp(G_C - G) K)^T new

    beta stays out of T, whose diagonal is then 1, which no rounding of an operand changes.
    """
    i = tl.arange(0, C)
    G = tl.cumsum(log_decay, 0)
    D = tl.exp(tl.where(i[:, None] >= i, G[:, None] - G, float("-inf")))
    A = tl.where(i[:, None] > i, product(k_c, tl.trans(k_c)) * D * rate[:, None], 0.0)
    P = product(q_c, tl.trans(k_c)) * D * SCALE
    return inverse(A), P, G


@triton.jit
def advance(S, new, k_c, G, end):
    """The state after a chunk: S' = exp(G_C) S + (exp(G_C - G) K)^T new."""
    return S * tl.exp(end) + product(tl.trans(k_c), new * tl.exp(end - G)[:, None])


@triton.jit
def sequence(n):
    """First token of sequence n, and the token after its last."""
    return n * TOKENS, n * TOKENS + TOKENS


@triton.jit
def spans_before(n, SIZE: tl.constexpr):
    """How many spans of SIZE tokens the sequences before n have, where no span crosses a sequence."""
    return n * ((TOKENS + SIZE - 1) // SIZE)


@triton.jit
def span(p, SIZE: tl.constexpr):
    """The p-th span of SIZE tokens: its sequence, its first token, and the token after the last of its sequence."""
    each: tl.constexpr = (TOKENS + SIZE - 1) // SIZE
    n = p // each
    return n, n * TOKENS + p % each * SIZE, n * TOKENS + TOKENS


@triton.jit
def scan(q, k, v, A_log, a, dt_bias, b, o, final_state):
    """The outputs of a sequence, chunk by chunk. A program holds BV columns of the state of one value head."""
    tile, head = tl.program_id(0) % TILES, tl.program_id(0) // TILES
    n, h = head // HV, head % HV
    start, stop = sequence(n)
    rk, rv = tl.arange(0, KP), tile * BV + tl.arange(0, BV)
    at_state = state_at(n, h, rk[:, None], rv)
    S = tl.zeros((KP, BV), tl.float32)
    for c in tl.range(0, tl.maximum(stop - start + C - 1, 0) // C, num_stages=2):
        rows = start + c * C + tl.arange(0, C)
        ok = rows < stop
        q_c, k_c = keys(q, rows, ok, h), keys(k, rows, ok, h)
        log_decay, rate = gates(A_log, a, dt_bias, b, rows, ok, h)
        T, P, G = operators(q_c, k_c, log_decay, rate)
        last = tl.sum(log_decay)
        at_v = (rows * HV + h)[:, None] * V + rv
        in_v = ok[:, None] & (rv < V)
        v_c = tl.load(v + at_v, in_v, 0.0).to(tl.float32)
        decay = tl.exp(G)[:, None]
        new = product(T, rate[:, None] * (v_c - decay * product(k_c, S)))
        out = SCALE * decay * product(q_c, S) + product(P, new)
        S = advance(S, new, k_c, G, last)
        tl.store(o + at_v, out.to(o.dtype.element_ty), in_v)
    tl.store(final_state + at_state, S.to(final_state.dtype.element_ty), (rk[:, None] < K) & (rv[None, :] < V))


def run(q, k, v, A_log, a, dt_bias, b, o, final_state):
    """Computes o and final_state into the tensors given: q [2, 100, 2, 48] f32, k [2, 100, 2, 48] f32, v [2, 100, 4, 96] f32, A_log [4] f32, a [2, 100, 4] f32, dt_bias [4] f32, b [2, 100, 4] f32, o [2, 100, 4, 96] f32, final_state [2, 4, 48, 96] f32."""
    scan[(32,)](q, k, v, A_log, a, dt_bias, b, o, final_state, num_warps=4)
