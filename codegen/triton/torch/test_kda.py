"""Kimi Delta Attention of @NAME@ against the recurrence in float64, as test_rule.py has it for one decay a head. Run: python -m pytest tests"""

import pytest
import torch
import torch.nn.functional as F
from test_rule import NAMES, device, draw, keeps, ratio

from @NAME@ import chunk_kda, fused_recurrent_kda, kda, serving


def reference(q, k, v, g, beta, h0, scale, spans):
    """o and the final states in float64, of spans (row, first token, token after the last)."""
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    rows, states = [], []
    for n, (row, first, end) in enumerate(spans):
        S, out = h0[n], []
        for t in range(first, end):
            S = S * g[row, t].exp()[..., None]
            new = beta[row, t][:, None] * (v[row, t] - torch.einsum("hkv,hk->hv", S, k[row, t]))
            S = S + k[row, t][:, :, None] * new[:, None, :]
            out.append(scale * torch.einsum("hkv,hk->hv", S, q[row, t]))
        rows += out
        states.append(S)
    return torch.stack(rows).view(*v.shape), torch.stack(states)


def inputs_of(B, T, HK, HV, K, V, dtype=torch.float16, normaliser=1.0, sequences=None):
    """What draw has, with a log decay for each channel."""
    (q, k, v, _, beta, h0), do, dht = draw(B, T, HK, HV, K, V, dtype, sequences=sequences)
    return [q, k, v, (F.logsigmoid(torch.randn(B, T, HV, K)) / normaliser).to(device), beta, h0], do, dht


def compared(inputs, do, dht, scale, compute, cu=None, norm=False):
    """Errors of o, ht and gradients by name; compute is called with the inputs."""
    B, T = inputs[0].shape[:2]
    spans = [(b, 0, T) for b in range(B)] if cu is None else [(0, a, b) for a, b in zip(cu[:-1], cu[1:])]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    unit = [x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() if norm else x for x in wide[:2]]
    want = reference(*unit, *wide[2:], scale, spans)
    own = [x.detach().clone().requires_grad_() for x in inputs]
    got = compute(*own)
    torch.autograd.backward(want, (do.double(), dht.double()))
    torch.autograd.backward(got, (do, dht))
    return {n: ratio(a, b) for n, a, b in zip(("o", "ht"), got, want)} | {n: ratio(a.grad, b.grad) for n, a, b in zip(NAMES, own, wide)}


@pytest.mark.parametrize(("B", "T", "HK", "HV", "K", "V", "normaliser", "norm", "dtype"), [
    (2, 75, 1, 2, 32, 64, 1.0, True, torch.float32),
    (1, 100, 1, 1, 64, 64, 10.0, False, torch.bfloat16),
    (1, 70, 1, 2, 100, 60, 0.1, True, torch.float16),
    (1, 70, 1, 1, 64, 32, 0.02, False, torch.bfloat16),  # halves of chunks are mended
])
def test_chunk(B, T, HK, HV, K, V, normaliser, norm, dtype):
    inputs, do, dht = inputs_of(B, T, HK, HV, K, V, dtype, normaliser)
    keeps(compared(inputs, do, dht, 0.1, lambda q, k, v, g, beta, h0: chunk_kda(q, k, v, g, beta, 0.1, h0, True, use_qk_l2norm_in_kernel=norm), norm=norm))


@pytest.mark.parametrize("part", [0, 64])
def test_packed(monkeypatch, part):
    """Packed sequences, one of them empty, whole and in parts beside each other."""
    if part:
        monkeypatch.setattr(kda, "part_of", lambda *_: part)
    cu = [0, 15, 15, 150, 180]
    inputs, do, dht = inputs_of(1, 180, 1, 2, 32, 16, sequences=4)
    at = torch.tensor(cu, device=device)
    keeps(compared(inputs, do, dht, 0.2, lambda q, k, v, g, beta, h0: chunk_kda(q, k, v, g, beta, 0.2, h0, True, cu_seqlens=at), cu))


def test_resets():
    """A log decay of minus infinity forgets a channel, one of zero keeps it; both beside each other, by chunks and token by token."""
    (q, k, v, g, beta, h0), _, _ = inputs_of(1, 70, 1, 1, 32, 32, torch.float32)
    g[:, 20], g[:, 37, :, ::2], g[:, 40:60, :, 1::2] = float("-inf"), float("-inf"), 0.0
    want = reference(*(x.double() for x in (q, k, v, g, beta, h0)), 0.2, [(0, 0, 70)])
    for compute in (chunk_kda, fused_recurrent_kda):
        got = compute(q, k, v, g, beta, scale=0.2, initial_state=h0, output_final_state=True)
        assert all(ratio(a, b) < 1e-5 for a, b in zip(got, want))


