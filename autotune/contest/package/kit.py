"""What the tests, the launches and the benchmark share: the files of this folder, inputs, the rule in float64, and tensors."""

import importlib
import json
import pathlib
import sys
import warnings

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
NUMPY = {"float32": np.float32, "int64": np.int64, "int32": np.int32}


class Definition:
    """A definition of the benchmark: sizes, names and types of its tensors, the layout of its states."""

    def __init__(self, path):
        self.json = json.loads(path.read_text())
        self.name = self.json["name"]
        constants = {n: a["value"] for n, a in self.json["axes"].items() if a["type"] == "const"}
        self.HK, self.HV, self.K = constants["num_k_heads"], constants["num_v_heads"], constants["head_size"]
        self.V = self.K
        self.constants = constants
        self.packed = "cu_seqlens" in self.json["inputs"]
        self.k_last = "layout:k-last" in self.json.get("tags", []) or self.name.endswith("k_last")
        lines = (FOLDER / "workloads" / self.json["op_type"] / f"{self.name}.jsonl").read_text().splitlines()
        self.workloads = [json.loads(line)["workload"] for line in lines]

    def solutions(self):
        """The solutions of this definition, by name."""
        found = sorted(FOLDER.glob(f"solutions/*/{self.json['op_type']}/{self.name}/*.json"))
        return {s["name"]: s for s in (json.loads(path.read_text()) for path in found)}

    def shape(self, tensor, axes):
        return tuple((self.constants | axes)[axis] for axis in tensor["shape"])


def definitions():
    return {d.name: d for d in map(Definition, sorted(FOLDER.glob("definitions/*/*.json")))}


def solution(name):
    """The function that the benchmark calls."""
    return module(f"kernels.{name}.main").run


def forms(definition, name):
    """The forms that a solution chooses from: functions that are called as it is, by name."""
    main = module(f"kernels.{name}.main")
    return {row[-1].__name__.split(".")[-1]: caller(definition, row[-1]) for row in main.FORMS}


def front(definition):
    """Variants of a definition beside those of its solutions: functions that are called as solutions are, by name."""
    found = {}
    for path in sorted((FOLDER / "front" / definition.name).glob("*.py")):
        kernels = module(f"front.{definition.name}.{path.stem}")
        found[path.stem] = caller(definition, kernels)
    return found


def caller(definition, kernels):
    def run(*tensors):
        names = [*definition.json["inputs"], *definition.json["outputs"]]
        given = dict(zip(names, tensors, strict=True))
        scale = given.pop("scale") or definition.K**-0.5
        given["initial_state"], given["o"], given["final_state"] = given.pop("state"), given.pop("output"), given.pop("new_state")
        kernels.run(**given, scale=scale)

    return run


def module(name):
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


CLASSES = {
    "random": "normal q, v and gates, unit keys",
    "identical": "one key for all tokens of a head, beta 1, no decay",
    "cos.99": "keys at cosine .99, beta 1, no decay",
    "resets": "as random, with a state that is forgotten at a tenth of the tokens",
}


def inputs(d, lengths, kind="random", seed=0):
    """Inputs of sequences with these lengths by name, in float64 and rounded to what their types hold; the state as [N, HV, V, K] or [N, HV, K, V]."""
    r = np.random.default_rng(seed)
    T, N = sum(lengths), len(lengths)
    q, k, v = unit(r.standard_normal((T, d.HK, d.K))), unit(r.standard_normal((T, d.HK, d.K))), r.standard_normal((T, d.HV, d.V))
    A_log, dt_bias = np.log(r.uniform(1, 16, d.HV)), r.uniform(-4, -2, d.HV)
    a, b = r.standard_normal((T, d.HV)), r.standard_normal((T, d.HV))
    if kind in ("identical", "cos.99"):
        base = unit(r.standard_normal((1, d.HK, d.K)))
        k = np.broadcast_to(base, k.shape).copy()
        if kind == "cos.99":
            other = r.standard_normal(k.shape)
            other = unit(other - (other * base).sum(-1, keepdims=True) * base)
            k = 0.99**0.5 * base + 0.01**0.5 * other
        a[:], b[:] = -30, 30
    if kind == "resets":
        a[r.random(a.shape) < 0.1] = 40
    state = 0.3 * r.standard_normal((N, d.HV, *((d.V, d.K) if d.k_last else (d.K, d.V))))
    given = dict(q=q, k=k, v=v, state=state, A_log=A_log, a=a, dt_bias=dt_bias, b=b)
    if d.packed:
        given["cu_seqlens"] = np.cumsum([0, *lengths])
    else:
        given |= {n: given[n][:, None] for n in ("q", "k", "v", "a", "b")}
    return {n: rounded(x, d.json["inputs"][n]["dtype"]) for n, x in given.items()}


