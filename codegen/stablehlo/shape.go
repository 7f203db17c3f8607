package stablehlo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// broadcast repeats a plain tensor.
func (p *printer) broadcast(x string, from, to ir.Type, dims []int) string {
	return p.let("stablehlo.broadcast_in_dim %s, dims = %s : (%s) -> %s", x, list(dims), TensorType(from), TensorType(to))
}

// reshape reshapes a plain tensor, if the shape differs.
func (p *printer) reshape(x string, from, to ir.Type) string {
	if from.Equal(to) {
		return x
	}
	return p.let("stablehlo.reshape %s : (%s) -> %s", x, TensorType(from), TensorType(to))
}

func emitBroadcast(p *printer, in *ir.Instr, a []string) string {
	return p.broadcast(a[0], p.carrier(in.Args[0].Type), p.carrier(in.Result().Type), in.Attrs.Dims)
}

func emitReshape(p *printer, in *ir.Instr, a []string) string {
	return p.reshape(a[0], p.carrier(in.Args[0].Type), p.carrier(in.Result().Type))
}

func emitKeep(p *printer, in *ir.Instr, a []string) string {
	return p.let("stablehlo.optimization_barrier %s : %s", a[0], p.operands(in))
}

func emitTranspose(p *printer, in *ir.Instr, a []string) string {
	return p.let("stablehlo.transpose %s, dims = %s : (%s) -> %s", a[0], list(in.Attrs.Dims), p.operands(in), p.result(in))
}

// slice returns elements starts to limits by strides of a plain tensor.
func (p *printer) slice(x string, from, to ir.Type, starts, limits, strides []int) string {
	ranges := make([]string, len(starts))
	for i := range starts {
		ranges[i] = fmt.Sprintf("%d:%d", starts[i], limits[i])
		if strides != nil && strides[i] != 1 {
			ranges[i] += fmt.Sprintf(":%d", strides[i])
		}
	}
	return p.let("stablehlo.slice %s [%s] : (%s) -> %s", x, strings.Join(ranges, ", "), TensorType(from), TensorType(to))
}

func emitSlice(p *printer, in *ir.Instr, a []string) string {
	at := &in.Attrs
	return p.slice(a[0], p.carrier(in.Args[0].Type), p.carrier(in.Result().Type), at.Starts, at.Limits, at.Strides)
}

func emitConcat(p *printer, in *ir.Instr, a []string) string {
	return p.let("stablehlo.concatenate %s, dim = %d : (%s) -> %s", strings.Join(a, ", "), in.Attrs.Axis, p.operands(in), p.result(in))
}

func emitPad(p *printer, in *ir.Instr, a []string) string {
	d := in.Result().Type.DType
	c := ir.T(p.carrier(ir.T(d)).DType)
	v := p.let("stablehlo.constant dense<%s> : %s", literal(in.Attrs.Value, d, c.DType), TensorType(c))
	at := &in.Attrs
	return p.let("stablehlo.pad %s, %s, low = %s, high = %s, interior = %s : (%s, %s) -> %s", a[0], v,
		list(at.Starts), list(at.Limits), list(filled(len(at.Starts), 0)), p.operands(in), TensorType(c), p.result(in))
}

// summed returns the type in which values of type t are summed.
func summed(t ir.Type) ir.Type {
	if t.DType == ir.BF16 || t.DType == ir.F16 {
		return ir.T(ir.F32, t.Shape...)
	}
	return t
}

// narrow rounds x of type from to t, and converts it to t's carrier. The rounding to bf16 is explicit, since a compiler may drop a
// conversion that is converted back.
func (p *printer) narrow(x string, from, t ir.Type) string {
	if t.DType == ir.BF16 && from.DType != ir.BF16 {
		x = p.reduce(x, from, ir.BF16)
	}
	return p.convert(x, from, p.carrier(t))
}

