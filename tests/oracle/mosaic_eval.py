"""Evaluator of Mosaic (Pallas TPU) MLIR modules in Python + numpy, with no TPU.

  load(path_or_text)                        -> Program (StableHLO module or bare Mosaic module)
  run_kernel(mosaic, inputs, out_shapes)    -> list of arrays
  run_module(stablehlo_text, inputs)        -> list of arrays
  python mosaic_eval.py m.mlir --inputs in.npz --out out.npz [--mxu bf16|f32]
  python mosaic_eval.py -                  many, by JSON lines on standard input: {"module", "inputs", "out"}

The jaxlib bindings only parse and verify the IR; everything is computed here. The evaluator is
stricter than the device where the device's result is undefined: scratch memory, output windows and
the padding of partial windows start as poison (NaN / 0x7EADBEEF), a DMA target is poison until the
wait, and accesses out of bounds, false assume_multiple claims and unwaited DMAs are errors.
"""
import argparse, base64, itertools, json, math, os, re, sys, traceback
from collections import namedtuple
from functools import partial
from types import SimpleNamespace
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax, ml_dtypes, numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir as jmlir
from jax._src.lib import _jax, tpu
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func
from jaxlib.mlir.passmanager import PassManager

BF16, DYN, HANDLERS = np.dtype(ml_dtypes.bfloat16), -2**63, {}
DTYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": BF16, "i1": "?", "index": "i8",
          "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "i4": ml_dtypes.int4,
          **{f"{p}{n}": f"{c}{n // 8}" for n in (8, 16, 32, 64) for p, c in (("i", "i"), ("ui", "u"))}}
DTYPES = {k: np.dtype(v) for k, v in DTYPES.items()}
TERMINATORS = {"func.return", "scf.yield", "scf.condition", "tpu.yield", "stablehlo.return"}

# ---------------------------------------------------------------- IR -> light Python tree
Program = namedtuple("Program", "main kernels")      # main: StableHLO Module, or None; kernels: Mosaic Modules
Module = namedtuple("Module", "funcs ir")            # symbol -> Op; ir keeps the parsed module alive
Block = namedtuple("Block", "args types ops")        # args: value ids
Ty = namedtuple("Ty", "kind shape dtype space", defaults=((), None, ""))   # dtype None: semaphores, unknown types

class Op:
    def __init__(self, name, ins, outs, types, attrs, src):
        self.name, self.ins, self.outs, self.types, self.attrs, self.src = name, ins, outs, types, attrs, src
        self.regions, self.fn, self.const, self.exe = [], HANDLERS.get(name), None, None

def _type(t):
    s = str(t)
    for kind, cls in (("vector", ir.VectorType), ("memref", ir.MemRefType), ("tensor", ir.RankedTensorType)):
        if s.startswith(kind + "<"):
            t = cls(t)
            m = re.search(r"memory_space<(\w+)>", s)
            return Ty(kind, tuple(t.shape), DTYPES.get(str(t.element_type)), m.group(1) if m else "")
    return Ty("scalar", (), DTYPES[s]) if s in DTYPES else Ty("other")

def _dense(a):
    t = _type(a.type)
    if a.is_splat: return np.full(t.shape, a.get_splat_value().value, t.dtype)
    try: return np.array(a).astype(t.dtype).reshape(t.shape)
    except Exception:                                    # bf16 and i1: the bindings have no buffer for them
        s = re.match(r"dense<(.*)> : ", str(a), re.S).group(1)
        r = np.frombuffer(bytes.fromhex(s[3:-1]), t.dtype) if s.startswith('"0x') else np.array(json.loads(s)).astype(t.dtype)
        return r.reshape(t.shape)

def _ints(s): return [int(x) for x in s.split(",") if x.strip()]
def _names(attrs): return [n if isinstance(n, str) else n.name for n in attrs]
def _attr(a):
    if isinstance(a, (ir.IntegerAttr, ir.FloatAttr, ir.BoolAttr, ir.StringAttr, ir.FlatSymbolRefAttr)): return a.value
    if isinstance(a, (ir.ArrayAttr, ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr)):
        return [_attr(x) if isinstance(x, ir.Attribute) else x for x in a]
    if isinstance(a, ir.DictAttr): return {n: _attr(a[n]) for n in _names(a)}
    if isinstance(a, ir.DenseElementsAttr): return _dense(a)
    return _type(a.value) if isinstance(a, ir.TypeAttr) else str(a)

def _convert(op, ids):
    op = op.operation
    def new(v): return ids.setdefault(v, len(ids))
    out = Op(op.name.removeprefix("stable_mosaic."), [new(v) for v in op.operands], [new(v) for v in op.results],
             [_type(v.type) for v in op.results], {k: _attr(op.attributes[k]) for k in _names(op.attributes)}, op)
    for region in op.regions:
        blocks = [Block([new(a) for a in b.arguments], [_type(a.type) for a in b.arguments], [_convert(o, ids) for o in b.operations])
                  for b in region.blocks]
        out.regions.append(blocks[0] if len(blocks) == 1 else blocks or None)
    if out.name in ("arith.constant", "stablehlo.constant"):
        v = out.attrs["value"]
        out.const = v if isinstance(v, np.ndarray) else out.types[0].dtype.type(v)
    return out
def _module(mod):
    return Module({o.attrs["sym_name"]: o for o in (_convert(o, {}) for o in mod.body.operations) if o.name == "func.func"}, mod)

def parse(data):
    ctx = jmlir.make_ir_context()
    tpu.register_dialect(ctx)
    ctx.allow_unregistered_dialects = True
    ctx.load_all_available_dialects()
    return ir.Module.parse(data, ctx)
