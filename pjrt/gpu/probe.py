"""A kernel of the forms that a Triton has compiled wrongly for Hopper: a sum of products meets its transpose, and products are narrow outside of a pipeline."""

import triton
import triton.language as tl


@triton.jit
def probe(do, v, h, dh, q, k, dq, dk, N: tl.constexpr, D: tl.constexpr, V: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """BD columns of dQ = dO H^T + S K and dK = V dH^T + S^T Q, S = tril(dO V^T) rounded to bf16; V in blocks of BV."""
    i, d = tl.arange(0, N), tl.program_id(0) * BD + tl.arange(0, BD)
    at = i[:, None] * D + d[None, :]
    s, a, b = tl.zeros((N, N), tl.float32), tl.zeros((N, BD), tl.float32), tl.zeros((N, BD), tl.float32)
    for j in range(0, V // BV):
        c = j * BV + tl.arange(0, BV)
        do_c, v_c = tl.load(do + i[:, None] * V + c[None, :]), tl.load(v + i[:, None] * V + c[None, :])
        s += tl.dot(do_c, tl.trans(v_c))
        a += tl.dot(do_c, tl.trans(tl.load(h + d[:, None] * V + c[None, :])))
        b += tl.dot(v_c, tl.trans(tl.load(dh + d[:, None] * V + c[None, :])))
    s = tl.where(i[:, None] >= i[None, :], s, 0.0).to(k.dtype.element_ty)
    a += tl.dot(s, tl.load(k + at))
    b += tl.dot(tl.trans(s), tl.load(q + at))
    tl.store(dq + at, a)
    tl.store(dk + at, b)


def run(do, v, h, dh, q, k, dq, dk):
    """COLUMNS of a program, V in blocks of BLOCK, and STAGES are set behind this text."""
    probe[(k.shape[1] // COLUMNS,)](do, v, h, dh, q, k, dq, dk, N=k.shape[0], D=k.shape[1], V=v.shape[1], BD=COLUMNS, BV=BLOCK, num_warps=4, num_stages=STAGES)
