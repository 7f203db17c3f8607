package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
)

// integers returns an attribute of integers.
func integers(o *mlir.Op, name string) ([]int, error) {
	l, ok := mlir.Ints(o.Attrs[name])
	if !ok {
		return nil, fmt.Errorf("attribute %s: integers are expected", name)
	}
	return l, nil
}

func integer(o *mlir.Op, name string) (int, error) {
	l, ok := mlir.Ints([]mlir.Attr{o.Attrs[name]})
	if !ok {
		return 0, fmt.Errorf("attribute %s: an integer is expected", name)
	}
	return l[0], nil
}

// within checks that dimensions are distinct and valid for a shape.
func within(shape []int, dims ...int) error {
	for i, d := range dims {
		if d < 0 || d >= len(shape) || slices.Contains(dims[:i], d) {
			return fmt.Errorf("dimensions %v of %v", dims, shape)
		}
	}
	return nil
}

func broadcast(o *mlir.Op) (compute, error) {
	from, to := o.Ins[0].Shape, o.Outs[0].Shape
	dims, err := integers(o, "dims")
	if err == nil {
		err = within(to, dims...)
	}
	if err == nil && len(dims) != len(from) {
		err = fmt.Errorf("dims %v of %s", dims, o.Ins[0])
	}
	if err != nil {
		return nil, err
	}
	for i, d := range dims {
		if from[i] != 1 && from[i] != to[d] {
			return nil, fmt.Errorf("%s becomes %s by dims %v", o.Ins[0], o.Outs[0], dims)
		}
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Broadcast(a[0], dims, to), nil }, nil
}

func reshape(o *mlir.Op) (compute, error) {
	shape := o.Outs[0].Shape
	if o.Ins[0].Size() != o.Outs[0].Size() {
		return nil, fmt.Errorf("%s becomes %s", o.Ins[0], o.Outs[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return a[0].Reshape(shape...), nil }, nil
}

func transpose(o *mlir.Op) (compute, error) {
	dims, err := integers(o, "dims")
	if err == nil {
		err = within(o.Ins[0].Shape, dims...)
	}
	if err == nil && len(dims) != len(o.Ins[0].Shape) {
		err = fmt.Errorf("dims %v of %s", dims, o.Ins[0])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Transpose(a[0], dims), nil }, err
}

func slice(o *mlir.Op) (compute, error) {
	shape := o.Ins[0].Shape
	starts, _ := o.Attrs["starts"].([]int)
	limits, _ := o.Attrs["limits"].([]int)
	steps, _ := o.Attrs["strides"].([]int)
	if len(starts) != len(shape) {
		return nil, fmt.Errorf("%d ranges of %s", len(starts), o.Ins[0])
	}
	sizes := make([]int, len(shape))
	for i, n := range shape {
		if starts[i] < 0 || limits[i] < starts[i] || limits[i] > n || steps[i] < 1 {
			return nil, fmt.Errorf("range %d:%d:%d of dimension %d of %s", starts[i], limits[i], steps[i], i, o.Ins[0])
		}
		sizes[i] = (limits[i] - starts[i] + steps[i] - 1) / steps[i]
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Slice(a[0], starts, sizes, steps), nil }, nil
}

func concatenate(o *mlir.Op) (compute, error) {
	dim, err := integer(o, "dim")
	if err == nil {
		err = within(o.Outs[0].Shape, dim)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range o.Ins {
		s := slices.Clone(o.Outs[0].Shape)
		if len(t.Shape) == len(s) {
			s[dim] = t.Shape[dim]
		}
		if !slices.Equal(s, t.Shape) {
			return nil, fmt.Errorf("%s in %s along dimension %d", t, o.Outs[0], dim)
		}
	}
	if len(o.Ins) == 0 {
		return nil, fmt.Errorf("no operands")
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Concat(a, dim), nil }, nil
}

func pad(o *mlir.Op) (compute, error) {
	var l [3][]int
	for i, name := range []string{"low", "high", "interior"} {
		var err error
		if l[i], err = integers(o, name); err != nil {
			return nil, err
		}
		if len(l[i]) != len(o.Ins[0].Shape) || slices.ContainsFunc(l[i], func(n int) bool { return n < 0 || i == 2 && n > 0 }) {
			return nil, fmt.Errorf("%s = %v of %s is not supported", name, l[i], o.Ins[0])
		}
	}
	if len(o.Ins[1].Shape) > 0 {
		return nil, fmt.Errorf("a scalar is expected, not %s", o.Ins[1])
	}
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) { return tensor.Pad(a[0], a[1], l[0], l[1]), nil }, nil
}

// clamped returns the start indices of a slice, clamped so that the slice is inside the shape.
func clamped(index []*tensor.Tensor, shape, sizes []int) []int {
	at := make([]int, len(index))
	for i, t := range index {
		at[i] = min(max(t.Int(), 0), shape[i]-sizes[i])
	}
	return at
}

// startsOf checks the start indices of a dynamic slice of these sizes.
func startsOf(x mlir.Type, index []mlir.Type, sizes []int) error {
	if len(index) != len(x.Shape) || len(sizes) != len(x.Shape) {
		return fmt.Errorf("%d indices and sizes %v of %s", len(index), sizes, x)
	}
	for i, n := range sizes {
		if n < 0 || n > x.Shape[i] || len(index[i].Shape) > 0 || index[i].Elem.Float() || index[i].Elem == mlir.I1 {
			return fmt.Errorf("index %s and size %d of dimension %d of %s", index[i], n, i, x)
		}
	}
	return nil
}

func dynamicSlice(o *mlir.Op) (compute, error) {
	sizes, err := integers(o, "sizes")
	if err != nil || len(o.Ins) == 0 {
		return nil, fmt.Errorf("operands and sizes are expected")
	}
	x := o.Ins[0]
	if !slices.Equal(sizes, o.Outs[0].Shape) || o.Outs[0].Elem != x.Elem {
		return nil, fmt.Errorf("sizes %v of %s for %s", sizes, x, o.Outs[0])
	}
	ones := slices.Repeat([]int{1}, len(sizes))
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.Slice(a[0], clamped(a[1:], x.Shape, sizes), sizes, ones), nil
	}, startsOf(x, o.Ins[1:], sizes)
}

func dynamicUpdate(o *mlir.Op) (compute, error) {
	if len(o.Ins) < 2 || !o.Ins[0].Equal(o.Outs[0]) || o.Ins[1].Elem != o.Ins[0].Elem {
		return nil, fmt.Errorf("an array and a part of its element type are expected")
	}
	x, y := o.Ins[0], o.Ins[1]
	return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.Update(a[0], a[1], clamped(a[2:], x.Shape, y.Shape)), nil
	}, startsOf(x, o.Ins[2:], y.Shape)
}

