package mosaic

import (
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

func emitConst(e *emitter, in *ir.Instr) ([]value, error) {
	return one(e.constant(e.result(in), in.Attrs.Value)), nil
}

func emitIota(e *emitter, in *ir.Instr) ([]value, error) {
	t := e.result(in)
	i := t.as("i32")
	axis := in.Attrs.Axis
	if len(t.shape) == 1 {
		i, axis = i.of(1, t.shape[0]), 1
	}
	v := e.op("tpu.iota", i, fmt.Sprintf("dimensions = array<i32: %d>", axis))
	if len(t.shape) == 1 {
		v = e.op("vector.shape_cast", t.as("i32"), "", v)
	}
	switch t.elem {
	case "i32":
	case "f32", "bf16":
		v = e.op("arith.sitofp", v.t.as("f32"), "", v)
		if t.elem == "bf16" {
			v = e.narrow(v)
		}
	default:
		return nil, fmt.Errorf("wants i32, u32, f32 or bf16")
	}
	return one(v), nil
}

// cast changes the shape only by dimensions of 1.
func (e *emitter) cast(v value, shape ...int) value {
	if slices.Equal(v.t.shape, shape) {
		return v
	}
	return e.op("vector.shape_cast", v.t.of(shape...), "", v)
}

func emitBroadcast(e *emitter, in *ir.Instr) ([]value, error) {
	v, t := e.arg(in, 0), e.result(in)
	if slices.Equal(v.t.shape, t.shape) {
		return one(v), nil
	}
	if t.elem == "i1" {
		w := e.mask(v)
		if len(w.t.shape) > 0 {
			w = e.cast(w, placed(v.t.shape, in.Attrs.Dims, len(t.shape))...)
		}
		return one(e.truth(e.op("vector.broadcast", t.as("i32"), "", w))), nil
	}
	if len(v.t.shape) > 0 {
		v = e.cast(v, placed(v.t.shape, in.Attrs.Dims, len(t.shape))...)
		if slices.Equal(v.t.shape, t.shape) {
			return one(v), nil
		}
	}
	return one(e.op("vector.broadcast", t, "", v)), nil
}

// placed returns n dimensions: shape at the positions dims, and 1 elsewhere.
func placed(shape, dims []int, n int) []int {
	s := slices.Repeat([]int{1}, n)
	for i, d := range dims {
		s[d] = shape[i]
	}
	return s
}

func nonUnit(s []int) []int {
	return slices.DeleteFunc(slices.Clone(s), func(d int) bool { return d == 1 })
}

func emitReshape(e *emitter, in *ir.Instr) ([]value, error) {
	v, t := e.arg(in, 0), e.result(in)
	if !slices.Equal(nonUnit(v.t.shape), nonUnit(t.shape)) {
		return nil, fmt.Errorf("%v to %v moves elements between rows and lanes: only dimensions of 1 may come and go", v.t.shape, t.shape)
	}
	switch {
	case len(t.shape) == 0 && len(v.t.shape) > 0:
		return one(e.extract(v)), nil
	case len(v.t.shape) == 0 && len(t.shape) > 0:
		return one(e.op("vector.broadcast", t, "", v)), nil
	case len(t.shape) == 2 && len(v.t.shape) == 2 && t.shape[0] == v.t.shape[1]:
		return one(e.transpose(v)), nil
	}
	return one(e.cast(v, t.shape...)), nil
}

// extract returns the only element of a vector.
func (e *emitter) extract(v value) value {
	return e.op("vector.extract", scalarType(v.t.elem), "static_position = array<i64: "+ints(make([]int, len(v.t.shape)))+">", v)
}

func (e *emitter) transpose(v value) value {
	return e.op("tpu.transpose", v.t.of(v.t.shape[1], v.t.shape[0]), "permutation = array<i64: 1, 0>", v)
}

func emitTranspose(e *emitter, in *ir.Instr) ([]value, error) {
	v := e.arg(in, 0)
	if len(v.t.shape) < 2 || in.Attrs.Dims[0] == 0 {
		return one(v), nil
	}
	if v.t.elem == "i1" {
		return one(e.truth(e.transpose(e.mask(v)))), nil
	}
	return one(e.transpose(v)), nil
}

func emitSlice(e *emitter, in *ir.Instr) ([]value, error) {
	v, a := e.arg(in, 0), &in.Attrs
	t := e.result(in)
	if slices.Equal(v.t.shape, t.shape) {
		return one(v), nil
	}
	if slices.Contains(t.shape, 0) {
		return nil, fmt.Errorf("an empty slice")
	}
	steps := make([]int, len(a.Starts))
	for i := range steps {
		if steps[i] = a.Step(i); t.shape[i] == 1 {
			steps[i] = 1
		}
		if steps[i] != 1 {
			return nil, fmt.Errorf("step %d along dimension %d of a value: load by strides from a reference", steps[i], i)
		}
	}
	attrs := fmt.Sprintf("offsets = [%s], sizes = [%s], strides = [%s]", ints(a.Starts), ints(t.shape), ints(steps))
	if v.t.elem == "i1" {
		m := e.mask(v)
		return one(e.truth(e.op("vector.extract_strided_slice", t.as("i32"), attrs, m))), nil
	}
	return one(e.op("vector.extract_strided_slice", t, attrs, v)), nil
}

func (e *emitter) concat(t mtype, axis int, vs []value) value {
	if len(vs) == 1 {
		return vs[0]
	}
	return e.op("tpu.concatenate", t, fmt.Sprintf("dimension = %d : i32", axis), vs...)
}

func emitConcat(e *emitter, in *ir.Instr) ([]value, error) {
	vs, t := e.args(in.Args), e.result(in)
	if t.elem == "i1" {
		for i := range vs {
			vs[i] = e.mask(vs[i])
		}
		return one(e.truth(e.concat(t.as("i32"), in.Attrs.Axis, vs))), nil
	}
	return one(e.concat(t, in.Attrs.Axis, vs)), nil
}

func emitPad(e *emitter, in *ir.Instr) ([]value, error) {
	v, a := e.arg(in, 0), &in.Attrs
	elem := v.t.elem
	if elem == "i1" {
		v = e.mask(v)
	}
	for d := range v.t.shape {
		var parts []value
		side := func(n int) {
			if n > 0 {
				s := slices.Clone(v.t.shape)
				s[d] = n
				parts = append(parts, e.constant(v.t.of(s...), a.Value))
			}
		}
		side(a.Starts[d])
		parts = append(parts, v)
		side(a.Limits[d])
		s := slices.Clone(v.t.shape)
		s[d] += a.Starts[d] + a.Limits[d]
		v = e.concat(v.t.of(s...), d, parts)
	}
	if elem == "i1" {
		v = e.truth(v)
	}
	return one(v), nil
}

func emitReduce(e *emitter, in *ir.Instr) ([]value, error) {
	v, d := e.arg(in, 0), in.Args[0].Type.DType
	dims := slices.Sorted(slices.Values(in.Attrs.Dims))
	if len(dims) == 0 {
		return one(v), nil
	}
	kind, start := "add", 0.0
	narrow := v.t.elem == "bf16"
	v = e.widen(v)
	if in.Op == ir.OpReduceMax {
		switch {
		case d.IsFloat():
			kind, start = "maximumf", math.Inf(-1)
		case d == ir.I32:
			kind, start = "maxsi", math.MinInt32
		default:
			return nil, fmt.Errorf("not available on %s in a TPU kernel", in.Args[0].Type)
		}
	}
	t := e.result(in).as(v.t.elem)
	if len(t.shape) == 0 { // to a scalar: keep one leading dimension, which the compiler requires
		v = e.cast(v, append([]int{1}, v.t.shape...)...)
		for i := range dims {
			dims[i]++
		}
		t = t.of(1)
	}
	attrs := fmt.Sprintf("kind = #vector.kind<%s>, reduction_dims = array<i64: %s>", kind, ints(dims))
	r := e.op("vector.multi_reduction", t, attrs, v, e.constant(t, start))
	if in.Result().Type.Rank() == 0 {
		r = e.extract(e.cast(r, slices.Repeat([]int{1}, len(v.t.shape))...))
	}
	if narrow {
		r = e.narrow(r)
	}
	return one(r), nil
}

func emitTake(e *emitter, in *ir.Instr) ([]value, error) {
	x, y := e.arg(in, 0), e.arg(in, 1)
	if len(x.t.shape) != 2 {
		return nil, fmt.Errorf("wants rank 2")
	}
	reach := [...]int{sublanes, lanes}[in.Attrs.Axis]
	switch {
	case in.Attrs.Axis == 0 && !e.target.RowGather:
		return nil, fmt.Errorf("%s can not gather along rows: transpose and gather along lanes", e.target.Name)
	case x.t.shape[in.Attrs.Axis] > reach:
		return nil, fmt.Errorf("axis %d of %v: a gather reaches %d elements along it: take from parts and select", in.Attrs.Axis, x.t.shape, reach)
	}
	narrow := x.t.elem == "bf16"
	x = e.widen(x)
	r := e.op("tpu.dynamic_gather", y.t.as(x.t.elem), fmt.Sprintf("dimensions = array<i32: %d>", in.Attrs.Axis), x, y)
	if narrow {
		r = e.narrow(r)
	}
	return one(r), nil
}

func emitDot(e *emitter, in *ir.Instr) ([]value, error) {
	x, y, d := e.arg(in, 0), e.arg(in, 1), in.Attrs.Dot
	if len(x.t.shape) != 2 || len(y.t.shape) != 2 || len(d.LB) != 0 || len(d.LC) != 1 {
		return nil, fmt.Errorf("wants rank 2 by rank 2 with one contracted dimension and no batch: unroll the batch")
	}
	exact := x.t.elem == "bf16" && y.t.elem == "bf16"
	attr := ""
	switch {
	case exact:
	case in.Attrs.Prec == ir.PrecBF16x1:
		x, y = e.narrow(x), e.narrow(y)
	case in.Attrs.Prec == ir.PrecBF16x3:
		return nil, fmt.Errorf("bf16x3 on %s: run the precision pass first, which splits the operands", in.Args[0].Type)
	default:
		x, y = e.widen(x), e.widen(y)
		attr = "precision = #tpu.contract_precision<fp32>, "
	}
	lc, rc := d.LC[0], d.RC[0]
	attrs := fmt.Sprintf("dimension_numbers = #tpu.dot_dimension_numbers<[%d], [%d], [%d], [%d], [0, %d, 1, %d], [], []>, %stranspose_lhs = false, transpose_lhs_hint = false, transpose_rhs = false",
		lc, rc, 1-lc, 1-rc, 1-lc, 1-rc, attr)
	t := e.result(in).as("f32")
	r := e.op("tpu.matmul", t, attrs, x, y, e.constant(t, 0))
	if in.Result().Type.DType == ir.BF16 {
		r = e.narrow(r)
	}
	return one(r), nil
}
