package tensor

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
)

// Strides returns the row-major strides of a shape, in elements.
func Strides(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// Block is a copy of elements between two arrays: both are traversed in the same shape, each with its own strides.
type Block struct {
	Shape    []int
	DstStr   []int
	SrcStr   []int
	Dst, Src int // offsets of the first elements
}

// Each calls f with the offsets of every row of the block; a row has n elements along the last dimension.
func (b Block) Each(f func(dst, src, n int)) {
	rank := len(b.Shape)
	if slices.Contains(b.Shape, 0) {
		return
	}
	if rank == 0 {
		f(b.Dst, b.Src, 1)
		return
	}
	n := b.Shape[rank-1]
	at := make([]int, rank-1)
	dst, src := b.Dst, b.Src
	for {
		f(dst, src, n)
		d := rank - 2
		for ; d >= 0; d-- {
			dst += b.DstStr[d]
			src += b.SrcStr[d]
			if at[d]++; at[d] < b.Shape[d] {
				break
			}
			dst -= at[d] * b.DstStr[d]
			src -= at[d] * b.SrcStr[d]
			at[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// steps returns the strides along the last dimension.
func (b Block) steps() (dst, src int) {
	if n := len(b.Shape) - 1; n >= 0 {
		return b.DstStr[n], b.SrcStr[n]
	}
	return 1, 1
}

func copyBlock[T any](b Block, dst, src []T) {
	if len(src) == 0 {
		return
	}
	ds, ss := b.steps()
	b.Each(func(d, s, n int) {
		switch {
		case ds == 1 && ss == 1:
			copy(dst[d:d+n], src[s:s+n])
		case ds == 1 && ss == 0:
			v, row := src[s], dst[d:d+n]
			for i := range row {
				row[i] = v
			}
		default:
			for range n {
				dst[d] = src[s]
				d, s = d+ds, s+ss
			}
		}
	})
}

// copy copies a block of x into t, of the same element type.
func (t *Tensor) copy(b Block, x *Tensor) {
	copyBlock(b, t.F, x.F)
	copyBlock(b, t.D, x.D)
	copyBlock(b, t.N, x.N)
	copyBlock(b, t.L, x.L)
}

// strided returns a tensor of the elements at strides from an offset.
func strided(x *Tensor, shape, str []int, offset int) *Tensor {
	r := New(x.Elem, shape...)
	r.copy(Block{Shape: shape, DstStr: Strides(shape), SrcStr: str, Src: offset}, x)
	return r
}

// Broadcast repeats x: its dimension i becomes dimension dims[i] of the shape; a dimension of 1 is stretched.
func Broadcast(x *Tensor, dims, shape []int) *Tensor {
	own, str := Strides(x.Shape), make([]int, len(shape))
	for i, d := range dims {
		if x.Shape[i] != 1 {
			str[d] = own[i]
		}
	}
	return strided(x, shape, str, 0)
}

// Transpose permutes dimensions: dimension i of the result is dimension perm[i] of x.
func Transpose(x *Tensor, perm []int) *Tensor {
	own := Strides(x.Shape)
	shape, str := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i], str[i] = x.Shape[p], own[p]
	}
	return strided(x, shape, str, 0)
}

// Slice returns sizes elements from starts on, by steps; it panics if one is outside x.
func Slice(x *Tensor, starts, sizes, steps []int) *Tensor {
	offset, str := 0, Strides(x.Shape)
	for i, s := range starts {
		offset += s * str[i]
		if sizes[i] > 0 && s+(sizes[i]-1)*steps[i] >= x.Shape[i] {
			panic("a slice outside of " + x.String())
		}
		str[i] *= steps[i]
	}
	return strided(x, sizes, str, offset)
}

// Update returns a copy of x with y at starts.
func Update(x, y *Tensor, starts []int) *Tensor {
	r := strided(x, x.Shape, Strides(x.Shape), 0)
	r.put(y, starts)
	return r
}

func (t *Tensor) put(y *Tensor, starts []int) {
	offset, str := 0, Strides(t.Shape)
	for i, s := range starts {
		offset += s * str[i]
	}
	t.copy(Block{Shape: y.Shape, DstStr: str, SrcStr: Strides(y.Shape), Dst: offset}, y)
}

// Concat concatenates tensors along an axis.
func Concat(xs []*Tensor, axis int) *Tensor {
	shape, at := slices.Clone(xs[0].Shape), make([]int, len(xs[0].Shape))
	shape[axis] = 0
	for _, x := range xs {
		shape[axis] += x.Shape[axis]
	}
	r := New(xs[0].Elem, shape...)
	for _, x := range xs {
		r.put(x, at)
		at[axis] += x.Shape[axis]
	}
	return r
}

// Pad adds low elements of the value before x and high ones after it, per dimension.
func Pad(x, value *Tensor, low, high []int) *Tensor {
	shape := make([]int, len(x.Shape))
	for i, n := range x.Shape {
		shape[i] = low[i] + n + high[i]
	}
	r := strided(value, shape, make([]int, len(shape)), 0)
	r.put(x, low)
	return r
}

// Iota returns a tensor of the index along an axis.
func Iota(e mlir.Elem, shape []int, axis int) *Tensor {
	line := New(mlir.I64, shape[axis])
	for i := range line.L {
		line.L[i] = int64(i)
	}
	str := make([]int, len(shape))
	str[axis] = 1
	return strided(Convert(line, e), shape, str, 0)
}

// Take returns r with r[..., i, ...] = x[..., index[..., i, ...], ...] along an axis; index has the shape of r. If an
// index is outside x, ok is false and outside is that index.
func Take(x, index *Tensor, axis int) (r *Tensor, outside int, ok bool) {
	own, str := Strides(x.Shape), Strides(index.Shape)
	r = New(x.Elem, index.Shape...)
	n := x.Shape[axis]
	for i, j := range index.N {
		if j < 0 || int(j) >= n {
			return nil, int(j), false
		}
		at := 0
		for d, s := range str {
			if c := i / s % index.Shape[d]; d == axis {
				at += int(j) * own[d]
			} else {
				at += c * own[d]
			}
		}
		r.move(i, x, at)
	}
	return r, 0, true
}

// move copies one element.
func (t *Tensor) move(i int, x *Tensor, j int) {
	switch {
	case t.F != nil:
		t.F[i] = x.F[j]
	case t.N != nil:
		t.N[i] = x.N[j]
	case t.D != nil:
		t.D[i] = x.D[j]
	default:
		t.L[i] = x.L[j]
	}
}

// Rows returns slices of x along an axis by number; each number must be in range.
func Rows(x *Tensor, numbers []int, axis int) *Tensor {
	shape := slices.Clone(x.Shape)
	shape[axis] = len(numbers)
	r := New(x.Elem, shape...)
	one, at, from := slices.Clone(x.Shape), make([]int, len(shape)), Strides(x.Shape)
	one[axis] = 1
	str := Strides(shape)
	for i, n := range numbers {
		at[axis] = i
		r.copy(Block{Shape: one, DstStr: str, SrcStr: from, Dst: i * str[axis], Src: n * from[axis]}, x)
	}
	return r
}
