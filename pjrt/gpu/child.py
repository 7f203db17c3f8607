"""Computes or compiles a Python file of Triton kernels with no GPU and no torch.

    python child.py compute FILE INPUTS OUTPUTS     by Triton's interpreter, in NumPy
    python child.py compile FILE INPUTS FOLDER CAPABILITY...   by Triton's compiler and ptxas
    python child.py assemble LAUNCHES CAPABILITY FILE...   PTX by ptxas

FILE has a function run. INPUTS is a safetensors file with its arguments by name, outputs included: compute writes what they hold then, compile
takes of them types and shapes alone, and writes for each launch a cubin, its PTX, SASS and
use of resources, and launches.json.
"""

import hashlib
import importlib.util
import inspect
import json
import math
import os
import resource
import struct
import subprocess
import sys
import types

compute = len(sys.argv) > 1 and sys.argv[1] == "compute"
if seconds := int(os.environ.pop("GDNGEN_CHILD_SECONDS", 0)):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))  # the first ends the process by SIGXCPU
os.environ["TRITON_INTERPRET"] = "1" if compute else "0"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # else the cubin has the date of the source file
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import numpy as np
import triton

from interpreter import TYPES, Tensor, emulate_rounding

BINARIES = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
PTX = 90  # the newest version of PTX that is written: ptxas of CUDA 13.0, which the CUDA plugin has, reads it


