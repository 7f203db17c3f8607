"""Gated delta rule for NVIDIA GPUs: Triton kernels.

For each token t of a sequence, with q_t and k_t [K], v_t [V] and the state S [K, V] of a value head:

    S_t = exp(g_t) S_t-1 + beta_t k_t (v_t - exp(g_t) S_t-1^T k_t)^T        o_t = scale S_t^T q_t

Written by gdngen vX; generate it anew instead of editing it.

  spec: hk=4,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk,empty=zero,packed
  variant: bv=64,warps=4,stages=2,chunk=64,kernels=two,preparewarps=2,part=4,mapbv=64,inverse=blocks,leaf=16,prec=bf16,solve=tf32x3,tparts=2

Tokens, sequences and the scale are those of a call, and initial_state may be None.
"""

import triton
import triton.language as tl

HK, HV = tl.constexpr(4), tl.constexpr(8)  # key heads and value heads
K, V = tl.constexpr(128), tl.constexpr(128)  # widths of keys and values
BV = tl.constexpr(64)  # columns of the state that a program holds
TILES = tl.constexpr(2)  # programs over V
SOME = tl.constexpr(64)  # sequences that are looked at together
C = tl.constexpr(64)  # tokens of a chunk
PART = tl.constexpr(256)  # tokens of a part, which runs beside the others of its sequence
MAP_BV, MAP_TILES = tl.constexpr(64), tl.constexpr(4)  # columns of a part's map that a program holds, and programs over them
START_BV, START_TILES = tl.constexpr(16), tl.constexpr(8)  # the same of the states that parts start from


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
def rounded(x):
    """x in float32, to nearest with 10 bits as tf32 has them: matrix units drop the rest of a float32, which would make every product smaller."""
    y = x.to(tl.float32)
    if x.dtype == tl.float32:  # else it has no more bits than these
        bits = (x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
        y = tl.where(x == x, bits.to(tl.float32, bitcast=True), x)  # NaN stays NaN
    return y


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
def carry(N, S):
    """What a part takes from the state, beside its decay: tf32."""
    return tl.dot(N, rounded(S), input_precision="tf32")


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
    L = merge(L, A, 32)
    return tl.reshape(L, (C, C))


@triton.jit
def operators(q_c, k_c, log_decay, rate, scale):
    """What a chunk does to its values, whatever the state: T = (I + A)^-1 and P = scale tril(Q K^T . D), both [C, C], and G.

    G sums the log decay up to each token, D_ij = exp(G_i - G_j), A = diag(beta) tril(K K^T . D, -1). Then, from a state S:

        new = T diag(beta) (v - exp(G) K S)     o = scale exp(G) Q S + P new     S' = exp(G_C) S + (exp(G_C - G) K)^T new

    beta stays out of T, whose diagonal is then 1, which no rounding of an operand changes.
    """
    i = tl.arange(0, C)
    G = tl.cumsum(log_decay, 0)
    D = tl.exp(tl.where(i[:, None] >= i, G[:, None] - G, float("-inf")))
    A = tl.where(i[:, None] > i, tl.dot(k_c, tl.trans(k_c)) * D * rate[:, None], 0.0)
    P = tl.dot(q_c, tl.trans(k_c)) * D * scale
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
    before = 0
    for some in range(0, n, SOME):
        m = some + tl.arange(0, SOME)
        first, last = tl.load(cu_seqlens + m, m < n, 0).to(tl.int32), tl.load(cu_seqlens + m + 1, m < n, 0).to(tl.int32)
        before += tl.sum((last - first + SIZE - 1) // SIZE)
    return before


@triton.jit
def span(cu_seqlens, sequences, p, SIZE: tl.constexpr):
    """The p-th span of SIZE tokens: its sequence, its first token, and the token after the last of its sequence.

    Behind the last span the token after is 0, so that no token is in. With sequences of 100, 0 and 63 tokens and SIZE 64, spans 0 and 1 are of
    sequence 0, span 2 of sequence 2, and span 3 has no tokens.
    """
    n, start, end, before = 0, 0, 0, 0
    for some in range(0, sequences, SOME):
        m = some + tl.arange(0, SOME)
        first, last = tl.load(cu_seqlens + m, m < sequences, 0).to(tl.int32), tl.load(cu_seqlens + m + 1, m < sequences, 0).to(tl.int32)
        spans = (last - first + SIZE - 1) // SIZE
        ends = before + tl.cumsum(spans, 0)
        mine = (p < ends) & (p >= ends - spans)
        n += tl.sum(tl.where(mine, m, 0))
        start += tl.sum(tl.where(mine, first + (p - ends + spans) * SIZE, 0))
        end += tl.sum(tl.where(mine, last, 0))
        before += tl.sum(spans)
    return n, start, end


@triton.jit(do_not_specialize=["sequences"])
def prepare(q, k, A_log, a, dt_bias, b, cu_seqlens, sequences, T_out, P_out, G_out, rate_out, scale):
    """T, P, G and beta of a chunk of one value head, for the kernels that hold states."""
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    n, start, end = span(cu_seqlens, sequences, p, C)
    i = tl.arange(0, C)
    rows = start + i
    ok = rows < end
    log_decay, rate = gates(A_log, a, dt_bias, b, rows, ok, h)
    T, P, G = operators(keys(q, rows, ok, h), keys(k, rows, ok, h), log_decay, rate, scale)
    at = (h + p * HV).to(tl.int64)
    square = i[:, None] * C + i
    T, T_rest = two_parts(T)
    tl.store(T_out + at * (2 * C * C) + square, T)
    tl.store(T_out + at * (2 * C * C) + C * C + square, T_rest)
    tl.store(P_out + at * (C * C) + square, P.to(P_out.dtype.element_ty))
    tl.store(G_out + at * C + i, G)
    tl.store(rate_out + at * C + i, rate)


@triton.jit(do_not_specialize=["sequences"])
def summarise(k, v, A_log, a, dt_bias, b, cu_seqlens, sequences, T_in, G_in, rate_in, decays, maps):
    """The affine map of a part, S -> d S + N S + B, without a look at other parts: decays [parts, HV] has d, and maps [parts, HV, K, V + K] B, then N.

    The recurrence of `scan` runs over columns: those of B start from zero, with the values; those of N from the identity, without values. d, the
    decay of all tokens, is what they would be if no token wrote. It is taken out, so that what is not written over passes a part unrounded.
    """
    tile, rest = tl.program_id(0) % MAP_TILES, tl.program_id(0) // MAP_TILES
    p, h = rest // HV, rest % HV
    n, start, end = span(cu_seqlens, sequences, p, PART)
    stop = tl.minimum(start + PART, end)
    rk, column = tl.arange(0, K), tile * MAP_BV + tl.arange(0, MAP_BV)
    one = tl.where(rk[:, None] == column - V, 1.0, 0.0)
    S, d = one, 1.0
    at = ((spans_before(cu_seqlens, n, C) + (start - tl.load(cu_seqlens + n).to(tl.int32)) // C) * HV + h).to(tl.int64)
    square = tl.arange(0, C)[:, None] * C + tl.arange(0, C)
    for c in tl.range(0, tl.maximum(stop - start + C - 1, 0) // C, num_stages=2):
        rows = start + c * C + tl.arange(0, C)
        ok = rows < stop
        k_c = keys(k, rows, ok, h)
        T = tl.load(T_in + (at + c * HV) * (2 * C * C) + square)
        T_rest = tl.load(T_in + (at + c * HV) * (2 * C * C) + C * C + square)
        G, last = tl.load(G_in + (at + c * HV) * C + tl.arange(0, C)), tl.load(G_in + (at + c * HV) * C + C - 1)
        rate = tl.load(rate_in + (at + c * HV) * C + tl.arange(0, C))
        v_c = tl.load(v + (rows * HV + h)[:, None] * V + column, ok[:, None] & (column < V), 0.0).to(tl.float32)
        new = solved(T, T_rest, rate[:, None] * (v_c - tl.exp(G)[:, None] * product(k_c, S)))
        S = advance(S, new, k_c, G, last)
        d *= tl.exp(last)
    if tile == 0:
        tl.store(decays + h + p * HV, d)
    S -= d * one
    S = tl.where(column >= V, rounded(S), S)  # N, once for all states that it meets
    tl.store(maps + ((h + p * HV).to(tl.int64) * K + rk[:, None]) * (V + K) + column, S)


@triton.jit
def combine(initial_state, cu_seqlens, decays, maps, final_state):
    """The states that parts start from, by the maps of the parts before; they replace B in maps. The last is the final state."""
    tile, head = tl.program_id(0) % START_TILES, tl.program_id(0) // START_TILES
    n, h = head // HV, head % HV
    start, end = sequence(cu_seqlens, n)
    first = spans_before(cu_seqlens, n, PART)
    rk, rv = tl.arange(0, K), tile * START_BV + tl.arange(0, START_BV)
    at_state = state_at(n, h, rk[:, None], rv)
    if initial_state is None:
        S = tl.zeros((K, START_BV), tl.float32)
    else:
        S = tl.load(initial_state + at_state).to(tl.float32)
    for p in range(first, first + (end - start + PART - 1) // PART):
        row = ((h + p * HV).to(tl.int64) * K + rk[:, None]) * (V + K)
        d, B, N = tl.load(decays + h + p * HV), tl.load(maps + row + rv), tl.load(maps + row + V + rk)
        tl.store(maps + row + rv, S)
        S = d * S + carry(N, S) + B
    S = tl.where(start < end, S, 0.0)
    tl.store(final_state + at_state, S.to(final_state.dtype.element_ty))


@triton.jit(do_not_specialize=["sequences"])
def scan(q, k, v, A_log, a, dt_bias, b, cu_seqlens, sequences, T_in, P_in, G_in, rate_in, maps, o, scale):
    """The outputs of a part, chunk by chunk. A program holds BV columns of the state of one value head."""
    tile, head = tl.program_id(0) % TILES, tl.program_id(0) // TILES
    p, h = head // HV, head % HV
    n, start, end = span(cu_seqlens, sequences, p, PART)
    stop = tl.minimum(start + PART, end)
    rk, rv = tl.arange(0, K), tile * BV + tl.arange(0, BV)
    S = tl.load(maps + ((h + p * HV).to(tl.int64) * K + rk[:, None]) * (V + K) + rv)
    at = ((spans_before(cu_seqlens, n, C) + (start - tl.load(cu_seqlens + n).to(tl.int32)) // C) * HV + h).to(tl.int64)
    square = tl.arange(0, C)[:, None] * C + tl.arange(0, C)
    for c in tl.range(0, tl.maximum(stop - start + C - 1, 0) // C, num_stages=2):
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
        out = scale * decay * product(q_c, S) + product(P, new)
        S = advance(S, new, k_c, G, last)
        tl.store(o + at_v, out.to(o.dtype.element_ty), in_v)


def run(q, k, v, A_log, a, dt_bias, b, initial_state, cu_seqlens, o, final_state, scale):
    """Computes o and final_state into the tensors given: q [tokens, 4, 128] bf16, k [tokens, 4, 128] bf16, v [tokens, 8, 128] bf16, A_log [8] f32, a [tokens, 8] bf16, dt_bias [8] f32, b [tokens, 8] bf16, initial_state [sequences, 8, 128, 128] f32, cu_seqlens [sequences + 1] i64, o [tokens, 8, 128] bf16, final_state [sequences, 8, 128, 128] f32."""
    tokens, sequences = q.shape[0], cu_seqlens.shape[0] - 1
    if tokens * 1024 >= 2**31:
        raise ValueError(f"{tokens} tokens: addresses here have 32 bits, and 1024 elements each are 2^31 or more: give fewer at a time")
    chunks = (tokens + sequences * 63) // 64  # at least as many as there are
    T, P = q.new_empty((chunks, 8, 2, 64, 64)), q.new_empty((chunks, 8, 64, 64))
    G, rate = A_log.new_empty((chunks, 8, 64)), A_log.new_empty((chunks, 8, 64))
    prepare[(chunks * 8,)](q, k, A_log, a, dt_bias, b, cu_seqlens, sequences, T, P, G, rate, scale, num_warps=2)
    parts = (tokens + sequences * 255) // 256  # at least as many as there are
    decays, maps = A_log.new_empty((parts, 8)), A_log.new_empty((parts, 8, 128, 256))
    summarise[(parts * 8 * 4,)](k, v, A_log, a, dt_bias, b, cu_seqlens, sequences, T, G, rate, decays, maps, num_warps=4)
    combine[(sequences * 64,)](initial_state, cu_seqlens, decays, maps, final_state, num_warps=4)
    scan[(parts * 8 * 2,)](q, k, v, A_log, a, dt_bias, b, cu_seqlens, sequences, T, P, G, rate, maps, o, scale, num_warps=4)
