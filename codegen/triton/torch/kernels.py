"""Triton kernels of the gated delta rule, forward and backward, for heads, widths and lengths of a call.

For each token t of a sequence, with q_t and k_t [K], v_t [V] and the state S [K, V] of a value head:

    S_t = exp(g_t) S_t-1 + beta_t k_t (v_t - exp(g_t) S_t-1^T k_t)^T        o_t = scale S_t^T q_t

By chunks of C tokens, G the sum of g up to each token, D_ij = exp(G_i - G_j) and E_ij = D_ij beta_j where i >= j, R = V - exp(G) K S:

    N = strict(K K^T . E)    P = scale tril(Q K^T . E)    T = (I + N)^-1    U = T R
    O = scale exp(G) Q S + P U        S' = exp(G_C) S + (beta exp(G_C - G) K)^T U

Where all rows have one length, cu is None and T the length; packed sequences have T = 0 and strides of 0 for the batch.
"""

import triton
import triton.language as tl

SOME = tl.constexpr(64)  # packed sequences that are looked at together
SMALL = tl.constexpr(2**-10)  # beta by which its gradient is not divided


@triton.jit
def dot(a, b, OP: tl.constexpr):
    """A product of operands in OP, summed in float32."""
    if OP == tl.float32:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="tf32x3")
    else:
        return tl.dot(a.to(OP), b.to(OP))


@triton.jit
def dot2(a, b, OP: tl.constexpr, TWO: tl.constexpr):
    """The same with b in two parts where TWO."""
    if TWO:
        high = b.to(OP)
        return dot(a, high, OP) + dot(a, b - high.to(tl.float32), OP)
    else:
        return dot(a, b, OP)


@triton.jit
def span(cu, sequences, T, p, C: tl.constexpr):
    """The p-th chunk: its sequence, its first token, and the token after the last of its sequence; behind the last chunk that is 0."""
    if cu is None:
        each = (T + C - 1) // C
        n, start, end = p // each, p % each * C, T
    else:
        n, start, end, before = 0, 0, 0, 0
        for some in range(0, sequences, SOME):
            m = some + tl.arange(0, SOME)
            first = tl.load(cu + m, m < sequences, 0).to(tl.int32)
            last = tl.load(cu + m + 1, m < sequences, 0).to(tl.int32)
            chunks = (last - first + C - 1) // C
            ends = before + tl.cumsum(chunks, 0)
            mine = (p < ends) & (p >= ends - chunks)
            n += tl.sum(tl.where(mine, m, 0))
            start += tl.sum(tl.where(mine, first + (p - ends + chunks) * C, 0))
            end += tl.sum(tl.where(mine, last, 0))
            before += tl.sum(chunks)
    return n, start, end


