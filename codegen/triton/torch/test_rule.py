"""@NAME@ against the recurrence in float64, token by token: on a GPU, else in Triton's interpreter. Run: python -m pytest tests

Inputs and limits are those that flash-linear-attention tests itself with: the rms of the difference over the rms.
"""

import os

import pytest
import torch
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from @NAME@ import chunk_gated_delta_rule, flashinfer, fused_recurrent_gated_delta_rule, kernels, rule, serving, workspace_bytes  # noqa: E402


@triton.jit
def inverted(N, Nt, out):
    """Stores the inverse of I + N and its transpose."""
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)
    X, Xt = kernels.inverse_pair(tl.load(N + at), tl.load(Nt + at))
    tl.store(out + at, tl.reshape(X, (32, 32)))
    tl.store(out + 1024 + at, tl.reshape(Xt, (32, 32)))


NAMES = ("q", "k", "v", "g", "beta", "h0")
LIMITS = dict(o=0.005, ht=0.005, q=0.008, k=0.008, v=0.008, g=0.02, beta=0.02, h0=0.008)


def reference(q, k, v, g, beta, h0, scale, spans):
    """o and the final states in float64, of spans (row, first token, token after the last)."""
    group = v.shape[2] // k.shape[2]
    q, k = q.repeat_interleave(v.shape[2] // q.shape[2], 2), k.repeat_interleave(group, 2)
    rows, states = [], []
    for n, (row, first, end) in enumerate(spans):
        S, out = h0[n], []
        for t in range(first, end):
            S = S * g[row, t].exp()[:, None, None]
            new = beta[row, t][:, None] * (v[row, t] - torch.einsum("hkv,hk->hv", S, k[row, t]))
            S = S + k[row, t][:, :, None] * new[:, None, :]
            out.append(scale * torch.einsum("hkv,hk->hv", S, q[row, t]))
        rows += out
        states.append(S)
    return torch.stack(rows).view(*v.shape), torch.stack(states)


def draw(B, T, HK, HV, K, V, dtype=torch.float16, normaliser=1.0, mask=0.0, sequences=None, alike=False, seed=42):
    """q, k of length 1, v, g, beta, h0 as flash-linear-attention draws them, and gradients of o and ht."""
    torch.manual_seed(seed)
    unit = lambda: F.normalize(torch.rand(B, T, HK, K), p=2, dim=-1).to(dtype)
    q, k, v = unit(), unit(), torch.rand(B, T, HV, V).to(dtype)
    beta, g = torch.rand(B, T, HV).sigmoid(), F.logsigmoid(torch.rand(B, T, HV)) / normaliser
    g = g * (torch.rand_like(g) > mask)
    if alike:
        k, beta, g = k[:, :1].expand_as(k).clone(), torch.ones_like(beta), torch.zeros_like(g)
    h0 = 0.3 * torch.randn(sequences or B, HV, K, V)
    do, dht = torch.randn(B, T, HV, V).to(dtype), 0.3 * torch.randn_like(h0)
    return [x.to(device) for x in (q, k, v, g, beta, h0)], do.to(device), dht.to(device)


def ratio(got, want):
    want, got = want.double(), got.double()
    return ((got - want).square().mean().sqrt() / want.square().mean().sqrt().clamp(min=1e-8)).item()


def compared(inputs, do, dht, scale, compute, cu=None, norm=False, gradients=True):
    """Errors of o, ht and gradients by name; compute is called with the inputs."""
    B, T = inputs[0].shape[:2]
    spans = [(b, 0, T) for b in range(B)] if cu is None else [(0, a, b) for a, b in zip(cu[:-1], cu[1:])]
    wide = [x.detach().double().requires_grad_(gradients) for x in inputs]
    unit = [x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() if norm else x for x in wide[:2]]
    want = reference(*unit, *wide[2:], scale, spans)
    own = [x.detach().clone().requires_grad_(gradients) for x in inputs]
    got = compute(*own)
    errors = {n: ratio(a, b) for n, a, b in zip(("o", "ht"), got, want)}
    if gradients:
        torch.autograd.backward(want, (do.double(), dht.double()))
        torch.autograd.backward(got, (do, dht.to(got[1].dtype)))
        errors |= {n: ratio(a.grad, b.grad) for n, a, b in zip(NAMES, own, wide)}
    return errors


def keeps(errors):
    assert all(e < LIMITS[n] for n, e in errors.items()), errors


@pytest.mark.parametrize(("B", "T", "HK", "HV", "D", "scale", "normaliser", "mask", "norm", "dtype"), [
    (2, 75, 2, 2, 64, 1.0, 0.01, 0.0, False, torch.float16),
    (1, 130, 1, 2, 100, 0.1, 1.0, 0.5, False, torch.float16),
    (1, 96, 1, 2, 60, 1.0, 0.1, 0.0, True, torch.float16),
    (1, 150, 1, 1, 128, 0.1, 1.0, 1.0, False, torch.bfloat16),
    (1, 70, 1, 2, 32, 0.1, 1.0, 0.0, True, torch.float32),
])
def test_chunk(B, T, HK, HV, D, scale, normaliser, mask, norm, dtype):
    inputs, do, dht = draw(B, T, HK, HV, D, D, dtype, normaliser, mask)
    keeps(compared(inputs, do, dht, scale, lambda q, k, v, g, beta, h0: chunk_gated_delta_rule(
        q, k, v, g, beta, scale, h0, True, use_qk_l2norm_in_kernel=norm), norm=norm))


def test_identical_keys():
    """Where keys agree the rows of T cancel: bf16 keeps the limits of other inputs, by operands in two parts."""
    inputs, do, dht = draw(1, 130, 1, 1, 64, 64, torch.bfloat16, alike=True)
    keeps(compared(inputs, do, dht, 0.125, lambda q, k, v, g, beta, h0: chunk_gated_delta_rule(q, k, v, g, beta, 0.125, h0, True)))


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_packed(kind):
    cu = [0, 15, 15, 100, 133]
    inputs, do, dht = draw(1, 133, 1, 2, 32, 64, sequences=4)
    at = torch.tensor(cu, device=device, dtype=kind)
    keeps(compared(inputs, do, dht, 0.2, lambda q, k, v, g, beta, h0: chunk_gated_delta_rule(q, k, v, g, beta, 0.2, h0, True, cu_seqlens=at), cu))
    keeps(compared(inputs, do, dht, 0.2, lambda q, k, v, g, beta, h0: fused_recurrent_gated_delta_rule(
        q, k, v, g, beta, 0.2, h0, True, cu_seqlens=at), cu, gradients=False))


@pytest.mark.parametrize(("heads", "group", "alike"), [(6, 3, False), (4, 2, True)])
def test_shared(monkeypatch, heads, group, alike):
    """Programs of prepare that take some or all value heads of a key head; one with identical keys, in bf16."""
    taken = []
    monkeypatch.setattr(rule, "sharing", lambda n, programs: taken.append((n, programs)) or group)
    cu = [0, 40, 40, 75]
    inputs, do, dht = draw(1, 75, 2 if group == 3 else 1, heads, 64, 64, torch.bfloat16, sequences=3, alike=alike)
    at = torch.tensor(cu, device=device)
    keeps(compared(inputs, do, dht, 0.125, lambda *x: chunk_gated_delta_rule(*x[:5], 0.125, x[5], True, cu_seqlens=at), cu, gradients=False))
    assert taken == [(heads // inputs[0].shape[2], (75 + 3 * 63) // 64 * heads)]


@pytest.mark.parametrize("kind", ["alike", "turned", "small"])
def test_inverse_pair(kind):
    """(I + N)^-1 of 32 rows by products in two parts is within 2^-13 of the largest element, where keys are alike, of both signs, and far apart in length."""
    torch.manual_seed(1)
    k = F.normalize(torch.randn(32, 8), dim=1)
    if kind == "alike":
        k = k[:1].expand(32, 8)
    elif kind == "turned":
        k = k[:1] * (-1.0) ** torch.arange(32)[:, None]
    else:
        k = k * 10.0 ** -torch.arange(32)[:, None].remainder(7)
    N = torch.tril(k @ k.T, -1).to(device)
    out = torch.empty(2, 32, 32, device=device)
    inverted[(1,)](N, N.T.contiguous(), out)
    want = torch.linalg.inv(torch.eye(32, device=device, dtype=torch.float64) + N.double())
    assert (out[0] - want).abs().max() < 2**-13 * want.abs().max() and (out[1].T - want).abs().max() < 2**-13 * want.abs().max()


def test_sharing():
    """As many as divide the value heads of a key head and leave programs enough."""
    assert [rule.sharing(4, n * rule.FULL) for n in (1, 7, 8, 15, 16)] == [1, 1, 2, 2, 4]
    assert rule.sharing(6, 10**6) == 6 and rule.sharing(3, 9 * rule.FULL) == 1 and rule.sharing(1, 0) == 1


@pytest.mark.parametrize("keep", [True, False])
def test_parts(monkeypatch, keep):
    """Parts of packed sequences beside each other, one of them empty, one shorter than a part; states are kept for gradients, or computed again."""
    monkeypatch.setattr(rule, "KEEP_STATES", keep)
    cu = [0, 290, 290, 310, 400]
    inputs, do, dht = draw(1, 400, 1, 2, 32, 16, sequences=4, normaliser=5.0)
    monkeypatch.setattr(rule, "part_of", lambda *_: 32)
    at = torch.tensor(cu, device=device)
    keeps(compared(inputs, do, dht, 0.2, lambda q, k, v, g, beta, h0: chunk_gated_delta_rule(q, k, v, g, beta, 0.2, h0, True, cu_seqlens=at), cu))


def test_parts_of_rows(monkeypatch):
    """Parts of rows, with identical keys, of which all that each part adds to the state must cancel, and with states [V, K]."""
    monkeypatch.setattr(rule, "PART_CHUNKS", 1)
    inputs, do, dht = draw(1, 260, 1, 1, 64, 64, torch.bfloat16, alike=True)
    assert rule.part_of(inputs[0], 1, 260, 1, 1, 64, 64) == 64
    keeps(compared(inputs, do, dht, 0.125, lambda q, k, v, g, beta, h0: chunk_gated_delta_rule(q, k, v, g, beta, 0.125, h0, True)))
    inputs, do, dht = draw(2, 140, 1, 2, 32, 16)
    monkeypatch.setattr(rule, "part_of", lambda *_: 64)

    def turned(q, k, v, g, beta, h0):
        o, ht = chunk_gated_delta_rule(q, k, v, g, beta, 0.2, h0.transpose(2, 3).contiguous(), True, state_v_first=True)
        return o, ht.transpose(2, 3)
    keeps(compared(inputs, do, dht, 0.2, turned))


def test_state_v_first():
    inputs, do, dht = draw(2, 70, 1, 2, 32, 16)

    def turned(compute):
        def call(q, k, v, g, beta, h0):
            o, ht = compute(q, k, v, g, beta, 0.2, h0.transpose(2, 3).contiguous(), True, state_v_first=True)
            return o, ht.transpose(2, 3)
        return call
    keeps(compared(inputs, do, dht, 0.2, turned(chunk_gated_delta_rule)))
    keeps(compared(inputs, do, dht, 0.2, turned(fused_recurrent_gated_delta_rule), gradients=False))


def test_strides():
    """q, k and v as slices of one tensor give what copies give, to the bit, and gradients that arrive strided too."""
    (q, k, v, g, beta, _), do, _ = draw(2, 40, 2, 4, 32, 16)
    whole = torch.cat([x.flatten(2) for x in (q, k, v)], -1).requires_grad_()
    parts = [x.view(2, 40, -1, w) for x, w in zip(whole.split([64, 64, 64], -1), (32, 32, 16))]
    assert not parts[0].is_contiguous()
    o, none = chunk_gated_delta_rule(*parts, g, beta)
    assert none is None
    own = [x.clone().requires_grad_() for x in (q, k, v)]
    same, _ = chunk_gated_delta_rule(*own, g, beta)
    assert torch.equal(o, same)
    o.transpose(1, 2).backward(do.transpose(1, 2))
    same.backward(do.contiguous())
    assert torch.equal(whole.grad, torch.cat([x.grad.flatten(2) for x in own], -1))
    o, _ = chunk_gated_delta_rule(*own, g, beta)
    o.float().sum().backward()  # its gradient has strides of 0


def test_raw_gates():
    """Gates and rates made in the kernel are those that torch makes, with gradients and without."""
    torch.manual_seed(1)
    (q, k, v, *_), do, _ = draw(1, 50, 1, 2, 32, 32, torch.float32)
    a, b, A_log, dt_bias = (torch.randn(s, device=device, requires_grad=True) for s in ((1, 50, 2), (1, 50, 2), (2,), (2,)))
    options = dict(use_gate_in_kernel=True, A_log=A_log, dt_bias=dt_bias, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True, use_qk_l2norm_in_kernel=True)
    g, beta = -A_log.exp() * F.softplus(a + dt_bias), 2 * b.sigmoid()
    want, _ = chunk_gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)
    wanted = torch.autograd.grad(want, (a, b, A_log, dt_bias), do)
    got, _ = chunk_gated_delta_rule(q, k, v, a, b, **options)
    for x, y in zip(torch.autograd.grad(got, (a, b, A_log, dt_bias), do), wanted):
        assert ratio(x, y) < 1e-3
    with torch.no_grad():
        for compute in (chunk_gated_delta_rule, fused_recurrent_gated_delta_rule):
            assert ratio(compute(q, k, v, a, b, **options)[0], want) < 1e-4


def test_saturated_gates():
    """Decays whose exp(A_log) float32 lacks are those of float64, where a gate is closed and where it is not; no gradient is NaN."""
    (q, k, v, _, beta, h0), do, _ = draw(1, 50, 1, 2, 32, 32, torch.float32)
    A_log, a = (torch.tensor(x, device=device) for x in ([90.0, 200.0], [-91.0, -202.0]))
    a = (a + 60.0 * (torch.arange(50, device=device) % 3 - 1)[:, None])[None].requires_grad_()
    g = (-A_log.double().exp() * F.softplus(a.double())).float()
    want, state = chunk_gated_delta_rule(q, k, v, g, beta, initial_state=h0, output_final_state=True)
    for compute in (chunk_gated_delta_rule, fused_recurrent_gated_delta_rule):
        with torch.no_grad():
            o, ht = compute(q, k, v, a, beta, initial_state=h0, output_final_state=True, use_gate_in_kernel=True, A_log=A_log)
        assert ratio(o, want) < 1e-4 and ratio(ht, state) < 1e-4
    o, _ = chunk_gated_delta_rule(q, k, v, a, beta, use_gate_in_kernel=True, A_log=A_log)
    assert torch.isfinite(torch.autograd.grad(o, a, do)[0]).all()


def test_defaults():
    """No decay, a rate of 1, no state; heads of q above those of k and v; states in bf16."""
    (q, k, v, _, _, h0), _, _ = draw(1, 20, 2, 2, 16, 16, torch.float32)
    zero, one = torch.zeros(1, 20, 2, device=device), torch.ones(1, 20, 2, device=device)
    want = reference(*(x.double() for x in (q, k, v, zero, one, h0 * 0)), 0.25, [(0, 0, 20)])[0]
    for compute in (chunk_gated_delta_rule, fused_recurrent_gated_delta_rule):
        assert ratio(compute(q, k, v)[0], want) < 1e-4
        o, ht = compute(q, k[:, :, :1], v[:, :, :1], initial_state=h0.bfloat16(), output_final_state=True)
        assert ht.dtype == torch.bfloat16 and o.shape == q.shape
        assert ratio(o, reference(*(x.double() for x in (q, k[:, :, :1].expand_as(k), v[:, :, :1].expand_as(v), zero, one, h0.bfloat16())),
                                  0.25, [(0, 0, 20)])[0]) < 1e-4


def test_beta_of_zero():
    """A token of rate 0 writes nothing, and its rate has a gradient nevertheless."""
    inputs, do, dht = draw(1, 40, 1, 1, 32, 32, torch.float32)
    inputs[4][:, ::3] = 0
    keeps(compared(inputs, do, dht, 0.2, lambda q, k, v, g, beta, h0: chunk_gated_delta_rule(q, k, v, g, beta, 0.2, h0, True)))


@pytest.mark.parametrize("part", [0, 32])
def test_operators(monkeypatch, part):
    """What torch.compile asks of custom operators: schema, fake kernels and gradients."""
    (q, k, v, g, beta, h0), _, _ = draw(1, 20, 1, 1, 16, 16, torch.float32)
    q.requires_grad_()
    monkeypatch.setattr(rule, "part_of", lambda *_: part)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for cu in (None, torch.tensor([0, 20], device=device)):
        torch.library.opcheck(torch.ops.@NAME@.chunk_forward, (q, k, v, g, beta, None, None, h0, cu, 0.2, True, False, False, False, True, True, not part), test_utils=tests)
        torch.library.opcheck(torch.ops.@NAME@.recurrent, (q.detach(), k, v, g, beta, None, None, h0, cu, 0.2, True, False, False, True, True), test_utils=tests)


def test_compile():
    """torch.compile takes a call as one graph, forward and backward."""
    (q, k, v, g, beta, h0), do, _ = draw(1, 20, 1, 2, 16, 16, torch.float32)
    results = []
    for call in (chunk_gated_delta_rule, torch.compile(chunk_gated_delta_rule, fullgraph=True, backend="aot_eager")):
        own = [x.clone().requires_grad_() for x in (q, k, v)]
        o, ht = call(*own, g, beta, initial_state=h0, output_final_state=True)
        o.backward(do)
        results.append([o, ht, *(x.grad for x in own)])
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize(("dtype", "D", "part"), [(torch.float32, 32, 0), (torch.float32, 32, 32), (torch.bfloat16, 64, 0)])
def test_workspace(monkeypatch, dtype, D, part):
    """A workspace of NaN gives what a call makes room for itself gives, to the bit, packed and not, under torch.compile too; nothing beyond it is written."""
    (q, k, v, g, beta, h0), _, _ = draw(1, 70, 1, 2, D, D, dtype)
    monkeypatch.setattr(rule, "part_of", lambda *_: part)
    for cu in (None, torch.tensor([0, 33, 70], device=device)):
        start = h0 if cu is None else torch.cat([h0, -h0])
        want = chunk_gated_delta_rule(q, k, v, g, beta, initial_state=start, output_final_state=True, cu_seqlens=cu)
        size = workspace_bytes(q, v, cu)
        room = torch.full((size + 64,), 255, device=device, dtype=torch.uint8)
        for call in (chunk_gated_delta_rule, torch.compile(chunk_gated_delta_rule, fullgraph=True, backend="aot_eager")):
            got = call(q, k, v, g, beta, initial_state=start, output_final_state=True, cu_seqlens=cu, workspace=room)
            assert all(map(torch.equal, got, want)) and (room[size:] == 255).all() and (room[:size] != 255).any()
            room.fill_(255)
        torch.library.opcheck(torch.ops.@NAME@.chunk_within, (q, k, v, g, beta, None, None, start, cu, 0.2, False, False, False, False, True, room),
                              test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))
        with pytest.raises(ValueError, match=f"{size} bytes of uint8 .* are wanted"):
            chunk_gated_delta_rule(q, k, v, g, beta, initial_state=start, cu_seqlens=cu, workspace=room[:size - 1])
        with pytest.raises(ValueError, match="without gradients"):
            chunk_gated_delta_rule(q.detach().requires_grad_(), k, v, g, beta, initial_state=start, cu_seqlens=cu, workspace=room)


def test_pool():
    """States of a pool by index, one skipped, in place; another layout, other places to leave them, raw gates, under the names of serving programs."""
    (q, k, v, g, beta, h0), _, _ = draw(3, 1, 1, 2, 16, 32, torch.float32, sequences=5)
    at = torch.tensor([3, -1, 0], device=device, dtype=torch.int32)
    want, states = fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=h0[[3, 1, 0]], output_final_state=True)
    pool = h0.clone()
    o, same = serving.fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=pool, ssm_state_indices=at, state_v_first=False)
    assert same is pool and not o[1].any()
    torch.testing.assert_close(o[[0, 2]], want[[0, 2]])
    torch.testing.assert_close(pool[[3, 0]], states[[0, 2]])
    assert torch.equal(pool[[1, 2, 4]], h0[[1, 2, 4]])
    A_log, dt_bias = torch.randn(2, device=device), torch.randn(2, device=device)
    raw = dict(use_gate_in_kernel=True, A_log=A_log, dt_bias=dt_bias, use_beta_sigmoid_in_kernel=True, use_qk_l2norm_in_kernel=True)
    want, states = fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=h0[[3, 1, 0]], output_final_state=True, **raw)
    turned = h0.transpose(2, 3).contiguous()
    pool = turned.clone()
    o = serving.fused_sigmoid_gating_delta_rule_update(A_log, g, dt_bias, 1.0, 20.0, q, k, v, beta, pool, at, use_qk_l2norm_in_kernel=True)
    torch.testing.assert_close(o[[0, 2]], want[[0, 2]])
    torch.testing.assert_close(pool[[3, 0]].transpose(2, 3), states[[0, 2]])
    other = turned.clone()
    same, _ = serving.fused_sigmoid_gating_delta_rule_update(A_log=A_log, a=g, b=beta, dt_bias=dt_bias, q=q, k=k, v=v, initial_state=other, ssm_state_indices=at,
                                                             use_qk_l2norm_in_kernel=True)
    assert torch.equal(same, o) and torch.equal(other, pool)
    rows, packed, out = torch.cat([x.flatten(1) for x in (q, k, v)], 1), turned.clone(), torch.empty_like(v)
    rows = F.pad(rows, (0, 8))[:, :-8]
    assert serving.fused_recurrent_gated_delta_rule_packed_decode(rows, g[:, 0], beta[:, 0], A_log, dt_bias, 0.25, packed, out, at, True) is out
    assert torch.equal(out, o) and torch.equal(packed, pool)
    with pytest.raises(ValueError, match="a row of q, k and v has 95 elements"):
        serving.fused_recurrent_gated_delta_rule_packed_decode(rows[:, 1:], g[:, 0], beta[:, 0], A_log, dt_bias, 0.25, packed, out, at, True)
    pool, into = turned.clone(), torch.tensor([4, 2, -1], device=device, dtype=torch.int32)
    o, _ = serving.gated_delta_rule_decode_pretranspose(q, k, v, pool, A_log, g, dt_bias, beta, initial_state_indices=at, output_state_indices=into)
    torch.testing.assert_close(o[0], want[0])
    torch.testing.assert_close(pool[4].transpose(1, 2), states[0])
    assert torch.equal(pool[:4], turned[:4])


