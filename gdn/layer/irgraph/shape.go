package irgraph

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/ir"
)

func buildBroadcast(_ *builder, in *ir.Instr, a []*Node) *Node {
	return broadcast(a[0], in.Result().Type.Shape, in.Attrs.Dims)
}

// broadcast puts dimension i of x at dims[i] of the shape and repeats it along the others.
func broadcast(x *Node, shape, dims []int) *Node {
	ones := slices.Repeat([]int{1}, len(shape))
	for i, d := range dims {
		ones[d] = x.Shape().Dimensions[i]
	}
	x = Reshape(x, ones...)
	if slices.Equal(ones, shape) {
		return x
	}
	return BroadcastToDims(x, shape...)
}

func buildSlice(_ *builder, in *ir.Instr, a []*Node) *Node {
	at := &in.Attrs
	spec := make([]SliceAxisSpec, len(at.Starts))
	for i := range spec {
		spec[i] = AxisRange(at.Starts[i], at.Limits[i])
		if at.Strides != nil {
			spec[i] = spec[i].Stride(at.Strides[i])
		}
	}
	return Slice(a[0], spec...)
}

func buildPad(b *builder, in *ir.Instr, a []*Node) *Node {
	at := &in.Attrs
	config := make([]compute.PadAxis, len(at.Starts))
	for i := range config {
		config[i] = compute.PadAxis{Start: at.Starts[i], End: at.Limits[i]}
	}
	return Pad(a[0], b.fill(ir.T(in.Result().Type.DType), at.Value), config...)
}

// summed returns the type in which values of type d are summed.
func summed(d ir.DType) ir.DType {
	if d == ir.BF16 || d == ir.F16 {
		return ir.F32
	}
	return d
}

// as converts a node where it has another type.
func (b *builder) as(x *Node, d ir.DType) *Node {
	if x.DType() == Types[d] {
		return x
	}
	if d == ir.BF16 && x.DType() == dtypes.Float32 && Truncates(b.g.Backend()) {
		x = b.roundBF16(x)
	}
	return ConvertDType(x, Types[d])
}

// Convert changes the element type, rounding to nearest on every backend. It has no gradient.
func Convert(x *Node, d ir.DType) *Node { return (&builder{g: x.Graph()}).as(x, d) }

// Truncates reports whether a backend truncates when it converts to bf16, and sums products of bf16 in bf16.
func Truncates(b compute.Backend) bool {
	return b.Name() == gobackend.BackendName
}

// roundBF16 rounds f32 to the nearest bf16, ties to even, as f32, so that truncation changes nothing.
func (b *builder) roundBF16(x *Node) *Node {
	t := ir.T(ir.U32, x.Shape().Dimensions...)
	bits := Bitcast(x, dtypes.Uint32)
	odd := BitwiseAnd(BitwiseShiftRightLogical(bits, b.fill(t, 16)), b.fill(t, 1))
	up := Add(bits, Add(odd, b.fill(t, 0x7fff)))
	return Where(Equal(x, x), Bitcast(up, dtypes.Float32), x)
}

func buildReduceSum(b *builder, in *ir.Instr, a []*Node) *Node {
	d := in.Result().Type.DType
	if len(in.Attrs.Dims) == 0 {
		return a[0]
	}
	return b.as(b.reduce(b.as(a[0], summed(d)), in.Attrs.Dims, Add, ReduceSum), d)
}

func buildReduceMax(b *builder, in *ir.Instr, a []*Node) *Node {
	if len(in.Attrs.Dims) == 0 {
		return a[0]
	}
	greater := func(x, y *Node) *Node { return greatest(in.Result().Type.DType, x, y) }
	return b.fold(a[0], in.Attrs.Dims, greater)
}

// reduce uses the backend's own reduction, except inside a While. GoMLX's XLA backend keeps one function for all sums of a
// graph, and that function belongs to the body that used it first.
func (b *builder) reduce(x *Node, dims []int, f func(x, y *Node) *Node, whole func(x *Node, axes ...int) *Node) *Node {
	if b.inside == 0 {
		return whole(x, dims...)
	}
	return b.fold(x, dims, f)
}

// fold reduces by halves.
func (b *builder) fold(x *Node, dims []int, f func(x, y *Node) *Node) *Node {
	for _, d := range dims {
		for n := x.Shape().Dimensions[d]; n > 1; n = (n + 1) / 2 {
			half := n / 2
			y := f(SliceAxis(x, d, AxisRange(0, half)), SliceAxis(x, d, AxisRange(half, 2*half)))
			if n%2 == 1 {
				y = Concatenate([]*Node{y, SliceAxis(x, d, AxisRange(n-1, n))}, d)
			}
			x = y
		}
	}
	return Squeeze(x, dims...)
}