func emitReduceSum(p *printer, in *ir.Instr, a []string) string {
	x, r := in.Args[0].Type, in.Result().Type
	if len(in.Attrs.Dims) == 0 {
		return a[0]
	}
	wide, sum := summed(x), summed(r)
	v := p.convert(a[0], p.carrier(x), wide)
	return p.narrow(p.fold("add", p.splat(0, ir.T(sum.DType)), v, wide, sum, in.Attrs.Dims), sum, r)
}

func emitReduceMax(p *printer, in *ir.Instr, a []string) string {
	if len(in.Attrs.Dims) == 0 {
		return a[0]
	}
	x, r := p.carrier(in.Args[0].Type), p.carrier(in.Result().Type)
	least := p.let("stablehlo.constant dense<%s> : %s", leastOf(x.DType), TensorType(ir.T(x.DType)))
	if !x.DType.IsFloat() {
		return p.fold("maximum", least, a[0], x, r, in.Attrs.Dims)
	}
	v, l, m, elem := p.fresh(), p.fresh(), p.fresh(), ir.T(x.DType)
	p.line("%s = stablehlo.reduce(%s init: %s) across dimensions = %s : (%s, %s) -> %s", v, a[0], least, list(in.Attrs.Dims),
		TensorType(x), TensorType(elem), TensorType(r))
	p.depth++
	p.line("reducer(%[1]s: %[3]s, %[2]s: %[3]s) {", l, m, TensorType(elem))
	p.depth++
	p.line("stablehlo.return %s : %s", p.extreme("maximum", "GT", l, m, elem), TensorType(elem))
	p.depth--
	p.line("}")
	p.depth--
	return v
}

// leastOf returns the identity of a maximum.
func leastOf(d ir.DType) string {
	switch d {
	case ir.F64:
		return "0xFFF0000000000000"
	case ir.F32:
		return "0xFF800000"
	case ir.BF16:
		return "0xFF80"
	case ir.F16:
		return "0xFC00"
	}
	return fmt.Sprintf("%d", int64(intBounds[d][0]))
}

func (p *printer) fold(op, init, x string, from, to ir.Type, dims []int) string {
	return p.let("stablehlo.reduce(%s init: %s) applies stablehlo.%s across dimensions = %s : (%s, %s) -> %s",
		x, init, op, list(dims), TensorType(from), TensorType(ir.T(from.DType)), TensorType(to))
}

func emitCumsum(p *printer, in *ir.Instr, a []string) string {
	t, axis := in.Result().Type, in.Attrs.Axis
	if t.Size() == 0 {
		return a[0]
	}
	wide := summed(t)
	x, zero := p.convert(a[0], p.carrier(t), wide), p.splat(0, ir.T(wide.DType))
	window, padding := filled(t.Rank(), 1), make([]string, t.Rank())
	window[axis] = t.Shape[axis]
	for i := range padding {
		padding[i] = "[0, 0]"
	}
	padding[axis] = fmt.Sprintf("[%d, 0]", t.Shape[axis]-1)
	elem := TensorType(ir.T(wide.DType))
	r := p.fresh()
	p.line(`%s = "stablehlo.reduce_window"(%s, %s) <{padding = dense<[%s]> : tensor<%dx2xi64>, window_dimensions = %s}> ({`,
		r, x, zero, strings.Join(padding, ", "), t.Rank(), i64s(window))
	l, m := p.fresh(), p.fresh()
	p.line("^bb0(%s: %s, %s: %s):", l, elem, m, elem)
	p.depth++
	p.line("stablehlo.return %s : %s", p.let("stablehlo.add %s, %s : %s", l, m, elem), elem)
	p.depth--
	p.line("}) : (%s, %s) -> %s", TensorType(wide), elem, TensorType(wide))
	return p.narrow(r, wide, t)
}

// starts returns the start indices of a dynamic slice, as text.
func starts(a []string) string {
	if len(a) == 0 {
		return ""
	}
	return ", " + strings.Join(a, ", ")
}