def test_prefill():
    """vLLM's prefill: states [N, HV, V, K], and the outputs in a tensor given."""
    (q, k, v, g, beta, h0), _, _ = draw(1, 20, 1, 2, 16, 32, torch.float32, sequences=2)
    cu = torch.tensor([0, 5, 20], device=device, dtype=torch.int32)
    want, states = fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=h0, output_final_state=True, cu_seqlens=cu)
    into = torch.zeros(24, 2, 32, device=device)
    o, ht = serving.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=h0.transpose(2, 3), output_final_state=True, cu_seqlens=cu, core_attn_out=into)
    torch.testing.assert_close(o, want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ht.transpose(2, 3), states, rtol=1e-4, atol=1e-4)
    assert torch.equal(into[:20], o[0]) and not into[20:].any()


@pytest.mark.parametrize(("HQ", "HK", "HV", "alpha", "beta", "dtype"), [
    (1, 1, 2, True, True, torch.bfloat16), (4, 1, 1, True, False, torch.float16), (2, 2, 2, False, True, torch.bfloat16)])
def test_flashinfer(HQ, HK, HV, alpha, beta, dtype):
    """FlashInfer's prefill on its distributions and by its limits: decays, not their logarithms, a pool by index, and states of empty sequences left alone."""
    torch.manual_seed(0)
    heads, cu, into = max(HQ, HV), [0, 31, 31, 122], [4, 0, 2]
    draw = lambda h: (torch.randn(122 * h, 1) * 0.05 + torch.rand(122 * h, 128) * 0.5 - 0.25).view(122, h, 128)
    q, k, v = draw(HQ).to(dtype), F.normalize(draw(HK).to(dtype), p=2, dim=-1), draw(HV).to(dtype)
    g, b = (torch.rand(122, heads) if given else None for given in (alpha, beta))
    pool = torch.zeros(5, heads, 128, 128)
    pool[into[0]], pool[into[2]], pool[into[1]] = 0, 0, 123.0
    wide = lambda x: x.double().repeat_interleave(heads // x.shape[1], 1)[None]
    ones = torch.ones(1, 122, heads, dtype=torch.float64)
    want, states = reference(wide(q), wide(k), wide(v), ones * 0 if g is None else g.double().log()[None], ones if b is None else b.double()[None],
                             torch.zeros(3, heads, 128, 128, dtype=torch.float64), 1.0, [(0, x, y) for x, y in zip(cu[:-1], cu[1:])])
    on = lambda x: None if x is None else x.to(device)
    pool, at, index = on(pool), on(torch.tensor(cu)), on(torch.tensor(into, dtype=torch.int32))
    o, same = flashinfer.chunk_gated_delta_rule(on(q), on(k), on(v), on(g), on(b), 1.0, pool, True, at, output_state=pool, state_indices=index)
    limits, of_states = (dict(atol=1e-2, rtol=1e-2), dict(atol=5e-3, rtol=1e-3)) if dtype == torch.bfloat16 else (dict(atol=2e-3, rtol=1e-3), dict(atol=1e-3, rtol=1e-4))
    torch.testing.assert_close(o.cpu(), want[0].to(dtype), **limits)
    torch.testing.assert_close(same[into][[0, 2]].cpu(), states.transpose(2, 3)[[0, 2]].float(), **of_states)
    assert same is pool and (pool[into[1]] == 123.0).all() and not pool[[1, 3]].any()
    with pytest.raises(ValueError, match="explicit output_state pool"):
        flashinfer.chunk_gated_delta_rule(on(q), on(k), on(v), on(g), on(b), 1.0, pool, True, at, state_indices=index)


@pytest.mark.parametrize(("tokens", "dtype", "kept"), [
    (1, torch.float32, torch.float32), (1, torch.bfloat16, torch.bfloat16), (2, torch.float32, torch.float32), (4, torch.bfloat16, torch.bfloat16),
    (0, torch.float16, torch.float16), (0, torch.bfloat16, torch.float32)])
def test_vllm(monkeypatch, tokens, dtype, kept):
    """vLLM's steps, windows of drafts, and rows of q, k and v (tokens 0), by raw gates, on its distributions and by its limits.

    Index 0 of a pool is padding; after tokens that were accepted a window starts from the state of the last one.
    """
    monkeypatch.setattr(serving, "FIRST_STATE", 1)
    torch.manual_seed(0)
    packed, N, tokens, HK, HV, K = not tokens, 4, max(tokens, 1), 1, 2, 128
    fill = torch.randn if packed else torch.rand
    rows = fill(N * tokens, (2 * HK + HV) * K + 64 * packed, dtype=dtype)[:, :(2 * HK + HV) * K].to(device)
    q, k, v = (x.view(1, N * tokens, -1, K) for x in rows.split([HK * K, HK * K, HV * K], 1))
    A_log, dt_bias, *ab = (fill(*shape, dtype=dtype).to(device) for shape in ((HV,), (HV,), (N * tokens, HV), (N * tokens, HV)))
    pool = fill(2 * N * tokens + 1, HV, K, K, dtype=kept).to(device)
    at = (torch.randperm(2 * N * tokens)[:N * tokens] + 1).view(N, tokens).to(device, torch.int32)
    accepted = torch.randint(1, max(tokens, 2), (N,), dtype=torch.int32).to(device)
    if packed:
        at[2], at[3] = -1, 0
    valid = at[:, 0] > 0
    wide = [x.double().view(N, tokens, *x.shape[2:]) for x in (q, k, v)]
    unit = [x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in wide[:2]]
    a, b = (x.double().view(N, tokens, HV) for x in ab)
    g, h0 = -A_log.double().exp() * F.softplus(a + dt_bias.double()), pool.double()[at.long().gather(1, accepted.long()[:, None] - 1)[:, 0]].transpose(2, 3)
    after = pool.double()
    for t in range(1, tokens + 1):
        want, states = reference(*(x[:, :t] for x in (*unit, wide[2], g, b.sigmoid())), h0, K**-0.5, [(n, 0, t) for n in range(N)])
        after[at[valid, t - 1].long()] = states.transpose(2, 3)[valid]
    if packed:
        o = torch.empty(N, 1, HV, K, dtype=dtype, device=device)
        serving.fused_recurrent_gated_delta_rule_packed_decode(rows, *ab, A_log, dt_bias, K**-0.5, pool, o, at[:, 0].contiguous(), True)
    else:
        named = dict(ssm_state_indices=at[:, 0].contiguous()) if tokens == 1 else dict(ssm_state_indices=at, num_accepted_tokens=accepted)
        o, _ = serving.fused_sigmoid_gating_delta_rule_update(A_log, ab[0], dt_bias, q=q, k=k, v=v, b=ab[1], initial_state=pool, use_qk_l2norm_in_kernel=True,
                                                              cu_seqlens=torch.arange(0, N * tokens + 1, tokens, device=device, dtype=torch.int32), **named)
    limits = dict(atol=1e-4, rtol=1e-4) if dtype == torch.float32 else dict(atol=2e-2, rtol=1e-2) if packed else dict(atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(o.view(want.shape)[valid], want[valid].to(dtype), **limits)
    torch.testing.assert_close(pool, after.to(kept), **limits)


def test_null_block(monkeypatch):
    """vLLM's block 0 belongs to padding: its rows are skipped."""
    (q, k, v, g, beta, h0), _, _ = draw(3, 1, 1, 2, 16, 16, torch.float32, sequences=4)
    monkeypatch.setattr(serving, "FIRST_STATE", 1)
    pool, at = h0.clone(), torch.tensor([2, 0, 1], device=device)
    o, _ = serving.fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=pool, ssm_state_indices=at)
    want, states = fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=h0[[2, 0, 1]], output_final_state=True, state_v_first=True)
    assert not o[1].any() and torch.equal(pool[[0, 3]], h0[[0, 3]])
    torch.testing.assert_close(o[[0, 2]], want[[0, 2]])
    torch.testing.assert_close(pool[[2, 1]], states[[0, 2]])