def read(path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            dtype, (start, end) = TYPES[t["dtype"]], t["data_offsets"]
            out[name] = Tensor(np.frombuffer(bytearray(body[start:end]), dtype.held).reshape(t["shape"]), dtype)
    return out


def write(path, tensors):
    header, body = {}, b""
    for name, t in tensors.items():
        data = np.ascontiguousarray(t.array).tobytes()
        header[name] = dict(dtype=t.dtype.stored, shape=list(t.shape), data_offsets=[len(body), len(body) + len(data)])
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def load(path):
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def disassemble(stem):
    """Writes the listing of a cubin, and its use of resources; empty of a GPU that is newer than the tools."""
    for tool, ending in (["nvdisasm", "-c", "-hex"], "sass"), (["cuobjdump", "--dump-resource-usage"], "usage"):
        with open(f"{stem}.{ending}", "w") as f:
            subprocess.run([os.path.join(BINARIES, tool[0]), *tool[1:], stem + ".cubin"], stdout=f, stderr=subprocess.DEVNULL)


def assemble(launches, capability, files):
    """PTX files to cubins beside them; launches is the file that names them."""
    ptxas = triton.backends.nvidia.compiler.get_ptxas(capability).path
    rows = []
    for file in files:
        stem = file.removesuffix(".ptx")
        made = subprocess.run([ptxas, f"--gpu-name=sm_{capability}", file, "-o", stem + ".cubin"], capture_output=True, text=True)
        row = dict(kernel=os.path.basename(stem), capability=capability)
        if made.returncode:
            row["refused"] = made.stderr.strip()[:2000]
        else:
            disassemble(stem)
            with open(stem + ".cubin", "rb") as f:
                row |= dict(cubin=os.path.basename(stem) + ".cubin", sha256=hashlib.sha256(f.read()).hexdigest())
        rows.append(row)
    with open(launches, "w") as f:
        json.dump(dict(triton=triton.__version__, launches=rows), f)


class Launches:
    """Stands for the launches of kernels: each is compiled for the capabilities, and what is known of it is kept."""

    def __init__(self, folder, capabilities, tensors):
        self.folder, self.capabilities, self.list = folder, capabilities, []
        self.names, self.buffers = {id(t): n for n, t in tensors.items()}, []

    def argument(self, parameter, value):
        """What a kernel is given for a parameter: a tensor by its name, or a buffer that run made by its number."""
        if not isinstance(value, Tensor):
            return dict(parameter=parameter, scalar=True, value=value, dtype="F32" if isinstance(value, float) else "I32")
        if id(value) not in self.names:
            self.buffers.append(value)  # and so keeps its identity
            self.names[id(value)] = f"buffer {len(self.buffers)}"
        return dict(parameter=parameter, tensor=self.names[id(value)], dtype=value.dtype.stored, shape=list(value.shape))

    def launch(self, kernel, *args, grid, warmup=False, num_warps=4, num_stages=3, **named):
        bound = dict(zip(kernel.arg_names, args)) | named
        constant = {n: v for n, v in bound.items() if not isinstance(v, (Tensor, int, float)) or kernel.params[kernel.arg_names.index(n)].is_constexpr}
        names = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "int32": "i32", "int64": "i64"}
        signature, attributes = {}, {}
        for i, n in enumerate(kernel.arg_names):
            v = bound[n]
            if n in constant:
                signature[n] = "constexpr"
            elif isinstance(v, Tensor):
                signature[n] = "*" + names[v.dtype.name]
                attributes[(i,)] = [["tt.divisibility", 16]]
            else:
                signature[n] = "fp32" if isinstance(v, float) else "i32"
        constants = {(kernel.arg_names.index(n),): v for n, v in constant.items()}
        source = triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
        grid = list(grid(bound) if callable(grid) else grid)
        arguments = [self.argument(n, bound[n]) for n in kernel.arg_names if n not in constant]
        for capability in self.capabilities:
            target = triton.backends.compiler.GPUTarget("cuda", capability, 32)
            row = dict(kernel=kernel.fn.__name__, grid=grid + [1] * (3 - len(grid)), warps=num_warps, stages=num_stages, capability=capability, arguments=arguments)
            try:
                newest = triton.backends.nvidia.compiler.get_ptx_version_from_options(types.SimpleNamespace(ptx_version=None), capability)
                compiled = triton.compile(source, target=target, options=dict(num_warps=num_warps, num_stages=num_stages, ptx_version=min(PTX, newest)))
            except Exception as e:  # what a compiler refuses is a verdict
                row["refused"] = f"{type(e).__name__}: {str(e).strip()}"[:2000]
            else:
                cubin = compiled.asm["cubin"]
                scratch = getattr(compiled.metadata, "global_scratch_size", 0) + getattr(compiled.metadata, "profile_scratch_size", 0)
                row |= dict(shared=compiled.metadata.shared, scratch=scratch, sha256=hashlib.sha256(cubin).hexdigest(), ptx_sha256=hashlib.sha256(compiled.asm["ptx"].encode()).hexdigest())
                row["cubin"] = f"{len(self.list)}-{row['kernel']}-{capability}.cubin"
                with open(os.path.join(self.folder, row["cubin"]), "wb") as f:
                    f.write(cubin)
                stem = os.path.join(self.folder, row["cubin"].removesuffix(".cubin"))
                with open(stem + ".ptx", "w") as f:
                    f.write(compiled.asm["ptx"])
                disassemble(stem)
            self.list.append(row)


def main():
    if sys.argv[1] == "assemble":
        return assemble(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    file, inputs, out = sys.argv[2:5]
    tensors = read(inputs)
    if compute:
        np.seterr(all="ignore")  # masked lanes may hold anything
        emulate_rounding()
        run = load(file).run
        run(**{n: tensors[n] for n in inspect.signature(run).parameters})
        write(out, tensors)
        return
    launches = Launches(out, [int(c) for c in sys.argv[5:]], tensors)
    triton.runtime.jit.JITFunction.run = lambda kernel, *args, **named: launches.launch(kernel, *args, **named)
    run = load(file).run
    run(**{n: tensors[n] for n in inspect.signature(run).parameters})
    with open(os.path.join(out, "launches.json"), "w") as f:
        json.dump(dict(triton=triton.__version__, launches=launches.list), f)


if __name__ == "__main__":
    main()
