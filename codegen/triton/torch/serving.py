"""Decode steps and short windows over a pool of states, under the names that serving programs call: vLLM's, SGLang's and FlashInfer's.

Each is one launch. States are updated in place; a sequence whose index is below FIRST_STATE, or beyond the pool, is skipped and gets zeros.
FlashInfer's prefill is in the module flashinfer.
"""

import torch

from . import kda, rule
from .rule import check, need, step

FIRST_STATE = 0  # the first index that names a state; 1 in vLLM, whose block 0 belongs to padding


def pooled(pool, v, K, v_first):
    """The pool, checked: states that may lie apart, their rows side by side."""
    HV, V = v.shape[2:]
    want = (HV, V, K) if v_first else (HV, K, V)
    need(pool.shape[1:] == want, f"the pool has the shape {tuple(pool.shape)}: [states, {', '.join(map(str, want))}] is wanted")
    need(pool[0].is_contiguous(), "the states of the pool have strides of their own: each must be contiguous")
    return pool


def decode_pool(q, k, v, g, beta, pool, indices, *, out_indices=None, accepted=None, scale=None, cu_seqlens=None, use_qk_l2norm_in_kernel=False, A_log=None,
                dt_bias=None, lower_bound=None, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, out=None):
    """o [B, T, HV, V] of a few tokens of each sequence; the pool [states, HV, K, V] is updated in place.

    indices [N] names the state that a sequence starts from and leaves, out_indices [N] another one to leave. With two dimensions, [N, tokens], the state
    after token t goes to indices[n, t]; the state to start from is indices[n, accepted[n] - 1], without accepted indices[n, 0]. g and beta are raw where
    there is an A_log, or use_beta_sigmoid_in_kernel. g [B, T, HV, K] is a decay for each channel, raw where there is an A_log or a lower_bound. No gradients.
    """
    raw = A_log is not None or lower_bound is not None
    if g is not None and g.dim() == 4:
        kda.fits(q, k, v, g, beta, None, cu_seqlens, A_log, dt_bias, raw, lower_bound, state_v_first)
    else:
        need(lower_bound is None, "lower_bound goes with a decay for each channel")
        check(q, k, v, g, beta, None, cu_seqlens, A_log, dt_bias, raw, state_v_first)
    need(q.shape[2] == k.shape[2], f"{q.shape[2]} heads of q and {k.shape[2]} of k: equal numbers are wanted")
    N = q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    pool, every = pooled(pool, v, q.shape[-1], state_v_first), indices.dim() == 2
    for name, x in (("indices", indices), ("out_indices", out_indices), ("accepted", accepted)):
        need(x is None or (x.shape[0] == N and x.stride(-1) == 1 and x.dtype in (torch.int32, torch.int64)),
             f"{name} is {None if x is None else (x.dtype, tuple(x.shape))}: int32 or int64, one for each of {N} sequences, is wanted")
    need(not every or (out_indices is None and (cu_seqlens is not None or indices.shape[1] >= q.shape[1])),
         "indices with two dimensions name a state for each token, and go without out_indices")
    need(every or accepted is None, "accepted goes with indices of two dimensions")
    o = v.new_empty(v.shape) if out is None else out
    read = indices[:, 0].contiguous() if every and accepted is None else None if every else indices
    with torch.no_grad():
        step(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, pool, pool, o, read, indices if every or out_indices is None else out_indices, accepted,
             q.shape[-1] ** -0.5 if scale is None else float(scale), pool.shape[0], use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel,
             allow_neg_eigval and use_beta_sigmoid_in_kernel, state_v_first, every, raw, lower_bound, FIRST_STATE)
    return o


def fused_recurrent_gated_delta_rule(q, k, v, g, beta=None, scale=None, initial_state=None, inplace_final_state=True, cu_seqlens=None, ssm_state_indices=None,
                                     num_accepted_tokens=None, retrieve_parent_token=None, use_qk_l2norm_in_kernel=False, state_v_first=True):
    """vLLM's: states [states, HV, V, K], or [states, HV, K, V] without state_v_first, in place by ssm_state_indices [N] or [N, tokens]. Returns o and the pool."""
    need(inplace_final_state and initial_state is not None and ssm_state_indices is not None, "states are updated in place: give initial_state and ssm_state_indices")
    need(retrieve_parent_token is None, "retrieve_parent_token: trees of drafts are not computed")
    o = decode_pool(q, k, v, g, beta, initial_state, ssm_state_indices, accepted=num_accepted_tokens, scale=scale, cu_seqlens=cu_seqlens,
                    use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, state_v_first=state_v_first)
    return o, initial_state


