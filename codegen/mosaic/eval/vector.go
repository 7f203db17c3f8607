package eval

import (
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// kept checks that there is one operand, of the result's element type.
func kept(o *mlir.Op) error {
	if err := takes(o, 1); err != nil {
		return err
	}
	if o.Ins[0].Elem != o.Outs[0].Elem {
		return fmt.Errorf("%s becomes %s", o.Ins[0], o.Outs[0])
	}
	return nil
}

func shapeCast(o *mlir.Op) (compute, error) {
	shape := o.Outs[0].Shape
	if err := kept(o); err != nil {
		return nil, err
	}
	if o.Ins[0].Size() != o.Outs[0].Size() {
		return nil, fmt.Errorf("%s becomes %s", o.Ins[0], o.Outs[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return a[0].Reshape(shape...), nil }, nil
}

// broadcast aligns the last dimensions; dimensions of 1, or missing ones, repeat.
func broadcast(o *mlir.Op) (compute, error) {
	if err := kept(o); err != nil {
		return nil, err
	}
	from, to := o.Ins[0].Shape, o.Outs[0].Shape
	lead := len(to) - len(from)
	dims := make([]int, len(from))
	for i, n := range from {
		if dims[i] = lead + i; lead < 0 || n != 1 && n != to[lead+i] {
			return nil, fmt.Errorf("%s becomes %s", o.Ins[0], o.Outs[0])
		}
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Broadcast(a[0], dims, to), nil }, nil
}

// extract returns one element.
func extract(o *mlir.Op) (compute, error) {
	at, err := attrInts(o, "static_position")
	if err == nil {
		err = kept(o)
	}
	if err != nil {
		return nil, err
	}
	shape := o.Ins[0].Shape
	if len(at) != len(shape) {
		return nil, fmt.Errorf("position %v in %s", at, o.Ins[0])
	}
	i := 0
	for d, s := range tensor.Strides(shape) {
		if i += at[d] * s; at[d] < 0 || at[d] >= shape[d] {
			return nil, fmt.Errorf("position %v in %s", at, o.Ins[0])
		}
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		r := tensor.New(a[0].Elem)
		r.SetBits(0, a[0].Bits(i))
		return r, nil
	}, nil
}

func slice(o *mlir.Op) (compute, error) {
	if err := kept(o); err != nil {
		return nil, err
	}
	var l [3][]int
	for i, name := range []string{"offsets", "sizes", "strides"} {
		var err error
		if l[i], err = attrInts(o, name); err != nil {
			return nil, err
		}
		if len(l[i]) != len(o.Ins[0].Shape) {
			return nil, fmt.Errorf("%s %v of %s", name, l[i], o.Ins[0])
		}
	}
	for d, n := range o.Ins[0].Shape {
		if first, last := l[0][d], l[0][d]+(l[1][d]-1)*l[2][d]; first < 0 || l[1][d] < 1 || l[2][d] < 1 || last >= n {
			return nil, fmt.Errorf("elements %d to %d of dimension %d of %s", first, last, d, o.Ins[0])
		}
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Slice(a[0], l[0], l[1], l[2]), nil }, nil
}

// reduction reduces dimensions, and then combines with the accumulator.
func reduction(o *mlir.Op) (compute, error) {
	if err := takes(o, 2); err != nil {
		return nil, err
	}
	dims, err := attrInts(o, "reduction_dims")
	if err == nil {
		err = within("reduction_dims", dims, len(o.Ins[0].Shape))
	}
	if err != nil {
		return nil, err
	}
	if !o.Ins[1].Equal(o.Outs[0]) || o.Ins[0].Elem != o.Outs[0].Elem {
		return nil, fmt.Errorf("%s and %s become %s", o.Ins[0], o.Ins[1], o.Outs[0])
	}
	e := o.Outs[0].Elem
	kind, _ := o.Attrs["kind"].(mlir.Opaque)
	switch {
	case kind.Body == "add" && e == mlir.F32:
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.Floats(tensor.Add, a[1], tensor.Sum(a[0], dims)), nil
		}, nil
	case kind.Body == "add" && e == mlir.I32:
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.Ints(tensor.AddI, a[1], tensor.Sum(a[0], dims)), nil
		}, nil
	case kind.Body == "maximumf" && e == mlir.F32:
		least := tensor.New(e)
		least.F[0] = float32(math.Inf(-1))
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.Floats(tensor.Max, a[1], tensor.Largest(a[0], dims, least)), nil
		}, nil
	case kind.Body == "maxsi" && e == mlir.I32:
		least := tensor.Scalar(e, math.MinInt32)
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
			return tensor.Ints(tensor.MaxS, a[1], tensor.Largest(a[0], dims, least)), nil
		}, nil
	}
	return nil, fmt.Errorf("%s of %s is not supported", kind.Body, o.Ins[0])
}

func iota(o *mlir.Op) (compute, error) {
	dims, err := attrInts(o, "dimensions")
	if err == nil {
		err = takes(o, 0)
	}
	if err != nil {
		return nil, err
	}
	t := o.Outs[0]
	if len(dims) != 1 || within("dimensions", dims, len(t.Shape)) != nil || t.Elem != mlir.I32 {
		return nil, fmt.Errorf("dimensions %v of %s", dims, t)
	}
	r := tensor.Iota(t.Elem, t.Shape, dims[0])
	return func([]*tensor.Tensor) (*tensor.Tensor, error) { return r, nil }, nil
}