def rounded(x, dtype):
    """What a type holds of x, in float64."""
    if dtype == "bfloat16":
        return from_bits(bits(x)).astype(np.float64)
    return x.astype(NUMPY[dtype]).astype(np.float64)


def bits(x):
    """float32 rounded to bf16, to nearest even, as bits."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def from_bits(u):
    return (u.astype(np.uint32) << 16).view(np.float32)


def reference(d, given, scale=None):
    """output and new_state of the rule in float64, token by token. The state of an empty sequence is zeros, as the benchmark has it."""
    x = dict(given)
    scale = scale or d.K**-0.5
    cu = x["cu_seqlens"].astype(int) if d.packed else np.arange(len(x["q"]) + 1)
    if not d.packed:
        x |= {n: x[n][:, 0] for n in ("q", "k", "v", "a", "b")}
    group = d.HV // d.HK
    q, k = np.repeat(x["q"], group, 1), np.repeat(x["k"], group, 1)
    decay = np.exp(-np.exp(x["A_log"]) * np.logaddexp(0, x["a"] + x["dt_bias"]))
    beta = 1 / (1 + np.exp(-x["b"]))
    o, states = np.zeros(x["v"].shape), np.zeros((len(cu) - 1, d.HV, d.V, d.K))
    for n in range(len(cu) - 1):
        S = states[n]
        if x.get("state") is not None and cu[n] < cu[n + 1]:
            S += x["state"][n] if d.k_last else x["state"][n].swapaxes(-1, -2)
        for t in range(cu[n], cu[n + 1]):
            S *= decay[t][:, None, None]
            S += (beta[t][:, None] * (x["v"][t] - np.einsum("hvk,hk->hv", S, k[t])))[:, :, None] * k[t][:, None, :]
            o[t] = scale * np.einsum("hvk,hk->hv", S, q[t])
    if not d.packed:
        o = o[:, None]
    return o, states if d.k_last else states.swapaxes(-1, -2)


def wrong(got, want):
    """Elements that break the benchmark's rule: off by more than 1e-2 and by more than 1 %, or no numbers."""
    off = abs(got - want)
    return int((~(off <= 1e-2) & ~(off <= 1e-2 * abs(want))).sum())


class Interpreted:
    """Tensors of the interpreter: no torch, no GPU."""

    def __init__(self):
        from interpreter import TYPES, Tensor, emulate_rounding

        warnings.filterwarnings("ignore", category=DeprecationWarning, module="triton")
        emulate_rounding()
        self.Tensor, self.types = Tensor, {t.name: t for t in TYPES.values()}

    def tensor(self, x, dtype):
        held = bits(x) if dtype == "bfloat16" else np.ascontiguousarray(x, NUMPY[dtype])
        return self.Tensor(held, self.types[dtype])

    def array(self, t):
        held = from_bits(t.array) if t.dtype.name == "bfloat16" else t.array
        return held.astype(np.float64)


class Torch:
    """Tensors of torch on a device."""

    def __init__(self, device):
        import torch

        self.torch, self.device = torch, device

    def tensor(self, x, dtype):
        return self.torch.tensor(np.asarray(x), dtype=self.torch.float64).to(getattr(self.torch, dtype)).to(self.device).contiguous()

    def array(self, t):
        return t.double().cpu().numpy()


def arguments(d, on, given, scale=0.0, state=True):
    """What a solution is called with, outputs last and not a number before."""
    list_ = []
    for name, t in d.json["inputs"].items():
        if t["shape"] is None:
            list_.append(scale)
        elif name == "state" and not state:
            list_.append(None)
        else:
            list_.append(on.tensor(given[name], t["dtype"]))
    axes = dict(batch_size=len(given["q"]), total_seq_len=len(given["q"]), num_seqs=len(given["state"]))
    for t in d.json["outputs"].values():
        list_.append(on.tensor(np.full(d.shape(t, axes), np.nan), t["dtype"]))
    return list_


def judge(d, on, run, lengths, kind="random", scale=0.0, state=True, seed=0):
    """Calls a solution: for output and new_state the largest error over the largest value, and the elements that break the rule."""
    given = inputs(d, lengths, kind, seed)
    want = reference(d, given if state else given | {"state": None}, scale)
    call = arguments(d, on, given, scale, state)
    run(*call)
    rows = []
    for name, got, w in zip(d.json["outputs"], map(on.array, call[-2:]), want, strict=True):
        largest = abs(w).max() if w.size else 0.0
        error = abs(got - w).max() / largest if largest > 0 else abs(got).max() if got.size else 0.0
        rows.append((name, float(error), wrong(got, w), w.size))
    return rows