// gather has two forms: rows along one dimension by a list of numbers, and elements along one dimension, each from its own row.
func gather(o *mlir.Op) (compute, error) {
	x, index, out := o.Ins[0], o.Ins[1], o.Outs[0]
	n, _ := o.Attrs["dimension_numbers"].(mlir.Opaque)
	axis, ok := n.Field("start_index_map")
	collapsed, _ := n.Field("collapsed_slice_dims")
	vector, _ := n.Field("index_vector_dim")
	sizes, _ := o.Attrs["slice_sizes"].([]int)
	if !ok || axis != collapsed || within(x.Shape, axis) != nil || x.Elem != out.Elem || index.Elem != mlir.I32 || vector != len(index.Shape) || o.Attrs["indices_are_sorted"] != false {
		return nil, fmt.Errorf("#%s<%s> is not supported", n.Name, n.Body)
	}
	clamp := func(v int32) int { return min(max(int(v), 0), x.Shape[axis]-1) }
	batch, batched := n.Field("operand_batching_dims")
	want := slices.Clone(x.Shape)
	want[axis] = 1
	switch {
	case batched && (batch >= 0 || len(x.Shape) == 1): // all other dimensions are batch dimensions
		same := slices.Clone(x.Shape)
		if len(index.Shape) == len(same) {
			same[axis] = index.Shape[axis]
		}
		if !slices.Equal(same, index.Shape) || !slices.Equal(out.Shape, index.Shape) || slices.ContainsFunc(sizes, func(n int) bool { return n != 1 }) {
			return nil, fmt.Errorf("%s by %s for %s", x, index, out)
		}
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
			at := tensor.New(mlir.I32, a[1].Shape...)
			for i, v := range a[1].N {
				at.N[i] = int32(clamp(v))
			}
			r, _, _ := tensor.Take(a[0], at, axis)
			return r, nil
		}, nil
	case !batched && len(index.Shape) == 1 && slices.Equal(sizes, want):
		return func(a []*tensor.Tensor) (*tensor.Tensor, error) {
			rows := make([]int, len(a[1].N))
			for i, v := range a[1].N {
				rows[i] = clamp(v)
			}
			return tensor.Rows(a[0], rows, axis), nil
		}, nil
	}
	return nil, fmt.Errorf("#%s<%s> of %s by %s is not supported", n.Name, n.Body, x, index)
}
