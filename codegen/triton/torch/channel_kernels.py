"""Triton kernels of Kimi Delta Attention, forward and backward: the gated delta rule whose decay is one for each channel of the keys.

For each token t of a sequence, with q_t, k_t and g_t [K], v_t [V] and the state S [K, V] of a value head:

    S_t = exp(g_t) S_t-1 + beta_t k_t (v_t - (exp(g_t) S_t-1)^T k_t)^T        o_t = scale S_t^T q_t

By chunks of C tokens, G [C, K] the sum of g up to each token:

    N_ij = sum_d k_id k_jd exp(G_id - G_jd) beta_j    i > j      Kd = exp(G) K               Qd = scale exp(G) Q
    P_ij = scale sum_d q_id k_jd exp(G_id - G_jd) beta_j  i >= j     Kl = beta exp(G_C - G) K
    T = (I + N)^-1    U = T (V - Kd S)    O = Qd S + P U    S' = exp(G_C) S + Kl^T U

exp(G_i - G_j) is no product of two factors that float32 holds, but it is one around a token r between them: exp(G_i - G_r) exp(G_r - G_j), both at
most 1. So the two halves of a chunk meet around the first token of the second. Within a half tokens meet around its middle where no factor is beyond
e^60 there; chunks in which one is are mended column by column.
"""

import triton
import triton.language as tl

from .kernels import decays, dot, dot2, inside, inverse, keep, keys, load_rows, of_norm, rates, serial, span, stored, through

HALF = tl.constexpr(16)  # tokens of half a chunk
C = tl.constexpr(32)
HELD = tl.constexpr(60.0)


@triton.jit
def sums_of(G_in, at, rows, rk, K: tl.constexpr, BK: tl.constexpr):
    """G of rows of a chunk of a head, [rows, BK]; zeros beyond K."""
    return tl.load(G_in + at * (C * K) + rows[:, None] * K + rk, inside(rows >= 0, rk, K, BK), 0.0)


@triton.jit
def factors(G, G_in, at, rk, K: tl.constexpr, BK: tl.constexpr):
    """exp(G - G_r) of rows of the second half and zero, exp(G_r - G) of those of the first half and zero; r is the first of the second half."""
    second = (tl.arange(0, C) >= HALF)[:, None]
    w = tl.exp(-tl.abs(G - tl.load(G_in + at * (C * K) + HALF * K + rk, rk < K, 0.0)))
    return tl.where(second, w, 0.0), tl.where(second, 0.0, w)


