"""Runs a Python script with no GPU and keeps the launches of Triton kernels in it, compiled for a GPU that is absent.

    python capture.py SCRIPT FOLDER TARGET.json CONFIGS

SCRIPT calls kernels on tensors of the CPU, whose values count only where they are integers. TARGET.json describes the GPU. Nothing is computed: results
are what their memory held. Of each autotuned launch CONFIGS configs are compiled, evenly spread over those that its own pruning leaves.
FOLDER gets launches.json, and for each config a cubin, its PTX, SASS and use of resources.
"""

import hashlib
import json
import math
import os
import re
import runpy
import subprocess
import sys
import types

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # else the cubin has the date of the source file
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import autotuner, jit
from triton.runtime.driver import driver

BINARIES = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
PROGRAMS = 512  # of a grid, for which loops are counted at most


class Driver:
    """Stands for Triton's driver where there is no GPU."""

    launcher_cls = None

    def __init__(self, gpu):
        self.gpu = gpu
        self.utils = types.SimpleNamespace(get_device_properties=lambda device: dict(
            max_shared_mem=gpu["shared_program"], multiprocessor_count=gpu["sms"], warpSize=32, max_num_regs=gpu["registers"]))

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", self.gpu["capability"], 32)

    def get_device_interface(self):
        import torch

        return torch.cuda

    def get_active_torch_device(self):
        import torch

        return torch.device("cpu")

    def get_benchmarker(self):
        return lambda *args, **named: [0.0]


def pretend(gpu):
    """Has torch, where there is one, say that the GPU is attached: packages ask it as they are imported."""
    try:
        import torch
    except ImportError:
        return
    major, minor = divmod(gpu["capability"], 10)
    properties = types.SimpleNamespace(name=gpu["kind"], major=major, minor=minor, multi_processor_count=gpu["sms"], total_memory=80 << 30,
                                       shared_memory_per_block_optin=gpu["shared_program"], L2_cache_size=gpu["l2"], warp_size=32)
    answers = dict(is_available=True, device_count=1, current_device=0, get_device_name=gpu["kind"], get_device_capability=(major, minor),
                   get_device_properties=properties, synchronize=None, is_current_stream_capturing=False)
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *args, answer=answer, **named: answer)