def test_windows():
    """Windows of drafts: the state after each token goes to its place, and the next window starts behind the tokens that were accepted."""
    (q, k, v, g, beta, h0), _, _ = draw(2, 3, 1, 2, 16, 16, torch.float32, sequences=8)
    at = torch.tensor([[3, 1, 6], [0, 5, -1]], device=device)
    accepted = torch.tensor([2, 1], device=device, dtype=torch.int32)
    pool = h0.clone()
    o, _ = serving.fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=pool, ssm_state_indices=at, num_accepted_tokens=accepted,
                                                  state_v_first=False)
    for t in (1, 2, 3):
        want, states = fused_recurrent_gated_delta_rule(q[:, :t], k[:, :t], v[:, :t], g[:, :t], beta[:, :t], initial_state=h0[[1, 0]], output_final_state=True)
        torch.testing.assert_close(o[:, :t], want)
        for n in range(2):
            if at[n, t - 1] >= 0:
                torch.testing.assert_close(pool[at[n, t - 1]], states[n])
    assert torch.equal(pool[[2, 4, 7]], h0[[2, 4, 7]])
    flat = lambda x: x.flatten(0, 1)[None]
    other, cu = h0.clone(), torch.tensor([0, 3, 6], device=device)
    packed, _ = serving.fused_recurrent_gated_delta_rule(*map(flat, (q, k, v, g, beta)), initial_state=other, cu_seqlens=cu, ssm_state_indices=at,
                                                         num_accepted_tokens=accepted, state_v_first=False)
    assert torch.equal(packed, flat(o)) and torch.equal(other, pool)


