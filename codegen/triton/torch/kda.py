"""Kimi Delta Attention as functions of torch: the gated delta rule with a decay for each channel of the keys.

Arguments and results are flash-linear-attention's chunk_kda and fused_recurrent_kda. Nothing waits for the GPU.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from . import channel_kernels as kernels
from .rule import (NAMESPACE, carried_back, cast, chunks_of, combined, named, need, no_second, none_of, on, part_of, places, power, recurred, recurrent_results, rows, sizes,
                   sizes_fit, state_like, strides, tiling)


C = 32  # tokens of a chunk, as kernels have it


@torch.library.custom_op(NAMESPACE + "::kda_forward", mutates_args=())
def kda_forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Optional[Tensor], A_log: Optional[Tensor], dt_bias: Optional[Tensor],
                initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], scale: float, bound: Optional[float], l2norm: bool, raw: bool, sigmoid: bool,
                negative: bool, v_first: bool, final: bool, save: bool
                ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """o, the final states, and where save T, P, exp(G_C), Qd, Kd, Kl and G of chunks, S before each and U, maps of parts and states before them."""
    B, T, HK, HV, K, V, N, row = sizes(q, v, cu_seqlens)
    part = part_of(q, B, T, N, HV, V, C)
    pieces = chunks_of(T, N, B, part, cu_seqlens) if part else N
    BV, stages = tiling(q, pieces, HV, V, C)
    q, k, v, g = rows(q), rows(k), rows(v), g.contiguous()
    beta, h0 = (x if x is None else x.contiguous() for x in (beta, initial_state))
    chunks, half, f32 = chunks_of(T, N, B, C, cu_seqlens), q.dtype != torch.float32, dict(device=q.device, dtype=torch.float32)
    T_out, P_out = q.new_empty((chunks, HV, 2 if half else 1, C, C)), q.new_empty((chunks, HV, C, C))
    Qd, Kd, Kl = (q.new_empty((chunks, HV, C, K)) for _ in range(3))
    N_out, G = (torch.empty((chunks, HV, C, w), **f32) for w in (C, K))
    last, steep = torch.empty((chunks, HV, K), **f32), None if bound is not None and bound > -7 else torch.empty((chunks, HV), device=q.device, dtype=torch.int32)
    o = torch.empty((B, T, HV, V), device=v.device, dtype=v.dtype)
    ht = state_like(v, K, N, HV, V, v_first, initial_state) if final else None
    S, U = (q.new_empty((chunks, HV, K, V)), q.new_empty((B, T, HV, V))) if save else (None, None)
    serial = dict(HV=HV, K=K, BK=power(K), TWO=save and q.dtype == torch.bfloat16, STAGES=stages, PART=part, num_warps=4)
    made, at_v = (T_out, P_out, last, Qd, Kd, Kl), strides(v, cu_seqlens)
    programs = (pieces * HV * (-(-V // BV)),)
    maps = starts = None
    with on(q):
        if chunks:
            at, keyed = (*strides(q, cu_seqlens), *strides(k, cu_seqlens)), dict(HK=HK, HV=HV, K=K, BK=power(K), L2=l2norm, SIGMOID=sigmoid, NEGATIVE=negative)
            kernels.sums[(chunks * HV,)](g, A_log, dt_bias, bound or 0.0, cu_seqlens, G, last, N, row, HV=HV, K=K, BK=power(K), RAW=raw, BOUNDED=bound is not None,
                                         num_warps=4)
            kernels.prepare[(chunks * HV,)](q, k, beta, cu_seqlens, G, N_out, P_out, Qd, Kd, Kl, steep, scale, N, row, *at, **keyed, num_warps=4)
            if steep is not None:
                kernels.mend[(chunks * HV,)](q, k, beta, cu_seqlens, G, N_out, P_out, steep, scale, N, row, *at, **keyed, num_warps=4)
            kernels.invert[(chunks * HV,)](N_out, T_out, num_warps=1)
        if part:
            maps, starts, rests = (torch.empty((pieces, HV, K, w), **f32) for w in (K, V, V))
            kernels.scan[programs](v, cu_seqlens, *made, None, rests, None, None, None, N, row, *at_v, **serial, V=V, BV=BV, VK=False)
            BM = min(BV, power(K))
            kernels.scan[(pieces * HV * (-(-K // BM)),)](None, cu_seqlens, *made, None, maps, None, None, None, N, row, 0, 0, 0, **serial, V=K, BV=BM, VK=False)
            combined(cu_seqlens, maps, rests, h0, ht, starts, N, row, HV, K, V, v_first, part, False)
            kernels.scan[programs](v, cu_seqlens, *made, starts, None, o, S, U, N, row, *at_v, **serial, V=V, BV=BV, VK=False)
        elif N:
            kernels.scan[programs](v, cu_seqlens, *made, h0, ht, o, S, U, N, row, *at_v, **serial, V=V, BV=BV, VK=v_first)
    kept = (*made, G, S, U, maps, starts) if save else (None,) * 11
    return o, *(none_of(q) if x is None else x for x in (ht, *kept))


@kda_forward.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, bound, l2norm, raw, sigmoid, negative, v_first, final, save):
    B, T, HK, HV, K, V, N, _ = sizes(q, v, cu_seqlens)
    f32 = torch.float32
    o, ht = q.new_empty((B, T, HV, V), dtype=v.dtype), state_like(v, K, N, HV, V, v_first, initial_state) if final else none_of(q)
    if not save:
        return o, ht, *(none_of(q) for _ in range(11))
    chunks, part = chunks_of(T, N, B, C, cu_seqlens), part_of(q, B, T, N, HV, V, C)
    of_parts = [q.new_empty((chunks_of(T, N, B, part, cu_seqlens), HV, K, w), dtype=f32) if part else none_of(q) for w in (K, V)]
    return (o, ht, q.new_empty((chunks, HV, 1 if q.dtype == f32 else 2, C, C)), q.new_empty((chunks, HV, C, C)), q.new_empty((chunks, HV, K), dtype=f32),
            *(q.new_empty((chunks, HV, C, K)) for _ in range(3)), q.new_empty((chunks, HV, C, K), dtype=f32), q.new_empty((chunks, HV, K, V)), q.new_empty((B, T, HV, V)), *of_parts)


@torch.library.custom_op(NAMESPACE + "::kda_backward", mutates_args=())
def kda_backward(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Optional[Tensor], initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], T_in: Tensor,
                 P_in: Tensor, last: Tensor, Qd: Tensor, Kd: Tensor, Kl: Tensor, G: Tensor, S: Tensor, U: Tensor, maps: Tensor, starts: Tensor, do: Optional[Tensor],
                 dht: Optional[Tensor], scale: float, l2norm: bool, v_first: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, g and beta, the last two in float32, and of the initial states."""
    B, T, HK, HV, K, V, N, row = sizes(q, v, cu_seqlens)
    chunks = T_in.shape[0]
    part = part_of(q, B, T, N, HV, V, C)
    pieces = maps.shape[0] if part else N
    BV, stages = tiling(q, pieces, HV, V, C)
    q, k = rows(q), rows(k)
    do = torch.zeros((B, T, HV, V), device=v.device, dtype=v.dtype) if do is None else rows(do.to(v.dtype))
    beta, h0, dht = (x if x is None else x.contiguous() for x in (beta, initial_state, dht))
    f32 = dict(device=q.device, dtype=torch.float32)
    dq, dk = (torch.empty((B, T, HK, K), device=q.device, dtype=q.dtype) for _ in range(2))
    dv, dg, dbeta = torch.empty((B, T, HV, V), device=q.device, dtype=q.dtype), torch.empty((B, T, HV, K), **f32), torch.empty((B, T, HV), **f32)
    dh0 = none_of(q) if h0 is None else torch.empty_like(h0)
    dS, X = q.new_empty((chunks, HV, K, V)), q.new_empty((chunks, HV, 4, C, C))
    at_d, made = strides(do, cu_seqlens), (T_in, P_in, last, Qd, Kd, Kl)
    serial = dict(HV=HV, K=K, V=V, BK=power(K), BV=BV, VK=v_first and not part, TWO=q.dtype == torch.bfloat16, STAGES=stages, PART=part, num_warps=4)

    def reverse(dht, dh0, dS, dv):
        kernels.reverse[(pieces * HV * (-(-V // BV)),)](do, cu_seqlens, *made, dht, dh0, dS, dv, N, row, *at_d, **serial)

    with on(q):
        carried_back(reverse, cu_seqlens, maps, starts, dht, None if h0 is None else dh0, dS, dv, N, row, HV, K, V, v_first, part)
        if chunks:
            kernels.scores[(chunks * HV,)](do, cu_seqlens, U, dv, X, scale, N, row, *at_d, HV=HV, V=V, BV=power(V), num_warps=4)
            kernels.grads[(chunks * HK,)](q, k, beta, do, cu_seqlens, G, S, U, dS, dv, X, dq, dk, dg, dbeta, scale, N, row, *strides(q, cu_seqlens),
                                          *strides(k, cu_seqlens), *at_d, HK=HK, HV=HV, K=K, V=V, BK=power(K), BV=min(64, power(V)), L2=l2norm, num_warps=8)
    return dq, dk, dv, dg, dbeta, dh0


@kda_backward.register_fake
def _(q, k, v, g, beta, initial_state, cu_seqlens, T_in, P_in, last, Qd, Kd, Kl, G, S, U, maps, starts, do, dht, scale, l2norm, v_first):
    f32 = torch.float32
    return (q.new_empty(q.shape), q.new_empty(q.shape), q.new_empty(v.shape), q.new_empty(g.shape, dtype=f32), q.new_empty(v.shape[:3], dtype=f32),
            none_of(q) if initial_state is None else initial_state.new_empty(initial_state.shape))


def keep(ctx, inputs, output):
    q, k, v, g, beta, _, _, initial_state, cu_seqlens, ctx.scale, _, ctx.l2norm, _, _, _, ctx.v_first, ctx.final, _ = inputs
    ctx.save_for_backward(q, k, v, g, beta, initial_state, cu_seqlens, *output[2:])
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def backward(ctx, do, dht, *_):
    q, k, v, g, beta, initial_state, cu_seqlens, *kept = ctx.saved_tensors
    if do is None and (dht is None or not ctx.final):
        return (None,) * 18
    dq, dk, dv, dg, dbeta, dh0 = kda_backward(q, k, v, g, beta, initial_state, cu_seqlens, *kept, do, dht if ctx.final else None, ctx.scale, ctx.l2norm, ctx.v_first)
    return dq, dk, dv, dg.to(g.dtype), None if beta is None else dbeta.to(beta.dtype), None, None, None if initial_state is None else dh0, *(None,) * 10


kda_forward.register_autograd(backward, setup_context=keep)
kda_backward.register_autograd(no_second)


@torch.library.custom_op(NAMESPACE + "::kda_recurrent", mutates_args=())
def kda_recurrent(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Optional[Tensor], A_log: Optional[Tensor], dt_bias: Optional[Tensor],
                  initial_state: Optional[Tensor], cu_seqlens: Optional[Tensor], scale: float, bound: Optional[float], l2norm: bool, raw: bool, sigmoid: bool,
                  negative: bool, v_first: bool, final: bool) -> tuple[Tensor, Tensor]:
    """o and the final states, token by token in float32."""
    return recurred(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, l2norm, sigmoid, negative, v_first, final, raw, bound)


@kda_recurrent.register_fake
def _(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, bound, l2norm, raw, sigmoid, negative, v_first, final):
    return recurrent_results(q, v, initial_state, cu_seqlens, v_first, final)


def gate(g, A_log, dt_bias, bound):
    """Log decays [B, T, HV, K] of raw ones, by torch."""
    x = g.float() if dt_bias is None else g.float() + dt_bias.float().view(g.shape[2:])
    rate = 1.0 if A_log is None else A_log.float().exp()[:, None]
    return -rate * F.softplus(x) if bound is None else bound * (rate * x).sigmoid()


def fits(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, raw, bound, v_first):
    """Refuses arguments that the kernels would read amiss."""
    sizes_fit(q, k, v, beta, initial_state, cu_seqlens, v_first)
    B, T, HV, K = *v.shape[:3], q.shape[3]
    need(q.shape == k.shape and HV % q.shape[2] == 0, f"{q.shape[2]} heads of q, {k.shape[2]} of k and {HV} of v: as many of k as of q, which divide those of v")
    need(g is not None and g.shape == (B, T, HV, K), f"g has the shape {None if g is None else tuple(g.shape)}: {(B, T, HV, K)} is wanted")
    need(raw or (A_log is None and dt_bias is None), "A_log and dt_bias go with use_gate_in_kernel")
    need(not raw or A_log is not None or bound is not None, "use_gate_in_kernel wants A_log, lower_bound, or both")
    need(bound is None or bound < 0, f"lower_bound is {bound}: a log decay is below 0")
    for name, x, n in (("A_log", A_log, HV), ("dt_bias", dt_bias, HV * K)):
        need(x is None or (x.numel() == n and x.is_contiguous()), f"{name} has the shape {None if x is None else tuple(x.shape)}: {n} elements are wanted, contiguous")
    places(q=q, k=k, v=v, g=g, beta=beta, initial_state=initial_state, cu_seqlens=cu_seqlens, A_log=A_log, dt_bias=dt_bias)


def arranged(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, raw, bound, sigmoid, negative, v_first, scale):
    """The arguments as kernels take them, checked. Gates and rates of a call that wants gradients are made here, by torch."""
    q, k, v = cast(q), cast(k), cast(v)
    fits(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, raw, bound, v_first)
    A_log, dt_bias, bound = None if A_log is None else A_log.reshape(-1), None if dt_bias is None else dt_bias.reshape(-1), bound if raw else None
    save = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (q, k, v, g, beta, initial_state, A_log, dt_bias))
    if save:
        if raw:
            g, A_log, dt_bias, bound, raw = gate(g, A_log, dt_bias, bound), None, None, None, False
        if sigmoid and beta is not None:
            beta = beta.float().sigmoid() * (2 if negative else 1)
        sigmoid = negative = False
    return (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, q.shape[-1] ** -0.5 if scale is None else float(scale), bound), (raw, sigmoid, negative), save


def chunk_kda(q, k, v, g, beta=None, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
              use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, safe_gate=False, lower_bound=None, disable_recompute=False,
              return_intermediate_states=False, state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None, cp_context=None, A_log=None, dt_bias=None,
              chunk_size=64, transpose_state_layout=None):
    """o [B, T, HV, V] and the final states [N, HV, K, V] (None unless output_final_state), by chunks, with gradients.

    q and k [B, T, H, K], v [B, T, HV, V] in one of float32, bfloat16, float16, their rows with any strides, HV a multiple of H. g [B, T, HV, K] is the log
    decay of each channel, or with use_gate_in_kernel raw: -exp(A_log) softplus(g + dt_bias), with lower_bound
    lower_bound sigmoid(exp(A_log) (g + dt_bias)); A_log [HV], dt_bias [HV K]. beta [B, T, HV] is the rate, raw with use_beta_sigmoid_in_kernel, and then
    twice the sigmoid with allow_neg_eigval; None is 1. With cu_seqlens [N + 1] sequences are packed in one row. States are [N, HV, V, K] with
    state_v_first. safe_gate, disable_recompute, chunk_size and cu_seqlens_cpu change no result.
    """
    need(chunk_size in (32, 64), f"`chunk_size` must be either 32 or 64 for KDA: it is {chunk_size}")
    need(not return_intermediate_states, "return_intermediate_states: states between chunks are not returned")
    need(cp_context is None, "cp_context: a sequence is not split over devices")
    return chosen(True, q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel,
                  allow_neg_eigval, safe_gate, lower_bound, named(state_v_first, transpose_state_layout), cu_seqlens, A_log, dt_bias)


def fused_recurrent_kda(q, k, v, g, beta=None, A_log=None, dt_bias=None, scale=None, initial_state=None, output_final_state=False,
                        use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, lower_bound=None,
                        state_v_first=False, cu_seqlens=None, transpose_state_layout=None):
    """The same token by token, in float32, for a few tokens; see chunk_kda, which computes a call that wants gradients."""
    return chosen(False, q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel,
                  allow_neg_eigval, False, lower_bound, named(state_v_first, transpose_state_layout), cu_seqlens, A_log, dt_bias)


def chosen(chunked, q, k, v, g, beta, scale, initial_state, final, l2norm, raw, sigmoid, negative, safe, bound, v_first, cu_seqlens, A_log, dt_bias):
    need(not (safe and raw) or (bound is not None and -5 <= bound < 0), f"safe_gate with raw gates wants a lower_bound in [-5, 0): it is {bound}")
    need(not negative or sigmoid, "allow_neg_eigval goes with use_beta_sigmoid_in_kernel")
    kind = v.dtype
    if not chunked and not q.dtype == k.dtype == kind:  # which float32 holds
        q, k, v = q.float(), k.float(), v.float()
    inputs, (raw, sigmoid, negative), save = arranged(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, raw, bound, sigmoid, negative, v_first, scale)
    options = (l2norm, raw, sigmoid, negative, v_first, final)
    o, ht = kda_forward(*inputs, *options, save)[:2] if chunked or save else kda_recurrent(*inputs, *options)
    return o if chunked else o.to(kind), ht if final else None
