"""FlashInfer-Bench's own schema, builder, reference and rule on the solutions of a package, on the CPU.

    python fib_run.py PACKAGE [--most TOKENS] [--kinds identical,cos.99,resets]

The package is read as a data set of the benchmark. Its workloads of at most that many tokens are evaluated by the benchmark's DefaultEvaluator on
torch tensors of the CPU, kernels in Triton's interpreter, each shape once with a state and once without. --kinds adds inputs with adversarial keys
for the solutions that claim them. A line of JSON for each evaluation. Needs torch, triton 3.6 and flashinfer-bench.
"""

import argparse
import json
import os
import sys
import tempfile

os.environ["TRITON_INTERPRET"] = "1"
os.environ["FIB_CACHE_PATH"] = tempfile.mkdtemp()

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("package")
p.add_argument("--most", type=int, default=8)
p.add_argument("--kinds", default="")
options = p.parse_args()
sys.path.insert(0, options.package)

import torch
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.evaluators.default import DefaultEvaluator
from flashinfer_bench.bench.evaluators.utils import normalize_result
from flashinfer_bench.bench.utils import compute_error_stats
from flashinfer_bench.compile import BuilderRegistry
from flashinfer_bench.data import TraceSet

import benchmark
import kit
from interpreter import emulate_rounding

torch.cuda.synchronize = lambda device=None: None  # there is no GPU to wait for
emulate_rounding()
on, config = kit.Torch("cpu"), BenchmarkConfig()
data = TraceSet.from_path(options.package)
registry = BuilderRegistry.get_instance()


def without_state(runnable, call, want):
    """As DefaultEvaluator does, whose allocation of outputs does not bear an input that is None."""
    out = [torch.full_like(w, float("nan")) for w in want]
    runnable(*call, *out)
    stats = [compute_error_stats(got, w, config) for got, w in zip(out, want)]
    return max(s[0] for s in stats), max(s[1] for s in stats), "INCORRECT_NUMERICAL" if any(s[2] for s in stats) else "PASSED"


def evaluate(definition, solution, runnable, reference, d, axes, lengths, kind, state, seed):
    given = kit.inputs(d, lengths, kind, seed)
    call = kit.arguments(d, on, given, 0.0, state)[: len(definition.inputs)]
    want = normalize_result(definition, reference(*call), "cpu")
    row = dict(definition=definition.name, solution=solution.name, axes=axes, kind=kind, state=state)
    if state:
        correctness, fault = DefaultEvaluator.check_correctness(definition, runnable, [call], [want], config, os.devnull, "cpu")
        row["status"] = str(fault.status.value) if fault else "PASSED"
        if correctness:
            row |= dict(absolute=correctness.max_absolute_error, relative=correctness.max_relative_error)
    else:
        row["absolute"], row["relative"], row["status"] = without_state(runnable, call, want)
    print(json.dumps(row), flush=True)


for name, definition in data.definitions.items():
    d, reference = kit.definitions()[name], registry.build_reference(definition)
    shapes = {}
    for trace in data.workloads[name]:
        axes = dict(trace.workload.axes)
        if axes.get("total_seq_len", axes.get("batch_size")) <= options.most:
            shapes[tuple(axes.items())] = axes
    for solution in data.solutions[name]:
        runnable = registry.build(definition, solution)
        assert runnable.metadata.build_type == "triton" and runnable.metadata.destination_passing_style
        for i, axes in enumerate(shapes.values()):
            for state in (True, False):
                evaluate(definition, solution, runnable, reference, d, axes, benchmark.workload_lengths(d, axes, i), "random", state, i)
        for kind in filter(None, options.kinds.split(",")):
            if d.packed and "tf32" not in solution.name:
                continue
            lengths = [70, 0, 30] if d.packed else [1, 1]
            evaluate(definition, solution, runnable, reference, d, dict(lengths=lengths), lengths, kind, True, 0)