def fused_sigmoid_gating_delta_rule_update(A_log, a, dt_bias, softplus_beta=1.0, softplus_threshold=20.0, q=None, k=None, v=None, b=None,
                                           initial_state_source=None, initial_state_indices=None, scale=None, use_qk_l2norm_in_kernel=False, cu_seqlens=None,
                                           is_kda=False, *, initial_state=None, inplace_final_state=True, ssm_state_indices=None, num_accepted_tokens=None):
    """SGLang's and vLLM's: raw gates a and rates b, states [states, HV, V, K] in place; no intermediate states, no trees.

    With is_kda a has a gate for each channel, dt_bias [HV K]. Returns o, and with vLLM's initial_state and ssm_state_indices o and the pool.
    """
    need(softplus_beta == 1.0 and softplus_threshold == 20.0, f"softplus of beta {softplus_beta} and threshold {softplus_threshold}: 1.0 and 20.0 are computed")
    need(inplace_final_state, "states are updated in place")
    pool, indices = (initial_state_source, initial_state_indices) if initial_state is None else (initial_state, ssm_state_indices)
    shape = (*q.shape[:2], v.shape[2])
    gates = a.reshape(*shape, q.shape[-1]) if is_kda else a.reshape(shape)
    o = decode_pool(q, k, v, gates, b.reshape(shape), pool, indices, accepted=num_accepted_tokens, scale=scale, cu_seqlens=cu_seqlens, A_log=A_log,
                    dt_bias=dt_bias, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel=True, state_v_first=True)
    return o if initial_state is None else (o, pool)


def chunk_gated_delta_rule(q, k, v, g=None, beta=None, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, chunk_indices=None,
                           chunk_offsets=None, use_qk_l2norm_in_kernel=False, core_attn_out=None):
    """vLLM's prefill: states [N, HV, V, K]; o is copied to the beginning of core_attn_out too. chunk_indices and chunk_offsets are not needed."""
    o, states = rule.chunk_gated_delta_rule(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens,
                                            state_v_first=True)
    if core_attn_out is not None:
        core_attn_out.view(-1)[:o.numel()].copy_(o.view(-1))
    return o, states


def gated_delta_rule_decode_pretranspose(q, k, v, state, A_log, a, dt_bias, b, scale=None, output=None, use_qk_l2norm=True, initial_state=None,
                                         initial_state_indices=None, output_state_indices=None):
    """FlashInfer's: one token [B, 1, H, K] of each state [B, HV, V, K], or of a pool by indices, in place. Returns o and the states."""
    pool = initial_state if state is None else state
    indices = torch.arange(q.shape[0], device=q.device, dtype=torch.int32) if initial_state_indices is None else initial_state_indices
    o = decode_pool(q, k, v, a, b, pool, indices, out_indices=output_state_indices, scale=scale, A_log=A_log, dt_bias=dt_bias,
                    use_qk_l2norm_in_kernel=use_qk_l2norm, use_beta_sigmoid_in_kernel=True, state_v_first=True, out=output)
    return o, pool


def fused_recurrent_gated_delta_rule_packed_decode(mixed_qkv, a, b, A_log, dt_bias, scale, initial_state, out, ssm_state_indices, use_qk_l2norm_in_kernel=False):
    """SGLang's and vLLM's: one token of each sequence, q, k and v side by side in a row [B, 2 HK K + HV V], which no copy takes apart. Returns out."""
    HV, V, K = initial_state.shape[1:]
    HK, rest = divmod(mixed_qkv.shape[1] - HV * V, 2 * K)
    need(HK > 0 and rest == 0, f"a row of q, k and v has {mixed_qkv.shape[1]} elements: states are of {HV} heads, [{V}, {K}]")
    q, k, v = (x.unflatten(1, (1, h, -1)) for x, h in zip(mixed_qkv.split([HK * K, HK * K, HV * V], 1), (HK, HK, HV)))
    shape = (q.shape[0], 1, HV)
    return decode_pool(q, k, v, a.reshape(shape), b.reshape(shape), initial_state, ssm_state_indices, scale=scale, A_log=A_log, dt_bias=dt_bias,
                       use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel=True, state_v_first=True, out=out)