def parse_mosaic(data):
    """Mosaic text or bytecode, plain or `stable_mosaic.`-versioned."""
    mod = parse(data)
    with mod.context as ctx, ir.Location.unknown(ctx):
        if "stable_mosaic.version" in _names(mod.operation.attributes):
            PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(mod.operation)
        mod.operation.verify()
        return _module(mod)

def load(path_or_text):
    text = path_or_text
    if not isinstance(text, bytes) and "\n" not in str(text): text = open(text, "rb").read()
    text = text.decode() if isinstance(text, bytes) and text[:4] != b"ML\xefR" else text
    if isinstance(text, bytes) or "stablehlo." not in text: return Program(None, [parse_mosaic(text)])
    mod = parse(text)
    prog = Program(_module(mod), [])
    for op in (o for f in prog.main.funcs.values() for o in _walk(f)):
        if op.name == "stablehlo.custom_call" and op.attrs["call_target_name"] == "tpu_custom_call":
            op.const = parse_mosaic(base64.b64decode(json.loads(op.attrs["backend_config"])["custom_call_config"]["body"]))
            prog.kernels.append(op.const)
    return prog
def _walk(op):
    for b in op.regions:
        for o in b.ops if isinstance(b, Block) else []:
            yield o
            yield from _walk(o)

# ---------------------------------------------------------------- machine
class Ref:
    """A memref: a writable numpy view. A width-changing bitcast keeps a temporary, synced by pull/push."""
    def __init__(self, arr, space="", pull=lambda: None, push=lambda: None):
        self.arr, self.space, self.pull, self.push = arr, space, pull, push
    def view(self, arr): return Ref(arr, self.space, self.pull, self.push)
    def read(self, sl=()):
        self.pull()
        return np.array(self.arr[sl])
    def write(self, sl, val):
        self.pull()
        self.arr[sl] = val
        self.push()
        return self.arr.nbytes
def poison(shape, dtype):
    if dtype is None: return np.array([SimpleNamespace(count=0, pending=[]) for _ in range(math.prod(shape))], object).reshape(shape)
    return np.full(shape, 0x7EADBEEF & np.iinfo(dtype).max if dtype.kind in "iu" else dtype.kind == "b" or np.nan, dtype)

class Machine:
    def __init__(self, module, mxu="bf16"):
        if mxu not in ("bf16", "f32"): raise ValueError(f"mxu={mxu!r}")
        self.funcs, self.mxu, self.env, self.bounds, self.grid, self.sems = module.funcs, mxu, {}, (), (), []
    def block(self, b, args=()):
        """Runs a block and returns its terminator's operands."""
        if isinstance(b, list): raise NotImplementedError("region with several blocks")
        env = self.env
        env.update(zip(b.args, args))
        for op in b.ops:
            ins = [env[i] for i in op.ins]
            if op.name in TERMINATORS: return ins
            try:
                out = (op.fn or xla_op)(self, op, *ins)
                if len(op.outs) == 1 and not isinstance(out, list): out = [out]
                for i, t, v in zip(op.outs, op.types, out or [], strict=True):
                    if t.kind in ("vector", "tensor", "scalar") and (np.shape(v) != t.shape or v.dtype != t.dtype):
                        raise TypeError(f"result {np.shape(v)} {v.dtype}, declared {t.shape} {t.dtype}")
                    env[i] = v
            except Exception as e:
                if not hasattr(e, "__notes__"): e.add_note(f"in {str(op.src)[:300]} at grid step {self.grid}")
                raise
        return []
    def call(self, name, args):
        saved, self.env = self.env, {}
        try: return self.block(self.funcs[name].regions[0], args)
        finally: self.env = saved

class Window:
    """The VMEM/SMEM window of an operand: fetched or written back when its block index changes."""
    def __init__(self, m, par, arr, ty, is_out):
        self.m, self.arr, self.ty, self.is_out = m, arr, ty, is_out
        self.bounds, self.fn, self.at = par["window_bounds"], par["transform_indices"], None
        self.low = _ints(re.search(r"<\[(.*?)\]", par["window_kind"])[1]) if "window_kind" in par else None
        if len(self.bounds) != arr.ndim: raise ValueError(f"window {self.bounds} of an operand of shape {arr.shape}")
    def step(self, grid, prefetch):
        idx = tuple(int(i) for i in self.m.call(self.fn, [*grid, *prefetch]))
        if idx != self.at:
            self.flush()
            self.at, here, there = idx, [], []
            for i, b, n, low in zip(idx, self.bounds, self.arr.shape, self.low or idx, strict=True):
                start = i - low if self.low else i * b   # element window or block
                lo, hi = max(start, 0), min(start + b, n)
                if lo >= hi or (start < 0 and not self.low):
                    raise IndexError(f"{self.fn}{tuple(map(int, grid))} = {idx}: window {self.bounds} outside {self.arr.shape}")
                there.append(slice(lo, hi)); here.append(slice(lo - start, hi - start))
            self.here, self.there = tuple(here), tuple(there)
            self.buf = poison(self.bounds, self.arr.dtype)
            if not self.is_out: self.buf[self.here] = self.arr[self.there]
        return Ref(self.buf.reshape(self.ty.shape), self.ty.space)
    def flush(self):
        if self.is_out and self.at is not None: self.arr[self.there] = self.buf[self.here]
def _signless(a, dtype):
    """A copy in the kernel's element type (ui32 -> i32 and like reinterpretations)."""
    a = np.array(a)
    if a.dtype == dtype: return a
    if {a.dtype.kind, dtype.kind} == {"i", "u"} and a.dtype.itemsize == dtype.itemsize: return a.view(dtype)
    if "b" in (a.dtype.kind, dtype.kind): return a.astype(dtype)
    raise TypeError(f"operand of type {a.dtype} given to a kernel argument of type {dtype}")

