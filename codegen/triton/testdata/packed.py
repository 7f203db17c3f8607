"""Gated delta rule for NVIDIA GPUs: Triton kernels.

For each token t of a sequence, with q_t and k_t [K], v_t [V] and the state S [K, V] of a value head:

    S_t = exp(g_t) S_t-1 + beta_t k_t (v_t - exp(g_t) S_t-1^T k_t)^T        o_t = scale S_t^T q_t

Written by gdngen vX; generate it anew instead of editing it.

  spec: b=1,t=8192,hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=57,init,state=vk,empty=zero,packed
  variant: bv=64,warps=4,stages=1,chunk=32,kernels=two,preparewarps=1,part=0,inverse=blocks,leaf=16,prec=bf16,solve=tf32x3,tparts=2
"""

import triton
import triton.language as tl

HK, HV = tl.constexpr(4), tl.constexpr(8)  # key heads and value heads
K, V = tl.constexpr(128), tl.constexpr(128)  # widths of keys and values
BV = tl.constexpr(64)  # columns of the state that a program holds
TILES = tl.constexpr(2)  # programs over V
SEQUENCES, TOKENS = tl.constexpr(57), tl.constexpr(8192)  # packed sequences, and the tokens of all
SCALE = tl.constexpr(0.08838834764831843)
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
    """Rows of the key head that value head h shares, of q or k [tokens, HK, K]; zeros where not ok."""
    lane = tl.arange(0, K)
    row = tl.load(x + (rows * HK + h // (HV // HK))[:, None] * K + lane, ok[:, None], 0.0)
    return row


@triton.jit
def state_at(n, h, rk, rv):
    """Where S[rk, rv] of value head h of state n lies, in [states, HV, V, K]."""
    return (n * HV + h).to(tl.int64) * (K * V) + rv * K + rk


@triton.jit
def product(a, b):
    """A matrix product of operands in bf16, summed in float32."""
    return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))


@triton.jit
def solved(T, T_rest, x):
    """T x, of bf16 operands with T in two parts: where keys agree the rows of T cancel, and a rounded T would leave what is common to x."""
    x = x.to(tl.bfloat16)
    return tl.dot(T_rest, x, tl.dot(T, x))


@triton.jit
def two_parts(T):
    """T as the sum of two parts in bf16."""
    part = T.to(tl.bfloat16)
    return part, (T - part.to(tl.float32)).to(tl.bfloat16)


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
def merge(L, A, SIDE: tl.constexpr):
    """Inverses of the diagonal blocks with 2 SIDE rows, from those with SIDE: of [[I + A1, 0], [B, I + A2]] it is [[L1, 0], [-L2 B L1, L2]]."""
    pairs: tl.constexpr = C // (2 * SIDE)
    two = tl.arange(0, 2)
    D = tl.reshape(diagonal_blocks(A, 2 * SIDE), (pairs, 2, SIDE, 2, SIDE))
    B = tl.sum(tl.where((two == 1)[None, :, None, None, None] & (two == 0)[None, None, None, :, None], D, 0.0), 3)
    B = tl.sum(B, 1)
    L1, L2 = tl.split(tl.permute(tl.reshape(L, (pairs, 2, SIDE, SIDE)), (0, 2, 3, 1)))
    below = -exact(L2, exact(B, L1))
    rows = tl.join(tl.join(L1, tl.zeros_like(L1)), tl.join(below, L2))  # [pairs, SIDE, SIDE, column half, row half]
    return tl.reshape(tl.permute(rows, (0, 4, 1, 3, 2)), (pairs, 2 * SIDE, 2 * SIDE))


@triton.jit
def inverse(A):
    """(I + A)^-1 of a strictly lower A [C, C]: leaves by substitution, then merges of neighbours."""
    L = leaves(A)
    L = merge(L, A, 16)
    return tl.reshape(L, (C, C))


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
    A = tl.where(i[:, None] > i, tl.dot(k_c, tl.trans(k_c)) * D * rate[:, None], 0.0)
    P = tl.dot(q_c, tl.trans(k_c)) * D * SCALE
    return inverse(A), P, G


@triton.jit
def advance(S, new, k_c, G, end):
    """The state after a chunk: S' = exp(G_C) S + (exp(G_C - G) K)^T new."""
    return S * tl.exp(end) + product(tl.trans(k_c), new * tl.exp(end - G)[:, None])


@triton.jit
def sequence(cu_seqlens, n):
    """First token of sequence n, and the token after its last."""
    return tl.load(cu_seqlens + n).to(tl.int32), tl.load(cu_seqlens + n + 1).to(tl.int32)


