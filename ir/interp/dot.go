package interp

import (
	"sync"

	"github.com/gdngen/gdngen/internal/vector"
	"github.com/gdngen/gdngen/ir"
)

// dot sums the products of Precision.Products, each a product of bf16 parts summed in index order
// from 0, one after another. An MXU multiplies bf16 exactly and adds in f32, so a dot of a
// higher precision is several passes over parts of its operands: with x = x0 + x1, each rounded to
// bf16,
//
//	bf16x1   x0 y0
//	bf16x3   x0 y1 + x1 y0 + x0 y0
//	bf16x6   x0 y2 + x2 y0 + x1 y1 before those
//
// the smaller first, so that they are not rounded away next to the largest.
//
// The order of sums is fixed here, while a device has its own: comparisons with devices allow for
// that. The sums are float64 if the result is F64, else float32; operands wider than the sums are
// rounded to them.
func dot(in *ir.Instr, a []*tensor) (*tensor, error) {
	t := in.Result().Type
	p := newProduct(a[0].shape, a[1].shape, in.Attrs.Dot)
	out := newLike(t)
	if t.DType == ir.F64 && in.Attrs.Prec == ir.PrecF32 {
		p.run64(out.d, floats64(a[0]), floats64(a[1]))
		return out, nil
	}
	sum := out.f
	if sum == nil {
		sum = make([]float32, out.size())
	}
	if in.Attrs.Prec == ir.PrecF32 {
		p.run(sum, floats32(a[0]), floats32(a[1]))
	} else {
		products := in.Attrs.Prec.Products()
		x, y := parts(a[0], in.Attrs.Prec), parts(a[1], in.Attrs.Prec)
		term, first := sum, true
		for _, q := range products {
			if q[0] >= len(x) || q[1] >= len(y) {
				continue
			}
			p.run(term, x[q[0]], y[q[1]])
			if first {
				term, first = make([]float32, len(sum)), false
				continue
			}
			for i, v := range term {
				sum[i] += v
			}
		}
	}
	if out.d != nil {
		for i, v := range sum {
			out.d[i] = float64(v)
		}
	}
	round(t.DType, out.f)
	return out, nil
}

// floats32 returns the elements as float32, rounded if they are wider.
func floats32(x *tensor) []float32 {
	if x.d == nil {
		return x.f
	}
	out := make([]float32, len(x.d))
	for i, v := range x.d {
		out[i] = float32(v)
	}
	return out
}

// floats64 returns the elements as float64.
func floats64(x *tensor) []float64 {
	if x.d != nil {
		return x.d
	}
	out := make([]float64, len(x.f))
	for i, v := range x.f {
		out[i] = float64(v)
	}
	return out
}

// parts returns the bf16 parts of an operand, the largest first: each is the rounded remainder. A
// bf16 operand is its own only part.
func parts(x *tensor, p ir.Precision) [][]float32 {
	if x.dt == ir.BF16 {
		return [][]float32{x.f}
	}
	rest := floats32(x)
	var out [][]float32
	for range p.Parts() {
		hi := make([]float32, len(rest))
		roundBF16(hi, rest)
		out = append(out, hi)
		if len(out) == p.Parts() {
			break
		}
		next := make([]float32, len(rest))
		for i, v := range rest {
			next[i] = v - hi[i]
		}
		rest = next
	}
	return out
}

// product is a dot as batches of [m,k] by [k,n], with the offsets of every row and column in the
// operands.
type product struct {
	m, n, k              int
	xBatch, xRow, xContr []int
	yBatch, yContr, yCol []int
}

// newProduct finds the offsets. Any dimensions can be batch, free or contracted; with tables of
// offsets all of them run the same loops, and a transposed operand costs nothing but other tables.
func newProduct(x, y []int, d *ir.DotDims) *product {
	xs, ys := strides(x), strides(y)
	free := func(rank int, used ...[]int) (out []int) {
	next:
		for i := range rank {
			for _, u := range used {
				for _, j := range u {
					if i == j {
						continue next
					}
				}
			}
			out = append(out, i)
		}
		return out
	}
	p := &product{
		xBatch: offsets(x, xs, d.LB), xRow: offsets(x, xs, free(len(x), d.LB, d.LC)), xContr: offsets(x, xs, d.LC),
		yBatch: offsets(y, ys, d.RB), yCol: offsets(y, ys, free(len(y), d.RB, d.RC)), yContr: offsets(y, ys, d.RC),
	}
	p.m, p.n, p.k = len(p.xRow), len(p.yCol), len(p.xContr)
	return p
}