def run_kernel(mosaic_module, inputs, out_shapes, mxu="bf16", aliases=None):
    """Evaluates a kernel. out_shapes: (shape, dtype) pairs, or objects with .shape and .dtype.
    aliases: {output index: input index}."""
    m = Machine(mosaic_module, mxu)
    kern = next((f for f in m.funcs.values() if "scalar_prefetch" in f.attrs or len(m.funcs) == 1))
    outs = [(tuple(o.shape), np.dtype(o.dtype)) if hasattr(o, "shape") else (tuple(o[0]), np.dtype(o[1])) for o in out_shapes]
    inputs, bounds0 = list(inputs), list(kern.attrs.get("iteration_bounds", []))
    bounds = m.bounds = [int(np.asarray(inputs.pop(0)).item()) if b == DYN else b for b in bounds0]
    aliases = {o: i - bounds0.count(DYN) for o, i in (aliases or {}).items()}
    nin, npre, nscr = len(inputs), kern.attrs.get("scalar_prefetch", 0), kern.attrs.get("scratch_operands", 0)
    types = kern.regions[0].types[len(bounds):]
    if len(types) != nin + len(outs) + nscr:
        raise ValueError(f"kernel takes {len(types)} operands, {nscr} of them scratch; got {nin} inputs, {len(outs)} outputs")
    hbm = [_signless(a, t.dtype) for a, t in zip(inputs, types)]
    for i, ((shape, _), t) in enumerate(zip(outs, types[nin:])):
        hbm.append(hbm[aliases[i]] if i in aliases else poison(shape, t.dtype))
    params = kern.attrs.get("window_params") or [{}] * (len(hbm) - npre)
    operands = [Ref(a, t.space) for a, t in zip(hbm[:npre], types)]
    for i in range(npre, len(hbm)):
        par, t = params[i - npre], types[i]
        operands.append(Window(m, par, hbm[i], t, i >= nin) if par else Ref(hbm[i], t.space))
        if not par and hbm[i].shape != t.shape: raise ValueError(f"operand {i} is {hbm[i].shape}, the kernel declares {t.shape}")
    scratch = [Ref(poison(t.shape, t.dtype), t.space) for t in types[len(hbm):]]
    m.sems = [x for r in scratch if r.arr.dtype == object for x in r.arr.flat]
    with np.errstate(all="ignore"):
        for step in itertools.product(*map(range, bounds)):
            m.grid, grid = step, [np.int32(i) for i in step]
            refs = [w.step(grid, operands[:npre]) if isinstance(w, Window) else w for w in operands]
            m.env = {}
            m.block(kern.regions[0], [*grid, *refs, *scratch])
    for w in operands:
        if isinstance(w, Window): w.flush()
    if any(s.pending for s in m.sems): raise RuntimeError("kernel ended with a DMA that was never waited for")
    return [_signless(a, d) for a, (_, d) in zip(hbm[nin:], outs)]

# ---------------------------------------------------------------- handlers h(machine, op, *operands): arith, math
def on(*names): return lambda f: HANDLERS.update(dict.fromkeys(names, f)) or f

def _float(fn):
    """Elementwise float op; types narrower than f32 are computed in f32 and rounded once."""
    def h(m, op, *a):
        d = a[0].dtype
        return fn(*a) if d.itemsize >= 4 else fn(*(x.astype("f4") for x in a)).astype(d)
    return h

def _u(x): return x if x.dtype.kind in "bu" else x.view(f"u{x.dtype.itemsize}")
def _unsigned(fn): return lambda a, b: fn(_u(a), _u(b)).astype(a.dtype)
def _divsi(a, b): return a // b + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)
def _shift(fn, a, b):                                    # a shift by the width or more gives 0 (or the sign)
    w = 8 * a.dtype.itemsize
    r = fn(a, np.minimum(_u(b), w - 1).astype(a.dtype))
    return r if fn is np.right_shift and a.dtype.kind == "i" else np.where(_u(b) >= w, a.dtype.type(0), r)

_FLOAT = {"arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
          "arith.remf": np.fmod, "arith.negf": np.negative, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
          "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin, "math.absf": np.abs, "math.ceil": np.ceil, "math.floor": np.floor,
          "math.roundeven": np.rint, "math.round": lambda x: np.trunc(x + np.copysign(x.dtype.type(0.5), x)),
          "math.powf": np.power, "math.atan": np.arctan, "math.atan2": np.arctan2,
          "math.erf": lambda x: np.vectorize(math.erf, otypes=["f8"])(x).astype(x.dtype)[()],
          "math.rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x), "tpu.reciprocal": lambda x: x.dtype.type(1) / x,
          "math.fma": lambda a, b, c: (a.astype("f8") * b + c).astype(a.dtype)}
_FLOAT |= {"math." + k: getattr(np, k) for k in
           "exp exp2 expm1 log log1p log2 log10 sqrt cbrt sin cos tan sinh cosh tanh trunc copysign".split()}