@triton.jit
def of_half():
    """Which [C, C] are of one half, and the first token of the half of each row."""
    i = tl.arange(0, C)
    return (i[:, None] // HALF) == (i // HALF), i // HALF * HALF


@triton.jit(do_not_specialize=["sequences", "T"])
def sums(g, A_log, dt_bias, bound, cu, G_out, last_out, sequences, T, HV: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, RAW: tl.constexpr,
         BOUNDED: tl.constexpr):
    """G [C, K] and exp(G_C) of a chunk of a value head."""
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    n, start, end = span(cu, sequences, T, p, C)
    i, rk = tl.arange(0, C), tl.arange(0, BK)
    rows = start + i
    x = decays(g, A_log, dt_bias, bound, (n * T + rows).to(tl.int64) * HV + h, rows < end, h, rk, K, RAW, BOUNDED)
    at = p.to(tl.int64) * HV + h
    tl.store(G_out + at * (C * K) + i[:, None] * K + rk, tl.cumsum(x, 0), inside(i >= 0, rk, K, BK))
    tl.store(last_out + at * K + rk, tl.exp(tl.sum(x, 0)), rk < K)


@triton.jit(do_not_specialize=["sequences", "T"])
def prepare(q, k, beta, cu, G_in, N_out, P_out, Qd_out, Kd_out, Kl_out, steep, scale, sequences, T, qb, qt, qh, kb, kt, kh,
            HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, L2: tl.constexpr, SIGMOID: tl.constexpr, NEGATIVE: tl.constexpr):
    """N, P, Qd, Kd and Kl of a chunk of a value head. steep says of which the halves of N and P are to be mended; None where log decays are above -7."""
    OP: tl.constexpr = q.dtype.element_ty
    FINE: tl.constexpr = tl.float32 if OP == tl.float16 else OP  # half precision does not hold e^60
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    n, start, end = span(cu, sequences, T, p, C)
    i, rk = tl.arange(0, C), tl.arange(0, BK)
    rows = start + i
    ok = rows < end
    hk = h // (HV // HK)
    at = p.to(tl.int64) * HV + h
    rate = rates(beta, (n * T + rows).to(tl.int64) * HV + h, ok, SIGMOID, NEGATIVE)
    q_c, k_c = keys(q, n, rows, ok, hk, qb, qt, qh, K, BK, L2, OP).to(tl.float32), keys(k, n, rows, ok, hk, kb, kt, kh, K, BK, L2, OP).to(tl.float32)
    # As loaded, rows would be turned into operands anew for each product, in all their registers: a product with 1 has the compiler keep them.
    there = tl.where(ok, 1.0, 0.0)[:, None]
    q_c, k_c = (q_c * there).to(OP).to(tl.float32), (k_c * there).to(OP).to(tl.float32)
    G = sums_of(G_in, at, i, rk, K, BK)
    one, first = of_half()
    d = G - sums_of(G_in, at, first + HALF // 2, rk, K, BK)
    k_right, w = (k_c * tl.exp(-d)).to(FINE), tl.exp(d)
    A, B = dot((k_c * w).to(FINE), tl.trans(k_right), FINE), dot((q_c * w).to(FINE), tl.trans(k_right), FINE)
    if steep is not None:
        tl.store(steep + at, (tl.max(tl.max(tl.abs(d), 1), 0) > HELD).to(tl.int32))
    left, right = factors(G, G_in, at, rk, K, BK)
    k_right = (k_c * right).to(OP)
    A = tl.where(one, A, dot((k_c * left).to(OP), tl.trans(k_right), OP))
    B = tl.where(one, B, dot((q_c * left).to(OP), tl.trans(k_right), OP))
    last = tl.load(G_in + at * (C * K) + (C - 1) * K + rk, rk < K, 0.0)
    block = at * (C * K) + i[:, None] * K + rk
    held = inside(i >= 0, rk, K, BK)
    w = tl.exp(G)
    tl.store(Qd_out + block, (q_c * (w * scale)).to(OP), held)
    tl.store(Kd_out + block, (k_c * w).to(OP), held)
    tl.store(Kl_out + block, (k_c * (tl.exp(last - G) * rate[:, None])).to(OP), held)
    square = i[:, None] * C + i
    tl.store(P_out + at * (C * C) + square, tl.where(i[:, None] >= i, B * rate * scale, 0.0).to(OP))
    tl.store(N_out + at * (C * C) + square, tl.where(i[:, None] > i, A * rate, 0.0))


@triton.jit(do_not_specialize=["sequences", "T"])
def mend(q, k, beta, cu, G_in, N_out, P_out, steep, scale, sequences, T, qb, qt, qh, kb, kt, kh,
         HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, L2: tl.constexpr, SIGMOID: tl.constexpr, NEGATIVE: tl.constexpr):
    """N and P within the halves of a steep chunk of a value head, column by column."""
    OP: tl.constexpr = q.dtype.element_ty
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    at = p.to(tl.int64) * HV + h
    if tl.load(steep + at) != 0:
        n, start, end = span(cu, sequences, T, p, C)
        i, rk = tl.arange(0, C), tl.arange(0, BK)
        rows = start + i
        hk = h // (HV // HK)
        rate = rates(beta, (n * T + rows).to(tl.int64) * HV + h, rows < end, SIGMOID, NEGATIVE)
        q_c = keys(q, n, rows, rows < end, hk, qb, qt, qh, K, BK, L2, OP).to(tl.float32)
        k_c = keys(k, n, rows, rows < end, hk, kb, kt, kh, K, BK, L2, OP).to(tl.float32)
        G = sums_of(G_in, at, i, rk, K, BK)
        one, first = of_half()
        A, B = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
        for j in range(0, HALF):
            row = start + first + j
            k_j = keys(k, n, row, row < end, hk, kb, kt, kh, K, BK, L2, OP).to(tl.float32)
            w = k_j * tl.exp(tl.minimum(G - sums_of(G_in, at, first + j, rk, K, BK), 0.0))
            column = (first + j)[:, None] == i
            A += tl.where(column, tl.sum(k_c * w, 1)[:, None], 0.0)
            B += tl.where(column, tl.sum(q_c * w, 1)[:, None], 0.0)
        square = at * (C * C) + i[:, None] * C + i
        tl.store(N_out + square, tl.where(i[:, None] > i, A * rate, 0.0), one)
        tl.store(P_out + square, tl.where(i[:, None] >= i, B * rate * scale, 0.0).to(OP), one)


@triton.jit
def invert(N_in, T_out):
    """T of a chunk of a value head, of N, in two parts where operands are in half precision."""
    OP: tl.constexpr = T_out.dtype.element_ty
    at = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, C)
    square = i[:, None] * C + i
    X = inverse(tl.load(N_in + at * (C * C) + square), C)
    keep(T_out, at, square, X, C * C, OP)


@triton.jit
def chunk_rows(x, at, rk, K: tl.constexpr, BK: tl.constexpr):
    """Rows [C, BK] of a chunk of a head, zeros beyond K."""
    i = tl.arange(0, C)
    return tl.load(x + at * (C * K) + i[:, None] * K + rk, inside(i >= 0, rk, K, BK), 0.0)


@triton.jit(do_not_specialize=["sequences", "T"])
def scan(v, cu, T_in, P_in, last_in, Qd_in, Kd_in, Kl_in, h0, ht, o, S_out, U_out, sequences, T, vb, vt, vh,
         HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
         VK: tl.constexpr, TWO: tl.constexpr, STAGES: tl.constexpr, PART: tl.constexpr):
    """The chunks of a sequence in turn, BV columns of the state of a value head: o and ht, and for gradients S before each chunk, and U.

    With PART it is the chunks of a part, and h0 [parts, HV, K, V] has the states before each. Without v it is the map of a part, BV columns of M
    [K, K]: the state S before it contributes M S to the state behind it, and dS behind it M^T dS to that before it.
    """
    OP: tl.constexpr = Kd_in.dtype.element_ty
    m, n, h, _, start, end, first, rk, rv, held = serial(cu, sequences, T, tl.program_id(0), HV, HV, K, V, BK, BV, C, PART)
    i = tl.arange(0, C)
    if v is None:
        S = tl.where((rk[:, None] == rv) & held, 1.0, 0.0)
    else:
        S = tl.zeros((BK, BV), tl.float32)
    at_s = (m.to(tl.int64) * HV + h) * (K * V) + (rv * K + rk[:, None] if VK else rk[:, None] * V + rv)
    if h0 is not None:
        S += tl.load(h0 + at_s, held, 0.0).to(tl.float32)
    for c in tl.range(0, (end - start + C - 1) // C, num_stages=STAGES):
        rows = start + c * C + i
        ok = rows < end
        at = (first + c).to(tl.int64) * HV + h
        if S_out is not None:
            tl.store(S_out + at * (K * V) + (rk[:, None] * V + rv), S.to(OP), held)
        Kd, Kl = chunk_rows(Kd_in, at, rk, K, BK), chunk_rows(Kl_in, at, rk, K, BK)
        R = -dot(Kd, S, OP)
        if v is not None:
            R += load_rows(v, n, rows, ok, h, vb, vt, vh, rv, V, BV).to(tl.float32)
        U = through(stored(T_in, at, C, OP), R, OP, TWO, False)
        at_v = ((n * T + rows).to(tl.int64) * HV + h)[:, None] * V + rv
        in_v = inside(ok, rv, V, BV)
        if o is not None:
            Qd = chunk_rows(Qd_in, at, rk, K, BK)
            P = tl.load(P_in + at * (C * C) + (i[:, None] * C + i))
            tl.store(o + at_v, (dot(Qd, S, OP) + dot2(P, U, OP, TWO)).to(o.dtype.element_ty), in_v)
        if U_out is not None:
            tl.store(U_out + at_v, U.to(OP), in_v)
        S = S * tl.load(last_in + at * K + rk, rk < K, 0.0)[:, None] + dot(tl.trans(Kl), U, OP)
    if ht is not None:
        tl.store(ht + at_s, S.to(ht.dtype.element_ty), held)


@triton.jit(do_not_specialize=["sequences", "T"])
def reverse(do, cu, T_in, P_in, last_in, Qd_in, Kd_in, Kl_in, dht, dh0, dS_out, dv, sequences, T, db, dt, dh,
            HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
            VK: tl.constexpr, TWO: tl.constexpr, STAGES: tl.constexpr, PART: tl.constexpr):
    """The chunks of a sequence from the last to the first: dS behind each chunk, dV = dR = T^T (P^T dO + Kl dS), and dh0.

    With PART it is the chunks of a part, and dht [parts, HV, K, V] has dS behind each.
    """
    OP: tl.constexpr = Kd_in.dtype.element_ty
    m, n, h, _, start, end, first, rk, rv, held = serial(cu, sequences, T, tl.program_id(0), HV, HV, K, V, BK, BV, C, PART)
    i = tl.arange(0, C)
    dS = tl.zeros((BK, BV), tl.float32)
    at_s = (m.to(tl.int64) * HV + h) * (K * V) + (rv * K + rk[:, None] if VK else rk[:, None] * V + rv)
    if dht is not None:
        dS += tl.load(dht + at_s, held, 0.0).to(tl.float32)
    chunks = (end - start + C - 1) // C
    for turn in tl.range(0, chunks, num_stages=STAGES):
        c = chunks - 1 - turn
        rows = start + c * C + i
        ok = rows < end
        at = (first + c).to(tl.int64) * HV + h
        if dS_out is not None:
            tl.store(dS_out + at * (K * V) + (rk[:, None] * V + rv), dS.to(OP), held)
        Qd, Kd, Kl = chunk_rows(Qd_in, at, rk, K, BK), chunk_rows(Kd_in, at, rk, K, BK), chunk_rows(Kl_in, at, rk, K, BK)
        d_c = load_rows(do, n, rows, ok, h, db, dt, dh, rv, V, BV)
        P = tl.load(P_in + at * (C * C) + (i[:, None] * C + i))
        dR = through(stored(T_in, at, C, OP), dot(tl.trans(P), d_c, OP) + dot(Kl, dS, OP), OP, TWO, True)
        if dv is not None:
            tl.store(dv + ((n * T + rows).to(tl.int64) * HV + h)[:, None] * V + rv, dR.to(OP), inside(ok, rv, V, BV))
        dS = dS * tl.load(last_in + at * K + rk, rk < K, 0.0)[:, None] + dot(tl.trans(Qd), d_c, OP) - dot(tl.trans(Kd), dR, OP)
    if dh0 is not None:
        tl.store(dh0 + at_s, dS.to(dh0.dtype.element_ty), held)


@triton.jit(do_not_specialize=["sequences", "T"])
def scores(do, cu, U_in, dR_in, X_out, scale, sequences, T, db, dt, dh, HV: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    """X = scale tril(dO U^T) and Y = -strict(dR U^T) of a chunk of a value head: X_out [chunks, HV, 4, C, C] has X, X^T, Y and Y^T.

    No product takes a transposed sum, which Triton 3.4 to 3.7.0 miscompiles.
    """
    OP: tl.constexpr = U_in.dtype.element_ty
    p, h = tl.program_id(0) // HV, tl.program_id(0) % HV
    n, start, end = span(cu, sequences, T, p, C)
    i, rv = tl.arange(0, C), tl.arange(0, BV)
    rows = start + i
    ok = rows < end
    at_v = ((n * T + rows).to(tl.int64) * HV + h)[:, None] * V + rv
    in_v = inside(ok, rv, V, BV)
    U, dR, d = tl.load(U_in + at_v, in_v, 0.0), tl.load(dR_in + at_v, in_v, 0.0), load_rows(do, n, rows, ok, h, db, dt, dh, rv, V, BV)
    at = X_out + (p.to(tl.int64) * HV + h) * (4 * C * C) + i[:, None] * C + i
    below = i[:, None] - i
    tl.store(at, tl.where(below >= 0, dot(d, tl.trans(U), OP) * scale, 0.0).to(OP))
    tl.store(at + C * C, tl.where(below <= 0, dot(U, tl.trans(d), OP) * scale, 0.0).to(OP))
    tl.store(at + 2 * C * C, tl.where(below > 0, -dot(dR, tl.trans(U), OP), 0.0).to(OP))
    tl.store(at + 3 * C * C, tl.where(below < 0, -dot(U, tl.trans(dR), OP), 0.0).to(OP))


@triton.jit
def masked(x, at, held):
    """A matrix [C, C] of x, zero where not held."""
    i = tl.arange(0, C)
    X = tl.load(x + at + i[:, None] * C + i)
    return tl.where(held, X, tl.zeros_like(X))


@triton.jit
def of_scores(dq, dk, R, X_in, at, q, k, kb, G, G_in, at_g, rk, K: tl.constexpr, BK: tl.constexpr, OP: tl.constexpr):
    """With X and Y of a chunk: dq + X kb, dk + Y kb, R + X^T q + Y^T k, exp(G_i - G_j) in each channel of each."""
    FINE: tl.constexpr = tl.float32 if OP == tl.float16 else OP
    i = tl.arange(0, C)
    one, first = of_half()
    d = G - sums_of(G_in, at_g, first + HALF // 2, rk, K, BK)
    if tl.max(tl.max(tl.abs(d), 1), 0) <= HELD:
        w, back = tl.exp(d), tl.exp(-d)
        before = (kb * back).to(FINE)
        dq += w * dot(masked(X_in, at, one), before, FINE)
        dk += w * dot(masked(X_in, at + 2 * C * C, one), before, FINE)
        R += back * (dot(masked(X_in, at + C * C, one), (q * w).to(FINE), FINE) + dot(masked(X_in, at + 3 * C * C, one), (k * w).to(FINE), FINE))
    else:
        X, Y = masked(X_in, at, one).to(tl.float32), masked(X_in, at + 2 * C * C, one).to(tl.float32)
        for j in range(0, HALF):
            w = tl.exp(tl.minimum(G - sums_of(G_in, at_g, first + j, rk, K, BK), 0.0))
            column = (first + j)[:, None] == i
            x, y = tl.sum(tl.where(column, X, 0.0), 1)[:, None], tl.sum(tl.where(column, Y, 0.0), 1)[:, None]
            k_j = tl.where((i < HALF)[:, None], row_of(kb, j), row_of(kb, HALF + j))
            dq += x * k_j * w
            dk += y * k_j * w
            sums = (x * q + y * k) * w
            R += tl.where((i == j)[:, None], tl.sum(tl.where((i < HALF)[:, None], sums, 0.0), 0), 0.0)
            R += tl.where((i == HALF + j)[:, None], tl.sum(tl.where((i >= HALF)[:, None], sums, 0.0), 0), 0.0)
    left, right = factors(G, G_in, at_g, rk, K, BK)
    before = (kb * right).to(OP)
    dq += left * dot(masked(X_in, at, one == 0), before, OP)
    dk += left * dot(masked(X_in, at + 2 * C * C, one == 0), before, OP)
    R += right * (dot(masked(X_in, at + C * C, one == 0), (q * left).to(OP), OP) + dot(masked(X_in, at + 3 * C * C, one == 0), (k * left).to(OP), OP))
    return dq, dk, R


@triton.jit
def row_of(X, j):
    """Row j of X [C, BK]."""
    return tl.sum(tl.where((tl.arange(0, C) == j)[:, None], X, 0.0), 0)


@triton.jit(do_not_specialize=["sequences", "T"])
def grads(q, k, beta, do, cu, G_in, S_in, U_in, dS_in, dR_in, X_in, dq, dk, dg, dbeta, scale, sequences, T, qb, qt, qh, kb, kt, kh, db, dt, dh,
          HK: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
          L2: tl.constexpr):
    """Of a chunk of a key head, summed over its value heads:

    dQ = scale exp(G) dO S^T + X (beta K)    dK = -exp(G) dR S^T + Y (beta K) + beta R    R = exp(G_C - G) U dS^T + X^T Q + Y^T K

    with exp(G_i - G_j) in products of X and Y; dbeta = K . R, and dg from Q dQ + K dK in each channel, sums from the last token back.
    """
    OP: tl.constexpr = q.dtype.element_ty
    p, hk = tl.program_id(0) // HK, tl.program_id(0) % HK
    n, start, end = span(cu, sequences, T, p, C)
    i, rk = tl.arange(0, C), tl.arange(0, BK)
    rows = start + i
    ok = rows < end
    q_c, k_c = keys(q, n, rows, ok, hk, qb, qt, qh, K, BK, L2, OP).to(tl.float32), keys(k, n, rows, ok, hk, kb, kt, kh, K, BK, L2, OP).to(tl.float32)
    dq_c, dk_c = tl.zeros((C, BK), tl.float32), tl.zeros((C, BK), tl.float32)
    for m in tl.range(0, HV // HK, num_stages=1):
        h = hk * (HV // HK) + m
        at = p.to(tl.int64) * HV + h
        at_g = (n * T + rows).to(tl.int64) * HV + h
        rate = rates(beta, at_g, ok, False, False)
        G, last = sums_of(G_in, at, i, rk, K, BK), tl.load(G_in + at * (C * K) + (C - 1) * K + rk, rk < K, 0.0)
        left_q, left_k, R = tl.zeros((C, BK), tl.float32), tl.zeros((C, BK), tl.float32), tl.zeros((C, BK), tl.float32)
        whole = tl.zeros((BK,), tl.float32)
        for t in tl.static_range((V + BV - 1) // BV):
            rv = t * BV + tl.arange(0, BV)
            held = inside(rk < K, rv, V, BV)
            at_s = at * (K * V) + rk[:, None] * V + rv
            S, dS = tl.load(S_in + at_s, held & (start < end), 0.0), tl.load(dS_in + at_s, held & (start < end), 0.0)
            at_v = at_g[:, None] * V + rv
            in_v = inside(ok, rv, V, BV)
            U, dR, d = tl.load(U_in + at_v, in_v, 0.0), tl.load(dR_in + at_v, in_v, 0.0), load_rows(do, n, rows, ok, h, db, dt, dh, rv, V, BV)
            left_q += dot(d, tl.trans(S), OP)
            left_k -= dot(dR, tl.trans(S), OP)
            R += dot(U, tl.trans(dS), OP)
            whole += tl.sum(S.to(tl.float32) * dS.to(tl.float32), 1)
        grown = tl.exp(G)
        left_q *= grown * scale
        left_k *= grown
        R *= tl.exp(last - G)
        rate = rate[:, None]
        whole = whole * tl.exp(last) + tl.sum(k_c * rate * R, 0)
        left_q, left_k, R = of_scores(left_q, left_k, R, X_in, at * (4 * C * C), q_c, k_c, k_c * rate, G, G_in, at, rk, K, BK, OP)
        dq_c += left_q
        dk_c += left_k + rate * R
        tl.store(dbeta + at_g, tl.sum(k_c * R, 1), ok)
        of_G = q_c * left_q + k_c * (left_k - rate * R)
        d_g = tl.sum(of_G, 0) - tl.cumsum(of_G, 0) + of_G + whole
        tl.store(dg + at_g[:, None] * K + rk, d_g, inside(ok, rk, K, BK))
    if L2:
        dq_c, dk_c = of_norm(dq_c, q, n, rows, ok, hk, qb, qt, qh, K, BK), of_norm(dk_c, k, n, rows, ok, hk, kb, kt, kh, K, BK)
    at_k = ((n * T + rows).to(tl.int64) * HK + hk)[:, None] * K
    tl.store(dq + at_k + rk, dq_c.to(OP), inside(ok, rk, K, BK))
    tl.store(dk + at_k + rk, dk_c.to(OP), inside(ok, rk, K, BK))
