package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// reduce reduces dimensions by the op after "applies", or by a region that takes the larger element, with NaN above all.
func reduce(o *mlir.Op) (compute, error) {
	dims, err := integers(o, "dimensions")
	if err == nil {
		err = within(o.Ins[0].Shape, dims...)
	}
	if err != nil {
		return nil, err
	}
	if len(o.Ins[1].Shape) > 0 || len(o.Ins[0].Shape)-len(dims) != len(o.Outs[0].Shape) {
		return nil, fmt.Errorf("dimensions %v of %s from %s for %s", dims, o.Ins[0], o.Ins[1], o.Outs[0])
	}
	shape := o.Outs[0].Shape
	switch fold := folding(o); {
	case fold == "stablehlo.add":
		f, err := binary(tensor.Add, tensor.AddI, none).make(o)
		if err != nil {
			return nil, err
		}
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
			return f([]*tensor.Tensor{tensor.Broadcast(a[1], nil, shape), tensor.Sum(a[0], dims)})
		}, nil
	case fold == "greatest" || fold == "stablehlo.maximum":
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Largest(a[0], dims, a[1]), nil }, nil
	}
	return nil, fmt.Errorf("a reduction of %s by %v is not supported", o.Ins[0], o.Words)
}

// folding returns the name of a reduction's op.
func folding(o *mlir.Op) string {
	if len(o.Regions) == 1 && o.Regions[0] != nil && greatest(o.Regions[0]) {
		return "greatest"
	}
	if len(o.Regions) == 0 && len(o.Words) == 3 && o.Words[0] == "applies" && o.Words[2] == "across" {
		return o.Words[1]
	}
	return ""
}

// greatest matches select(x > y or x != x, x, y).
func greatest(b *mlir.Block) bool {
	if len(b.Params) != 2 || len(b.Ops) != 5 || !b.Types[0].Elem.Float() {
		return false
	}
	x, y := b.Params[0], b.Params[1]
	want := []struct {
		name, word string
		operands   []int
	}{
		{"stablehlo.compare", "GT", []int{x, y}},
		{"stablehlo.compare", "NE", []int{x, x}},
		{"stablehlo.or", "", result(b, 0, 1)},
		{"stablehlo.select", "", append(result(b, 2), x, y)},
		{"stablehlo.return", "", result(b, 3)},
	}
	for i, w := range want {
		o := b.Ops[i]
		if o.Name != w.name || !slices.Equal(o.Operands, w.operands) || w.word != "" && (len(o.Words) == 0 || o.Words[0] != w.word) {
			return false
		}
	}
	return true
}

// result returns the results of the numbered operations of a block.
func result(b *mlir.Block, ops ...int) []int {
	var ids []int
	for _, i := range ops {
		ids = append(ids, b.Ops[i].Results...)
	}
	return ids
}

// reduceWindow is a prefix sum: each window goes from the first element of the axis to its own, and sums from zero.
func reduceWindow(o *mlir.Op) (compute, error) {
	t := o.Ins[0]
	window, _ := o.Attrs["window_dimensions"].([]int)
	padding, ok := mlir.Ints(o.Attrs["padding"])
	if !ok || len(window) != len(t.Shape) || len(padding) != 2*len(window) || !t.Equal(o.Outs[0]) || len(o.Ins[1].Shape) > 0 {
		return nil, fmt.Errorf("window %v and padding %v of %s", window, o.Attrs["padding"], t)
	}
	axis := -1
	for i, n := range window {
		low, high := padding[2*i], padding[2*i+1]
		switch {
		case n == 1 && low == 0 && high == 0:
		case n == t.Shape[i] && low == n-1 && high == 0 && axis < 0:
			axis = i
		default:
			return nil, fmt.Errorf("window %v and padding %v of %s: only prefix sums are supported", window, padding, t)
		}
	}
	if len(o.Regions) != 1 || !sums(o.Regions[0]) || t.Elem == mlir.I1 {
		return nil, fmt.Errorf("a window that is not summed is not supported")
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		if a[1].Bits(0) != 0 {
			return nil, fmt.Errorf("a prefix sum from another number than 0 is not supported")
		}
		if axis < 0 { // one element
			return a[0], nil
		}
		return tensor.Prefix(a[0], axis), nil
	}, nil
}

// sums matches x + y.
func sums(b *mlir.Block) bool {
	return b != nil && len(b.Params) == 2 && len(b.Ops) == 2 && b.Ops[0].Name == "stablehlo.add" && slices.Equal(b.Ops[0].Operands, b.Params) &&
		b.Ops[1].Name == "stablehlo.return" && slices.Equal(b.Ops[1].Operands, result(b, 0))
}

// pair reads an attribute of two lists: [0] x [1].
func pair(o *mlir.Op, name string) (x, y []int, err error) {
	l, _ := o.Attrs[name].([]mlir.Attr)
	if len(l) == 2 {
		var ok, ok2 bool
		x, ok = mlir.Ints(l[0])
		if y, ok2 = mlir.Ints(l[1]); ok && ok2 {
			return x, y, nil
		}
	}
	return nil, nil, fmt.Errorf("attribute %s: two lists of dimensions are expected", name)
}

// dot does not round f32 operands: emitted programs ask for the highest precision.
func dot(o *mlir.Op) (compute, error) {
	var c tensor.Contraction
	var err error
	if c.LB, c.RB, err = pair(o, "batching_dims"); err != nil {
		return nil, err
	}
	if c.LC, c.RC, err = pair(o, "contracting_dims"); err != nil {
		return nil, err
	}
	x, y, out := o.Ins[0], o.Ins[1], o.Outs[0]
	wide := mlir.F32
	if x.Elem == mlir.F64 {
		wide = mlir.F64
	}
	if !c.Fits(x.Shape, y.Shape) || x.Elem != y.Elem || !x.Elem.Float() || out.Elem != wide {
		return nil, fmt.Errorf("%s by %s for %s", x, y, out)
	}
	if p, _ := o.Attrs["precision"].([]mlir.Attr); !slices.Equal(p, []mlir.Attr{mlir.Word("HIGHEST"), mlir.Word("HIGHEST")}) {
		return nil, fmt.Errorf("precision %v is not supported: HIGHEST is", o.Attrs["precision"])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Dot(a[0], a[1], c), nil }, nil
}