func transpose(o *mlir.Op) (compute, error) {
	perm, err := attrInts(o, "permutation")
	if err == nil {
		err = kept(o)
	}
	if err != nil {
		return nil, err
	}
	if len(perm) != len(o.Ins[0].Shape) {
		return nil, fmt.Errorf("permutation %v of %s", perm, o.Ins[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Transpose(a[0], perm), nil }, within("permutation", perm, len(perm))
}

func concatenate(o *mlir.Op) (compute, error) {
	axis, err := attrInt(o, "dimension")
	if err != nil {
		return nil, err
	}
	out := o.Outs[0]
	if err := within("dimension", []int{axis}, len(out.Shape)); err != nil || len(o.Ins) == 0 {
		return nil, fmt.Errorf("dimension %d of %s", axis, out)
	}
	total := 0
	for i, t := range o.Ins {
		same := slices.Clone(out.Shape)
		if len(t.Shape) == len(same) {
			same[axis] = t.Shape[axis]
			total += same[axis]
		}
		if t.Elem != out.Elem || !slices.Equal(t.Shape, same) {
			return nil, fmt.Errorf("operand %d is %s, the result %s", i, t, out)
		}
	}
	if total != out.Shape[axis] {
		return nil, fmt.Errorf("%d elements along dimension %d for %s", total, axis, out)
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Concat(a, axis), nil }, nil
}

// gather takes elements along one dimension, each from its own row or column.
func gather(o *mlir.Op) (compute, error) {
	if err := takes(o, 2); err != nil {
		return nil, err
	}
	dims, err := attrInts(o, "dimensions")
	if err != nil {
		return nil, err
	}
	x, index, out := o.Ins[0], o.Ins[1], o.Outs[0]
	if len(dims) != 1 || within("dimensions", dims, len(x.Shape)) != nil || len(index.Shape) != len(x.Shape) {
		return nil, fmt.Errorf("dimensions %v of %s by %s", dims, x, index)
	}
	for d, n := range x.Shape {
		if d != dims[0] && index.Shape[d] != n {
			return nil, fmt.Errorf("%s by %s along dimension %d", x, index, dims[0])
		}
	}
	if index.Elem != mlir.I32 || x.Elem != out.Elem {
		return nil, fmt.Errorf("%s by %s gives %s", x, index, out)
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		r, bad, ok := tensor.Take(a[0], a[1], dims[0])
		if !ok {
			return nil, fmt.Errorf("index %d is outside dimension %d of %s", bad, dims[0], x)
		}
		return r, nil
	}, nil
}

// matmul contracts one dimension of two matrices, and adds the accumulator.
func matmul(o *mlir.Op) (compute, error) {
	if err := takes(o, 3); err != nil {
		return nil, err
	}
	if err := off(o, "transpose_lhs", "transpose_lhs_hint", "transpose_rhs"); err != nil {
		return nil, err
	}
	dn, _ := o.Attrs["dimension_numbers"].(mlir.Opaque)
	l, err := dn.Lists()
	if err != nil || len(l) != 7 {
		return nil, fmt.Errorf("dimension_numbers of seven lists are expected")
	}
	x, y, out := o.Ins[0], o.Ins[1], o.Outs[0]
	c := tensor.Contraction{LC: l[0], RC: l[1], LB: l[5], RB: l[6]}
	if !c.Fits(x.Shape, y.Shape) || len(x.Shape) != 2 || len(y.Shape) != 2 || len(c.LC) != 1 || len(c.LB) != 0 {
		return nil, fmt.Errorf("dimension_numbers<%s> of %s and %s: one contracted dimension of two matrices is supported", dn.Body, x, y)
	}
	lf, rf := tensor.Free(2, c.LC), tensor.Free(2, c.RC)
	if !slices.Equal(l[2], lf) || !slices.Equal(l[3], rf) || !slices.Equal(l[4], []int{0, lf[0], 1, rf[0]}) {
		return nil, fmt.Errorf("dimension_numbers<%s>: the free dimensions in their order are expected in the result", dn.Body)
	}
	if !slices.Equal(out.Shape, []int{x.Shape[lf[0]], y.Shape[rf[0]]}) || out.Elem != mlir.F32 || !o.Ins[2].Equal(out) {
		return nil, fmt.Errorf("%s by %s and %s give %s", x, y, o.Ins[2], out)
	}
	for _, t := range []mlir.Type{x, y} {
		if t.Elem != mlir.F32 && t.Elem != mlir.BF16 {
			return nil, fmt.Errorf("%s in the MXU is not supported", t)
		}
	}
	exact := false
	if p, ok := o.Attrs["precision"]; ok {
		if exact = p == (mlir.Opaque{Name: "tpu.contract_precision", Body: "fp32"}); !exact {
			return nil, fmt.Errorf("precision %v is not supported", p)
		}
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		x, y := a[0], a[1]
		if !exact {
			x, y = tensor.Convert(x, mlir.BF16), tensor.Convert(y, mlir.BF16)
		}
		return tensor.Floats(tensor.Add, a[2], tensor.Dot(x, y, c)), nil
	}, nil
}

func assumeMultiple(o *mlir.Op) (compute, error) {
	n, err := attrInt(o, "multiple")
	if err == nil && n < 1 {
		err = fmt.Errorf("multiple = %d", n)
	}
	if err == nil {
		err = alike(o, 1)
	}
	if err != nil {
		return nil, err
	}
	if o.Ins[0].Kind != mlir.Scalar || o.Ins[0].Elem.Float() {
		return nil, fmt.Errorf("an integer is expected, not %s", o.Ins[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		if v := a[0].Int(); v%n != 0 {
			return nil, fmt.Errorf("%d is no multiple of %d", v, n)
		}
		return a[0], nil
	}, nil
}