def test_no_second_gradient():
    (q, k, v, g, beta, _), _, _ = draw(1, 20, 1, 1, 16, 16, torch.float32)
    q.requires_grad_()
    o, _ = chunk_gated_delta_rule(q, k, v, g, beta)
    (dq,) = torch.autograd.grad(o.square().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="double backward"):
        dq.sum().backward()


def test_autocast():
    (q, k, v, g, beta, _), _, _ = draw(1, 20, 1, 1, 16, 16, torch.float32)
    with torch.autocast(device, dtype=torch.bfloat16):
        o, _ = chunk_gated_delta_rule(q.requires_grad_(), k, v, g, beta)
    assert o.dtype == torch.bfloat16
    o.float().sum().backward()
    assert q.grad.dtype == torch.float32


@pytest.mark.parametrize(("change", "sentence"), [
    (dict(q=torch.zeros(1, 20, 16)), "q has the shape .*: .batch, tokens, heads, width. is wanted"),
    (dict(k=torch.zeros(1, 20, 1, 16, dtype=torch.float16)), "q is torch.float32, k torch.float16.*one type"),
    (dict(g=torch.zeros(1, 20, 3)), "g has the shape .*wanted"),
    (dict(v=torch.zeros(1, 20, 3, 16), q=torch.zeros(1, 20, 2, 16)), "heads of q"),
    (dict(cu_seqlens=torch.zeros(2)), "cu_seqlens is torch.float32.*int32 or int64"),
    (dict(initial_state=torch.zeros(2, 1, 16, 16)), "initial_state has the shape"),
    (dict(q=torch.zeros(1, 20, 1, 300), k=torch.zeros(1, 20, 1, 300)), "at most 256"),
    (dict(use_gate_in_kernel=True), "wants g and A_log"),
])
def test_refusals(change, sentence):
    (q, k, v, g, beta, _), _, _ = draw(1, 20, 1, 1, 16, 16, torch.float32)
    change = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in change.items()}
    with pytest.raises(ValueError, match=sentence):
        chunk_gated_delta_rule(**(dict(q=q, k=k, v=v, g=g, beta=beta) | change))