func buildCumsum(b *builder, in *ir.Instr, a []*Node) *Node {
	t, axis := in.Result().Type, in.Attrs.Axis
	n := t.Shape[axis]
	x := b.as(a[0], summed(t.DType))
	// Sums of shifted copies, doubling the distance each time: every backend supports this.
	for reach := 1; reach < n; reach *= 2 {
		pad := slices.Clone(t.Shape)
		pad[axis] = reach
		shifted := Concatenate([]*Node{b.fill(ir.T(summed(t.DType), pad...), 0), SliceAxis(x, axis, AxisRange(0, n-reach))}, axis)
		x = Add(x, shifted)
	}
	return b.as(x, t.DType)
}

// buildGatherRows gathers with clamped indices and selects zeros where an index was out of range.
func buildGatherRows(b *builder, in *ir.Instr, a []*Node) *Node {
	x, rows, axis, t := a[0], a[1], in.Attrs.Axis, in.Result().Type
	n := in.Args[0].Type.Shape[axis]
	if t.Size() == 0 || n == 0 {
		return b.fill(t, 0)
	}
	zero, last := b.fill(in.Args[1].Type, 0), b.fill(in.Args[1].Type, float64(n-1))
	valid := LogicalAnd(GreaterOrEqual(rows, zero), LessOrEqual(rows, last))
	index := Reshape(Where(valid, rows, zero), -1, 1)
	sizes := slices.Clone(in.Args[0].Type.Shape)
	sizes[axis] = 1
	var offsets []int
	for i := range t.Shape {
		if i != axis {
			offsets = append(offsets, i)
		}
	}
	r := BackendGather(x, index, 1, offsets, []int{axis}, []int{axis}, sizes, false)
	return Where(broadcast(valid, t.Shape, []int{axis}), r, b.fill(t, 0))
}

// buildTake gathers single elements, with one index per result element.
func buildTake(b *builder, in *ir.Instr, a []*Node) *Node {
	t, axis := in.Args[1].Type, in.Attrs.Axis
	n := t.Rank()
	parts, axes := make([]*Node, n), make([]int, n)
	for i := range parts {
		axes[i] = i
		x := ConvertDType(a[1], dtypes.Int32)
		if i != axis {
			x = Iota(b.g, shapes.Make(dtypes.Int32, t.Shape...), i)
		}
		parts[i] = Reshape(x, -1, 1)
	}
	r := BackendGather(a[0], Concatenate(parts, 1), 1, nil, axes, axes, slices.Repeat([]int{1}, n), false)
	return Reshape(r, t.Shape...)
}

// buildDynSlice slices at starts that are known while the graph is built, or at run time.
func buildDynSlice(b *builder, in *ir.Instr) []*value {
	t, from := in.Result().Type, in.Args[0].Type
	if t.Rank() == 0 {
		return []*value{b.env[in.Args[0]]}
	}
	known, all := b.constants(in.Args[1:])
	x := b.node(in.Args[0])
	if all {
		spec := make([]SliceAxisSpec, t.Rank())
		whole := true
		for i, k := range known {
			at := clamp(*k, from.Shape[i]-t.Shape[i])
			spec[i] = AxisRange(at, at+t.Shape[i])
			whole = whole && t.Shape[i] == from.Shape[i]
		}
		if whole {
			return []*value{{n: x}}
		}
		return []*value{{n: Slice(x, spec...)}}
	}
	starts := make([]*Node, t.Rank())
	for i, a := range in.Args[1:] {
		starts[i] = b.node(a)
	}
	if b.dynamic {
		return []*value{{n: DynamicSlice(x, starts, t.Shape)}}
	}
	// A gather of one block.
	index, axes := make([]*Node, len(starts)), make([]int, len(starts))
	for i, s := range starts {
		index[i], axes[i] = Reshape(b.clamp(s, from.Shape[i]-t.Shape[i]), 1), i
	}
	return []*value{{n: BackendGather(x, Concatenate(index, 0), 0, axes, nil, axes, t.Shape, false)}}
}

// clamp bounds an i32 scalar to 0 .. most.
func (b *builder) clamp(s *Node, most int) *Node {
	t := ir.T(ir.I32)
	return Max(b.fill(t, 0), Min(s, b.fill(t, float64(most))))
}

