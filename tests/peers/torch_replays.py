"""A CUDA graph of a generated package, replayed on other lengths, inputs and states, gives what a call gives, to the bit; states that no index names stay.

    python torch_replays.py PACKAGE

PACKAGE is a folder that `gdngen gen --backend triton --package` wrote. It wants a GPU.
"""

import importlib
import os
import sys

import torch
import torch.nn.functional as F

package = sys.argv[1]
sys.path.insert(0, os.path.join(package, "src"))
name = os.path.basename(os.path.normpath(package))
ours, serving = importlib.import_module(name), importlib.import_module(name + ".serving")
LENGTHS = [[1000, 0, 24], [1, 500, 523], [300, 300, 424]]


def draw(T):
    q, k = (F.normalize(torch.randn(1, T, 4, 128, device="cuda"), dim=-1).bfloat16() for _ in range(2))
    return q, k, torch.randn(1, T, 8, 128, device="cuda").bfloat16(), F.logsigmoid(torch.randn(1, T, 8, device="cuda")), torch.rand(1, T, 8, device="cuda")


def replayed(call, held, drawn):
    """call as a graph, on what is drawn anew each time, beside call itself."""
    for _ in range(3):
        call(*held)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call(*held)
    for given in drawn:
        for place, x in zip(held, given):
            place.copy_(x)
        graph.replay()
        got = [x.clone() for x in results]
        for place, x in zip(held, given):
            place.copy_(x)
        assert all(torch.equal(a, b) for a, b in zip(got, call(*held))), "a replay differs from a call"


def packed(lengths):
    return *draw(1024), torch.randn(3, 8, 128, 128, device="cuda"), F.pad(torch.tensor(lengths, device="cuda").cumsum(0), (1, 0))


def prefill(q, k, v, g, beta, h0, cu):
    return ours.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=h0, output_final_state=True, cu_seqlens=cu)


def decode(q, k, v, g, beta, pool, at):
    q, k, v, g, beta = (x.transpose(0, 1) for x in (q, k, v, g, beta))
    return serving.decode_pool(q.contiguous(), k.contiguous(), v.contiguous(), g.contiguous(), beta.contiguous(), pool, at), pool


replayed(prefill, packed(LENGTHS[0]), [packed(x) for x in LENGTHS])
drawn = [(*draw(3), torch.randn(9, 8, 128, 128, device="cuda"), torch.tensor(at, device="cuda", dtype=torch.int32)) for at in ([3, -1, 0], [8, 1, 5], [-1, -1, 2])]
replayed(decode, tuple(x.clone() for x in drawn[0]), drawn)
for given in drawn:
    *_, pool, at = given
    before = pool.clone()
    decode(*given)
    others = [i for i in range(9) if i not in at.tolist()]
    assert torch.equal(pool[others], before[others]), "a state that no index names has changed"
print("replays give what calls give, to the bit")
