// Package windows writes the Pallas BlockSpecs of a kernel's windows.
package windows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/ir"
)

// Spec returns the BlockSpec of a window; shape is the Python text of its block's shape.
func Spec(g *ir.Grid, w ir.Window, input bool, shape string) string {
	if input {
		w = early(g, w)
	}
	var params, at []string
	used := map[int]bool{}
	for _, x := range w.Index {
		if x.Axis >= 0 {
			used[x.Axis] = true
		}
	}
	for i, d := range g.Dims {
		n := d.Name
		if !used[i] {
			n = "_" + n
		}
		params = append(params, n)
	}
	tables := false
	for _, x := range w.Index {
		tables = tables || x.Table >= 0
	}
	for i := range g.Tables {
		n := Table(i)
		if !tables {
			n = "_" + n
		}
		params = append(params, n)
	}
	for _, x := range w.Index {
		s := strconv.Itoa(x.Const)
		if x.Axis >= 0 {
			s = index(g.Dims[x.Axis], x, Last(g))
			if x.Const != 0 {
				s = fmt.Sprintf("%d + %s", x.Const, s)
			}
		}
		if x.Table >= 0 {
			s = Table(x.Table) + "[" + s + "]"
		}
		at = append(at, s)
	}
	mode := ""
	if input {
		mode = buffers(g, w)
	}
	return fmt.Sprintf("pl.BlockSpec(%s, lambda %s: %s%s)", shape, strings.Join(params, ", "), lists.Tuple(at), mode)
}

// Last returns the largest clamp along the steps that at least two windows have, called "last" in their text; 0 if there is none.
func Last(g *ir.Grid) int {
	n, windows := 0, 0
	for _, w := range slices.Concat(g.In, g.Out) {
		for _, x := range w.Index {
			if x.Axis >= 0 && g.Dims[x.Axis].Seq && x.Max > 0 && (x.Down || g.Dims[x.Axis].Size-1+x.Shift > x.Max) {
				n, windows = max(n, x.Max), windows+1
			}
		}
	}
	if windows < 2 {
		return 0
	}
	return n
}

// index returns the id of an axis, shifted and clamped to 0..Max, or counted from Max down.
func index(d ir.GridDim, x ir.Index, last int) string {
	s, lo, hi, most := d.Name, x.Shift, d.Size-1+x.Shift, strconv.Itoa(x.Max)
	if d.Seq && x.Max > 0 && x.Max == last {
		most = "last"
	}
	if x.Shift > 0 {
		s = fmt.Sprintf("%s + %d", s, x.Shift)
	} else if x.Shift < 0 {
		s = fmt.Sprintf("%s - %d", s, -x.Shift)
	}
	clamped := true
	switch over := x.Max >= 0 && hi > x.Max; {
	case lo < 0 && over:
		s = fmt.Sprintf("jnp.clip(%s, 0, %s)", s, most)
	case lo < 0:
		s = fmt.Sprintf("jnp.maximum(%s, 0)", s)
	case over:
		s = fmt.Sprintf("jnp.minimum(%s, %s)", s, most)
	default:
		clamped = false
	}
	if x.Down && x.Shift != 0 && !clamped {
		s = "(" + s + ")"
	}
	if x.Down {
		s = fmt.Sprintf("%s - %s", most, s)
	}
	if x.Every > 1 { // Python's operator // makes JAX compute the sign, which needs a TPU at hand
		s = fmt.Sprintf("lax.div(%s, %d)", s, x.Every)
	}
	return s
}

// early makes a window that does not move with the steps depend on the step without effect: min(step, 0). The compiler fetches a window
// whose index has no step only in the second round of its loop, after the next step's blocks, and the first step waits for it.
func early(g *ir.Grid, w ir.Window) ir.Window {
	step := slices.IndexFunc(g.Dims, func(d ir.GridDim) bool { return d.Seq && d.Size > 1 })
	at := slices.IndexFunc(w.Index, func(x ir.Index) bool { return x == ir.IndexConst(0) })
	if step < 0 || at < 0 || slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Axis == step || x.Table >= 0 }) {
		return w
	}
	w.Index = slices.Clone(w.Index)
	w.Index[at].Axis, w.Index[at].Max = step, 0
	return w
}