_INT = {"addi": lambda a, b: a ^ b if a.dtype == bool else a + b, "subi": lambda a, b: a ^ b if a.dtype == bool else a - b,
        "muli": np.multiply, "divsi": _divsi, "remsi": np.fmod, "divui": _unsigned(np.floor_divide),
        "remui": _unsigned(np.remainder), "floordivsi": np.floor_divide, "ceildivsi": lambda a, b: -(-a // b),
        "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor, "maxsi": np.maximum, "minsi": np.minimum,
        "maxui": _unsigned(np.maximum), "minui": _unsigned(np.minimum), "shli": partial(_shift, np.left_shift),
        "shrsi": partial(_shift, np.right_shift), "shrui": _unsigned(partial(_shift, np.right_shift))}
HANDLERS |= {k: _float(f) for k, f in _FLOAT.items()} | {"arith." + k: lambda m, op, a, b, f=f: f(a, b) for k, f in _INT.items()}
HANDLERS |= {
    "arith.constant": lambda m, op: op.const, "stablehlo.constant": lambda m, op: op.const, "vector.fma": HANDLERS["math.fma"],
    "math.isnan": lambda m, op, x: np.isnan(x), "math.isinf": lambda m, op, x: np.isinf(x),
    "math.isfinite": lambda m, op, x: np.isfinite(x), "tpu.weird": lambda m, op, x: ~np.isfinite(x),
    "math.absi": lambda m, op, x: np.abs(x), "math.ctpop": lambda m, op, x: np.bitwise_count(_u(x)).astype(x.dtype),
    "math.ctlz": lambda m, op, x: (8 * x.dtype.itemsize - np.ceil(np.log2(_u(x).astype("f8") + 1))).astype(x.dtype)}
_CMP = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_CMPI = "eq ne lt le gt ge lt le gt ge".split()
_CMPF = "false eq gt ge lt le ne ord eq gt ge lt le ne uno true".split()
@on("arith.cmpi")
def cmpi(m, op, a, b):
    p = op.attrs["predicate"]
    if a.dtype == bool and 2 <= p < 6: a, b = b, a       # a signed true is -1
    return _CMP[_CMPI[p]](_u(a), _u(b)) if p >= 6 else _CMP[_CMPI[p]](a, b)
@on("arith.cmpf")
def cmpf(m, op, a, b):
    p, nan = op.attrs["predicate"], np.isnan(a) | np.isnan(b)
    r = {"false": nan & False, "ord": ~nan, "uno": nan, "true": ~nan}.get(_CMPF[p])
    r = _CMP[_CMPF[p]](a, b) if r is None else r
    return (r & ~nan) if p < 8 else (r | nan)
@on("arith.select")
def select(m, op, c, a, b): return (a if c else b) if isinstance(a, Ref) else np.where(c, a, b)
def _to_int(x, d):                                       # saturating; NaN -> 0
    info, x = np.iinfo(d), np.trunc(x.astype("f8"))
    r = np.nan_to_num(np.clip(x, info.min, info.max), nan=0.0)
    return np.where(x >= info.max, info.max, r.astype(np.int64 if d.kind == "i" else np.uint64)).astype(d)
@on(*(p + k for p in ("arith.", "tpu.") for k in ("extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui")),
    "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def convert(m, op, x):
    d, name, mode = op.types[0].dtype, op.name.split(".")[1], str(op.attrs.get("rounding_mode", ""))
    if name == "truncf" and "zero" in mode:
        if d != BF16: raise NotImplementedError(f"{op.name} toward zero to {d}")
        return (_u(np.asarray(x, "f4")) >> 16).astype("u2").view(BF16)[()]
    if name in ("fptosi", "fptoui"):
        x = np.rint(x.astype("f8")) if "nearest" in mode else x
        return _to_int(x, d if name == "fptosi" else np.dtype(f"u{d.itemsize}")).astype(d)
    if name in ("extui", "uitofp", "index_castui"): return _u(x).astype(d)
    if name == "extsi" and x.dtype == bool: return -x.astype(d)
    return (x & 1).astype(bool) if name == "trunci" and d == bool else x.astype(d)
@on("arith.bitcast", "tpu.bitcast", "vector.bitcast", "tpu.bitcast_vreg")
def bitcast(m, op, x):
    same, d = x.dtype.itemsize == op.types[0].dtype.itemsize, op.types[0].dtype
    if not same and op.name != "tpu.bitcast": raise NotImplementedError(f"{op.name} that changes the width")
    return np.asarray(x).view(d)[()] if same else _sublane_bitcast(x, d)
@on("tpu.pack_elementwise")
def pack_elementwise(m, op, *xs):
    """Elements of the sources side by side in one word, the first source in the lowest bits; bf16 rounds to nearest even."""
    d, w = op.attrs["target_type"].dtype, xs[0].dtype.itemsize
    return np.ascontiguousarray(np.stack([np.asarray(x).astype(d) for x in xs], -1)).view(f"i{w}")[..., 0]
@on("tpu.unpack_elementwise")
def unpack_elementwise(m, op, x):
    d = op.attrs["source_type"].dtype
    return np.ascontiguousarray(x)[..., None].view(d)[..., int(op.attrs["index"])].astype(op.types[0].dtype)
def _sublane_bitcast(x, d):
    """Width change as the TPU packs it: rows 2i, 2i+1 are the low and high halves of the wide row i."""
    a, b = x.dtype.itemsize, d.itemsize
    shape = (*x.shape[:-2], x.shape[-2] * a // b, x.shape[-1])
    if a > b: return np.moveaxis(np.ascontiguousarray(x)[..., None].view(d), -1, -2).reshape(shape)
    y = x.reshape(*shape[:-1], b // a, x.shape[-1])
    return np.ascontiguousarray(np.moveaxis(y, -2, -1)).view(d)[..., 0]

# ---------------------------------------------------------------- handlers: memory
def _slices(shape, idx, sizes, strides=None):
    idx = [int(i) for i in idx]
    sizes = [1] * (len(shape) - len(sizes)) + list(sizes)
    strides = list(strides or []) or [1] * len(shape)
    for n, i, s, st in zip(shape, idx, sizes, strides, strict=True):
        if i < 0 or i + (s - 1) * st >= n: raise IndexError(f"access {idx} size {sizes} stride {strides} outside {tuple(shape)}")
    return tuple(slice(i, i + (s - 1) * st + 1, st) for i, s, st in zip(idx, sizes, strides))
def _space(ref, *wrong):
    if ref.space in (*wrong, "any", "hbm"): raise ValueError(f"load or store of this kind in {ref.space}")
    return ref
def _groups(op, args, nvals):
    """The operands by group: operandSegmentSizes, or `nvals` single ones, the indices, and no mask."""
    it, seg = iter(args), op.attrs.get("operandSegmentSizes") or [1] * nvals + [len(args) - nvals, 0]
    return [[next(it) for _ in range(n)] for n in seg]
@on("vector.load", "tpu.vector_load", "tpu.strided_load")
def vload(m, op, *args):
    (ref,), idx, mask = _groups(op, args, 1)
    r = _space(ref).read(_slices(ref.arr.shape, idx, op.types[0].shape, op.attrs.get("strides"))).reshape(op.types[0].shape)
    return np.where(mask[0], r, poison((), r.dtype)) if mask else r
@on("vector.store", "tpu.vector_store", "tpu.strided_store")
def vstore(m, op, *args):
    (val,), (ref,), idx, mask = _groups(op, args, 2)
    sl = _slices(ref.arr.shape, idx, val.shape, op.attrs.get("strides"))
    old = _space(ref).read(sl)
    val = val.reshape(old.shape) + old if op.attrs.get("add") else val.reshape(old.shape)
    ref.write(sl, np.where(mask[0].reshape(old.shape), val, old) if mask else val)
@on("tpu.load", "tpu.store")
def vreg_access(m, op, *args):
    *val, (ref,), idx, mask = _groups(op, args, 2 if op.name == "tpu.store" else 1)
    shape, keep = val[0][0].shape if val else op.types[0].shape, np.flatnonzero(op.attrs["sublane_mask"])
    *major, row, col = map(int, idx)
    rows = row + keep * (op.attrs.get("sublane_stride") or 1)
    for r in rows: _slices(_space(ref).arr.shape, [*major, r, col], (1, shape[1]))      # bounds
    at = (*major, rows, slice(col, col + shape[1]))
    if val:
        new = val[0][0][keep] + (ref.read(at) if op.attrs.get("add") else 0)
        return ref.write(at, np.where(mask[0][keep], new, ref.read(at)) if mask else new) and None
    out = poison(shape, op.types[0].dtype)
    out[keep] = ref.read(at)
    return out
@on("memref.load")
def mload(m, op, ref, *idx): return _space(ref, "vmem").read(_slices(ref.arr.shape, idx, [1] * len(idx))).reshape(())[()]
@on("memref.store")
def mstore(m, op, val, ref, *idx): _space(ref, "vmem").write(_slices(ref.arr.shape, idx, [1] * len(idx)), val)
@on("memref.alloca", "memref.alloc", "tpu.sem_alloc")
def alloc(m, op):
    ref = Ref(poison(op.types[0].shape, op.types[0].dtype), op.types[0].space)
    if op.types[0].dtype is None: m.sems += list(ref.arr.flat)
    return ref
@on("tpu.memref_slice")
def mslice(m, op, ref, *idx):
    n, sizes = ref.arr.ndim, _fill(op.types[0].shape, idx[ref.arr.ndim:])
    return ref.view(ref.arr[_slices(ref.arr.shape, idx[:n], sizes)])
@on("tpu.memref_bitcast")
def mbitcast(m, op, ref):
    t = op.types[0]
    if t.dtype.itemsize == ref.arr.dtype.itemsize: return ref.view(ref.arr.view(t.dtype).reshape(t.shape, copy=False))
    tmp = Ref(_sublane_bitcast(ref.read(), t.dtype).copy(), ref.space)
    def pull(): tmp.arr[...] = _sublane_bitcast(ref.read(), t.dtype)
    def push(): ref.write(..., _sublane_bitcast(tmp.arr, ref.arr.dtype))
    tmp.pull, tmp.push = pull, push
    return tmp
@on("tpu.assume_multiple")
def assume_multiple(m, op, x):
    if int(x) % op.attrs["multiple"]: raise ValueError(f"{int(x)} is not a multiple of {op.attrs['multiple']}")
    return x
@on("tpu.enqueue_dma")
def enqueue_dma(m, op, *args):                           # the target is poison until the wait, which makes the copy
    (src,), ssem, (dst,), (sem,), *remote = _groups(op, args, 0)
    if any(remote) or ssem: raise NotImplementedError("tpu.enqueue_dma to another device or core")
    if src.arr.shape != dst.arr.shape or src.arr.dtype != dst.arr.dtype:
        raise ValueError(f"DMA of {src.arr.shape} {src.arr.dtype} to {dst.arr.shape} {dst.arr.dtype}")
    dst.write(..., poison(dst.arr.shape, dst.arr.dtype))
    sem.arr.item().pending.append((src, dst))
@on("tpu.wait_dma2", "tpu.wait_dma")
def wait_dma(m, op, *args):
    seg = _groups(op, args, 3)
    (sem,), (dst,) = seg[3 if op.name == "tpu.wait_dma" else 0], seg[2]
    left, pending = dst.arr.nbytes, sem.arr.item().pending
    while pending and left > 0:
        src, to = pending.pop(0)
        left -= to.write(..., src.read())
    if left: raise RuntimeError(f"DMA wait does not match the DMAs in flight ({left} bytes over)")
@on("tpu.sem_signal", "tpu.sem_wait", "tpu.sem_read")
def semaphore(m, op, ref, amount=0, *remote):
    if remote: raise NotImplementedError(f"{op.name} on another device or core")
    s = ref.arr.item()
    s.count += int(amount) if op.name == "tpu.sem_signal" else -int(amount)
    if s.count < 0: raise RuntimeError("semaphore wait that never ends")
    return np.int32(s.count) if op.outs else None
HANDLERS |= dict.fromkeys(["tpu.erase_memref_layout", "tpu.erase_layout", "tpu.assume_layout", "tpu.relayout", "tpu.mask_cast",
                           "memref.cast", "memref.memory_space_cast", "sdy.sharding_constraint"], lambda m, op, x: x)
HANDLERS |= dict.fromkeys(["tpu.trace_start", "tpu.trace_stop", "tpu.trace_value", "tpu.delay", "tpu.log", "tpu.log_buffer",
                           "cf.assert"], lambda m, op, *a: None)
HANDLERS |= dict.fromkeys(["tpu.device_id", "tpu.core_id", "tpu.subcore_id"], lambda m, op: np.int32(0))
HANDLERS |= dict.fromkeys(["tpu.memref_squeeze", "tpu.memref_reshape"],
                          lambda m, op, ref: ref.view(ref.arr.reshape(op.types[0].shape, copy=False)))
HANDLERS["memref.dim"] = lambda m, op, ref, i: np.int64(ref.arr.shape[int(i)])
HANDLERS["tpu.iteration_bound"] = lambda m, op: np.int32(m.bounds[op.attrs["dim"]])

# ---------------------------------------------------------------- handlers: vectors
HANDLERS |= dict.fromkeys(["vector.broadcast", "vector.splat"], lambda m, op, x: np.broadcast_to(x, op.types[0].shape))
HANDLERS |= dict.fromkeys(["vector.shape_cast", "tpu.reshape", "stablehlo.reshape"], lambda m, op, x: x.reshape(op.types[0].shape))
HANDLERS |= dict.fromkeys(["vector.transpose", "tpu.transpose"], lambda m, op, x: np.transpose(x, op.attrs["permutation"]))
HANDLERS["tpu.concatenate"] = lambda m, op, *xs: np.concatenate(xs, op.attrs["dimension"])
HANDLERS["tpu.repeat"] = lambda m, op, x: np.concatenate([x] * op.attrs["times"], op.attrs["dimension"])
_REDUCE = {"add": np.add, "sum": np.add, "mul": np.multiply, "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax,
           "minnumf": np.fmin, "max": np.maximum, "min": np.minimum, "maxsi": np.maximum, "minsi": np.minimum,
           "maxui": np.maximum, "minui": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
def _kind(op): return re.sub(r".*<(\w+)>.*", r"\1", str(op.attrs["kind"]))
def _reduce(kind, x, axes):
    y = _u(x) if kind in ("maxui", "minui") else x.astype("f4") if x.dtype.kind in "fV" and x.dtype.itemsize < 4 else x
    return _REDUCE[kind].reduce(y, tuple(axes), **({"dtype": y.dtype} if kind in ("add", "sum", "mul") else {})).astype(x.dtype)
@on("vector.multi_reduction", "vector.reduction")
def reduction(m, op, x, acc=None):
    r = _reduce(_kind(op), x, op.attrs.get("reduction_dims", [0]))
    return r if acc is None else _reduce(_kind(op), np.stack([r, np.broadcast_to(acc, r.shape)]), [0])
@on("tpu.all_reduce")
def all_reduce(m, op, x): return np.broadcast_to(np.expand_dims(_reduce(_kind(op), x, [op.attrs["dim"]]), op.attrs["dim"]), x.shape)
@on("tpu.reduce_index")
def reduce_index(m, op, x): return getattr(np, _kind(op).replace("_", ""))(x, op.attrs["axis"]).astype(op.types[0].dtype)
def _fill(static, dynamic):                              # kDynamic entries replaced by the dynamic operands
    dynamic = list(dynamic)
    return [int(dynamic.pop(0)) if p == DYN else p for p in static]
@on("vector.extract", "vector.extractelement")
def extract(m, op, x, *dyn): return x[tuple(_fill(op.attrs.get("static_position", [DYN] * len(dyn)), dyn))]
@on("vector.extract_strided_slice")
def extract_slice(m, op, x): return x[tuple(slice(o, o + n * s, s) for o, n, s in zip(*map(op.attrs.get, ("offsets", "sizes", "strides"))))]
@on("vector.insert_strided_slice", "vector.insert")
def insert_slice(m, op, x, y, *dyn):
    y, off = np.array(y), _fill(op.attrs.get("offsets", op.attrs.get("static_position", [])), dyn)
    k = y.ndim - np.ndim(x)
    y[(*off[:k], *(slice(o, o + n) for o, n in zip(off[k:], x.shape)))] = x
    return y
@on("tpu.iota")
def iota(m, op):
    t, dims = op.types[0], op.attrs["dimensions"]
    r = np.arange(math.prod(t.shape[d] for d in dims), dtype=t.dtype).reshape([t.shape[d] for d in dims])
    return np.broadcast_to(r.transpose(np.argsort(dims)).reshape([n if d in dims else 1 for d, n in enumerate(t.shape)]), t.shape)
@on("tpu.rotate", "tpu.dynamic_rotate")
def rotate(m, op, x, amount=None):
    a, dim = int(op.attrs["amount"] if amount is None else amount), op.attrs["dimension"]
    stride, sd = op.attrs.get("stride"), op.attrs.get("stride_dimension")
    if stride is None: return np.roll(x, a, dim)
    return np.stack([np.roll(r, a + i * stride, dim - (sd < dim)) for i, r in enumerate(np.moveaxis(x, sd, 0))], sd)
@on("tpu.broadcast_in_sublanes")
def broadcast_in_sublanes(m, op, x):
    return np.stack([np.full(op.types[0].shape[1:], x[min(i, len(x) - 1), op.attrs["lane"] + i]) for i in range(op.types[0].shape[0])])
@on("tpu.create_mask")
def create_mask(m, op, *args):
    r, n = np.zeros(op.types[0].shape, bool), len(args) // 2
    r[tuple(slice(int(lo), int(hi)) for lo, hi in zip(args[:n], args[n:]))] = True
    return r
@on("tpu.dynamic_gather", "tpu.gather")
def gather(m, op, x, idx=None):
    if idx is None: return np.take(x, op.attrs["indices"], op.attrs["dimension"])
    if len(op.attrs["dimensions"]) != 1: raise NotImplementedError("tpu.dynamic_gather over several dimensions")
    return np.take_along_axis(x, idx.astype(np.int64), op.attrs["dimensions"][0])
def dot(a, b, lc, rc, lb, rb, exact, acc):
    """General dot with result dims batch, lhs free, rhs free. f32 operands are rounded to bf16 unless exact."""
    lf = [d for d in range(a.ndim) if d not in (*lc, *lb)]
    rf = [d for d in range(b.ndim) if d not in (*rc, *rb)]
    def prep(x): return x.astype(acc) if acc.kind in "iu" else (x.astype(BF16) if x.dtype == "f4" and not exact else x).astype("f4")
    k, n = math.prod(a.shape[d] for d in lc), math.prod(a.shape[d] for d in lb)
    r = np.matmul(prep(a).transpose([*lb, *lf, *lc]).reshape(n, -1, k), prep(b).transpose([*rb, *rc, *rf]).reshape(n, k, -1))
    return r.reshape([a.shape[d] for d in (*lb, *lf)] + [b.shape[d] for d in rf]), lf, rf
@on("tpu.matmul")
def matmul(m, op, a, b, acc):
    exact = m.mxu == "f32" or "fp32" in str(op.attrs.get("precision"))
    dn, tl, tr = (op.attrs.get(k) for k in ("dimension_numbers", "transpose_lhs", "transpose_rhs"))
    kind = acc.dtype if acc.dtype.kind in "iu" else np.dtype("f4")
    if dn is None:
        n = list(range(a.ndim - 2))
        r = dot(a, b, [a.ndim - (2 if tl else 1)], [b.ndim - (1 if tr else 2)], n, n, exact, kind)[0]
    elif tl or tr: raise NotImplementedError("tpu.matmul with both dimension_numbers and transpose flags")
    else:
        lc, rc, lf, rf, out, lb, rb = map(_ints, re.findall(r"\[(.*?)\]", dn))
        r, lfree, rfree = dot(a, b, lc, rc, lb, rb, exact, kind)
        if (lfree, rfree) != (sorted(lf), sorted(rf)): raise ValueError(f"inconsistent {dn}")
        have = [(0, d) for d in (*lb, *lfree)] + [(1, d) for d in rfree]
        want = [(0, lb[rb.index(d)]) if s and d in rb else (s, d) for s, d in zip(out[::2], out[1::2])]
        r = r.transpose([have.index(w) for w in want])
    return (acc.astype(kind) + r).astype(acc.dtype)

# ---------------------------------------------------------------- handlers: control flow
@on("scf.for")
def scf_for(m, op, lo, hi, step, *carry):
    for i in range(int(lo), int(hi), int(step)): carry = m.block(op.regions[0], [lo.dtype.type(i), *carry])
    return list(carry)
@on("scf.if", "stablehlo.if")
def scf_if(m, op, c): return m.block(op.regions[0 if c else 1] or Block([], [], []))
@on("scf.while", "stablehlo.while")
def scf_while(m, op, *carry):
    while True:
        c, *vals = m.block(op.regions[0], carry)
        if op.name == "stablehlo.while": vals = list(carry)
        if not c: return vals
        carry = m.block(op.regions[1], vals)
@on("scf.index_switch", "stablehlo.case")
def switch(m, op, i):
    if op.name == "stablehlo.case": return m.block(op.regions[int(i) if 0 <= i < len(op.regions) else -1])
    cases = list(op.attrs["cases"])
    return m.block(op.regions[1 + cases.index(int(i)) if int(i) in cases else 0])
HANDLERS["tpu.region"] = HANDLERS["tpu.trace"] = lambda m, op: m.block(op.regions[0])
HANDLERS["func.call"] = lambda m, op, *args: m.call(op.attrs["callee"], list(args))
HANDLERS["stablehlo.composite"] = lambda m, op, *args: m.call(op.attrs["decomposition"], list(args))

# ---------------------------------------------------------------- StableHLO around the kernels (the rest: xla_op)
@on("stablehlo.dot_general")
def hlo_dot(m, op, a, b):
    dims = [_ints((re.search(k + r"_dimensions = \[(.*?)\]", op.attrs["dot_dimension_numbers"]) or [0, ""])[1])
            for k in ("lhs_contracting", "rhs_contracting", "lhs_batching", "rhs_batching")]
    exact, d = m.mxu == "f32" or "HIGH" in str(op.attrs.get("precision_config", "")), op.types[0].dtype
    return dot(a, b, *dims, exact, d if d.kind in "iu" else np.dtype("f4"))[0].astype(d)
@on("stablehlo.custom_call")
def custom_call(m, op, *args):
    if op.const is None: raise NotImplementedError(f"mosaic_eval: unsupported custom call {op.attrs['call_target_name']}")
    al = [re.search(r"output_tuple_indices = \[(\d*)\].*?operand_index = (\d+)", s) for s in op.attrs.get("output_operand_aliases", [])]
    return run_kernel(op.const, args, [(t.shape, t.dtype) for t in op.types], m.mxu, {int(o[1] or 0): int(o[2]) for o in al})

EXECUTABLES = {}                                         # by the text of an op: programs repeat them, and each takes XLA 40 ms
def _nameless(text):
    """The text of an op with its values numbered as they appear."""
    seen = {}
    return re.sub(r"%[\w#:]+", lambda m: f"%{seen.setdefault(m[0], len(seen))}", text)
def _compiled(op, cpu):
    with op.src.context as ctx, ir.Location.unknown(ctx):
        mod = ir.Module.parse("module @op {}")
        ty = ir.FunctionType.get([v.type for v in op.src.operands], [v.type for v in op.src.results])
        with ir.InsertionPoint(mod.body): body = func.FuncOp("main", ty).add_entry_block()
        with ir.InsertionPoint(body):
            new = op.src.clone()
            for i, a in enumerate(body.arguments): new.operation.operands[i] = a
            func.ReturnOp(list(new.operation.results))
        return compiler.backend_compile_and_load(
            cpu.client, mod, _jax.DeviceList((cpu,)),
            compiler.get_compile_options(num_replicas=1, num_partitions=1, device_assignment=np.array([[0]])), [])
def xla_op(m, op, *args):
    """Any other StableHLO op without captured values: compiled alone and run by XLA's CPU backend."""
    if not op.name.startswith(("stablehlo.", "chlo.")): raise NotImplementedError(f"mosaic_eval: unsupported op {op.name}")
    cpu = jax.devices("cpu")[0]
    if op.exe is None:
        key = _nameless(str(op.src))
        if key not in EXECUTABLES: EXECUTABLES[key] = _compiled(op, cpu)
        op.exe = EXECUTABLES[key]
    with jax.enable_x64(True):
        res = op.exe.execute_sharded([jax.device_put(np.ascontiguousarray(a).reshape(a.shape), cpu) for a in args])
        return [np.asarray(r[0]) for r in res.disassemble_into_single_device_arrays()]

def run_module(stablehlo_text, inputs, mxu="bf16"):
    """Evaluates @main of a StableHLO module (text, path or Program) on a list of arrays."""
    prog = stablehlo_text if isinstance(stablehlo_text, Program) else load(stablehlo_text)
    m, main = Machine(prog.main, mxu), prog.main.funcs["main"]
    args = []
    for a, t in zip(map(np.asarray, inputs), main.regions[0].types, strict=True):
        a = a.view(t.dtype) if a.dtype == "V2" and t.dtype == BF16 else a      # bf16 as np.savez leaves it
        if a.shape != t.shape or a.dtype != t.dtype:
            raise TypeError(f"argument {len(args)} is {a.shape} {a.dtype}, declared {t.shape} {t.dtype}")
        args.append(a)
    with np.errstate(all="ignore"): return m.call("main", args)

# ---------------------------------------------------------------- command line
def read_tensors(path):
    if not path.endswith(".safetensors"): return dict(np.load(path))
    raw, out = open(path, "rb").read(), {}
    n = 8 + int.from_bytes(raw[:8], "little")
    for k, v in json.loads(raw[8:n]).items():
        if k == "__metadata__": continue
        dtype, (a, b) = DTYPES["i1" if v["dtype"] == "BOOL" else v["dtype"].lower().replace("u", "ui")], v["data_offsets"]
        out[k] = np.frombuffer(raw[n + a:n + b], dtype).reshape(v["shape"])
    return out

def write_tensors(path, tensors):
    names, head, at = {"f4": "F32", "f8": "F64", "i4": "I32", "u4": "U32", "i8": "I64", "u2": "U16", "b1": "BOOL"}, {}, 0
    for k, v in tensors.items():
        head[k] = {"dtype": names[v.dtype.str[1:]], "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(head).encode()
    with open(path, "wb") as f: f.write(len(text).to_bytes(8, "little") + text + b"".join(v.tobytes() for v in tensors.values()))

def evaluate(module, inputs, out, mxu="bf16", out_shape=()):
    t = read_tensors(inputs)
    ins = [t[f"arg{i}"] for i in range(len(t))] if all(f"arg{i}" in t for i in range(len(t))) else list(t.values())
    prog, shapes = load(module), [(tuple(map(int, s.split("x")[:-1])), DTYPES[s.split("x")[-1]]) for s in out_shape]
    outs = run_module(prog, ins, mxu) if prog.main else run_kernel(prog.kernels[0], ins, shapes, mxu)
    outs = {f"out{i}": o.astype("f4") if o.dtype == BF16 else o for i, o in enumerate(outs)}
    if out.endswith(".safetensors"): write_tensors(out, outs)
    else: np.savez(out, **outs)

def serve():
    """Answers each line of the input, the arguments of evaluate as JSON, with a line: what went wrong, or nothing."""
    for line in sys.stdin:
        wrong = ""
        try: evaluate(**json.loads(line))
        except Exception: wrong = traceback.format_exc()
        print(json.dumps(wrong), flush=True)

def main():
    ap = argparse.ArgumentParser(description="Evaluate a StableHLO or Mosaic module without a TPU.")
    ap.add_argument("module", help="its text or bytecode; - serves requests on standard input")
    ap.add_argument("--inputs", help=".npz or .safetensors; arg0, arg1, ... or the file's order")
    ap.add_argument("--out", help=".npz or .safetensors with out0, out1, ... (bf16 is widened to f32)")
    ap.add_argument("--mxu", choices=["bf16", "f32"], default="bf16", help="f32 operands of a default-precision matmul")
    ap.add_argument("--out-shape", action="append", default=[], help="bare Mosaic module only: an output such as 512x128xf32")
    a = ap.parse_args()
    if a.module == "-": return serve()
    if not a.inputs or not a.out: ap.error("--inputs and --out are needed")
    evaluate(a.module, a.inputs, a.out, a.mxu, a.out_shape)

if __name__ == "__main__":
    main()