func clamp(x, most int) int { return max(0, min(x, most)) }

// buildDynUpdate writes a block at starts that are known while the graph is built, or at run time.
func buildDynUpdate(b *builder, in *ir.Instr) []*value {
	t, block := in.Result().Type, in.Args[1].Type
	if t.Rank() == 0 {
		return []*value{b.env[in.Args[1]]}
	}
	known, all := b.constants(in.Args[2:])
	y := b.node(in.Args[1])
	if t.Equal(block) {
		return []*value{{n: y}}
	}
	if all && b.inside == 0 {
		if v := b.replace(in, known, y); v != nil {
			return []*value{v}
		}
	}
	x := b.node(in.Args[0])
	starts := make([]*Node, t.Rank())
	for i, a := range in.Args[2:] {
		starts[i] = b.node(a)
	}
	if b.dynamic {
		return []*value{{n: DynamicUpdateSlice(x, y, starts)}}
	}
	// A selection by position. Dimensions that the block fills need no start.
	var here *Node
	for i, s := range starts {
		if block.Shape[i] == t.Shape[i] {
			continue
		}
		if block.Shape[i] != 1 {
			panic(fmt.Errorf("irgraph: %s: the backend %s can not write %v into %v at run time: a block must be one row, or the whole, of each dimension",
				describe(in), b.g.Backend().Name(), block, t))
		}
		at := b.clamp(s, t.Shape[i]-1)
		pos := Iota(b.g, shapes.Make(s.DType(), t.Shape...), i)
		hit := Equal(pos, BroadcastToDims(Reshape(at, slices.Repeat([]int{1}, t.Rank())...), t.Shape...))
		if here != nil {
			hit = LogicalAnd(here, hit)
		}
		here = hit
	}
	return []*value{{n: Where(here, BroadcastToDims(y, t.Shape...), x)}}
}

// replace records the block as a part of the array; nil if the block is smaller in more than one dimension, or partially overlaps
// an earlier part.
func (b *builder) replace(in *ir.Instr, known []*int, y *Node) *value {
	t, block := in.Result().Type, in.Args[1].Type
	axis := -1
	for i := range t.Shape {
		if t.Shape[i] != block.Shape[i] {
			if axis >= 0 {
				return nil
			}
			axis = i
		}
	}
	old := b.env[in.Args[0]]
	p := old.patch
	if p == nil || old.n != nil || p.axis != axis {
		p = &patch{base: b.node(in.Args[0]), axis: axis}
	}
	q := p.write(clamp(*known[axis], t.Shape[axis]-block.Shape[axis]), y)
	if q == nil {
		q = (&patch{base: b.node(in.Args[0]), axis: axis}).write(clamp(*known[axis], t.Shape[axis]-block.Shape[axis]), y)
	}
	return &value{patch: q}
}

// buildDot multiplies and sums in f32, or in f64 for an f64 result. With a bf16 precision, operands are split into bf16
// parts. A compiler that keeps more than bf16 of a part only makes the product more accurate.
func buildDot(b *builder, in *ir.Instr, a []*Node) *Node {
	r, d, prec := in.Result().Type, in.Attrs.Dot, in.Attrs.Prec
	wide := ir.F32
	if r.DType == ir.F64 && prec == ir.PrecF32 {
		wide = ir.F64
	}
	product := func(x, y *Node) *Node { return DotGeneral(x, d.LC, d.LB, y, d.RC, d.RB) }
	x, y := b.as(a[0], wide), b.as(a[1], wide)
	if prec == ir.PrecF32 {
		return b.as(product(x, y), r.DType)
	}
	xs, ys := b.split(x, in.Args[0].Type.DType, prec.Parts()), b.split(y, in.Args[1].Type.DType, prec.Parts())
	var sum *Node
	for _, q := range prec.Products() {
		if q[0] >= len(xs) || q[1] >= len(ys) {
			continue
		}
		if p := product(xs[q[0]], ys[q[1]]); sum == nil {
			sum = p
		} else {
			sum = Add(sum, p)
		}
	}
	return b.as(sum, r.DType)
}

// split returns the bf16 parts of x, an operand of type d held in f32, the leading one first.
func (b *builder) split(x *Node, d ir.DType, parts int) []*Node {
	if d == ir.BF16 {
		return []*Node{x}
	}
	out := make([]*Node, parts)
	for i := range out {
		out[i] = b.as(b.as(x, ir.BF16), ir.F32)
		x = Sub(x, out[i])
	}
	return out
}
