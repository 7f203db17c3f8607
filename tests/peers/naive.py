"""Compares the stored cases of kda and gdn2 with flash-linear-attention's recurrences in plain torch, forward and backward, on the CPU.

    PYTHON tests/peers/naive.py tests/fixtures/family

PYTHON has fla-core 0.6.0, torch 2.15.0 and einops. In float64, against which files hold float32, a ratio of about 3e-8 is equal; by
float32 it is what their own arithmetic loses. Nothing of their code is copied.
"""

import importlib.util
import json
import pathlib
import struct
import sys

sys.path.pop(0)  # this folder has a fla.py of its own

import torch  # noqa: E402

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64}


class Wide:
    """torch, whose float32 is float64."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


def recurrence(rule, wide):
    ops = pathlib.Path(importlib.util.find_spec("fla").submodule_search_locations[0]) / "ops"
    spec = importlib.util.spec_from_file_location(rule, ops / rule / "naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if wide:
        module.torch = Wide()
    return getattr(module, f"naive_recurrent_{rule}")


def read(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, x in header.items():
        begin, end = (8 + length + i for i in x["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[x["dtype"]]).reshape(x["shape"])
    return tensors


def gates(x, bound):
    """g and what follows it of raw gates: beta, or the erase and the write gate."""
    rate, a = x["A_log"].exp()[:, None], x["a"] + x["dt_bias"]
    g = bound * torch.sigmoid(rate * a) if bound else -rate * torch.nn.functional.softplus(a)
    return [g, *(torch.sigmoid(x[name]) for name in ("b", "w") if name in x)]


def compute(case, x):
    """o and final_state of a case's inputs by their recurrence."""
    spec = dict(item.split("=") if "=" in item else (item, True) for item in case["spec"].split(","))
    q, k, v = x["q"], x["k"], x["v"]
    if "l2norm" in spec:
        q, k = (t * (t.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for t in (q, k))
    q, k = (t.repeat_interleave(v.shape[2] // q.shape[2], 2) for t in (q, k))
    given = [x[name] for name in ("g", "beta", "erase", "write") if name in x]
    tokens = [q, k, v, *(given or gates(x, float(spec.get("bound", 0))))]
    start = x.get("initial_state")
    if start is not None and spec.get("state") == "vk":
        start = start.transpose(-1, -2)
    run = recurrence(spec["rule"], q.dtype == torch.float64)
    if "cu_seqlens" not in x:
        o, state = run(*tokens, initial_state=start, output_final_state=True)
    else:
        parts, states = [], []
        cu = x["cu_seqlens"].tolist()
        for n, (begin, end) in enumerate(zip(cu, cu[1:])):
            if begin == end:
                states.append(start[n : n + 1])
                continue
            part, last = run(*(t[:, begin:end] for t in tokens), initial_state=start[n : n + 1], output_final_state=True)
            parts.append(part)
            states.append(last)
        o, state = torch.cat(parts, 1), torch.cat(states)
    if spec.get("state") == "vk":
        state = state.transpose(-1, -2)
    return {"o": o, "final_state": state}


def outputs(case, stored, dtype):
    """All outputs of a case, with gradients where it has them."""
    x = {}
    for name, t in stored.items():
        if name in case["tolerance"]:
            continue
        x[name] = t if t.dtype == torch.int64 else t.to(dtype).requires_grad_("do" in stored)
    out = compute(case, x)
    if "do" in x:
        sum((out[name] * x["d" + name]).sum() for name in out).backward()
        out |= {"d" + name: t.grad for name, t in x.items() if t.dtype != torch.int64}
    return out


folder = pathlib.Path(sys.argv[1])
to_double = torch.Tensor.double
for case in json.loads((folder / "manifest.json").read_text())["cases"]:
    stored = read(folder / case["file"])
    ratios = []
    for dtype in (torch.float64, torch.float32):
        own = torch.Tensor.float
        if dtype == torch.float64:
            torch.Tensor.float = to_double  # their code takes float32: its casts give float64
        got = outputs(case, stored, dtype)
        torch.Tensor.float = own
        ratios.append({name: ((got[name] - stored[name]).norm() / stored[name].norm()).item() for name in case["tolerance"]})
    for name in case["tolerance"]:
        print(case["name"], name, *(f"{r[name]:.1e}" for r in ratios))