@triton.jit
def sequence(cu, T, n, C: tl.constexpr):
    """Of sequence n: its first token, the token after its last, and the chunks before it."""
    if cu is None:
        start, end, before = 0, T, n * ((T + C - 1) // C)
    else:
        start, end = tl.load(cu + n).to(tl.int32), tl.load(cu + n + 1).to(tl.int32)
        before = 0
        for some in range(0, n, SOME):
            m = some + tl.arange(0, SOME)
            first, last = tl.load(cu + m, m < n, 0).to(tl.int32), tl.load(cu + m + 1, m < n, 0).to(tl.int32)
            before += tl.sum((last - first + C - 1) // C)
    return start, end, before


@triton.jit
def piece(cu, sequences, T, m, C: tl.constexpr, PART: tl.constexpr):
    """Of sequence m, or where PART of the m-th part of PART tokens: its first token, the token after its last, and the chunks before it."""
    if PART == 0:
        start, end, first = sequence(cu, T, m, C)
    else:
        n, start, last = span(cu, sequences, T, m, PART)
        begin, _, before = sequence(cu, T, n, C)
        first = before + (start - begin) // C
        end = tl.minimum(last, start + PART)
    return start, end, first


@triton.jit
def row_of(cu, T, m, PART: tl.constexpr):
    """The batch row of sequence m, or of part m; 0 of packed ones."""
    if cu is not None:
        return m * 0
    elif PART == 0:
        return m
    else:
        return m // ((T + PART - 1) // PART)


@triton.jit
def serial(cu, sequences, T, program, HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
           C: tl.constexpr, PART: tl.constexpr):
    """What a program with BV columns of a state works on: sequence or part, batch row, value head, key head, tokens and chunks as piece has them, its
    rows and columns of the state, and which of those there are."""
    TILES: tl.constexpr = (V + BV - 1) // BV
    tile, head = program % TILES, program // TILES
    m, h = head // HV, head % HV
    start, end, first = piece(cu, sequences, T, m, C, PART)
    rk, rv = tl.arange(0, BK), tile * BV + tl.arange(0, BV)
    return m, row_of(cu, T, m, PART), h, h // (HV // HK), start, end, first, rk, rv, (rk[:, None] < K) & (rv < V)


@triton.jit
def inside(ok, lane, W: tl.constexpr, BLOCK: tl.constexpr):
    """Which elements of rows there are: where blocks are whole, all of those that are ok."""
    if W % BLOCK == 0:
        return ok[:, None]
    else:
        return ok[:, None] & (lane < W)


@triton.jit
def load_rows(x, n, rows, ok, h, xb, xt, xh, lane, W: tl.constexpr, BLOCK: tl.constexpr):
    """x[n, rows, h, lane] by the strides of x, zeros where not ok or beyond W."""
    x += n.to(tl.int64) * xb + h.to(tl.int64) * xh
    return tl.load(x + rows.to(tl.int64)[:, None] * xt + lane, inside(ok, lane, W, BLOCK), 0.0)


@triton.jit
def keys(x, n, rows, ok, h, xb, xt, xh, K: tl.constexpr, BK: tl.constexpr, L2: tl.constexpr, OP: tl.constexpr):
    """Rows of q or k, of length 1 where L2."""
    row = load_rows(x, n, rows, ok, h, xb, xt, xh, tl.arange(0, BK), K, BK)
    if L2:
        row = row.to(tl.float32)
        row = (row * tl.rsqrt(tl.sum(row * row, 1) + 1e-6)[:, None]).to(OP)
    return row


@triton.jit
def raw_decay(x, log):
    """-exp(log) log(1 + e^x)."""
    held = tl.minimum(log, 64.0)  # its exponential is finite, and x has the rest
    x += log - held
    e = tl.exp(tl.minimum(x, 20.0))
    u = 1.0 + e
    return -tl.exp(held) * tl.where(x > 20.0, x, tl.where(u == 1.0, e, tl.log(u) * (e / tl.maximum(u - 1.0, 1e-30))))


@triton.jit
def rates(beta, at, ok, SIGMOID: tl.constexpr, NEGATIVE: tl.constexpr):
    """beta of tokens, zero where not ok; 1 where there is none."""
    if beta is None:
        rate = tl.where(ok, 1.0, 0.0)
    else:
        rate = tl.load(beta + at, ok, 0.0).to(tl.float32)
        if SIGMOID:
            rate = tl.sigmoid(rate)
        if NEGATIVE:
            rate *= 2.0
        rate = tl.where(ok, rate, 0.0)
    return rate


@triton.jit
def gates(g, beta, A_log, dt_bias, at, ok, h, SIGMOID: tl.constexpr, NEGATIVE: tl.constexpr):
    """Log decay and beta of tokens; raw ones where there is an A_log, or SIGMOID. A log decay below -50 counts as -50, none as 0, no beta as 1."""
    if g is None:
        decay = tl.where(ok, 0.0, 0.0)
    else:
        decay = tl.load(g + at, ok, 0.0).to(tl.float32)
        if A_log is not None:
            x = decay
            if dt_bias is not None:
                x += tl.load(dt_bias + h).to(tl.float32)
            decay = raw_decay(x, tl.load(A_log + h).to(tl.float32))
        decay = tl.where(ok, tl.maximum(decay, -50.0), 0.0)
    return decay, rates(beta, at, ok, SIGMOID, NEGATIVE)


@triton.jit
def decays(g, A_log, dt_bias, bound, at, ok, h, rk, K: tl.constexpr, RAW: tl.constexpr, BOUNDED: tl.constexpr):
    """Log decays [rows, BK] of a head, zeros where not ok; one below -50 counts as -50.

    Raw ones are -exp(A_log) softplus(g + dt_bias), or where BOUNDED bound sigmoid(exp(A_log) (g + dt_bias)).
    """
    held = ok[:, None] & (rk < K)
    x = tl.load(g + at[:, None] * K + rk, held, 0.0).to(tl.float32)
    if RAW:
        if dt_bias is not None:
            x += tl.load(dt_bias + h * K + rk, rk < K, 0.0).to(tl.float32)
        log = 0.0
        if A_log is not None:
            log = tl.load(A_log + h).to(tl.float32)
        if BOUNDED:
            x = bound * tl.sigmoid(tl.exp(tl.minimum(log, 64.0)) * x)
        else:
            x = raw_decay(x, log)
    return tl.where(held, tl.maximum(x, -50.0), 0.0)


@triton.jit
def weights(G, rate, C: tl.constexpr):
    """E [C, C]."""
    i = tl.arange(0, C)
    return tl.exp(tl.where(i[:, None] >= i, G[:, None] - G, float("-inf"))) * rate


@triton.jit
def state_at(n, h, rk, rv, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, VK: tl.constexpr):
    """Where S[rk, rv] lies in [states, HV, K, V], or [states, HV, V, K] where VK."""
    base = (n.to(tl.int64) * HV + h) * (K * V)
    if VK:
        return base + rv * K + rk
    else:
        return base + rk * V + rv


@triton.jit
def diagonal_blocks(X, SIDE: tl.constexpr, C: tl.constexpr):
    """Diagonal blocks of X [C, C], [C / SIDE, SIDE, SIDE]."""
    blocks: tl.constexpr = C // SIDE
    n = tl.arange(0, blocks)
    return tl.sum(tl.where((n[:, None] == n)[:, None, :, None], tl.reshape(X, (blocks, SIDE, blocks, SIDE)), 0.0), 2)


@triton.jit
def merge(L, N, SIDE: tl.constexpr, C: tl.constexpr):
    """Inverses of diagonal blocks with 2 SIDE rows: of [[I + N1, 0], [B, I + N2]] it is [[L1, 0], [-L2 B L1, L2]]."""
    pairs: tl.constexpr = C // (2 * SIDE)
    two = tl.arange(0, 2)
    X = tl.reshape(diagonal_blocks(N, 2 * SIDE, C), (pairs, 2, SIDE, 2, SIDE))
    B = tl.sum(tl.sum(tl.where((two == 1)[None, :, None, None, None] & (two == 0)[None, None, None, :, None], X, 0.0), 3), 1)
    L1, L2 = tl.split(tl.permute(tl.reshape(L, (pairs, 2, SIDE, SIDE)), (0, 2, 3, 1)))
    below = -tl.dot(L2, tl.dot(B, L1, input_precision="tf32x3"), input_precision="tf32x3")
    rows = tl.join(tl.join(L1, tl.zeros_like(L1)), tl.join(below, L2))
    return tl.reshape(tl.permute(rows, (0, 4, 1, 3, 2)), (pairs, 2 * SIDE, 2 * SIDE))


@triton.jit
def inverse(N, C: tl.constexpr):
    """(I + N)^-1 of a strictly lower N [C, C]: blocks of 16 rows by substitution, then merges of neighbours."""
    D = diagonal_blocks(N, 16, C)
    r = tl.arange(0, 16)
    L = tl.where((r[:, None] == r)[None], 1.0, tl.zeros_like(D))
    for j in tl.static_range(15):
        column = tl.sum(tl.where(r[None, None, :] == j, D, 0.0), 2)
        row = tl.sum(tl.where(r[None, :, None] == j, L, 0.0), 1)
        L -= column[:, :, None] * row[:, None, :]
    if C >= 32:
        L = merge(L, N, 16, C)
    return tl.reshape(L, (C, C))


@triton.jit(do_not_specialize=["sequences", "T"])
def prepare(q, k, g, beta, A_log, dt_bias, cu, T_out, P_out, G_out, rate_out, scale, sequences, T, qb, qt, qh, kb, kt, kh,
            HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, C: tl.constexpr, L2: tl.constexpr, SIGMOID: tl.constexpr,
            NEGATIVE: tl.constexpr):
    """T, in two parts where operands are in half precision, P, G and beta of a chunk of a value head."""
    OP: tl.constexpr = q.dtype.element_ty
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    n, start, end = span(cu, sequences, T, p, C)
    i = tl.arange(0, C)
    rows = start + i
    ok = rows < end
    hk = h // (HV // HK)
    q_c, k_c = keys(q, n, rows, ok, hk, qb, qt, qh, K, BK, L2, OP), keys(k, n, rows, ok, hk, kb, kt, kh, K, BK, L2, OP)
    decay, rate = gates(g, beta, A_log, dt_bias, (n * T + rows).to(tl.int64) * HV + h, ok, h, SIGMOID, NEGATIVE)
    G = tl.cumsum(decay, 0)
    E = weights(G, rate, C)
    square = i[:, None] * C + i
    at = p.to(tl.int64) * HV + h
    tl.store(P_out + at * (C * C) + square, (dot(q_c, tl.trans(k_c), OP) * scale * E).to(OP))
    X = inverse(tl.where(i[:, None] > i, dot(k_c, tl.trans(k_c), OP) * E, 0.0), C)
    keep(T_out, at, square, X, C * C, OP)
    tl.store(G_out + at * C + i, G)
    tl.store(rate_out + at * C + i, rate)


@triton.jit
def two(x, OP: tl.constexpr):
    """x as a sum of two numbers in OP. The first bf16 is x cut off, as a conversion costs more instructions."""
    if OP == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        high = (bits >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
        rest = x - (bits & -65536).to(tl.float32, bitcast=True)
    else:
        high = x.to(OP)
        rest = x - high.to(tl.float32)
    return high, rest.to(OP)


@triton.jit
def keep(T_out, at, square, X, SIZE: tl.constexpr, OP: tl.constexpr):
    """Stores X at square of the T with number at, which has SIZE elements: in two parts unless OP is float32."""
    if OP == tl.float32:
        tl.store(T_out + at * SIZE + square, X)
    else:
        high, rest = two(X, OP)
        tl.store(T_out + 2 * at * SIZE + square, high)
        tl.store(T_out + (2 * at + 1) * SIZE + square, rest)


@triton.jit
def times(a, bt):
    """a b of matrices [n, rows, columns] in two parts, b given by its transpose.

    A sum of products lies in a warp's registers as the left operand of another product does, and its transpose as a right one: nothing moves.
    """
    b, b_rest = tl.permute(bt[0], (0, 2, 1)), tl.permute(bt[1], (0, 2, 1))
    return tl.dot(a[0], b, tl.dot(a[0], b_rest, tl.dot(a[1], b)))


@triton.jit
def doubled(X, Xt, Dt, SIDE: tl.constexpr):
    """Inverses of diagonal blocks with 2 SIDE rows, from those with SIDE: X - X B X where B is what lies in D between them. All with transposes."""
    i = tl.arange(0, 16)
    r, c = i[None, :, None], i[None, None, :]
    between = (r // (2 * SIDE) == c // (2 * SIDE)) & (r // SIDE != c // SIDE)
    x, xt = two(X, tl.bfloat16), two(Xt, tl.bfloat16)
    w = two(times(x, two(tl.where(between, Dt, 0.0), tl.bfloat16)), tl.bfloat16)
    return X - times(w, xt), Xt - times(xt, w)


@triton.jit
def part(X, R: tl.constexpr, Q: tl.constexpr):
    """The block [1, 16, 16] in row R and column Q of X [32, 32]."""
    i = tl.arange(0, 2)
    mine = (i[:, None, None, None] == R) & (i[None, None, :, None] == Q)
    return tl.sum(tl.sum(tl.where(mine, tl.reshape(X, (2, 16, 2, 16)), 0.0), 2), 0)[None]


@triton.jit
def picked(X, R: tl.constexpr):
    """X[R] as [1, 16, 16], of X [2, 16, 16]."""
    i = tl.arange(0, 2)
    return tl.sum(tl.where(i[:, None, None] == R, X, 0.0), 0)[None]


@triton.jit
def joined(X, other, LOWER: tl.constexpr):
    """[1, 32, 32] of diagonal blocks X [2, 16, 16] and other [1, 16, 16], below them where LOWER, else above."""
    i = tl.arange(0, 2)
    r, c = i[:, None, None, None], i[None, None, :, None]
    whole = tl.where(r == c, tl.reshape(X, (2, 16, 1, 16)), tl.where((r > c) == LOWER, tl.reshape(other, (1, 16, 1, 16)), 0.0))
    return tl.reshape(whole, (1, 32, 32))


@triton.jit
def inverse_pair(N, Nt):
    """(I + N)^-1 of a strictly lower N [32, 32], given with its transpose, and the transpose of that: both [1, 32, 32].

    Blocks of 2, 4, 8, 16 and 32 rows by products of bf16 in two parts.
    """
    i = tl.arange(0, 16)
    r, c = i[None, :, None], i[None, None, :]
    D, Dt = diagonal_blocks(N, 16, 32), diagonal_blocks(Nt, 16, 32)
    one = tl.where(r == c, 1.0, 0.0)
    X, Xt = one - tl.where(r // 2 == c // 2, D, 0.0), one - tl.where(r // 2 == c // 2, Dt, 0.0)
    X, Xt = doubled(X, Xt, Dt, 2)
    X, Xt = doubled(X, Xt, Dt, 4)
    X, Xt = doubled(X, Xt, Dt, 8)
    y = two(times(two(picked(Xt, 0), tl.bfloat16), two(part(N, 1, 0), tl.bfloat16)), tl.bfloat16)
    last = two(picked(X, 1), tl.bfloat16)
    return joined(X, -times(last, y), True), joined(Xt, -times(y, last), False)


@triton.jit
def half(QK, KK, G, rate, P_out, T_out, at, PLACE: tl.constexpr, OP: tl.constexpr):
    """Stores P of 32 tokens among themselves, and their T, which it returns with its transpose."""
    i = tl.arange(0, 32)
    square = PLACE * 1024 + i[:, None] * 32 + i
    G *= 1.4426950408889634  # of 2^x, which is an instruction
    D = G[:, None] - G
    E = tl.exp2(tl.where(i[:, None] >= i, D, float("-inf"))) * rate
    Et = tl.exp2(tl.where(i[:, None] < i, -D, float("-inf"))) * rate[:, None]
    tl.store(P_out + at * 3072 + square, (QK * E).to(OP))
    X, Xt = inverse_pair(tl.where(i[:, None] > i, KK * E, 0.0), KK * Et)
    keep(T_out, at, square, tl.reshape(X, (32, 32)), 3072, OP)
    return X, Xt


@triton.jit(do_not_specialize=["sequences", "T"])
def prepare_pairs(q, k, g, beta, A_log, dt_bias, cu, T_out, P_out, G_out, rate_out, scale, sequences, T, qb, qt, qh, kb, kt, kh,
                  HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, C: tl.constexpr, L2: tl.constexpr, SIGMOID: tl.constexpr,
                  NEGATIVE: tl.constexpr, GROUP: tl.constexpr):
    """As prepare, for operands in half precision and chunks of C = 64: two halves a and b of 32 tokens, of GROUP value heads of one key head.

    T and P have their blocks [32, 32] of a and a, b and a, b and b, one behind the other.
    """
    OP: tl.constexpr = q.dtype.element_ty
    p, lowest = tl.program_id(0) // (HV // GROUP), tl.program_id(0) % (HV // GROUP) * GROUP
    n, start, end = span(cu, sequences, T, p, C)
    i = tl.arange(0, 32)
    rows_a, rows_b = start + i, start + 32 + i
    ok_a, ok_b = rows_a < end, rows_b < end
    hk = lowest // (HV // HK)
    k_a, k_b = keys(k, n, rows_a, ok_a, hk, kb, kt, kh, K, BK, L2, OP), keys(k, n, rows_b, ok_b, hk, kb, kt, kh, K, BK, L2, OP)
    KK_a, KK_ba, KK_b = dot(k_a, tl.trans(k_a), OP), dot(k_b, tl.trans(k_a), OP), dot(k_b, tl.trans(k_b), OP)
    q_a = keys(q, n, rows_a, ok_a, hk, qb, qt, qh, K, BK, L2, OP)
    QK_a = dot(q_a, tl.trans(k_a), OP) * scale
    q_b = keys(q, n, rows_b, ok_b, hk, qb, qt, qh, K, BK, L2, OP)
    QK_ba, QK_b = dot(q_b, tl.trans(k_a), OP) * scale, dot(q_b, tl.trans(k_b), OP) * scale
    square = 1024 + i[:, None] * 32 + i
    for h in range(lowest, lowest + GROUP):
        decay_a, rate_a = gates(g, beta, A_log, dt_bias, (n * T + rows_a).to(tl.int64) * HV + h, ok_a, h, SIGMOID, NEGATIVE)
        decay_b, rate_b = gates(g, beta, A_log, dt_bias, (n * T + rows_b).to(tl.int64) * HV + h, ok_b, h, SIGMOID, NEGATIVE)
        G_a, G_b, whole = tl.cumsum(decay_a, 0), tl.cumsum(decay_b, 0), tl.sum(decay_a, 0)
        at = p.to(tl.int64) * HV + h
        tl.store(G_out + at * C + i, G_a)
        tl.store(G_out + at * C + 32 + i, G_b + whole)
        tl.store(rate_out + at * C + i, rate_a)
        tl.store(rate_out + at * C + 32 + i, rate_b)
        grown, left = tl.exp(G_b)[:, None], tl.exp(whole - G_a) * rate_a
        tl.store(P_out + at * 3072 + square, (QK_ba * grown * left).to(OP))
        _, X = half(QK_a, KK_a, G_a, rate_a, P_out, T_out, at, 0, OP)
        y = two(times(two(X, tl.bfloat16), two((KK_ba * grown * left)[None], tl.bfloat16)), tl.bfloat16)
        X, _ = half(QK_b, KK_b, G_b, rate_b, P_out, T_out, at, 2, OP)
        keep(T_out, at, square, tl.reshape(-times(two(X, tl.bfloat16), y), (32, 32)), 3072, OP)


@triton.jit
def lower(X, n, C: tl.constexpr):
    """The n-th matrix [C, C] of T or P, as prepare or prepare_pairs has stored it."""
    i = tl.arange(0, C)
    if C == 64:
        r, c = i[:, None] // 32, i // 32
        return tl.load(X + n * 3072 + ((r + c) * 1024 + i[:, None] % 32 * 32 + i % 32), r >= c, 0.0)
    else:
        return tl.load(X + n * (C * C) + (i[:, None] * C + i))


@triton.jit
def stored(T_in, at, C: tl.constexpr, OP: tl.constexpr):
    """T of a chunk of a head, as through takes it."""
    if OP == tl.float32:
        whole = lower(T_in, at, C)
        return whole, whole
    else:
        return lower(T_in, 2 * at, C), lower(T_in, 2 * at + 1, C)


@triton.jit
def through(T, X, OP: tl.constexpr, TWO: tl.constexpr, TURNED: tl.constexpr):
    """T X, or T^T X where TURNED."""
    high, rest = T
    if TURNED:
        high = tl.trans(high)
    Y = dot2(high, X, OP, TWO and OP != tl.float32)
    if OP == tl.float32:
        return Y
    else:
        return Y + dot(tl.trans(rest) if TURNED else rest, X, OP)


@triton.jit(do_not_specialize=["sequences", "T"])
def scan(q, k, v, cu, T_in, P_in, G_in, rate_in, h0, ht, o, S_out, U_out, scale, sequences, T, qb, qt, qh, kb, kt, kh, vb, vt, vh,
         HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
         L2: tl.constexpr, VK: tl.constexpr, TWO: tl.constexpr, STAGES: tl.constexpr, PART: tl.constexpr):
    """The chunks of a sequence in turn, BV columns of the state of a value head: o and ht, and for gradients S before each chunk, and U.

    With PART it is the chunks of a part, and h0 [parts, HV, K, V] has the states before each.
    """
    OP: tl.constexpr = k.dtype.element_ty
    m, n, h, hk, start, end, first, rk, rv, held = serial(cu, sequences, T, tl.program_id(0), HK, HV, K, V, BK, BV, C, PART)
    i = tl.arange(0, C)
    S = tl.zeros((BK, BV), tl.float32)
    if h0 is not None:
        S += tl.load(h0 + state_at(m, h, rk[:, None], rv, HV, K, V, VK), held, 0.0).to(tl.float32)
    for c in tl.range(0, (end - start + C - 1) // C, num_stages=STAGES):
        rows = start + c * C + i
        ok = rows < end
        at = (first + c).to(tl.int64) * HV + h
        S_in = S.to(OP)
        if S_out is not None:
            tl.store(S_out + at * (K * V) + (rk[:, None] * V + rv), S_in, held)
        # this order of loads and products spills and waits least: no load waits for a product, and Q S needs no U
        if o is not None:
            q_c, P = keys(q, n, rows, ok, hk, qb, qt, qh, K, BK, L2, OP), lower(P_in, at, C)
        k_c, T_c = keys(k, n, rows, ok, hk, kb, kt, kh, K, BK, L2, OP), stored(T_in, at, C, OP)
        G, last = tl.load(G_in + at * C + i), tl.load(G_in + at * C + C - 1)
        rate = tl.load(rate_in + at * C + i)
        v_c = load_rows(v, n, rows, ok, h, vb, vt, vh, rv, V, BV)
        grown = tl.exp(G)[:, None]
        left, whole = (rate * tl.exp(last - G))[:, None], tl.exp(last)
        if o is not None:
            before = scale * grown * dot(q_c, S_in, OP)
        U = through(T_c, v_c.to(tl.float32) - grown * dot(k_c, S_in, OP), OP, TWO, False)
        at_v = ((n * T + rows).to(tl.int64) * HV + h)[:, None] * V
        in_v = inside(ok, rv, V, BV)
        if o is not None:
            tl.store(o + at_v + rv, (before + dot2(P, U, OP, TWO)).to(o.dtype.element_ty), in_v)
        if U_out is not None:
            tl.store(U_out + at_v + rv, U.to(OP), in_v)
        S = S * whole + dot(tl.trans(k_c), U * left, OP)
    if ht is not None:
        tl.store(ht + state_at(m, h, rk[:, None], rv, HV, K, V, VK), S.to(ht.dtype.element_ty), held)


@triton.jit(do_not_specialize=["sequences", "T"])
def summarise(k, cu, T_in, G_in, rate_in, maps, sequences, T, kb, kt, kh,
              HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr, L2: tl.constexpr, TWO: tl.constexpr,
              STAGES: tl.constexpr, PART: tl.constexpr):
    """M [K, K] of a part, BV columns: the state S before it contributes M S to the state behind it, and dS behind it M^T dS to that before it."""
    OP: tl.constexpr = k.dtype.element_ty
    m, n, h, hk, start, end, first, rk, rv, held = serial(cu, sequences, T, tl.program_id(0), HK, HV, K, K, BK, BV, C, PART)
    i = tl.arange(0, C)
    M = tl.where((rk[:, None] == rv) & held, 1.0, 0.0)
    for c in tl.range(0, (end - start + C - 1) // C, num_stages=STAGES):
        rows = start + c * C + i
        at = (first + c).to(tl.int64) * HV + h
        k_c = keys(k, n, rows, rows < end, hk, kb, kt, kh, K, BK, L2, OP)
        G, last = tl.load(G_in + at * C + i), tl.load(G_in + at * C + C - 1)
        rate = tl.load(rate_in + at * C + i)
        U = through(stored(T_in, at, C, OP), -tl.exp(G)[:, None] * dot(k_c, M, OP), OP, TWO, False)
        M = M * tl.exp(last) + dot(tl.trans(k_c), U * (rate * tl.exp(last - G))[:, None], OP)
    tl.store(maps + (m.to(tl.int64) * HV + h) * (K * K) + (rk[:, None] * K + rv), M, held)


@triton.jit(do_not_specialize=["sequences", "T"])
def combine(cu, maps, rests, h0, ht, starts, sequences, T, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
            VK: tl.constexpr, PART: tl.constexpr, BACK: tl.constexpr):
    """States between the parts of a sequence: S <- M S + rest from h0 on, starts [parts, HV, K, V] before each and ht behind the last.

    Where BACK, from the last part to the first, S <- M^T S + rest. rests [parts, HV, K, V] is what a part makes of zeros.
    """
    _, _, h, _, start, end, first, rk, rv, held = serial(cu, sequences, T, tl.program_id(0), HV, HV, K, V, BK, BV, PART, 0)
    n = tl.program_id(0) // ((V + BV - 1) // BV) // HV
    S = tl.zeros((BK, BV), tl.float32)
    if h0 is not None:
        S += tl.load(h0 + state_at(n, h, rk[:, None], rv, HV, K, V, VK), held, 0.0).to(tl.float32)
    parts = (end - start + PART - 1) // PART
    for turn in range(0, parts):
        p = first + (parts - 1 - turn if BACK else turn)
        at = p.to(tl.int64) * HV + h
        at_s = at * (K * V) + (rk[:, None] * V + rv)
        tl.store(starts + at_s, S, held)
        at_m = (rk * K + rk[:, None]) if BACK else (rk[:, None] * K + rk)
        M = tl.load(maps + at * (K * K) + at_m, (rk[:, None] < K) & (rk < K), 0.0)
        S = tl.dot(M, S, input_precision="tf32x3") + tl.load(rests + at_s, held, 0.0)
    if ht is not None:
        tl.store(ht + state_at(n, h, rk[:, None], rv, HV, K, V, VK), S.to(ht.dtype.element_ty), held)


@triton.jit(do_not_specialize=["sequences", "T"])
def reverse(q, k, do, cu, T_in, P_in, G_in, rate_in, dht, dh0, dS_out, dv, scale, sequences, T, qb, qt, qh, kb, kt, kh, db, dt, dh,
            HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
            L2: tl.constexpr, VK: tl.constexpr, TWO: tl.constexpr, STAGES: tl.constexpr, PART: tl.constexpr):
    """The chunks of a sequence from the last to the first: dS behind each chunk, dV = dR = T^T (P^T dO + beta exp(G_C - G) K dS), and dh0.

    With PART it is the chunks of a part, and dht [parts, HV, K, V] has dS behind each.
    """
    OP: tl.constexpr = q.dtype.element_ty
    m, n, h, hk, start, end, first, rk, rv, held = serial(cu, sequences, T, tl.program_id(0), HK, HV, K, V, BK, BV, C, PART)
    i = tl.arange(0, C)
    dS = tl.zeros((BK, BV), tl.float32)
    if dht is not None:
        dS += tl.load(dht + state_at(m, h, rk[:, None], rv, HV, K, V, VK), held, 0.0).to(tl.float32)
    chunks = (end - start + C - 1) // C
    for turn in tl.range(0, chunks, num_stages=STAGES):
        c = chunks - 1 - turn
        rows = start + c * C + i
        ok = rows < end
        at = (first + c).to(tl.int64) * HV + h
        if dS_out is not None:
            tl.store(dS_out + at * (K * V) + (rk[:, None] * V + rv), dS.to(OP), held)
        q_c, k_c = keys(q, n, rows, ok, hk, qb, qt, qh, K, BK, L2, OP), keys(k, n, rows, ok, hk, kb, kt, kh, K, BK, L2, OP)
        d_c = load_rows(do, n, rows, ok, h, db, dt, dh, rv, V, BV)
        G, last = tl.load(G_in + at * C + i), tl.load(G_in + at * C + C - 1)
        rate = tl.load(rate_in + at * C + i)
        P = lower(P_in, at, C)
        dU = dot(tl.trans(P), d_c, OP) + dot(k_c, dS, OP) * (rate * tl.exp(last - G))[:, None]
        dR = through(stored(T_in, at, C, OP), dU, OP, TWO, True)
        if dv is not None:
            tl.store(dv + ((n * T + rows).to(tl.int64) * HV + h)[:, None] * V + rv, dR.to(OP), inside(ok, rv, V, BV))
        grown = tl.exp(G)[:, None]
        dS = dS * tl.exp(last) + dot(tl.trans(q_c), d_c.to(tl.float32) * (grown * scale), OP) - dot(tl.trans(k_c), dR * grown, OP)
    if dh0 is not None:
        tl.store(dh0 + state_at(m, h, rk[:, None], rv, HV, K, V, VK), dS.to(dh0.dtype.element_ty), held)


@triton.jit(do_not_specialize=["sequences", "T"])
def scores(q, k, do, cu, G_in, rate_in, U_in, dR_in, X_out, sums_out, dbeta, scale, sequences, T, qb, qt, qh, kb, kt, kh, db, dt, dh,
           HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
           L2: tl.constexpr):
    """Of a chunk of a key head, summed over its value heads: X = scale dO U^T . E, X^T, and Y + Y^T with Y = -strict(dR U^T . E).

    X_out [chunks, HK, 3, C, C] has them, sums_out what they give to dg. dbeta is U . dR over beta; where beta is small, what grads adds to.
    No product takes a transposed sum, which Triton 3.4 to 3.7.0 miscompiles.
    """
    OP: tl.constexpr = q.dtype.element_ty
    p, hk = tl.program_id(0) // HK, tl.program_id(0) % HK
    n, start, end = span(cu, sequences, T, p, C)
    i, rv = tl.arange(0, C), tl.arange(0, BV)
    rows = start + i
    ok = rows < end
    q_c, k_c = keys(q, n, rows, ok, hk, qb, qt, qh, K, BK, L2, OP), keys(k, n, rows, ok, hk, kb, kt, kh, K, BK, L2, OP)
    qk, kk = dot(q_c, tl.trans(k_c), OP), dot(k_c, tl.trans(k_c), OP)
    Xs, Xt, Ys = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    for m in tl.range(0, HV // HK, num_stages=1):
        h = hk * (HV // HK) + m
        at = p.to(tl.int64) * HV + h
        G, rate = tl.load(G_in + at * C + i), tl.load(rate_in + at * C + i)
        at_v = ((n * T + rows).to(tl.int64) * HV + h)[:, None] * V
        in_v = inside(ok, rv, V, BV)
        U, dR, d = tl.load(U_in + at_v + rv, in_v, 0.0), tl.load(dR_in + at_v + rv, in_v, 0.0), load_rows(do, n, rows, ok, h, db, dt, dh, rv, V, BV)
        D = weights(G, 1.0, C)
        X = dot(d, tl.trans(U), OP) * D * scale
        Y = tl.where(i[:, None] > i, -dot(dR, tl.trans(U), OP) * D, 0.0)
        W = X * qk + Y * kk
        columns = tl.sum(W, 0)
        tl.store(sums_out + at * C + i, tl.sum(W * rate, 1) - columns * rate)
        E = tl.exp(tl.where(i[:, None] <= i, G - G[:, None], float("-inf"))) * rate[:, None]  # transposed
        Xs += X * rate
        Xt += dot(U, tl.trans(d), OP) * E * scale
        Ys += Y * rate + tl.where(i[:, None] < i, -dot(U, tl.trans(dR), OP) * E, 0.0)
        z = tl.sum(U.to(tl.float32) * dR.to(tl.float32), 1)
        tl.store(dbeta + (n * T + rows).to(tl.int64) * HV + h, tl.where(tl.abs(rate) > SMALL, z / rate, columns), ok)
    at = (p.to(tl.int64) * HK + hk) * (3 * C * C) + i[:, None] * C + i
    tl.store(X_out + at, Xs.to(OP))
    tl.store(X_out + at + C * C, Xt.to(OP))
    tl.store(X_out + at + 2 * C * C, Ys.to(OP))


@triton.jit
def of_norm(d, x, n, rows, ok, h, xb, xt, xh, K: tl.constexpr, BK: tl.constexpr):
    """The gradient of a row of x from that of the row of length 1."""
    row = load_rows(x, n, rows, ok, h, xb, xt, xh, tl.arange(0, BK), K, BK).to(tl.float32)
    r = tl.rsqrt(tl.sum(row * row, 1) + 1e-6)[:, None]
    row *= r
    return (d - row * tl.sum(d * row, 1)[:, None]) * r


@triton.jit(do_not_specialize=["sequences", "T"])
def grads(q, k, do, cu, G_in, rate_in, S_in, U_in, dS_in, dR_in, X_in, sums_in, dq, dk, dg, dbeta, scale, sequences, T, qb, qt, qh, kb, kt, kh, db, dt, dh,
          HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, C: tl.constexpr,
          L2: tl.constexpr):
    """Of a chunk of a key head: dQ = scale exp(G) dO S^T + X K, dK = beta exp(G_C - G) U dS^T - exp(G) dR S^T + X^T Q + (Y + Y^T) K, and dg."""
    OP: tl.constexpr = q.dtype.element_ty
    p, hk = tl.program_id(0) // HK, tl.program_id(0) % HK
    n, start, end = span(cu, sequences, T, p, C)
    i, rk = tl.arange(0, C), tl.arange(0, BK)
    rows = start + i
    ok = rows < end
    q_c, k_c = keys(q, n, rows, ok, hk, qb, qt, qh, K, BK, L2, OP), keys(k, n, rows, ok, hk, kb, kt, kh, K, BK, L2, OP)
    at_x = (p.to(tl.int64) * HK + hk) * (3 * C * C) + i[:, None] * C + i
    dq_c = dot(tl.load(X_in + at_x), k_c, OP)
    dk_c = dot(tl.load(X_in + at_x + C * C), q_c, OP) + dot(tl.load(X_in + at_x + 2 * C * C), k_c, OP)
    for m in tl.range(0, HV // HK, num_stages=1):
        h = hk * (HV // HK) + m
        at = p.to(tl.int64) * HV + h
        G, last = tl.load(G_in + at * C + i), tl.load(G_in + at * C + C - 1)
        rate = tl.load(rate_in + at * C + i)
        grown, left = tl.exp(G), tl.exp(last - G)
        r, y, whole = tl.zeros((C,), tl.float32), tl.zeros((C,), tl.float32), 0.0
        for t in tl.static_range((V + BV - 1) // BV):
            rv = t * BV + tl.arange(0, BV)
            held = inside(rk < K, rv, V, BV)  # behind the last chunk S may be anything: nothing is stored there
            at_s = rk[:, None] * V + rv
            if K == BK and V % BV == 0:
                S, dS = tl.load(S_in + at * (K * V) + at_s), tl.load(dS_in + at * (K * V) + at_s)
            else:
                S, dS = tl.load(S_in + at * (K * V) + at_s, held, 0.0), tl.load(dS_in + at * (K * V) + at_s, held, 0.0)
            at_v = ((n * T + rows).to(tl.int64) * HV + h)[:, None] * V
            in_v = inside(ok, rv, V, BV)
            U, dR, d = tl.load(U_in + at_v + rv, in_v, 0.0), tl.load(dR_in + at_v + rv, in_v, 0.0), load_rows(do, n, rows, ok, h, db, dt, dh, rv, V, BV)
            x = dot(d, tl.trans(S), OP) * (grown * scale)[:, None]
            dq_c += x
            r += tl.sum(x * q_c, 1)
            x = dot(dR, tl.trans(S), OP) * -grown[:, None]
            dk_c += x
            r += tl.sum(x * k_c, 1)
            x = dot(U, tl.trans(dS), OP) * left[:, None]
            y += tl.sum(x * k_c, 1)
            dk_c += x * rate[:, None]
            whole += tl.sum(S.to(tl.float32) * dS.to(tl.float32))
        at_g = (n * T + rows).to(tl.int64) * HV + h
        small = ok & (tl.abs(rate) <= SMALL)
        tl.store(dbeta + at_g, tl.load(dbeta + at_g, small, 0.0) + y, small)
        y *= rate
        after = tl.load(sums_in + at * C + i) + r
        d_g = tl.sum(after) - tl.cumsum(after, 0) + after + tl.cumsum(y, 0) - y + tl.exp(last) * whole
        tl.store(dg + at_g, d_g, ok)
    if L2:
        dq_c, dk_c = of_norm(dq_c, q, n, rows, ok, hk, qb, qt, qh, K, BK), of_norm(dk_c, k, n, rows, ok, hk, kb, kt, kh, K, BK)
    at_k = ((n * T + rows).to(tl.int64) * HK + hk)[:, None] * K
    tl.store(dq + at_k + rk, dq_c.to(OP), inside(ok, rk, K, BK))
    tl.store(dk + at_k + rk, dk_c.to(OP), inside(ok, rk, K, BK))


@triton.jit(do_not_specialize=["T"])
def recur(q, k, v, g, beta, A_log, dt_bias, bound, cu, h0, ht, o, read, write, accepted, scale, states, first, T, write_row, qb, qt, qh, kb, kt, kh, vb, vt, vh, h0_n, ht_n,
          HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
          L2: tl.constexpr, CHANNELS: tl.constexpr, RAW: tl.constexpr, BOUNDED: tl.constexpr, SIGMOID: tl.constexpr, NEGATIVE: tl.constexpr,
          VK: tl.constexpr, EVERY: tl.constexpr):
    """The tokens of a sequence one after another, BV columns of the state of a value head, as rows [BV, BK].

    A log decay is one for all of a state, or with CHANNELS, RAW and BOUNDED as decays has them.

    read [sequences] and write [sequences, or times tokens where EVERY] name states of h0 and ht in place of n; below first the sequence is skipped, or of
    a token the state is not kept. With accepted, the state to start from is write[n, accepted - 1].
    """
    TILES: tl.constexpr = (V + BV - 1) // BV
    tile, head = tl.program_id(0) % TILES, tl.program_id(0) // TILES
    n, h = head // HV, head % HV
    hk = h // (HV // HK)
    if cu is None:
        start, end = n * 0, T
    else:
        start, end = tl.load(cu + n).to(tl.int32), tl.load(cu + n + 1).to(tl.int32)
    rk, rv = tl.arange(0, BK), tile * BV + tl.arange(0, BV)
    held = (rk < K) & (rv[:, None] < V)
    inner = state_at(n * 0, h, rk, rv[:, None], HV, K, V, VK)
    source, alive = n.to(tl.int64), n >= 0
    if accepted is not None:
        source = tl.load(write + n * write_row + tl.maximum(tl.load(accepted + n), 1) - 1).to(tl.int64)
    elif read is not None:
        source = tl.load(read + n).to(tl.int64)
    if read is not None or accepted is not None:
        alive = alive & (source >= first) & (source < states)
    S = tl.zeros((BV, BK), tl.float32)
    if h0 is not None:
        S += tl.load(h0 + tl.maximum(source, 0) * h0_n + inner, held & alive, 0.0).to(tl.float32)
    for i in range(0, end - start):
        t = start + i
        one = tl.arange(0, 1) + t
        ok = one < end
        q_t = keys(q, n, one, ok, hk, qb, qt, qh, K, BK, L2, tl.float32).to(tl.float32)
        k_t = keys(k, n, one, ok, hk, kb, kt, kh, K, BK, L2, tl.float32).to(tl.float32)
        v_t = tl.load(v + n.to(tl.int64) * vb + t.to(tl.int64) * vt + h * vh + rv, rv < V, 0.0).to(tl.float32)
        row = (n * T + t).to(tl.int64) * HV + h
        if CHANNELS:
            rate = rates(beta, row + tl.arange(0, 1), ok, SIGMOID, NEGATIVE)
            S *= tl.exp(decays(g, A_log, dt_bias, bound, row + tl.arange(0, 1), ok, h, rk, K, RAW, BOUNDED))
        else:
            decay, rate = gates(g, beta, A_log, dt_bias, row + tl.arange(0, 1), ok, h, SIGMOID, NEGATIVE)
            S *= tl.exp(decay)[:, None]
        S += (rate * (v_t - tl.sum(S * k_t, 1)))[:, None] * k_t
        out = tl.where(alive, scale * tl.sum(S * q_t, 1), 0.0)
        tl.store(o + row * V + rv, out.to(o.dtype.element_ty), rv < V)
        if EVERY:
            into = tl.load(write + n * write_row + i).to(tl.int64)
            tl.store(ht + into * ht_n + inner, S.to(ht.dtype.element_ty), held & alive & (into >= first) & (into < states))
    if ht is not None and not EVERY:
        into = n.to(tl.int64)
        if write is not None:
            into = tl.load(write + n * write_row).to(tl.int64)
            alive = alive & (into >= first) & (into < states)
            tl.store(ht + into * ht_n + inner, S.to(ht.dtype.element_ty), held & alive)
        else:
            tl.store(ht + into * ht_n + inner, S.to(ht.dtype.element_ty), held)
