"""Errors and times of the solutions, and of the front of variants beside them, on a GPU.

    python benchmark.py                  all definitions; FlashInfer and flash-linear-attention too where they are installed
    python benchmark.py --workloads      times of the benchmark's own workloads, solutions and peers alone
    python benchmark.py --cpu            errors alone, small shapes, in Triton's interpreter: neither a GPU nor torch

Errors are against float64, token by token: the largest over the largest value, and how many elements break the benchmark's rule (off by more than
1e-2 and by more than 1 %). Times are medians of one call in a CUDA graph, out of the second cache. Peers get their gates ready made.
"""

import argparse
import json
import os
import statistics
import sys

if "--cpu" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"

import numpy as np

import kit

REPEATS = 50
ERROR_LENGTHS = {False: [1] * 16, True: [1000, 0, 63, 985]}  # by whether sequences are packed
CPU_LENGTHS = {False: [1, 1], True: [70, 0, 27]}
TIMED = {False: [[1] * n for n in (1, 4, 16, 64, 256)], True: [[64], [300] * 3, [2048], [8192], [1024] * 8, [256] * 32, [8192 // 57] * 56 + [8192 - 8192 // 57 * 56]]}


def entries(d):
    """What is measured of gdngen: the solutions, then the front, by name."""
    found = {name: kit.solution(name) for name in d.solutions()}
    return found | {f"front.{name}": run for name, run in kit.front(d).items()}


def gates(x):
    """Log decay and beta in float32."""
    import torch
    import torch.nn.functional as F

    return -torch.exp(x["A_log"]) * F.softplus(x["a"].float() + x["dt_bias"]), torch.sigmoid(x["b"].float())


def flashinfer_peer(d):
    """FlashInfer, for states with K last: a function that prepares a call from inputs by name and gives it with what reads its outputs."""
    if not d.k_last:
        return None
    if not d.packed:
        from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose

        def prepare(x, scale):
            state, kept = x["state"].clone(), {}

            def call():  # states are updated in place
                kept["o"], _ = gated_delta_rule_decode_pretranspose(x["q"], x["k"], x["v"], state, x["A_log"], x["a"], x["dt_bias"], x["b"], scale=scale, use_qk_l2norm=False)

            return call, lambda: (kept["o"], state)

        return prepare
    from flashinfer.gdn_prefill import chunk_gated_delta_rule

    def prepare(x, scale):
        import torch

        log_decay, beta = gates(x)
        alpha = torch.exp(log_decay)
        o, state = torch.empty_like(x["v"]), torch.empty_like(x["state"])

        def call():
            chunk_gated_delta_rule(x["q"], x["k"], x["v"], alpha, beta, scale=scale, initial_state=x["state"], output_final_state=True, cu_seqlens=x["cu_seqlens"], output=o, output_state=state)

        return call, lambda: (o, state)

    return prepare


def fla_peer(d):
    """flash-linear-attention: recurrent for a decode step, by chunks for packed sequences."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule

    def prepare(x, scale):
        log_decay, beta = gates(x)
        kept, more = {}, {}
        rule, lead = (chunk_gated_delta_rule, (1,)) if d.packed else (fused_recurrent_gated_delta_rule, ())
        if d.packed:
            more["cu_seqlens"] = x["cu_seqlens"]
        q, k, v, log_decay, beta = (t.reshape(*lead, *t.shape) for t in (x["q"], x["k"], x["v"], log_decay, beta))

        def call():
            kept["o"], kept["state"] = rule(q, k, v, g=log_decay, beta=beta, scale=scale, initial_state=x["state"], output_final_state=True, state_v_first=d.k_last, **more)

        return call, lambda: (kept["o"].reshape(x["v"].shape), kept["state"])

    return prepare


def peers(d):
    found = {}
    for name, make in ("flashinfer", flashinfer_peer), ("fla", fla_peer):
        try:
            if prepare := make(d):
                found[name] = prepare
        except ImportError as e:
            print(f"  {name} is not measured: {e}")
    return found


def report(rows, **row):
    rows.append(row)
    print("  " + "  ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()), flush=True)


def errors(d, on, lengths, kinds, rows):
    print(f"{d.name}, {len(lengths)} sequences, {sum(lengths)} tokens: class, entry, output, largest error, elements wrong, of")
    for kind in kinds:
        for name, run in entries(d).items():
            try:
                judged = kit.judge(d, on, run, lengths, kind)
            except Exception as e:  # what one entry can not do, others may
                report(rows, definition=d.name, kind=kind, entry=name, failed=f"{type(e).__name__}: {e}"[:200])
                continue
            for output, error, wrong, size in judged:
                report(rows, definition=d.name, kind=kind, entry=name, output=output, error=error, wrong=wrong, size=size)


def peer_errors(d, on, lengths, rows):
    given = kit.inputs(d, lengths)
    want = kit.reference(d, given)
    for name, prepare in peers(d).items():
        call, outputs = prepare({n: on.tensor(x, d.json["inputs"][n]["dtype"]) for n, x in given.items()}, d.K**-0.5)
        try:
            call()
        except Exception as e:
            report(rows, definition=d.name, kind="random", entry=name, failed=f"{type(e).__name__}: {e}"[:200])
            continue
        for output, got, w in zip(d.json["outputs"], outputs(), want):
            got = on.array(got)
            report(rows, definition=d.name, kind="random", entry=name, output=output, error=float(abs(got - w).max() / abs(w).max()), wrong=kit.wrong(got, w), size=w.size)


def time(call):
    """Median and least microseconds of a call, out of the second cache, and how it was launched."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # compiles, tunes, and warms up what a graph may not
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    how, launch = "graph", None
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        launch = graph.replay
    except Exception:  # it waits for the GPU, which a graph can not hold
        torch.cuda.synchronize()
        how, launch = "stream", call
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times = []
    for _ in range(REPEATS):
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times), min(times), how


def floor(d, lengths):
    """Bytes that a call must move: states in and out, and its tokens."""
    tokens, states = sum(lengths), len(lengths) * d.HV * d.K * d.V * 4
    return 2 * states + tokens * (2 * d.HK * d.K + 2 * d.HV * d.V + 2 * d.HV) * 2


def times(d, on, lengths, rows, known):
    given = kit.inputs(d, lengths)
    print(f"{d.name}, {len(lengths)} sequences, {sum(lengths)} tokens, {floor(d, lengths) / 1e6:.2f} MB: entry, median us, least us, TB/s, by")
    arguments = kit.arguments(d, on, given)
    calls = {name: (lambda run=run: run(*arguments)) for name, run in known.items()}
    named = {n: on.tensor(x, d.json["inputs"][n]["dtype"]) for n, x in given.items()}
    for name, prepare in peers(d).items():
        calls[name] = prepare(named, d.K**-0.5)[0]
    for name, call in calls.items():
        try:
            median, least, how = time(call)
        except Exception as e:
            report(rows, definition=d.name, sequences=len(lengths), tokens=sum(lengths), entry=name, failed=f"{type(e).__name__}: {e}"[:200])
            continue
        report(rows, definition=d.name, sequences=len(lengths), tokens=sum(lengths), entry=name, median=median, least=least, rate=floor(d, lengths) / median / 1e6, by=how)


def workload_lengths(d, axes, seed):
    """Lengths of a workload's sequences: cut at random, none empty where the tokens suffice."""
    if not d.packed:
        return [1] * axes["batch_size"]
    tokens, sequences = axes["total_seq_len"], axes["num_seqs"]
    least = 1 if tokens >= sequences else 0
    free = tokens - least * sequences
    cuts = np.sort(np.random.default_rng(seed).integers(0, free + 1, sequences - 1))
    return [int(n) + least for n in np.diff([0, *cuts, free])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="errors alone, in Triton's interpreter")
    parser.add_argument("--definition", action="append", help="these definitions alone")
    parser.add_argument("--kind", action="append", choices=kit.CLASSES, help="errors of these classes of inputs alone")
    parser.add_argument("--workloads", action="store_true", help="times of the benchmark's own workloads")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    options = parser.parse_args()
    if options.cpu:
        on, device = kit.Interpreted(), "Triton's interpreter"
    else:
        import torch

        on, device = kit.Torch("cuda"), torch.cuda.get_device_name()
    print(device)
    chosen = {n: d for n, d in kit.definitions().items() if not options.definition or n in options.definition}
    if not chosen:
        sys.exit(f"no definition of {options.definition}: there are {list(kit.definitions())}")
    found = dict(device=device, errors=[], times=[])
    for d in chosen.values():
        if not options.workloads:
            errors(d, on, (CPU_LENGTHS if options.cpu else ERROR_LENGTHS)[d.packed], options.kind or kit.CLASSES, found["errors"])
        if options.cpu:
            continue
        if options.workloads:
            for i, w in enumerate(d.workloads):
                times(d, on, workload_lengths(d, w["axes"], i), found["times"], {name: kit.solution(name) for name in d.solutions()})
        else:
            peer_errors(d, on, ERROR_LENGTHS[d.packed], found["errors"])
            for lengths in TIMED[d.packed]:
                times(d, on, lengths, found["times"], entries(d))
    if options.json:
        with open(options.json, "w") as f:
            json.dump(found, f, indent=1)


if __name__ == "__main__":
    main()
