"""The gated delta rule as functions of torch: arguments and results as flash-linear-attention has them, kernels of this package behind them.

Sizes, strides, scale and options are those of a call. Nothing waits for the GPU: cu_seqlens stays there, so that a CUDA graph keeps a call.
"""

import contextlib
import math
import os
import warnings
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from . import kernels

NAMESPACE = "@NAME@"
TYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 256  # of heads: a state must fit the registers of a program
FULL = 132  # programs of a state that a GPU computes beside each other
PART_CHUNKS = 8  # of a part at least
KEEP_STATES = True  # the forward pass keeps S before each chunk and U for gradients; False computes them again, for half of what a call keeps


def power(n):
    """The least power of two that is not below n, and no less than 16, which is Triton's narrowest product."""
    return max(16, 1 << (n - 1).bit_length())


def rows(x):
    """x with elements of a row side by side: itself, or a copy."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def on(x):
    """The device of a tensor, for launches."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def strides(x, cu):
    """Of batch, token and head; a packed row is the only one of its batch."""
    b, t, h, _ = x.stride()
    return (0 if cu is not None else b), t, h


def sizes(q, v, cu):
    """Batch, tokens, key heads, value heads, K, V, sequences, and the tokens of a row where sequences are not packed."""
    B, T, HK, K = q.shape
    HV, V = v.shape[2:]
    return B, T, HK, HV, K, V, (B if cu is None else cu.shape[0] - 1), (T if cu is None else 0)


def chunk_of(q, K):
    """Tokens of a chunk. With keys of less than 64 columns Triton from 3.6 on would miscompile products of 64 rows."""
    return 64 if q.dtype != torch.float32 and 64 <= power(K) <= 128 else 32


def square_of(C):
    """Elements that are stored of a matrix of a chunk: in chunks of 64, all but the upper right quarter, which is zero."""
    return C * C if C == 32 else 3 * C * C // 4