// offsets lists the storage offsets of all indices along the dimensions, row-major.
func offsets(shape, str, dims []int) []int {
	out := []int{0}
	for _, d := range dims {
		next := make([]int, 0, len(out)*shape[d])
		for _, o := range out {
			for i := range shape[d] {
				next = append(next, o+i*str[d])
			}
		}
		out = next
	}
	return out
}

// taskRows is the rows of one parallel task.
const taskRows = 64

var scratch = sync.Pool{New: func() any { return new([]float32) }}

// buffer takes scratch for panels from a pool: dots of a kernel are small and many.
func buffer(n int) *[]float32 {
	b := scratch.Get().(*[]float32)
	if cap(*b) < n {
		*b = make([]float32, n)
	}
	*b = (*b)[:n]
	return b
}

// run writes x times y to out, [batch, m, n]. Tasks divide batches and rows, never sums, so that
// results do not depend on the number of processors. Small products run in place: starting threads
// costs more.
func (p *product) run(out, x, y []float32) {
	if p.m == 0 || p.n == 0 || p.k == 0 || len(p.xBatch) == 0 {
		return // out is zero already
	}
	rowTasks := (p.m + taskRows - 1) / taskRows
	tasks := rowTasks * len(p.xBatch)
	work := tasks * p.m / rowTasks * p.n * p.k
	parallel(tasks, work > 1<<16, func(task int) {
		batch, lo := task/rowTasks, task%rowTasks*taskRows
		hi := min(lo+taskRows, p.m)
		p.rows(out[(batch*p.m+lo)*p.n:(batch*p.m+hi)*p.n], x[p.xBatch[batch]:], y[p.yBatch[batch]:], lo, hi)
	})
}

// rows computes rows lo to hi of one batch. y is packed into panels of columns, x into panels of
// rows, both with the contracted index outermost in a panel; edges are padded with zeros that are
// never stored. A panel's product keeps all of its sums in registers and adds in index order, as
// the definition wants: vector instructions run over columns, each of which has a sum of its own.
func (p *product) rows(out, x, y []float32, lo, hi int) {
	const panelRows, panelCols = vector.PanelRows, vector.PanelColumns
	panels := (p.n + panelCols - 1) / panelCols
	xb, yb := buffer(panelRows*p.k), buffer(panels*panelCols*p.k)
	defer scratch.Put(xb)
	defer scratch.Put(yb)
	xp, yp := *xb, *yb
	for j := range panels {
		p.packColumns(yp[j*panelCols*p.k:][:panelCols*p.k], y, j*panelCols)
	}
	var c vector.Panel
	for i := lo; i < hi; i += panelRows {
		rows := min(panelRows, hi-i)
		for r := range panelRows {
			if r >= rows {
				for k := range p.k {
					xp[panelRows*k+r] = 0
				}
				continue
			}
			o := p.xRow[i+r]
			for k, q := range p.xContr {
				xp[panelRows*k+r] = x[o+q]
			}
		}
		for j := 0; j < p.n; j += panelCols {
			c.Multiply(xp, yp[j*p.k:][:panelCols*p.k])
			for r := range rows {
				copy(out[(i-lo+r)*p.n+j:][:min(panelCols, p.n-j)], c[panelCols*r:])
			}
		}
	}
}

// packColumns fills a panel with the columns of y from first on.
func (p *product) packColumns(panel, y []float32, first int) {
	const width = vector.PanelColumns
	columns := p.yCol[first:min(first+width, p.n)]
	if last := len(columns) - 1; columns[last]-columns[0] == last { // row-major: contiguous
		for k, o := range p.yContr {
			row := panel[k*width:][:width]
			clear(row[copy(row, y[o+columns[0]:][:len(columns)]):])
		}
		return
	}
	clear(panel)
	for c, at := range columns {
		for k, o := range p.yContr {
			panel[k*width+c] = y[o+at]
		}
	}
}

// run64 is run in float64.
func (p *product) run64(out, x, y []float64) {
	for b, xo := range p.xBatch {
		for i, ro := range p.xRow {
			for j, co := range p.yCol {
				var s float64
				for k, o := range p.xContr {
					s += float64(x[xo+ro+o] * y[p.yBatch[b]+co+p.yContr[k]])
				}
				out[(b*p.m+i)*p.n+j] = s
			}
		}
	}
}
