package interp

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/ir"
)

// broadcast reads with strides of 0 along the dimensions that the operand lacks, or has one element
// of.
func broadcast(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, t := a[0], in.Result().Type
	out, own := newLike(t), strides(x.shape)
	sStr := make([]int, t.Rank())
	for i, d := range in.Attrs.Dims {
		if x.shape[i] != 1 {
			sStr[d] = own[i]
		}
	}
	block{dst: out, src: x, dStr: strides(t.Shape), sStr: sStr, shape: t.Shape}.copy()
	return out, nil
}

// reshape shares the elements: they are in row-major order in any shape.
func reshape(in *ir.Instr, a []*tensor) (*tensor, error) {
	return a[0].reshaped(in.Result().Type.Shape), nil
}

// keep is a word to compilers, not to keep a value across it in parts; here it is nothing.
func keep(_ *ir.Instr, a []*tensor) (*tensor, error) { return a[0], nil }

// transpose reads with the strides of the operand in the order of the result.
func transpose(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, t := a[0], in.Result().Type
	out, own := newLike(t), strides(x.shape)
	sStr := make([]int, len(own))
	for i, p := range in.Attrs.Dims {
		sStr[i] = own[p]
	}
	block{dst: out, src: x, dStr: strides(t.Shape), sStr: sStr, shape: t.Shape}.copy()
	return out, nil
}

func slice(in *ir.Instr, a []*tensor) (*tensor, error) {
	out := newLike(in.Result().Type)
	read(out, a[0], in.Attrs.Starts, &in.Attrs)
	return out, nil
}

// read fills out with the block of x from starts, by the strides of attributes (nil: 1).
func read(out, x *tensor, starts []int, attrs *ir.Attrs) {
	off, own := 0, strides(x.shape)
	sStr := make([]int, len(own))
	for i, s := range starts {
		off += s * own[i]
		sStr[i] = own[i]
		if attrs != nil {
			sStr[i] *= attrs.Step(i)
		}
	}
	block{dst: out, src: x, dStr: strides(out.shape), sOff: off, sStr: sStr, shape: out.shape}.copy()
}

// write puts x into out from starts.
func write(out, x *tensor, starts []int) {
	off, own := 0, strides(out.shape)
	for i, s := range starts {
		off += s * own[i]
	}
	block{dst: out, src: x, dOff: off, dStr: own, sStr: strides(x.shape), shape: x.shape}.copy()
}

func concat(in *ir.Instr, a []*tensor) (*tensor, error) {
	out := newLike(in.Result().Type)
	at := make([]int, len(out.shape))
	for _, x := range a {
		write(out, x, at)
		at[in.Attrs.Axis] += x.shape[in.Attrs.Axis]
	}
	return out, nil
}

func pad(in *ir.Instr, a []*tensor) (*tensor, error) {
	out := splat(in.Result().Type, in.Attrs.Value)
	write(out, a[0], in.Attrs.Starts)
	return out, nil
}

// clone copies the elements.
func (t *tensor) clone() *tensor {
	u := newTensor(t.dt, t.shape)
	copy(u.f, t.f)
	copy(u.d, t.d)
	copy(u.n, t.n)
	return u
}

// clamped turns scalar starts into a block that fits: a start beyond the end is moved back, as in
// XLA.
func clamped(starts []*tensor, whole, part []int) []int {
	at := make([]int, len(whole))
	for i, s := range starts {
		at[i] = int(min(max(s.scalar(), 0), int64(whole[i]-part[i])))
	}
	return at
}

func dynSlice(in *ir.Instr, a []*tensor) (*tensor, error) {
	out := newLike(in.Result().Type)
	read(out, a[0], clamped(a[1:], a[0].shape, out.shape), nil)
	return out, nil
}

func dynUpdate(_ *ir.Instr, a []*tensor) (*tensor, error) {
	out := a[0].clone()
	write(out, a[1], clamped(a[2:], out.shape, a[1].shape))
	return out, nil
}

// around splits a shape at an axis: the product before, the size, the product after.
func around(shape []int, axis int) (outer, n, inner int) {
	outer, inner = 1, 1
	for i, s := range shape {
		switch {
		case i < axis:
			outer *= s
		case i > axis:
			inner *= s
		}
	}
	return outer, shape[axis], inner
}

// take gathers along one axis, by an index for each element of the result. An index out of range is
// an error: backends differ in what they read then.
func take(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, idx := a[0], a[1]
	out := newLike(in.Result().Type)
	_, n, _ := around(x.shape, in.Attrs.Axis)
	outer, m, inner := around(idx.shape, in.Attrs.Axis)
	for o := range outer {
		for j := range m {
			for i := range inner {
				to := (o*m+j)*inner + i
				k := idx.n[to]
				if k < 0 || k >= int64(n) {
					return nil, fmt.Errorf("index %d of %d along axis %d is out of range", k, n, in.Attrs.Axis)
				}
				out.set(to, x, (o*n+int(k))*inner+i)
			}
		}
	}
	return out, nil
}