def chunks_of(T, N, B, C, cu):
    """Chunks of all sequences, of packed ones a bound."""
    return B * ((T + C - 1) // C) if cu is None else (T + N * (C - 1)) // C


def part_of(q, B, T, N, HV, V, C):
    """Tokens of a part where parts of a sequence are computed beside each other: few heads and long sequences would leave a GPU idle. 0: no parts.

    The map of a part is [K, K] of float32, which must fit the shared memory of a program.
    """
    programs = N * HV * (-(-V // 64))
    if not 0 < programs <= FULL // 4 or q.shape[-1] > 128:
        return 0
    part = PART_CHUNKS * C
    while part * N * (FULL // programs) < B * T:
        part *= 2
    return part if 4 * part * N <= B * T else 0


def tiling(q, states, HV, V, C):
    """Columns of a state that a program holds, and stages of its loop, for states of sequences or parts beside each other.

    Triton from 3.6 on miscompiles less than 64 columns with one stage.
    """
    programs = states * HV * (-(-V // 64))
    if q.dtype == torch.float32 or power(V) < 64 or q.shape[-1] > 128 or programs < 128:
        return min(32, power(V)), 2
    return 64, 3 if C == 32 else 2 if programs <= FULL else 1


def sharing(group, programs):
    """Value heads of a key head that a program of prepare takes, which share its products of keys: no more than leave each multiprocessor four programs.

    group are the value heads of a key head, programs those of one value head each.
    """
    return max(n for n in range(1, group + 1) if group % n == 0 and (n == 1 or programs // n >= 4 * FULL))


def state_like(v, K, N, HV, V, v_first, initial_state):
    return torch.empty((N, HV, V, K) if v_first else (N, HV, K, V), device=v.device, dtype=torch.float32 if initial_state is None else initial_state.dtype)


def none_of(x):
    return torch.empty(0, device=x.device)


def scratch_of(q, HV, V, T, N, cu):
    """Shapes and types of what a forward pass without gradients makes beside its results: T, P, G and beta of chunks; of parts their maps and two states."""
    B, K, f32 = q.shape[0], q.shape[-1], torch.float32
    C = chunk_of(q, K)
    chunks, part = chunks_of(T, N, B, C, cu), part_of(q, B, T, N, HV, V, C)
    pieces = chunks_of(T, N, B, part, cu) if part else 0
    of_chunks = [((chunks, HV, 2 if q.dtype != f32 else 1, square_of(C)), q.dtype), ((chunks, HV, square_of(C)), q.dtype), *[((chunks, HV, C), f32)] * 2]
    return of_chunks + [((pieces, HV, K, w), f32) for w in (K, V, V) if part]


def bytes_of(shape, kind):
    """Of a tensor in a workspace, where each begins at a multiple of 256."""
    return -(-math.prod(shape) * kind.itemsize // 256) * 256


def workspace_bytes(q, v, cu_seqlens=None):
    """The bytes of the workspace that chunk_gated_delta_rule takes for tensors of these shapes and types, at any cu_seqlens of this length."""
    N = q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    return sum(bytes_of(*x) for x in scratch_of(q, max(q.shape[2], v.shape[2]), v.shape[3], q.shape[1], N, cu_seqlens))


def room(tensors, device, workspace):
    """Tensors of shapes and types, uninitialised: new ones, or one behind the other in a workspace."""
    at = 0
    for shape, kind in tensors:
        if workspace is None:
            yield torch.empty(shape, device=device, dtype=kind)
        else:
            yield workspace[at:at + math.prod(shape) * kind.itemsize].view(kind).view(shape)
            at += bytes_of(shape, kind)


@torch.library.custom_op(NAMESPACE + "::chunk_forward", mutates_args=())
def chunk_forward(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Optional[Tensor], A_log: Optional[Tensor], dt_bias: Optional[Tensor],
                  initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], scale: float, l2norm: bool, sigmoid: bool, negative: bool, v_first: bool,
                  final: bool, save: bool, states: bool
                  ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """o, the final states, and where save T, P, G and beta of chunks, S before each and U where states, maps of parts and states before them."""
    return forward(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final, save, states)


def forward(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final, save, states, workspace=None):
    """The results of chunk_forward, all but o and the final states in a workspace where there is one."""
    B, T, HK, HV, K, V, N, row = sizes(q, v, cu_seqlens)
    C = chunk_of(q, K)
    part = part_of(q, B, T, N, HV, V, C)
    pieces = chunks_of(T, N, B, part, cu_seqlens) if part else N
    BV, stages = tiling(q, pieces, HV, V, C)
    q, k, v = rows(q), rows(k), rows(v)
    g, beta, h0 = (x if x is None else x.contiguous() for x in (g, beta, initial_state))
    chunks = chunks_of(T, N, B, C, cu_seqlens)
    T_out, P_out, G, rate, *of_parts = room(scratch_of(q, HV, V, T, N, cu_seqlens), q.device, workspace)
    maps, starts, rests = of_parts if part else (None, None, None)
    o = torch.empty((B, T, HV, V), device=v.device, dtype=v.dtype)
    ht = state_like(v, K, N, HV, V, v_first, initial_state) if final else None
    S, U = (q.new_empty((chunks, HV, K, V)), q.new_empty((B, T, HV, V))) if states else (None, None)
    wide = dict(HK=HK, HV=HV, K=K, BK=power(K), C=C, L2=l2norm)
    serial = dict(wide, V=V, BV=BV, TWO=save and q.dtype == torch.bfloat16, STAGES=stages, PART=part, num_warps=4)
    at, at_v = (*strides(q, cu_seqlens), *strides(k, cu_seqlens)), strides(v, cu_seqlens)
    programs = (pieces * HV * (-(-V // BV)),)
    with on(q):
        if chunks:
            made = (q, k, g, beta, A_log, dt_bias, cu_seqlens, T_out, P_out, G, rate, scale, N, row, *at)
            if C == 64:
                group = sharing(HV // HK, chunks * HV)
                kernels.prepare_pairs[(chunks * HV // group,)](*made, **wide, SIGMOID=sigmoid, NEGATIVE=negative, GROUP=group, num_warps=1)
            else:
                kernels.prepare[(chunks * HV,)](*made, **wide, SIGMOID=sigmoid, NEGATIVE=negative, num_warps=2)
        if part:
            kernels.scan[programs](None, k, v, cu_seqlens, T_out, None, G, rate, None, rests, None, None, None, scale, N, row, *at, *at_v, **serial, VK=False)
            columns = {n: x for n, x in serial.items() if n != "V"} | dict(BV=min(BV, power(K)))
            kernels.summarise[(pieces * HV * (-(-K // columns["BV"])),)](k, cu_seqlens, T_out, G, rate, maps, N, row, *strides(k, cu_seqlens), **columns)
            combined(cu_seqlens, maps, rests, h0, ht, starts, N, row, HV, K, V, v_first, part, False)
            kernels.scan[programs](q, k, v, cu_seqlens, T_out, P_out, G, rate, starts, None, o, S, U, scale, N, row, *at, *at_v, **serial, VK=False)
        elif N:
            kernels.scan[programs](q, k, v, cu_seqlens, T_out, P_out, G, rate, h0, ht, o, S, U, scale, N, row, *at, *at_v, **serial, VK=v_first)
    kept = (T_out, P_out, G, rate, S, U, maps, starts) if save else (None,) * 8
    return o, *(none_of(q) if x is None else x for x in (ht, *kept))


def combined(cu, maps, rests, h0, ht, starts, N, row, HV, K, V, v_first, part, back):
    """Launches what carries states over the parts of sequences."""
    kernels.combine[(N * HV * (-(-V // 16)),)](cu, maps, rests, h0, ht, starts, N, row, HV=HV, K=K, V=V, BK=power(K), BV=16, VK=v_first, PART=part, BACK=back,
                                               num_warps=8)


def carried_back(reverse, cu, maps, starts, dht, dh0, dS, dv, N, row, HV, K, V, v_first, part):
    """Runs reverse(dht, dh0, dS, dv) over sequences; over their parts once from zeros, and once from what combine carries between them."""
    if part:
        rests, behind = torch.empty_like(starts), torch.empty_like(starts)
        reverse(None, rests, None, None)
        combined(cu, maps, rests, dht, dh0, behind, N, row, HV, K, V, v_first, part, True)
        reverse(behind, None, dS, dv)
    elif N:
        reverse(dht, dh0, dS, dv)


@chunk_forward.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final, save, states):
    B, T, HK, HV, K, V, N, _ = sizes(q, v, cu_seqlens)
    o, ht = q.new_empty((B, T, HV, V), dtype=v.dtype), state_like(v, K, N, HV, V, v_first, initial_state) if final else none_of(q)
    if not save:
        return o, ht, *(none_of(q) for _ in range(8))
    T_out, P_out, G, rate, *of_parts = room(scratch_of(q, HV, V, T, N, cu_seqlens), q.device, None)
    S, U = (q.new_empty((G.shape[0], HV, K, V)), q.new_empty((B, T, HV, V))) if states else (none_of(q), none_of(q))
    maps, starts = of_parts[:2] or (none_of(q), none_of(q))
    return o, ht, T_out, P_out, G, rate, S, U, maps, starts


@torch.library.custom_op(NAMESPACE + "::chunk_within", mutates_args=("workspace",))
def chunk_within(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Optional[Tensor], A_log: Optional[Tensor], dt_bias: Optional[Tensor],
                 initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], scale: float, l2norm: bool, sigmoid: bool, negative: bool, v_first: bool,
                 final: bool, workspace: Tensor) -> tuple[Tensor, Tensor]:
    """o and the final states, without gradients, by the memory of a workspace."""
    return forward(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final, False, False, workspace)[:2]


@chunk_within.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final, workspace):
    return recurrent_results(q, v, initial_state, cu_seqlens, v_first, final)


@torch.library.custom_op(NAMESPACE + "::chunk_backward", mutates_args=())
def chunk_backward(q: Tensor, k: Tensor, v: Tensor, initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], T_in: Tensor, P_in: Tensor, G: Tensor,
                   rate: Tensor, S: Tensor, U: Tensor, maps: Tensor, starts: Tensor, do: Optional[Tensor], dht: Optional[Tensor], scale: float, l2norm: bool,
                   v_first: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, g and beta, the last two in float32, and of the initial states."""
    B, T, HK, HV, K, V, N, row = sizes(q, v, cu_seqlens)
    C, chunks = G.shape[-1], G.shape[0]
    part = part_of(q, B, T, N, HV, V, C)
    pieces = maps.shape[0] if part else N
    BV, stages = tiling(q, pieces, HV, V, C)
    q, k, v = rows(q), rows(k), rows(v)
    do = torch.zeros((B, T, HV, V), device=v.device, dtype=v.dtype) if do is None else rows(do.to(v.dtype))
    h0, dht = (x if x is None else x.contiguous() for x in (initial_state, dht))
    f32 = dict(device=q.device, dtype=torch.float32)
    dq, dk = (torch.empty((B, T, HK, K), device=q.device, dtype=q.dtype) for _ in range(2))
    dv = torch.empty((B, T, HV, V), device=q.device, dtype=q.dtype)
    dg, dbeta = (torch.empty((B, T, HV), **f32) for _ in range(2))
    dh0 = none_of(q) if h0 is None else torch.empty_like(h0)
    dS, kept = q.new_empty((chunks, HV, K, V)), S.dim() == 4
    if not kept:
        S, U = torch.empty_like(dS), torch.empty_like(dv)
    X, sums = q.new_empty((chunks, HK, 3, C, C)), torch.empty((chunks, HV, C), **f32)
    wide = dict(HK=HK, HV=HV, K=K, V=V, BK=power(K), C=C, L2=l2norm)
    at, at_v, at_d = (*strides(q, cu_seqlens), *strides(k, cu_seqlens)), strides(v, cu_seqlens), strides(do, cu_seqlens)
    serial = dict(wide, BV=BV, VK=v_first and not part, TWO=q.dtype == torch.bfloat16, STAGES=stages, PART=part, num_warps=4)
    programs = (pieces * HV * (-(-V // BV)),)

    def reverse(dht, dh0, dS, dv):
        kernels.reverse[programs](q, k, do, cu_seqlens, T_in, P_in, G, rate, dht, dh0, dS, dv, scale, N, row, *at, *at_d, **serial)

    with on(q):
        if N and not kept:
            kernels.scan[programs](None, k, v, cu_seqlens, T_in, None, G, rate, starts if part else h0, None, None, S, U, scale, N, row, *at, *at_v, **serial)
        carried_back(reverse, cu_seqlens, maps, starts, dht, None if h0 is None else dh0, dS, dv, N, row, HV, K, V, v_first, part)
        if chunks:
            kernels.scores[(chunks * HK,)](q, k, do, cu_seqlens, G, rate, U, dv, X, sums, dbeta, scale, N, row, *at, *at_d, **wide, BV=power(V), num_warps=8)
            kernels.grads[(chunks * HK,)](q, k, do, cu_seqlens, G, rate, S, U, dS, dv, X, sums, dq, dk, dg, dbeta, scale, N, row, *at, *at_d, **wide,
                                          BV=min(64, power(V)), num_warps=8)
    return dq, dk, dv, dg, dbeta, dh0


@chunk_backward.register_fake
def _(q, k, v, initial_state, cu_seqlens, T_in, P_in, G, rate, S, U, maps, starts, do, dht, scale, l2norm, v_first):
    gate = q.new_empty(v.shape[:3], dtype=torch.float32)
    return (q.new_empty(q.shape), q.new_empty(q.shape), q.new_empty(v.shape), gate, torch.empty_like(gate),
            none_of(q) if initial_state is None else initial_state.new_empty(initial_state.shape))


def keep(ctx, inputs, output):
    q, k, v, g, beta, _, _, initial_state, cu_seqlens, ctx.scale, ctx.l2norm, _, _, ctx.v_first, ctx.final, _, _ = inputs
    ctx.save_for_backward(q, k, v, initial_state, cu_seqlens, *output[2:])
    ctx.gates = tuple(None if x is None else x.dtype for x in (g, beta))
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def backward(ctx, do, dht, *_):
    q, k, v, initial_state, cu_seqlens, *kept = ctx.saved_tensors
    if do is None and (dht is None or not ctx.final):
        return (None,) * 17
    dq, dk, dv, dg, dbeta, dh0 = chunk_backward(q, k, v, initial_state, cu_seqlens, *kept, do, dht if ctx.final else None, ctx.scale, ctx.l2norm, ctx.v_first)
    dg, dbeta = (None if t is None else x.to(t) for x, t in zip((dg, dbeta), ctx.gates))
    return dq, dk, dv, dg, dbeta, None, None, None if initial_state is None else dh0, *(None,) * 9


def no_second(ctx, *_):
    raise NotImplementedError("the gradient of the gated delta rule has no gradient of its own (double backward)")


chunk_forward.register_autograd(backward, setup_context=keep)
chunk_backward.register_autograd(no_second)


@torch.library.custom_op(NAMESPACE + "::recurrent", mutates_args=())
def recurrent(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Optional[Tensor], A_log: Optional[Tensor], dt_bias: Optional[Tensor],
              initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], scale: float, l2norm: bool, sigmoid: bool, negative: bool, v_first: bool,
              final: bool) -> tuple[Tensor, Tensor]:
    """o and the final states, token by token in float32."""
    return recurred(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final)


def recurred(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final, raw=False, bound=None):
    """Makes o and the final states by step."""
    o, ht = recurrent_results(q, v, initial_state, cu_seqlens, v_first, final)
    h0 = None if initial_state is None else initial_state.contiguous()
    step(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, h0, ht if final else None, o, None, None, None, scale, 0, l2norm, sigmoid, negative, v_first, False, raw, bound)
    return o, ht


def recurrent_results(q, v, initial_state, cu_seqlens, v_first, final):
    """Room for o and the final states; those are empty where nobody asks."""
    B, T, HK, HV, K, V, N, _ = sizes(q, v, cu_seqlens)
    return q.new_empty((B, T, HV, V), dtype=v.dtype), state_like(v, K, N, HV, V, v_first, initial_state) if final else none_of(q)


@recurrent.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final):
    return recurrent_results(q, v, initial_state, cu_seqlens, v_first, final)


def step(q, k, v, g, beta, A_log, dt_bias, cu, h0, ht, o, read, write, accepted, scale, states, l2norm, sigmoid, negative, v_first, every, raw=False, bound=None,
         first=0):
    """Launches the recurrence. Rows of a state lie side by side; states of a pool may lie further apart. g [B, T, HV, K] is a decay for each channel."""
    B, T, HK, HV, K, V, N, row = sizes(q, v, cu)
    q, k, v = rows(q), rows(k), rows(v)
    g, beta = (x if x is None else x.contiguous() for x in (g, beta))
    BK, BV = max(2, 1 << (K - 1).bit_length()), 8 if N * HV * V >= 2048 else 4
    with on(q):
        if N:
            kernels.recur[(N * HV * (-(-V // BV)),)](
                q, k, v, g, beta, A_log, dt_bias, bound or 0.0, cu, h0, ht, o, read, write, accepted, scale, states, first, row, 0 if write is None else write.stride(0),
                *strides(q, cu), *strides(k, cu), *strides(v, cu), 0 if h0 is None else h0.stride(0), 0 if ht is None else ht.stride(0),
                HK=HK, HV=HV, K=K, V=V, BK=BK, BV=BV, L2=l2norm, CHANNELS=g is not None and g.dim() == 4, RAW=raw, BOUNDED=bound is not None, SIGMOID=sigmoid,
                NEGATIVE=negative, VK=v_first, EVERY=every, num_warps=1)


def need(held, sentence):
    if not held:
        raise ValueError(sentence)


def check(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, use_gate_in_kernel, v_first):
    """Refuses arguments that the kernels of the gated delta rule would read amiss."""
    sizes_fit(q, k, v, beta, initial_state, cu_seqlens, v_first)
    B, T, HV = v.shape[:3]
    need(g is None or g.shape == (B, T, HV), f"g has the shape {None if g is None else tuple(g.shape)}: {(B, T, HV)} is wanted")
    need(not use_gate_in_kernel or (A_log is not None and g is not None), "use_gate_in_kernel wants g and A_log")
    need(use_gate_in_kernel or (A_log is None and dt_bias is None), "A_log and dt_bias go with use_gate_in_kernel")
    for name, x in (("A_log", A_log), ("dt_bias", dt_bias)):
        need(x is None or (x.shape == (HV,) and x.is_contiguous()), f"{name} has the shape {None if x is None else tuple(x.shape)}: {(HV,)} is wanted, contiguous")
    places(q=q, k=k, v=v, g=g, beta=beta, initial_state=initial_state, cu_seqlens=cu_seqlens, A_log=A_log, dt_bias=dt_bias)


def sizes_fit(q, k, v, beta, initial_state, cu_seqlens, v_first):
    """Refuses shapes and types of what any rule has."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        need(x.dim() == 4, f"{name} has the shape {tuple(x.shape)}: [batch, tokens, heads, width] is wanted")
    (B, T, HQ, K), (HV, V) = q.shape, v.shape[2:]
    need(k.shape[:2] == (B, T) and k.shape[3] == K, f"k has the shape {tuple(k.shape)}, q {tuple(q.shape)}: batch, tokens and width differ")
    need(v.shape[:2] == (B, T), f"v has the shape {tuple(v.shape)}, q {tuple(q.shape)}: batch and tokens differ")
    need(max(K, V) <= WIDEST, f"heads are {K} and {V} wide: at most {WIDEST}")
    need(q.dtype in TYPES, f"q is {q.dtype}: float32, bfloat16 or float16 is wanted")
    need(q.dtype == k.dtype == v.dtype, f"q is {q.dtype}, k {k.dtype}, v {v.dtype}: one type is wanted")
    HK = k.shape[2]
    most = max(HQ, HV)
    need(most % HV == 0 and most % HQ == 0 and HQ % HK == 0, f"{HQ} heads of q, {HK} of k and {HV} of v: each must divide the most, and those of k those of q")
    need(beta is None or beta.shape == (B, T, HV), f"beta has the shape {None if beta is None else tuple(beta.shape)}: {(B, T, HV)} is wanted")
    N = B
    if cu_seqlens is not None:
        need(B == 1, f"with cu_seqlens all tokens are one row: the batch is {B}, 1 is wanted")
        need(cu_seqlens.dim() == 1 and cu_seqlens.dtype in (torch.int32, torch.int64) and cu_seqlens.is_contiguous(),
             f"cu_seqlens is {cu_seqlens.dtype} of shape {tuple(cu_seqlens.shape)}: [sequences + 1] of int32 or int64 is wanted, contiguous")
        N = cu_seqlens.shape[0] - 1
    if initial_state is not None:
        want = (N, most, V, K) if v_first else (N, most, K, V)
        need(initial_state.shape == want, f"initial_state has the shape {tuple(initial_state.shape)}: {want} is wanted")
        need(initial_state.dtype in TYPES, f"initial_state is {initial_state.dtype}: float32, bfloat16 or float16 is wanted")


def places(q, **others):
    """Refuses tensors that are not where the first is, and the CPU where nothing interprets."""
    for name, x in others.items():
        need(x is None or x.device == q.device, f"{name} is on {None if x is None else x.device}, q on {q.device}")
    need(q.device.type != "cpu" or os.environ.get("TRITON_INTERPRET") == "1",
         "q is on the CPU: kernels run on a GPU, and in Triton's interpreter where TRITON_INTERPRET=1 is set before this package is imported")


def cast(x):
    """x as autocast would have it."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) and x.dtype == torch.float32 else x


def spread(x, heads):
    """x with each head as often as there must be."""
    return x if x is None or x.shape[2] == heads else x.repeat_interleave(heads // x.shape[2], 2)


def arranged(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, use_gate_in_kernel, sigmoid, v_first, scale):
    """The arguments as kernels take them, checked. Raw gates that want gradients are computed here, by torch."""
    q, k, v = cast(q), cast(k), cast(v)
    check(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, use_gate_in_kernel, v_first)
    trains = torch.is_grad_enabled()
    if use_gate_in_kernel and trains and any(x is not None and x.requires_grad for x in (g, A_log, dt_bias)):
        held = A_log.float().clamp(max=64.0)  # its exponential is finite, and softplus has the rest
        g = -held.exp() * F.softplus(g.float() + (A_log.float() - held) + (0.0 if dt_bias is None else dt_bias.float()))
        A_log = dt_bias = None
    heads = max(q.shape[2], v.shape[2])
    if v.shape[2] < heads:
        v, g, beta = spread(v, heads), spread(g, heads), spread(beta, heads)
        A_log, dt_bias = (None if x is None else x.repeat_interleave(heads // x.shape[0]) for x in (A_log, dt_bias))
    k = spread(k, q.shape[2])
    save = trains and any(x is not None and x.requires_grad for x in (q, k, v, g, beta, initial_state))
    return q, k, v, g, beta, A_log, dt_bias, q.shape[-1] ** -0.5 if scale is None else float(scale), save


def named(state_v_first, former):
    """state_v_first, which had another name before."""
    if former is None:
        return state_v_first
    need(not state_v_first, "transpose_state_layout is the former name of state_v_first: give one of them")
    warnings.warn("transpose_state_layout is called state_v_first now", DeprecationWarning, stacklevel=3)
    return former


def chunk_gated_delta_rule(q, k, v, g=None, beta=None, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
                           use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None,
                           chunk_indices=None, chunk_size=None, use_gate_in_kernel=False, A_log=None, dt_bias=None, transpose_state_layout=None, workspace=None):
    """o [B, T, HV, V] and the final states [N, HV, K, V] (None unless output_final_state), by chunks, with gradients.

    q [B, T, HQ, K], k [B, T, HK, K], v [B, T, HV, V] in one of float32, bfloat16, float16, their rows with any strides. g [B, T, HV] is the log decay,
    or with use_gate_in_kernel a of g = -exp(A_log) softplus(a + dt_bias); None is no decay. beta [B, T, HV] is the rate, raw with
    use_beta_sigmoid_in_kernel, and then twice the sigmoid with allow_neg_eigval; None is 1. With cu_seqlens [N + 1] sequences are packed in one row. States
    are [N, HV, V, K] with state_v_first. The final states have the type of the initial ones, else float32. cu_seqlens_cpu, chunk_indices and
    chunk_size are not needed. Where there are more heads of q than of v, states are one for each of q. A workspace, uint8 of at least workspace_bytes(q, v,
    cu_seqlens), has all that a call without gradients makes beside its results; calls one after another may share it.
    """
    return chosen(chunked if workspace is None else within(workspace), q, k, v, g, beta, scale, initial_state, output_final_state,
                  use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, named(state_v_first, transpose_state_layout),
                  cu_seqlens, use_gate_in_kernel, A_log, dt_bias)


def fused_recurrent_gated_delta_rule(q, k, v, g=None, beta=None, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
                                     use_gate_in_kernel=False, A_log=None, dt_bias=None, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
                                     state_v_first=False, cu_seqlens=None, transpose_state_layout=None):
    """The same token by token, in float32, for a few tokens; see chunk_gated_delta_rule, which computes a call that wants gradients."""
    return chosen(stepped, q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval,
                  named(state_v_first, transpose_state_layout), cu_seqlens, use_gate_in_kernel, A_log, dt_bias)


def chosen(compute, q, k, v, g, beta, scale, initial_state, final, l2norm, beta_sigmoid, negative, v_first, cu_seqlens, use_gate_in_kernel, A_log, dt_bias):
    kind = v.dtype
    if compute is stepped and not q.dtype == k.dtype == kind:  # which float32 holds
        q, k, v = q.float(), k.float(), v.float()
    q, k, v, g, beta, A_log, dt_bias, scale, save = arranged(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, use_gate_in_kernel, beta_sigmoid, v_first, scale)
    negative = negative and beta_sigmoid
    if beta_sigmoid and beta is not None and beta.requires_grad and torch.is_grad_enabled():
        beta = beta.float().sigmoid() * (2 if negative else 1)
        beta_sigmoid = negative = False
    run = chunked if save and compute is stepped else compute
    o, ht = run(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, beta_sigmoid, negative, v_first, final, save)
    return o.to(kind) if compute is stepped else o, ht if final else None


def chunked(*arguments):
    return chunk_forward(*arguments, arguments[-1] and KEEP_STATES)[:2]


def stepped(*arguments):
    return recurrent(*arguments[:-1])


def within(workspace):
    """As chunked, without gradients, by the memory of a workspace."""

    def compute(*arguments):
        q, _, v, *_, cu_seqlens = arguments[:9]
        need(not arguments[-1], "a workspace goes with calls without gradients, which would keep what it has: call within torch.no_grad()")
        want = workspace_bytes(q, v, cu_seqlens)
        need(workspace.dtype == torch.uint8 and workspace.dim() == 1 and workspace.is_contiguous() and workspace.device == q.device and len(workspace) >= want,
             f"the workspace is {workspace.dtype} of shape {tuple(workspace.shape)} on {workspace.device}: {want} bytes of uint8 on {q.device} are wanted")
        return chunk_within(*arguments[:-1], workspace)

    return compute
