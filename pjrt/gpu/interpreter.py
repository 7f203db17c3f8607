"""Triton's interpreter with no GPU and no torch: tensors over NumPy, and the rounding of matrix units.

It is for Triton 3.9, and reads TRITON_INTERPRET when it is imported: 1 has kernels run on NumPy, 0 leaves them to the compiler.
"""

import os

import numpy as np
import triton
import triton.language as tl

interprets = os.environ.get("TRITON_INTERPRET") == "1"


class DType:
    """An element type as torch has it: a name, and what NumPy holds it in."""

    def __init__(self, name, stored, held):
        self.name, self.stored, self.held = name, stored, np.dtype(held)

    def __str__(self):
        return "torch." + self.name

    __repr__ = __str__


TYPES = {
    t.stored: t
    for t in [DType("bfloat16", "BF16", np.uint16), DType("float16", "F16", np.float16), DType("float32", "F32", np.float32),
              DType("int32", "I32", np.int32), DType("int64", "I64", np.int64)]
}
NAN = {"BF16": 0x7FC0, "F16": np.nan, "F32": np.nan, "I32": 0, "I64": 0}


class Storage:
    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def cpu(self):
        return self

    def copy_(self, other):
        if other.array is not self.array:
            self.array[...] = other.array


class Tensor:
    """What Triton asks of a torch tensor, over NumPy. New ones hold NaN, so that a value read before it is written shows."""

    device = "cpu"

    def __init__(self, array, dtype):
        self.array, self.dtype = array, dtype

    shape = property(lambda self: self.array.shape)

    def data_ptr(self):
        return self.array.ctypes.data if interprets else 1 << 20

    def untyped_storage(self):
        return Storage(self.array)

    def storage_offset(self):
        return 0

    def size(self):
        return self.array.shape

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def is_contiguous(self):
        return self.array.flags.c_contiguous or not interprets

    def element_size(self):
        return self.array.itemsize

    def new_empty(self, shape, device=None, dtype=None):
        dtype = dtype or self.dtype
        shape = shape if np.ndim(shape) else (shape,)
        array = np.full(shape, NAN[dtype.stored], dtype.held) if interprets else np.broadcast_to(np.zeros((), dtype.held), shape)
        return Tensor(array, dtype)

    def set_(self, storage, offset, size, stride):
        self.array = storage.array
        return self


def widened(handle):
    """The values of a block in float32: the interpreter holds bf16 as its bits."""
    if handle.dtype.scalar == tl.bfloat16:
        return (handle.data.astype(np.uint32) << 16).view(np.float32)
    return handle.data.astype(np.float32)


def tf32(x):
    """Rounded to the 10 bits of tf32, to nearest with ties away from zero, as cvt.rna.tf32 does."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def truncated(x):
    """What a matrix unit takes of a float32 for tf32: it drops the last 13 bits."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def bf16_bits(x):
    """float32 rounded to bf16, to nearest even, as bits; NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), nearest)


def emulate_rounding():
    """Has the interpreter round as a GPU does.

    It truncates float32 to bf16, multiplies the bits of bf16 as integers in tl.dot, and takes tf32 for float32 there. Since 3.9 it refuses masks that
    it made of an integer's comparison itself, as they hold integers.
    """
    from triton.runtime import interpreter

    convert = interpreter._convert_float

    def convert_float(x, source, result, rounding):
        if (source, result) == (tl.float32, tl.bfloat16):
            return bf16_bits(x).reshape(x.shape)
        return convert(x, source, result, rounding)

    interpreter._convert_float = convert_float

    def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
        x, y = widened(a), widened(b)
        precision = str(input_precision).split(".")[-1].lower()
        if a.dtype.scalar == tl.float32 and precision != "ieee":
            if precision == "tf32x3":  # the compiler rounds the first parts, and leaves the second ones to the unit
                x1, y1 = tf32(x), tf32(y)
                z = np.matmul(x1, truncated(y - y1)) + np.matmul(truncated(x - x1), y1) + np.matmul(x1, y1)
            else:
                z = np.matmul(truncated(x), truncated(y))
        else:
            z = np.matmul(x, y)
        return interpreter.TensorHandle(z.astype(np.float32) + d.data, d.dtype.scalar)

    interpreter.InterpreterBuilder.create_dot = create_dot

    def boolean(access, place):
        def masked(self, *args):
            mask = interpreter.TensorHandle(args[place].data.astype(bool), args[place].dtype)
            return access(self, *args[:place], mask, *args[place + 1:])

        return masked

    for name, place in ("create_masked_load", 1), ("create_masked_store", 2):
        setattr(interpreter.InterpreterBuilder, name, boolean(getattr(interpreter.InterpreterBuilder, name), place))