class Scalars:
    """The integers of a kernel's TTIR as one program has them, as far as arguments say: to count the turns of its loops."""

    VALUE = r"%[\w$.-]+(?:#\d+)?"  # of MLIR: %c-1_i32 is a constant
    LINE = re.compile(rf"^\s*({VALUE})(?::\d+)? = \"?([\w.]+)\"?(.*)$")
    NAME = re.compile(VALUE)
    LOOP = re.compile(rf"scf\.for %\S+ = ({VALUE}) to ({VALUE}) step ({VALUE})")
    BINARY = {
        "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "divsi": lambda a, b: int(a / b), "divui": lambda a, b: a // b,
        "remsi": math.fmod, "remui": lambda a, b: a % b, "ceildivsi": lambda a, b: -(-a // b), "minsi": min, "minui": min, "maxsi": max, "maxui": max,
        "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "shli": lambda a, b: a << b, "shrsi": lambda a, b: a >> b, "shrui": lambda a, b: a >> b,
    }
    COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
               "ult": lambda a, b: a < b, "ule": lambda a, b: a <= b, "ugt": lambda a, b: a > b, "uge": lambda a, b: a >= b}
    SAME = ("extsi", "extui", "trunci", "index_cast", "index_castui")

    def __init__(self, ttir, arguments):
        self.defined, self.loops, open_loops = {}, [], []
        head = re.search(r"tt\.func public @\w+\((.*)$", ttir, re.M)
        self.arguments = dict(zip(re.findall(r"(%\w+): ", head.group(1)), arguments)) if head else {}
        for line in ttir.splitlines():
            if m := self.LOOP.search(line):
                open_loops.append([m.groups(), 0, len(line) - len(line.lstrip())])
            elif "scf.while" in line or "scf.for" in line:  # of as many turns as nothing here says
                self.loops.append((None, 0))
            elif open_loops and line.strip().startswith("}") and len(line) - len(line.lstrip()) == open_loops[-1][2]:
                bounds, size, _ = open_loops.pop()
                self.loops.append((bounds, size))
            for loop in open_loops:
                loop[1] += 1
            if m := self.LINE.match(line):
                self.defined[m.group(1)] = m.groups()[1:]

    def turns(self, grid):
        """Of the loop with most operations, in the program of a grid where it turns most; None where arguments do not say."""
        if not self.loops:
            return 0
        bounds, _ = max(self.loops, key=lambda loop: loop[1])
        if bounds is None:
            return None
        most, programs = None, math.prod(grid)
        for n in range(0, programs, max(1, programs // PROGRAMS)):
            self.grid, self.program, self.known = grid, (n % grid[0], n // grid[0] % grid[1], n // grid[0] // grid[1]), {}
            first, last, step = (self.value(b) for b in bounds)
            if None not in (first, last, step) and step > 0:
                most = max(most or 0, -(-(last - first) // step))
        return most

    def value(self, name):
        if name not in self.known:
            self.known[name] = None
            self.known[name] = self.compute(name)
        return self.known[name]

    def compute(self, name):
        if name in self.arguments:
            return self.arguments[name]
        if name not in self.defined:
            return None
        op, rest = self.defined[name]
        kind = op.split(".")[-1]
        if kind == "constant":
            m = re.match(r"\s*(-?\d+|true|false)\b(?!\.)", rest)
            return dict(true=1, false=0).get(m.group(1)) if m and m.group(1) in ("true", "false") else int(m.group(1)) if m else None
        if kind in ("get_program_id", "get_num_programs"):
            return (self.program if kind == "get_program_id" else self.grid)["xyz".index(rest.split()[0])]
        values = [self.value(x) for x in self.NAME.findall(rest)]
        if any(v is None for v in values) or not values:
            return None
        if kind in self.SAME:
            return values[0]
        if kind in self.BINARY and len(values) == 2:
            return int(self.BINARY[kind](*values)) if values[1] or kind not in ("divsi", "divui", "remsi", "remui", "ceildivsi") else None
        if kind == "cmpi":
            return int(self.COMPARE[rest.split(",")[0].strip()](*values))
        if kind == "select":
            return values[1] if values[0] else values[2]
        if kind == "addptr":
            tensor, offset = values[0] if isinstance(values[0], tuple) else (values[0], 0)
            return tensor, offset + values[1]
        if kind == "load":
            tensor, offset = values[0] if isinstance(values[0], tuple) else (values[0], 0)
            return element(tensor, offset)
        return None


def element(tensor, offset):
    """An integer of a tensor by its place from the first; None where there is none."""
    try:
        flat = tensor.flatten()
        return int(flat[offset]) if not tensor.is_floating_point() and 0 <= offset < flat.numel() else None
    except (AttributeError, TypeError):
        return None


def size(tensors):
    """Bytes that tensors hold; what several of them share counts once."""
    held = {}
    for t in tensors:
        held[t.data_ptr()] = max(held.get(t.data_ptr(), 0), math.prod(t.shape) * t.element_size())
    return sum(held.values())


class Capture:
    def __init__(self, folder, configs):
        self.folder, self.configs, self.launches, self.tuned, self.seen = folder, configs, [], None, {}
        self.compile = jit.JITFunction.run

    def launch(self, kernel, *args, grid, warmup=False, **named):
        """A launch: its kernel is compiled as Triton would, and kept."""
        bound = dict(zip(kernel.arg_names, args)) | {n: v for n, v in named.items() if n in kernel.arg_names}
        for p in kernel.params:
            if p.name not in bound and p.has_default:
                bound[p.name] = p.default
        shape = grid(bound) if callable(grid) else grid
        shape = [int(x) for x in (shape if isinstance(shape, (tuple, list)) else (shape,))]
        shape += [1] * (3 - len(shape))
        row = dict(kernel=kernel.__name__, grid=shape, group=len(self.launches), capability=driver.active.gpu["capability"])
        group = self.launches if self.tuned is None else self.tuned
        group.append(row)
        if self.tuned is not None:
            del row["group"]
        try:
            compiled = self.compile(kernel, *args, grid=grid, warmup=True, **named)
            compiled = compiled.result() if hasattr(compiled, "result") else compiled
        except Exception as e:  # of the compiler, or of ptxas
            row["refused"] = f"{type(e).__name__}: {e}".strip()[:400]
            return None
        tensors = [v for v in bound.values() if hasattr(v, "data_ptr")]
        cubin = compiled.asm["cubin"]
        signature = compiled.src.signature
        runtime = [bound.get(n) for n in kernel.arg_names if signature.get(n) != "constexpr"]
        row |= dict(warps=compiled.metadata.num_warps, stages=compiled.metadata.num_stages, shared=compiled.metadata.shared, bytes=size(tensors),
                    trips=Scalars(compiled.asm["ttir"], runtime).turns(shape), sha256=hashlib.sha256(cubin).hexdigest(), ptx_sha256=hashlib.sha256(compiled.asm["ptx"].encode()).hexdigest())
        row["cubin"] = self.keep(row, compiled)
        return None

    def keep(self, row, compiled):
        """Writes the code of a launch, once for all launches of it."""
        if row["sha256"] in self.seen:
            return self.seen[row["sha256"]]
        stem = f"{len(self.seen):03d}-{row['kernel']}"
        self.seen[row["sha256"]] = stem + ".cubin"
        path = os.path.join(self.folder, stem)
        with open(path + ".cubin", "wb") as f:
            f.write(compiled.asm["cubin"])
        with open(path + ".ptx", "w") as f:
            f.write(compiled.asm["ptx"])
        for tool, ending in (["nvdisasm", "-c", "-hex"], "sass"), (["cuobjdump", "--dump-resource-usage"], "usage"):
            with open(f"{path}.{ending}", "w") as f:
                subprocess.run([os.path.join(BINARIES, tool[0]), *tool[1:], path + ".cubin"], stdout=f, stderr=subprocess.DEVNULL)
        return stem + ".cubin"

    def tune(self, tuner, *args, **named):
        """An autotuned launch: some of its configs, each compiled."""
        tuner.nargs = dict(zip(tuner.arg_names, args))
        configs = tuner.prune_configs(named)
        count = min(len(configs), self.configs)
        chosen = [configs[i * len(configs) // count] for i in range(count)]
        group = len(self.launches)
        for config in chosen:
            if config.pre_hook is not None:
                config.pre_hook({**tuner.nargs, **named, **config.all_kwargs()})
            self.tuned = []
            try:
                tuner.fn.run(*args, **{**named, **config.all_kwargs()})
            finally:
                rows, self.tuned = self.tuned, None
            for row in rows:
                row |= dict(group=group, config=str(config), sampled=count, configs=len(tuner.configs))
            self.launches += rows
        tuner.nargs = None


def main():
    script, folder, gpu, configs = sys.argv[1:5]
    with open(gpu) as f:
        gpu = json.load(f)
    driver.set_active(Driver(gpu))
    pretend(gpu)
    capture = Capture(folder, int(configs))
    jit.JITFunction.run = lambda kernel, *args, **named: capture.launch(kernel, *args, **named)
    autotuner.Autotuner.run = lambda tuner, *args, **named: capture.tune(tuner, *args, **named)
    sys.argv = [script]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as e:
        if e.code:
            raise
    with open(os.path.join(folder, "launches.json"), "w") as f:
        json.dump(dict(triton=triton.__version__, capability=gpu["capability"], script=os.path.basename(script), launches=capture.launches), f, indent=1)


if __name__ == "__main__":
    main()