@pytest.mark.parametrize("bound", [None, -5.0, -20.0])
def test_raw_gates(bound):
    """Gates and rates made in the kernel are those that torch makes, with gradients and without; states [V, K]."""
    (q, k, v, _, _, h0), do, _ = inputs_of(1, 50, 1, 2, 32, 16, torch.float32)
    a, b, A_log, dt_bias = (torch.randn(s, device=device, requires_grad=True) for s in ((1, 50, 2, 32), (1, 50, 2), (2,), (64,)))
    options = dict(use_gate_in_kernel=True, A_log=A_log, dt_bias=dt_bias, lower_bound=bound, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True)
    x, rate = a + dt_bias.view(2, 32), A_log.exp()[:, None]
    g = -rate * F.softplus(x) if bound is None else bound * (rate * x).sigmoid()
    want = reference(*(x.double() for x in (q, k, v, g, 2 * b.sigmoid(), h0)), 32**-0.5, [(0, 0, 50)])[0]
    wanted = torch.autograd.grad(want, (a, b, A_log, dt_bias), do.double())
    got, none = chunk_kda(q, k, v, a, b, initial_state=h0, **options)
    assert none is None and ratio(got, want) < 1e-5
    for x, y in zip(torch.autograd.grad(got, (a, b, A_log, dt_bias), do), wanted):
        assert ratio(x, y) < 1e-4
    with torch.no_grad():
        for compute in (chunk_kda, fused_recurrent_kda):
            o, ht = compute(q, k, v, a, b, initial_state=h0.transpose(2, 3).contiguous(), output_final_state=True, state_v_first=True, **options)
            assert ratio(o, want) < 1e-5 and ht.shape == (1, 2, 16, 32)


def test_pool():
    """States of a pool by index, one skipped, in place, under SGLang's name; a window of drafts whose gates have a bound."""
    (q, k, v, g, beta, h0), _, _ = inputs_of(2, 3, 1, 2, 16, 32, torch.float32, sequences=5)
    A_log, dt_bias, turned = torch.randn(2, device=device), torch.randn(32, device=device), h0.transpose(2, 3).contiguous()
    raw = dict(use_gate_in_kernel=True, A_log=A_log, dt_bias=dt_bias, use_beta_sigmoid_in_kernel=True)
    want, states = fused_recurrent_kda(q, k, v, g, beta, initial_state=h0[[3, 1]], output_final_state=True, **raw)
    pool = turned.clone()
    o = serving.fused_sigmoid_gating_delta_rule_update(A_log, g.flatten(2), dt_bias, 1.0, 20.0, q, k, v, beta, pool, torch.tensor([3, -1], device=device),
                                                       is_kda=True)
    torch.testing.assert_close(o[0], want[0])
    torch.testing.assert_close(pool[3].transpose(1, 2), states[0])
    assert not o[1].any() and torch.equal(pool[:3], turned[:3])
    want, states = fused_recurrent_kda(q, k, v, g, beta, initial_state=h0[[0, 3]], output_final_state=True, lower_bound=-5.0, **raw)
    pool, at = torch.cat([h0, h0]), torch.tensor([[0, 1, 2], [3, 4, 5]], device=device)
    o = serving.decode_pool(q, k, v, g, beta, pool, at, A_log=A_log, dt_bias=dt_bias, lower_bound=-5.0, use_beta_sigmoid_in_kernel=True)
    torch.testing.assert_close(o, want)
    torch.testing.assert_close(pool[[2, 5]], states)


@pytest.mark.parametrize("part", [0, 32])
def test_operators(monkeypatch, part):
    """What torch.compile asks of custom operators: schema, fake kernels and gradients."""
    (q, k, v, g, beta, h0), _, _ = inputs_of(1, 20, 1, 1, 16, 16, torch.float32)
    q.requires_grad_()
    monkeypatch.setattr(kda, "part_of", lambda *_: part)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    cu = torch.tensor([0, 20], device=device)
    torch.library.opcheck(torch.ops.@NAME@.kda_forward, (q, k, v, g, beta, None, None, h0, cu, 0.2, None, True, False, False, False, False, True, True), test_utils=tests)
    torch.library.opcheck(torch.ops.@NAME@.kda_recurrent, (q.detach(), k, v, g, beta, None, None, h0, cu, 0.2, None, True, False, False, False, True, True), test_utils=tests)


@pytest.mark.parametrize(("change", "sentence"), [
    (dict(chunk_size=16), "chunk_size"), (dict(lower_bound=-9.0, safe_gate=True, use_gate_in_kernel=True), "lower_bound in"), (dict(A_log=torch.zeros(1)), "use_gate_in_kernel"),
    (dict(allow_neg_eigval=True), "use_beta_sigmoid_in_kernel"), (dict(g=torch.zeros(1, 5, 1)), "g has the shape"), (dict(cp_context=1), "cp_context"),
])
def test_refusals(change, sentence):
    (q, k, v, g, beta, _), _, _ = inputs_of(1, 5, 1, 1, 16, 16)
    with pytest.raises(ValueError, match=sentence):
        chunk_kda(**dict(q=q, k=k, v=v, g=g, beta=beta) | change)
