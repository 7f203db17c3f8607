"""Kernels of a package that knows nothing of gdngen, launched on tensors that are no torch's."""

import os

import triton
import triton.language as tl


class Tensor:
    """As much of a tensor as a launch looks at."""

    def __init__(self, dtype, size, *shape, values=()):
        self.dtype, self.size, self.shape, self.values = dtype, size, shape, values

    def data_ptr(self):
        return id(self) & ~15  # aligned

    def element_size(self):
        return self.size

    def flatten(self):
        return self

    def is_floating_point(self):
        return not self.values

    def numel(self):
        return len(self.values)

    def __getitem__(self, at):
        return self.values[at]


@triton.autotune(configs=[triton.Config({"B": b}, num_warps=w) for b, w in ((64, 1), (64, 4), (128, 4), (256, 8), (256, 16))], key=["width"])
@triton.heuristics({"EVEN": lambda args: args["width"] % args["B"] == 0})
@triton.jit
def sums(x, ends, out, width, B: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0)
    first, last = tl.load(ends + row), tl.load(ends + row + 1)
    lanes = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(first, last):
        total += tl.load(x + i * width + lanes, EVEN | (lanes < width), 0.0)
    tl.store(out + row * width + lanes, total, EVEN | (lanes < width))


@triton.jit
def halve(x, n, B: tl.constexpr):
    while n > 1:
        tl.store(x + tl.arange(0, B), tl.load(x + tl.arange(0, B)) * 0.5)
        n = n // 2


@triton.jit
def backwards(x, n, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for i in range(n - 1, -1, -1):
        total = total * 0.5 + tl.load(x + i * B + tl.arange(0, B))
    tl.store(x + tl.arange(0, B), total)


x, out = Tensor("torch.float32", 4, 100, 256), Tensor("torch.float32", 4, 3, 256)
ends = Tensor("torch.int64", 8, 4, values=[0, 10, 70, 100])
launch = os.environ.get("LAUNCH", "sums")
if launch == "halve":
    halve[(1,)](x, 64, 128)
elif launch == "backwards":
    backwards[(1,)](x, 100, 256)
elif launch == "import":
    import no_such_package  # noqa: F401
elif launch == "sums":
    sums[lambda bound: (3, 512 // bound["B"])](x, ends, out, 256)
    sums[(3,)](x, ends, out, 256)
