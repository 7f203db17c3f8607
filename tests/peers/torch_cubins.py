"""The gradients of a generated package by cubins that the pinned Triton compiled, on a GPU whose machine may have another Triton, against float64.

    python torch_cubins.py make PACKAGE FOLDER CAPABILITY    with no GPU: compiles each launch of the calls below for 90, 100, ...
    python torch_cubins.py run PACKAGE FOLDER                on a GPU: the same calls; each launch is a cubin of the folder

PACKAGE is a folder that `gdngen gen --backend triton --package` wrote. The Python has torch, triton and pytest; make wants the pinned Triton.
"""

import ctypes
import hashlib
import importlib
import json
import os
import sys

does, package, folder, *more = sys.argv[1:]
sys.path[:1] = [os.path.join(package, "src"), os.path.join(package, "tests")]
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
import torch  # noqa: E402
import triton  # noqa: E402

ours = importlib.import_module(os.path.basename(os.path.normpath(package)))
NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.int32: "i32", torch.int64: "i64"}
# batch, tokens, heads of keys and of values, width, type, offsets of packed sequences
CASES = [(1, 150, 1, 2, 128, "bfloat16", None), (2, 128, 1, 2, 64, "float16", None), (1, 133, 1, 2, 128, "bfloat16", [0, 15, 100, 133]), (1, 4096, 1, 1, 128, "bfloat16", None)]


def described(kernel, args, named):
    """Of a launch: the kernel's arguments by name, types and constants as Triton compiles them, and a name that stands for all of this."""
    bound = dict(zip(kernel.arg_names, args)) | named
    options = {n: bound.pop(n) for n in ("num_warps", "num_stages") if n in bound}
    types, constants, aligned = {}, {}, []
    for i, p in enumerate(kernel.params):
        value = bound[p.name]
        if p.is_constexpr or value is None or isinstance(value, bool):
            types[p.name], constants[i] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            types[p.name] = "*" + NAMES[value.dtype]
            aligned += [i] if value.storage_offset() * value.element_size() % 16 == 0 else []
        else:
            types[p.name] = "fp32" if isinstance(value, float) else "i32" if abs(value) < 1 << 31 else "i64"
            aligned += [i] if isinstance(value, int) and value % 16 == 0 else []
    text = json.dumps([kernel.fn.__name__, types, constants, aligned, options], default=str)
    return bound, types, constants, aligned, options, f"{kernel.fn.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def make(kernel, *args, grid, warmup=False, **named):
    """Compiles a launch into the folder, and computes nothing."""
    _, types, constants, aligned, options, name = described(kernel, args, named)
    stem = os.path.join(folder, name)
    if os.path.exists(stem + ".json"):
        return
    source = triton.compiler.ASTSource(fn=kernel, signature=types, constexprs={(i,): v for i, v in constants.items()}, attrs={(i,): [["tt.divisibility", 16]] for i in aligned})
    compiled = triton.compile(source, target=triton.backends.compiler.GPUTarget("cuda", int(more[0]), 32), options=options)
    if compiled.metadata.global_scratch_size or compiled.metadata.profile_scratch_size:
        raise SystemExit(f"{name} wants scratch memory, which no launch here has")
    with open(stem + ".cubin", "wb") as f:
        f.write(compiled.asm["cubin"])
    with open(stem + ".json", "w") as f:
        json.dump(dict(function=compiled.metadata.name, shared=compiled.metadata.shared, threads=32 * compiled.metadata.num_warps, triton=triton.__version__), f)
    print(name, flush=True)


functions, driver = {}, None


def call(name, *args):
    if code := getattr(driver, name)(*args):
        raise SystemExit(f"{name} failed with {code}")


def run(kernel, *args, grid, warmup=False, **named):
    """Launches the cubin of a launch."""
    bound, types, _, _, _, name = described(kernel, args, named)
    if name not in functions:
        try:
            with open(os.path.join(folder, name + ".json")) as f:
                about = json.load(f)
        except FileNotFoundError:
            raise SystemExit(f"{folder} has no cubin {name}: make was run with other cases or another package") from None
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(os.path.join(folder, name + ".cubin"), "rb") as f:
            call("cuModuleLoadData", ctypes.byref(module), f.read())
        call("cuModuleGetFunction", ctypes.byref(function), module, about["function"].encode())
        call("cuFuncSetAttribute", function, 8, about["shared"])
        functions[name] = function, about
    function, about = functions[name]
    kinds = {"fp32": ctypes.c_float, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
    values = [ctypes.c_uint64(bound[n].data_ptr()) if t[0] == "*" else kinds[t](bound[n]) for n, t in types.items() if t != "constexpr"]
    values += [ctypes.c_uint64(0)] * 2  # memory for scratch and for profiles, which the kernels name last
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
    size = [*(grid(bound) if callable(grid) else grid), 1, 1][:3]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else None)
    call("cuLaunchKernel", function, *size, about["threads"], 1, 1, about["shared"], stream, pointers, None)


def inputs_of(B, T, HK, HV, D, dtype, cu, device):
    """Arguments of a call with gradients."""
    kind = getattr(torch, dtype)
    x = [torch.rand(B, T, h, D).to(kind) for h in (HK, HK, HV)] + [-torch.rand(B, T, HV), torch.rand(B, T, HV), torch.rand(B if cu is None else len(cu) - 1, HV, D, D)]
    return [a.to(device).requires_grad_() for a in x], None if cu is None else torch.tensor(cu, device=device)


if does not in ("make", "run"):
    sys.exit(__doc__)
device = "cuda" if torch.cuda.is_available() else "cpu"
if does == "run":
    driver = ctypes.CDLL(os.environ.get("GDNGEN_CUDA_DRIVER", "libcuda.so.1"))
os.makedirs(folder, exist_ok=True)
tests = importlib.import_module("test_rule") if device == "cuda" else None
triton.runtime.jit.JITFunction.run = make if does == "make" else run
os.environ["TRITON_INTERPRET"] = "1"  # a check of the package asks it of tensors of the CPU; its kernels were made before
worst = 0.0
for case in CASES[:int(os.environ.get("CASES", len(CASES)))]:
    B, T, HK, HV, D, dtype, cu = case
    if tests is None or does == "make":
        x, at = inputs_of(*case, "cpu")
        o, ht = ours.chunk_gated_delta_rule(*x[:5], 0.1, x[5], True, cu_seqlens=at)
        torch.autograd.backward((o, ht), (torch.ones_like(o), torch.ones_like(ht)))
        continue
    at = None if cu is None else torch.tensor(cu, device=device)
    inputs, do, dht = tests.draw(B, T, HK, HV, D, D, getattr(torch, dtype), sequences=None if cu is None else len(cu) - 1)
    errors = tests.compared(inputs, do, dht, 0.1, lambda q, k, v, g, beta, h0, at=at: ours.chunk_gated_delta_rule(q, k, v, g, beta, 0.1, h0, True, cu_seqlens=at), cu)
    worst = max(worst, *(e / tests.LIMITS[n] for n, e in errors.items()))
    print(case, {n: f"{e:.1e}" for n, e in errors.items()}, flush=True)
if tests is not None and does == "run":
    print(f"by {len(functions)} cubins: at most {worst:.2f} of fla's limits")
    sys.exit(0 if worst < 1 else 1)
print(f"{len(functions) or len(os.listdir(folder)) // 2} kernels" + (" were launched by the driver; no GPU is here, so nothing is compared" if does == "run" else ""))