// Delayed reports whether a window shows an operand [B, rows, ...] in blocks of rows, delayed by one step. Only phases
// of a pipelined kernel have such windows, and its first step does not read them. In another kernel a window of this
// form may show a neighbour block.
func Delayed(g *ir.Grid, w ir.Window, shape []int) bool {
	if g.Tables > 0 || len(g.Dims) != 3 || !g.Dims[2].Seq || len(shape) < 3 || w.Block[0] != 1 {
		return false
	}
	for i := 2; i < len(shape); i++ {
		if w.Block[i] != shape[i] || w.Index[i] != ir.IndexConst(0) {
			return false
		}
	}
	late := ir.IndexAxis(2)
	late.Shift, late.Max = -1, w.Index[1].Max
	return w.Index[0] == ir.IndexAxis(0) && w.Index[1] == late
}

// InLine returns by how many steps each window is delayed, and whether batch rows can run back to back in a kernel
// whose phases overlap: while one phase works on the last chunks of a row, another begins the next row. The axes of the
// grid must be rows, groups of heads, and the steps of a row plus one. A window that does not move with the steps
// belongs to the state, whose phase is delayed by one step. In the example the last column is the delay:
//
//	q, g       (b, min(c, steps - 1), ...)    0
//	v, o       (b, max(c - 1, 0), ...)        1
//	a state    (b, ...)                       1
func InLine(g *ir.Grid) (in, out []int, ok bool) {
	if g.Tables > 0 || g.Bounded() || len(g.Dims) != 3 || g.Dims[0].Seq || g.Dims[1].Seq || !g.Dims[2].Seq {
		return nil, nil, false
	}
	for _, w := range g.In {
		if !slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Axis == 0 || x.Axis == 2 }) {
			in = append(in, 0) // for all rows, such as A_log
			continue
		}
		n, ok := late(g, w)
		if !ok {
			return nil, nil, false
		}
		in = append(in, n)
	}
	for i, w := range g.Out {
		n, ok := late(g, w)
		if !ok || w.Whole(g.Outs[i]) {
			return nil, nil, false
		}
		out = append(out, n)
	}
	return in, out, true
}

// late returns by how many steps a window is late; ok if it follows the row and is late by 0 or 1.
func late(g *ir.Grid, w ir.Window) (steps int, ok bool) {
	steps = -1
	for _, x := range w.Index {
		switch {
		case x.Axis == 0:
			ok = x == ir.IndexAxis(0)
		case x.Axis != 2:
		case x.Every > 1 || x.Shift != 0 && x.Shift != -1 || x.Max > 0 && x.Max != g.Dims[2].Size-2:
			return 0, false
		case x.Max == 0 && x.Shift == 0 || steps >= 0 && steps != -x.Shift:
			return 0, false
		default:
			steps = -x.Shift
		}
	}
	if steps < 0 { // it does not move with the steps: a state's window
		steps = 1
	}
	return steps, ok
}

// buffers returns the text for a single buffer if a window is read only once.
func buffers(g *ir.Grid, w ir.Window) string {
	blocks := 1
	for _, x := range w.Index {
		if x.Axis >= 0 && g.Dims[x.Axis].Seq {
			return ""
		}
		if x.Axis >= 0 {
			blocks *= g.Dims[x.Axis].Size
		}
	}
	if blocks == 1 {
		return ", pipeline_mode=pl.Buffered(1)"
	}
	return fmt.Sprintf(", pipeline_mode=pl.Buffered(min(%d, 2))", blocks)
}

// Name names windows that several operands or results share after the first of them, and returns the statements that define the names.
func Name(names []string, all ...[]string) (statements []string) {
	specs := slices.Concat(all...)
	slices.Sort(specs)
	if len(slices.Compact(specs)) == len(slices.Concat(all...)) {
		return nil
	}
	of := map[string]string{}
	i := 0
	for _, specs := range all {
		for j, s := range specs {
			if of[s] == "" {
				if of[s] = names[i] + "_at"; strings.Contains(s, "pl.ANY") {
					of[s] = "anywhere"
				}
				statements = append(statements, "    "+of[s]+" = "+s)
			}
			specs[j] = of[s]
			i++
		}
	}
	return statements
}

// Table returns the name of the i-th table of numbers.
func Table(i int) string {
	if i == 0 {
		return "table"
	}
	return fmt.Sprintf("table_%d", i+1)
}
