"""Times of a generated package beside flash-linear-attention's Triton path, forward and backward: microseconds of a CUDA graph, warm, median of 100.

    python torch_times.py PACKAGE [--small]

PACKAGE is a folder that `gdngen gen --backend triton --package` wrote. The Python has torch and triton; fla's columns are empty without fla-core. --small
is one small call in Triton's interpreter, without times: it says that the script runs.
"""

import importlib
import os
import sys

package, small = sys.argv[1], "--small" in sys.argv
sys.path[0] = os.path.join(package, "src")  # the folder of this script has a fla.py
os.environ["FLA_DISABLE_BACKEND_DISPATCH"] = "1"
if small:
    os.environ["TRITON_INTERPRET"] = "1"
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

ours = importlib.import_module(os.path.basename(os.path.normpath(package))).chunk_gated_delta_rule
try:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as theirs
except ImportError:
    theirs = None
SHAPES = [(1, 70, 1, 2)] if small else [(8, 1024, 2, 8), (8, 1024, 4, 8), (8, 1024, 16, 32), (8, 1024, 16, 64), (1, 8192, 2, 8), (1, 8192, 4, 8), (1, 8192, 16, 64)]
DEVICE, WIDTH = ("cpu", 32) if small else ("cuda", 128)


def median(call):
    """Of 100 replays of a graph."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(100):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        times.append(1000 * first.elapsed_time(last))
    return sorted(times)[50]


print("B, T, HK, HV: ours forward, ours backward, fla forward, fla backward [us]")
for B, T, HK, HV in SHAPES:
    q, k = (F.normalize(torch.randn(B, T, HK, WIDTH, device=DEVICE), dim=-1).bfloat16().requires_grad_() for _ in range(2))
    v = torch.randn(B, T, HV, WIDTH, device=DEVICE).bfloat16().requires_grad_()
    g, beta = F.logsigmoid(torch.rand(B, T, HV, device=DEVICE)).requires_grad_(), torch.rand(B, T, HV, device=DEVICE).requires_grad_()
    do, row, outputs = torch.randn_like(v), [], []
    for rule in (ours, theirs):
        if rule is None or small and rule is theirs:
            continue
        with torch.no_grad():
            outputs.append(rule(q, k, v, g, beta)[0])
            forward = None if small else median(lambda: rule(q, k, v, g, beta))
        o, _ = rule(q, k, v, g, beta)
        outputs.append(o.detach())
        back = lambda: torch.autograd.grad(o, (q, k, v, g, beta), do, retain_graph=True)  # noqa: B023, E731
        if small:
            assert all(x.isfinite().all() for x in back())
        row += [forward, None if small else median(back)]
    assert not small or max((x.float() - outputs[0].float()).norm() / outputs[0].float().norm() for x in outputs) < 0.01
    apart = max((x.float() - outputs[0].float()).norm() / outputs[0].float().norm() for x in outputs)
    print(f"{B}, {T}, {HK}, {HV}:", *("-" if x is None else f"{x:.1f}" for x in row), f"(outputs apart by {apart:.1e})", flush=True)