// set copies one element.
func (t *tensor) set(i int, x *tensor, j int) {
	switch {
	case t.f != nil:
		t.f[i] = x.f[j]
	case t.d != nil:
		t.d[i] = x.d[j]
	default:
		t.n[i] = x.n[j]
	}
}

// gatherRows takes whole rows. A row out of range is zeros: packed sequences have slots without a
// token.
func gatherRows(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, idx, axis := a[0], a[1], in.Attrs.Axis
	out := newLike(in.Result().Type)
	row := append([]int{}, out.shape...)
	row[axis] = 1
	from, to := strides(x.shape), strides(out.shape)
	for j, k := range idx.n {
		if k >= 0 && k < int64(x.shape[axis]) {
			block{dst: out, src: x, dOff: j * to[axis], sOff: int(k) * from[axis], dStr: to, sStr: from, shape: row}.copy()
		}
	}
	return out, nil
}

// reduceSum adds in index order, starting from the first element: floats narrower than f64 in f32,
// integers wrapping. It starts from the element and not from 0, so that a sum of -0 is -0.
func reduceSum(in *ir.Instr, a []*tensor) (*tensor, error) {
	out := newLike(in.Result().Type)
	x, group := rowsFirst(a[0], in.Attrs.Dims)
	sumRows(out.f, x.f, group)
	sumRows(out.d, x.d, group)
	sumRows(out.n, x.n, group)
	round(out.dt, out.f)
	wrap(out.dt, out.n)
	return out, nil
}

func sumRows[T float32 | float64 | int64](out, x []T, group int) {
	if group == 0 || len(x) == 0 {
		return
	}
	for i := range out {
		row := x[i*group:][:group]
		s := row[0]
		for _, v := range row[1:] {
			s += v
		}
		out[i] = s
	}
}

// reduceMax of nothing is the least value of the type.
func reduceMax(in *ir.Instr, a []*tensor) (*tensor, error) {
	out := splat(in.Result().Type, math.Inf(-1))
	x, group := rowsFirst(a[0], in.Attrs.Dims)
	maxRows(out.f, x.f, group)
	maxRows(out.d, x.d, group)
	maxRows(out.n, x.n, group)
	return out, nil
}

func maxRows[T float32 | float64 | int64](out, x []T, group int) {
	if group == 0 || len(x) == 0 {
		return
	}
	for i := range out {
		row := x[i*group:][:group]
		m := row[0]
		for _, v := range row[1:] {
			m = max(m, v)
		}
		out[i] = m
	}
}

// rowsFirst brings the reduced dimensions to the end, so that each result element is a row of group
// elements, in their order in the operand. Where they are there already nothing moves.
func rowsFirst(x *tensor, dims []int) (*tensor, int) {
	reduced := make([]bool, len(x.shape))
	for _, d := range dims {
		reduced[d] = true
	}
	own := strides(x.shape)
	var shape, sStr []int
	group, sorted := 1, true
	for pass := range 2 {
		for i, n := range x.shape {
			if reduced[i] == (pass == 1) {
				sorted = sorted && len(shape) == i
				shape, sStr = append(shape, n), append(sStr, own[i])
				if pass == 1 {
					group *= n
				}
			}
		}
	}
	if sorted {
		return x, group
	}
	out := newTensor(x.dt, shape)
	block{dst: out, src: x, dStr: strides(shape), sStr: sStr, shape: shape}.copy()
	return out, group
}

// cumsum keeps its running sums as reduceSum does and rounds each result once.
func cumsum(in *ir.Instr, a []*tensor) (*tensor, error) {
	x := a[0]
	out := newTensor(x.dt, x.shape)
	outer, n, inner := around(x.shape, in.Attrs.Axis)
	prefix(out.f, x.f, outer, n, inner)
	prefix(out.d, x.d, outer, n, inner)
	prefix(out.n, x.n, outer, n, inner)
	round(out.dt, out.f)
	wrap(out.dt, out.n)
	return out, nil
}

// prefix is the running sum along the middle of three dimensions.
func prefix[T float32 | float64 | int64](out, x []T, outer, n, inner int) {
	if len(x) == 0 {
		return
	}
	for o := range outer {
		base := o * n * inner
		copy(out[base:base+inner], x[base:base+inner])
		for j := 1; j < n; j++ {
			prev, cur := out[base+(j-1)*inner:][:inner], out[base+j*inner:][:inner]
			src := x[base+j*inner:][:inner]
			for i := range cur {
				cur[i] = prev[i] + src[i]
			}
		}
	}
}
