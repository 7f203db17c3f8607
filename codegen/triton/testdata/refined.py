"""Gated delta rule for NVIDIA GPUs: Triton kernels.

For each token t of a sequence, with q_t and k_t [K], v_t [V] and the state S [K, V] of a value head:

    S_t = exp(g_t) S_t-1 + beta_t k_t (v_t - exp(g_t) S_t-1^T k_t)^T        o_t = scale S_t^T q_t

Written by gdngen vX; generate it anew instead of editing it.

  spec: b=2,t=256,hk=1,hv=1,k=64,v=64,dtype=f16
  variant: bv=64,warps=4,stages=1,chunk=32,kernels=two,preparewarps=2,part=0,inverse=substitution,prec=bf16,tparts=2
"""

import triton
import triton.language as tl

HK, HV = tl.constexpr(1), tl.constexpr(1)  # key heads and value heads
K, V = tl.constexpr(64), tl.constexpr(64)  # widths of keys and values
BV = tl.constexpr(64)  # columns of the state that a program holds
TILES = tl.constexpr(1)  # programs over V
SEQUENCES, TOKENS = tl.constexpr(2), tl.constexpr(256)  # sequences, and the tokens of each
SCALE = tl.constexpr(0.125)
C = tl.constexpr(32)  # tokens of a chunk


@triton.jit
def gates(g, beta, rows, ok, h):
    """Log decay g and beta of some tokens of a value head; zeros where not ok.

    A log decay below -50 counts as -50: nothing that float32 holds is left behind either.
    """
    log_decay = tl.load(g + rows * HV + h, ok, 0.0)
    return tl.maximum(log_decay, -50.0), tl.load(beta + rows * HV + h, ok, 0.0)


@triton.jit
def keys(x, rows, ok, h):
    """Rows of the key head that value head h shares, of q or k [tokens, HK, K]; zeros where not ok."""
    lane = tl.arange(0, K)
    row = tl.load(x + (rows * HK + h // (HV // HK))[:, None] * K + lane, ok[:, None], 0.0)
    return row


@triton.jit
def state_at(n, h, rk, rv):
    """Where S[rk, rv] of value head h of state n lies, in [states, HV, K, V]."""
    return (n * HV + h).to(tl.int64) * (K * V) + rk * V + rv


@triton.jit
def product(a, b):
    """A matrix product of operands in f16, summed in float32."""
    return tl.dot(a.to(tl.float16), b.to(tl.float16))


@triton.jit
def solved(T, T_rest, x):
    """T x, of f16 operands with T in two parts: where keys agree the rows of T cancel, and a rounded T would leave what is common to x."""
    x = x.to(tl.float16)
    return tl.dot(T_rest, x, tl.dot(T, x))


@triton.jit
def two_parts(T):
    """T as the sum of two parts in f16."""
    part = T.to(tl.float16)
    return part, (T - part.to(tl.float32)).to(tl.float16)


@triton.jit
def exact(a, b):
    """A product inside of the inverse: tf32x3."""
    return tl.dot(a, b, input_precision="tf32x3")


@triton.jit
def inverse(A):
    """(I + A)^-1 of a strictly lower A [C, C], row by row: row j of the inverse is done when its turn comes, and leaves the rows below."""
    i = tl.arange(0, C)
    L = tl.where(i[:, None] == i, 1.0, 0.0)
    for j in range(C - 1):
        column = tl.sum(tl.where(i[None, :] == j, A, 0.0), 1)
        row = tl.sum(tl.where(i[:, None] == j, L, 0.0), 0)
        L -= column[:, None] * row[None, :]
    return L


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
def prepare(q, k, g, beta, T_out, P_out, G_out, rate_out):
    """T, P, G and beta of a chunk of one value head, for the kernels that hold states."""
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    n, start, end = span(p, C)
    i = tl.arange(0, C)
    rows = start + i
    ok = rows < end
    log_decay, rate = gates(g, beta, rows, ok, h)
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
def scan(q, k, v, g, beta, T_in, P_in, G_in, rate_in, o, final_state):
    """The outputs of a sequence, chunk by chunk. A program holds BV columns of the state of one value head."""
    tile, head = tl.program_id(0) % TILES, tl.program_id(0) // TILES
    n, h = head // HV, head % HV
    start, stop = sequence(n)
    rk, rv = tl.arange(0, K), tile * BV + tl.arange(0, BV)
    at_state = state_at(n, h, rk[:, None], rv)
    S = tl.zeros((K, BV), tl.float32)
    at = ((spans_before(n, C)) * HV + h).to(tl.int64)
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
    tl.store(final_state + at_state, S.to(final_state.dtype.element_ty))


def run(q, k, v, g, beta, o, final_state):
    """Computes o and final_state into the tensors given: q [2, 256, 1, 64] f16, k [2, 256, 1, 64] f16, v [2, 256, 1, 64] f16, g [2, 256, 1] f32, beta [2, 256, 1] f32, o [2, 256, 1, 64] f16, final_state [2, 1, 64, 64] f32."""
    chunks = 16
    T, P = q.new_empty((chunks, 1, 2, 32, 32)), q.new_empty((chunks, 1, 32, 32))
    G, rate = g.new_empty((chunks, 1, 32)), g.new_empty((chunks, 1, 32))
    prepare[(chunks * 1,)](q, k, g, beta, T, P, G, rate, num_warps=2)
    scan[(2,)](q, k, v, g, beta, T, P, G, rate, o, final_state, num_warps=4)
