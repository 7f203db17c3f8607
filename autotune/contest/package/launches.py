"""What each workload of this folder launches, with no GPU: shapes, types and programs, and by --compile whether GPUs hold the kernels.

    python launches.py                      a row for each workload, solution and launch
    python launches.py --compile 90 100     compiles each kernel once for compute capabilities 9.0 and 10.0, by Triton and its ptxas
"""

import argparse
import json
import os

os.environ["TRITON_INTERPRET"] = "0"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

import numpy as np
import triton

import kit
from interpreter import TYPES, Tensor

MOST_PROGRAMS = 2**31 - 1
MOST_SHARED = {90: 232448, 100: 232448}  # bytes of shared memory of a program
ABBREVIATED = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "int32": "i32", "int64": "i64"}


class Launches:
    """Stands for the launches of kernels."""

    def __init__(self):
        self.rows, self.kernels = [], {}

    def run(self, kernel, *args, grid, warmup=False, num_warps=4, num_stages=3, **named):
        bound = dict(zip(kernel.arg_names, args)) | named
        if set(bound) != set(kernel.arg_names):
            raise TypeError(f"{kernel.fn.__name__} takes {kernel.arg_names} and gets {list(bound)}")
        grid = list(grid) + [1] * (3 - len(grid))
        if not 0 <= grid[0] <= MOST_PROGRAMS or max(grid[1:]) > 65535:
            raise ValueError(f"{kernel.fn.__name__}: a grid of {grid}")
        signature, attributes, constants = {}, {}, {}
        for i, name in enumerate(kernel.arg_names):
            value = bound[name]
            if isinstance(value, Tensor):
                signature[name] = "*" + ABBREVIATED[value.dtype.name]
                attributes[(i,)] = [["tt.divisibility", 16]]
            elif isinstance(value, (int, float)):
                signature[name] = "fp32" if isinstance(value, float) else "i32"
            else:
                signature[name], constants[(i,)] = "constexpr", value
        key = (kernel.fn.__module__, kernel.fn.__name__, tuple(signature.items()), num_warps, num_stages)
        self.kernels[key] = triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
        self.rows.append(dict(kernel=kernel.fn.__name__, module=kernel.fn.__module__, programs=grid[0] * grid[1] * grid[2], warps=num_warps))

    def compiled(self, capabilities):
        """Each kernel once, compiled: bytes of shared memory by capability."""
        for (module, name, _, warps, stages), source in self.kernels.items():
            shared = {}
            for capability in capabilities:
                target = triton.backends.compiler.GPUTarget("cuda", capability, 32)
                shared[capability] = triton.compile(source, target=target, options=dict(num_warps=warps, num_stages=stages)).metadata.shared
                if shared[capability] > MOST_SHARED[capability]:
                    raise ValueError(f"{module}.{name}: {shared[capability]} bytes of shared memory of {MOST_SHARED[capability]}")
            yield dict(module=module, kernel=name, warps=warps, shared=shared)


def shapes_alone(shape, dtype):
    """A tensor without memory: launches look at its shape and type."""
    kind = {t.name: t for t in TYPES.values()}[dtype]
    return Tensor(np.broadcast_to(np.zeros((), kind.held), shape), kind)


def workload(d, run, axes, state):
    call = []
    for tensor in [*d.json["inputs"].values(), *d.json["outputs"].values()]:
        if tensor["shape"] is None:
            call.append(0.0)
        elif tensor.get("optional") and not state:
            call.append(None)
        else:
            call.append(shapes_alone(d.shape(tensor, axes), tensor["dtype"]))
    run(*call)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", nargs="*", type=int, default=[], metavar="CAPABILITY", help="compile the kernels too")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    options = parser.parse_args()
    launches, rows = Launches(), []
    triton.runtime.jit.JITFunction.run = lambda kernel, *args, **named: launches.run(kernel, *args, **named)
    for d in kit.definitions().values():
        for name in d.solutions():
            for w in d.workloads:
                for state in (True, False):
                    launches.rows = []
                    workload(d, kit.solution(name), w["axes"], state)
                    rows.append(dict(definition=d.name, solution=name, uuid=w["uuid"], axes=w["axes"], state=state, launches=launches.rows))
    for row in rows:
        if row["state"]:
            sizes = " ".join(str(n) for n in row["axes"].values())
            print(row["solution"], sizes, *(f"{x['module'].split('.')[-1]}.{x['kernel']}:{x['programs']}x{x['warps']}" for x in row["launches"]))
    kernels = list(launches.compiled(options.compile)) if options.compile else []
    for k in kernels:
        print(k["module"], k["kernel"], " ".join(f"sm_{c}: {b} bytes of shared memory" for c, b in k["shared"].items()))
    print(f"{len(rows)} calls of {len({r['uuid'] for r in rows})} workloads, {len(launches.kernels)} kernels, {len(kernels)} compiled")
    if options.json:
        with open(options.json, "w") as f:
            json.dump(dict(calls=rows, kernels=kernels), f, indent=1)


if __name__ == "__main__":
    main()
