package tensor

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
)

// Sum adds the elements along dimensions, in index order; 0 for no elements.
func Sum(x *Tensor, dims []int) *Tensor { return reduce(x, dims, nil) }

// Largest returns the maximum along dimensions, or init if that is larger; NaN counts as largest.
func Largest(x *Tensor, dims []int, init *Tensor) *Tensor {
	if x.Elem != mlir.U32 {
		return reduce(x, dims, init)
	}
	signed := func(t *Tensor) *Tensor { // flipping the highest bit turns unsigned order into signed order
		return MapInt(t, func(v int64) int64 { return v ^ 1<<31 })
	}
	return signed(reduce(signed(x), dims, signed(init)))
}

// reduce moves the reduced dimensions to the end and folds each group.
func reduce(x *Tensor, dims []int, init *Tensor) *Tensor {
	var perm, shape []int
	group := 1
	for i, n := range x.Shape {
		if slices.Contains(dims, i) {
			group *= n
		} else {
			perm, shape = append(perm, i), append(shape, n)
		}
	}
	for i := range x.Shape {
		if slices.Contains(dims, i) {
			perm = append(perm, i)
		}
	}
	if !slices.IsSorted(perm) {
		x = Transpose(x, perm)
	}
	r := New(x.Elem, shape...)
	if init == nil {
		sum(r.F, x.F, group)
		sum(r.D, x.D, group)
		sum(r.N, x.N, group)
		sum(r.L, x.L, group)
		round(r.Elem, r.F)
		return r
	}
	largest(r.F, x.F, group, init.F)
	largest(r.D, x.D, group, init.D)
	largest(r.N, x.N, group, init.N)
	largest(r.L, x.L, group, init.L)
	return r
}

func sum[T float32 | float64 | int32 | int64](r, x []T, group int) {
	for i := range r {
		var s T
		for j, v := range x[i*group : (i+1)*group] {
			if j == 0 {
				s = v // not 0 + v, which loses the sign of a zero
			} else {
				s += v
			}
		}
		r[i] = s
	}
}

func largest[T float32 | float64 | int32 | int64](r, x []T, group int, init []T) {
	for i := range r {
		m := init[0]
		for _, v := range x[i*group : (i+1)*group] {
			m = max(m, v)
		}
		r[i] = m
	}
}

// Prefix returns the inclusive prefix sums along an axis.
func Prefix(x *Tensor, axis int) *Tensor {
	r := like(x.Elem, x)
	inner := Size(x.Shape[axis+1:])
	prefix(r.F, x.F, x.Shape[axis], inner)
	prefix(r.D, x.D, x.Shape[axis], inner)
	prefix(r.N, x.N, x.Shape[axis], inner)
	prefix(r.L, x.L, x.Shape[axis], inner)
	round(r.Elem, r.F)
	return r
}

func prefix[T float32 | float64 | int32 | int64](r, x []T, n, inner int) {
	for i, v := range x {
		if r[i] = v; i/inner%n > 0 {
			r[i] = r[i-inner] + v
		}
	}
}

// Contraction pairs dimensions of two operands: LB with RB are batch dimensions, LC with RC are summed over.
type Contraction struct{ LB, RB, LC, RC []int }

// Free returns the dimensions below rank that are in none of the lists.
func Free(rank int, lists ...[]int) []int {
	var free []int
	for i := range rank {
		if !slices.ContainsFunc(lists, func(l []int) bool { return slices.Contains(l, i) }) {
			free = append(free, i)
		}
	}
	return free
}

// Fits reports whether the lists are valid for shapes x and y: paired dimensions exist once and have equal sizes.
func (c Contraction) Fits(x, y []int) bool {
	once := func(rank int, lists ...[]int) bool {
		seen := slices.Concat(lists...)
		slices.Sort(seen)
		return len(slices.Compact(slices.Clone(seen))) == len(seen) && (len(seen) == 0 || seen[0] >= 0 && seen[len(seen)-1] < rank)
	}
	if len(c.LB) != len(c.RB) || len(c.LC) != len(c.RC) || !once(len(x), c.LB, c.LC) || !once(len(y), c.RB, c.RC) {
		return false
	}
	for i, d := range c.LB {
		if x[d] != y[c.RB[i]] {
			return false
		}
	}
	for i, d := range c.LC {
		if x[d] != y[c.RC[i]] {
			return false
		}
	}
	return true
}

// Dot multiplies and sums in f32, or in f64 for f64 operands. The result has the batch dimensions, then x's free dimensions, then y's.
func Dot(x, y *Tensor, c Contraction) *Tensor {
	xFree, yFree := Free(len(x.Shape), c.LB, c.LC), Free(len(y.Shape), c.RB, c.RC)
	xs, ys := ordered(x, slices.Concat(c.LB, xFree, c.LC)), ordered(y, slices.Concat(c.RB, c.RC, yFree))
	pick := func(shape, dims []int) []int {
		s := make([]int, len(dims))
		for i, d := range dims {
			s[i] = shape[d]
		}
		return s
	}
	batch, rows, cols := pick(x.Shape, c.LB), pick(x.Shape, xFree), pick(y.Shape, yFree)
	e := mlir.F32
	if x.Elem == mlir.F64 {
		e = mlir.F64
	}
	r := New(e, slices.Concat(batch, rows, cols)...)
	m, n, k := Size(rows), Size(cols), Size(pick(x.Shape, c.LC))
	for b := range Size(batch) {
		if e == mlir.F64 {
			product(r.D[b*m*n:][:m*n], xs.D[b*m*k:][:m*k], ys.D[b*k*n:][:k*n], m, n, k)
		} else {
			product32(r.F[b*m*n:][:m*n], xs.F[b*m*k:][:m*k], ys.F[b*k*n:][:k*n], m, n, k)
		}
	}
	return r
}

func ordered(x *Tensor, perm []int) *Tensor {
	if slices.IsSorted(perm) {
		return x
	}
	return Transpose(x, perm)
}

// product adds x times y to r, with each element's terms in index order.
func product[T float32 | float64](r, x, y []T, m, n, k int) {
	for i := range m {
		row := r[i*n:][:n]
		for l := range k {
			a := x[i*k+l]
			for j, b := range y[l*n:][:n] {
				row[j] += T(a * b) // the conversion prevents a fused multiply-add
			}
		}
	}
}