func emitDynSlice(p *printer, in *ir.Instr, a []string) string {
	if in.Result().Type.Rank() == 0 {
		return a[0]
	}
	x, t := in.Args[0], in.Result().Type
	name, from, to := a[0], p.carrier(x.Type), p.carrier(t)
	if own := p.stored[x]; own != "" {
		name, from, to = own, x.Type, t
	}
	r := p.let("stablehlo.dynamic_slice %s%s, sizes = %s : (%s%s) -> %s", name, starts(a[1:]), list(t.Shape), TensorType(from),
		p.indices(in.Args[1:]), TensorType(to))
	return p.convert(r, to, p.carrier(t))
}

func emitDynUpdate(p *printer, in *ir.Instr, a []string) string {
	if in.Result().Type.Rank() == 0 {
		return a[1]
	}
	x, y := in.Args[0], in.Args[1]
	own := p.stored[x]
	if own == "" {
		return p.let("stablehlo.dynamic_update_slice %s, %s%s : (%s) -> %s", a[0], a[1], starts(a[2:]), p.operands(in), p.result(in))
	}
	t := TensorType(x.Type)
	r := p.let("stablehlo.dynamic_update_slice %s, %s%s : (%s, %s%s) -> %s", own, p.own(y), starts(a[2:]), t, TensorType(y.Type), p.indices(in.Args[2:]), t)
	p.stored[in.Result()] = r
	return p.convert(r, x.Type, p.carrier(x.Type))
}

// indices returns the types of start indices, as text after other operands.
func (p *printer) indices(at []*ir.Value) string {
	var s strings.Builder
	for _, v := range at {
		s.WriteString(", " + p.typ(v.Type))
	}
	return s.String()
}

func emitTake(p *printer, in *ir.Instr, a []string) string {
	x, axis := in.Args[0].Type, in.Attrs.Axis
	n := x.Rank()
	var others []int
	for i := range n {
		if i != axis {
			others = append(others, i)
		}
	}
	return p.let(`"stablehlo.gather"(%s, %s) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [%d], `+
		`operand_batching_dims = %s, start_indices_batching_dims = %s, start_index_map = [%d], index_vector_dim = %d>, `+
		`indices_are_sorted = false, slice_sizes = %s}> : (%s) -> %s`,
		a[0], a[1], axis, list(others), list(others), axis, n, i64s(filled(n, 1)), p.operands(in), p.result(in))
}

func emitGatherRows(p *printer, in *ir.Instr, a []string) string {
	x, y, r, axis := p.carrier(in.Args[0].Type), in.Args[1].Type, p.carrier(in.Result().Type), in.Attrs.Axis
	if r.Size() == 0 || x.Shape[axis] == 0 {
		return p.splat(0, r)
	}
	sizes := slices.Clone(x.Shape)
	sizes[axis] = 1
	var offsets []int
	for i := range r.Shape {
		if i != axis {
			offsets = append(offsets, i)
		}
	}
	g := p.let(`"stablehlo.gather"(%s, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = %s, collapsed_slice_dims = [%d], `+
		`start_index_map = [%d], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = %s}> : (%s, %s) -> %s`,
		a[0], a[1], list(offsets), axis, axis, i64s(sizes), TensorType(x), TensorType(y), TensorType(r))
	// The gather clamps its indices; rows out of range are zeros.
	low := p.compare("GE", a[1], p.splat(0, y), y, "SIGNED")
	high := p.compare("LT", a[1], p.splat(float64(x.Shape[axis]), y), y, "SIGNED")
	row := ir.T(ir.Bool, y.Shape...)
	in1 := p.let("stablehlo.and %s, %s : %s", low, high, TensorType(row))
	full := ir.T(ir.Bool, r.Shape...)
	mask := p.broadcast(in1, row, full, []int{axis})
	return p.let("stablehlo.select %s, %s, %s : %s, %s", mask, g, p.splat(0, r), TensorType(full), TensorType(r))
}