@triton.jit
def spans_before(cu_seqlens, n, SIZE: tl.constexpr):
    """How many spans of SIZE tokens the sequences before n have, where no span crosses a sequence."""
    m = tl.arange(0, 64)
    first, last = tl.load(cu_seqlens + m, m < n, 0).to(tl.int32), tl.load(cu_seqlens + m + 1, m < n, 0).to(tl.int32)
    return tl.sum((last - first + SIZE - 1) // SIZE)


@triton.jit
def span(cu_seqlens, p, SIZE: tl.constexpr):
    """The p-th span of SIZE tokens: its sequence, its first token, and the token after the last of its sequence.

    Behind the last span the token after is 0, so that no token is in. With sequences of 100, 0 and 63 tokens and SIZE 64, spans 0 and 1 are of
    sequence 0, span 2 of sequence 2, and span 3 has no tokens.
    """
    m = tl.arange(0, 64)
    first, last = tl.load(cu_seqlens + m, m < SEQUENCES, 0).to(tl.int32), tl.load(cu_seqlens + m + 1, m < SEQUENCES, 0).to(tl.int32)
    spans = (last - first + SIZE - 1) // SIZE
    ends = tl.cumsum(spans, 0)
    mine = (p < ends) & (p >= ends - spans)
    start = tl.sum(tl.where(mine, first + (p - ends + spans) * SIZE, 0))
    return tl.sum(tl.where(mine, m, 0)), start, tl.sum(tl.where(mine, last, 0))


@triton.jit
def prepare(q, k, A_log, a, dt_bias, b, cu_seqlens, T_out, P_out, G_out, rate_out):
    """T, P, G and beta of a chunk of one value head, for the kernels that hold states."""
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    n, start, end = span(cu_seqlens, p, C)
    i = tl.arange(0, C)
    rows = start + i
    ok = rows < end
    log_decay, rate = gates(A_log, a, dt_bias, b, rows, ok, h)
    T, P, G = operators(keys(q, rows, ok, h), keys(k, rows, ok, h), log_decay, rate)
    at = (h + p * HV).to(tl.int64)
    square = i[:, None] * C + i
    T, T_rest = two_parts(T)
    tl.store(T_out + at * (2 * C * C) + square, T)
    tl.store(T_out + at * (2 * C * C) + C * C + square, T_rest)
    tl.store(P_out + at * (C * C) + square, P.to(P_out.dtype.element_ty))
    tl.store(G_out + at * C + i, G)
    tl.store(rate_out + at * C + i, rate)


@triton.jit
def scan(q, k, v, A_log, a, dt_bias, b, initial_state, cu_seqlens, T_in, P_in, G_in, rate_in, o, final_state):
    """The outputs of a sequence, chunk by chunk. A program holds BV columns of the state of one value head."""
    tile, head = tl.program_id(0) % TILES, tl.program_id(0) // TILES
    n, h = head // HV, head % HV
    start, stop = sequence(cu_seqlens, n)
    end = stop
    rk, rv = tl.arange(0, K), tile * BV + tl.arange(0, BV)
    at_state = state_at(n, h, rk[:, None], rv)
    S = tl.load(initial_state + at_state).to(tl.float32)
    at = ((spans_before(cu_seqlens, n, C)) * HV + h).to(tl.int64)
    square = tl.arange(0, C)[:, None] * C + tl.arange(0, C)
    for c in tl.range(0, tl.maximum(stop - start + C - 1, 0) // C, num_stages=1):
        rows = start + c * C + tl.arange(0, C)
        ok = rows < stop
        q_c, k_c = keys(q, rows, ok, h), keys(k, rows, ok, h)
        T, P = tl.load(T_in + (at + c * HV) * (2 * C * C) + square), tl.load(P_in + (at + c * HV) * (C * C) + square)
        T_rest = tl.load(T_in + (at + c * HV) * (2 * C * C) + C * C + square)
        G, last = tl.load(G_in + (at + c * HV) * C + tl.arange(0, C)), tl.load(G_in + (at + c * HV) * C + C - 1)
        rate = tl.load(rate_in + (at + c * HV) * C + tl.arange(0, C))
        at_v = (rows * HV + h)[:, None] * V + rv
        in_v = ok[:, None]
        v_c = tl.load(v + at_v, in_v, 0.0).to(tl.float32)
        decay = tl.exp(G)[:, None]
        new = solved(T, T_rest, rate[:, None] * (v_c - decay * product(k_c, S)))
        out = SCALE * decay * product(q_c, S) + product(P, new)
        S = advance(S, new, k_c, G, last)
        tl.store(o + at_v, out.to(o.dtype.element_ty), in_v)
    S = tl.where(start < end, S, 0.0)
    tl.store(final_state + at_state, S.to(final_state.dtype.element_ty))


def run(q, k, v, A_log, a, dt_bias, b, initial_state, cu_seqlens, o, final_state):
    """Computes o and final_state into the tensors given: q [8192, 4, 128] bf16, k [8192, 4, 128] bf16, v [8192, 8, 128] bf16, A_log [8] f32, a [8192, 8] bf16, dt_bias [8] f32, b [8192, 8] bf16, initial_state [57, 8, 128, 128] f32, cu_seqlens [58] i64, o [8192, 8, 128] bf16, final_state [57, 8, 128, 128] f32."""
    chunks = 311  # at least as many as there are
    T, P = q.new_empty((chunks, 8, 2, 32, 32)), q.new_empty((chunks, 8, 32, 32))
    G, rate = A_log.new_empty((chunks, 8, 32)), A_log.new_empty((chunks, 8, 32))
    prepare[(chunks * 8,)](q, k, A_log, a, dt_bias, b, cu_seqlens, T, P, G, rate, num_warps=1)
    scan[(912,)](q, k, v, A_log, a, dt_bias, b, initial_state, cu_seqlens, T, P, G, rate, o, final_state, num_warps=4)
