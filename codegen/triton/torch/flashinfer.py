"""FlashInfer's functions by their names and arguments: tokens packed in one row, decays instead of their logarithms, states [states, HV, V, K]."""

from . import rule
from .rule import need
from .serving import gated_delta_rule_decode_pretranspose

__all__ = ["chunk_gated_delta_rule", "gated_delta_rule_decode_pretranspose"]


def chunk_gated_delta_rule(q, k, v, g=None, beta=None, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None,
                           use_qk_l2norm_in_kernel=False, output=None, output_state=None, state_checkpoints=None, checkpoint_cu_starts=None,
                           checkpoint_every_n_tokens=0, use_cp="auto", state_indices=None, _cp_chunk_len=None):
    """o [tokens, heads, V], and with output_final_state the states [N, heads, V, K] too; heads are the more of q's and v's.

    q [tokens, HQ, K], k [tokens, HK, K], v [tokens, HV, V]; g and beta [tokens, heads], g the decay itself. o goes to output, and the states to output_state,
    which keeps what it has of empty sequences. With state_indices [N] initial_state and output_state are pools, whose states are gathered and scattered. States
    are of any type that torch converts. As in FlashInfer, use_qk_l2norm_in_kernel changes nothing: q and k are normalized before. Whether a sequence is
    split into parts depends on its length: use_cp changes nothing. States every few tokens are not computed.
    """
    need(checkpoint_every_n_tokens == 0 and state_checkpoints is None and checkpoint_cu_starts is None, "states every few tokens are not computed: no checkpoints")
    need(cu_seqlens is not None, "cu_seqlens is wanted: sequences are packed in one row")
    need(state_indices is None or output_state is not None or not output_final_state, "state_indices want an explicit output_state pool")
    at = slice(None) if state_indices is None else state_indices.long()
    start = None if initial_state is None else initial_state[at]
    if start is not None and start.dtype not in rule.TYPES:
        start = start.float()
    v = rule.spread(v[None], max(q.shape[1], v.shape[1]))
    o, states = rule.chunk_gated_delta_rule(q[None], k[None], v, None if g is None else g.log()[None], None if beta is None else beta[None], scale, start,
                                            output_final_state, cu_seqlens=cu_seqlens, state_v_first=True)
    o = o[0] if output is None else output.copy_(o[0])
    if not output_final_state:
        return o
    if output_state is None:
        return o, states
    held = output_state[at]
    output_state[at] = states.to(held.dtype).where((cu_seqlens[1:] > cu_seqlens[:-1]).view(-1, 1, 1, 1), held)
    return o, output_state
