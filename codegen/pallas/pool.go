package pallas

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// overPool is the kernel of a program that can take its states where they lie in a pool, nil where there is none: its last operand and its
// last result are the states as the caller has them, a step has the whole of those of its rows, and of o as many rows.
func overPool(m *ir.Module) *ir.Instr {
	i := slices.IndexFunc(m.Body.Instrs, func(in *ir.Instr) bool { return in.Op == ir.OpKernel })
	if i < 0 {
		return nil
	}
	in := m.Body.Instrs[i]
	g, last := in.Attrs.Grid, len(in.Args)-1
	if g.Tables > 0 || len(g.Alias) > 0 || len(g.Scratch) > 0 || len(g.In) != len(in.Args) || len(g.Out) != 2 {
		return nil
	}
	given, left := in.Args[last], in.Results[1]
	if given.Def != nil || given.Name != "initial_state" || m.Body.Yield[len(m.Body.Yield)-1] != left || !given.Type.Equal(left.Type) {
		return nil
	}
	states, o := g.In[last], g.Out[0]
	if !byRows(g, states) || !byRows(g, g.Out[1]) || !byRows(g, o) || o.Block[0] != states.Block[0] || !slices.Equal(states.Block[1:], given.Type.Shape[1:]) {
		return nil
	}
	return in
}

// byRows says whether the first dimension of a grid, the only one with several points, counts the blocks of a window along its first.
func byRows(g *ir.Grid, w ir.Window) bool {
	for d, x := range w.Index {
		if d > 0 && x.Axis >= 0 && g.Dims[x.Axis].Size > 1 {
			return false
		}
	}
	x := w.Index[0]
	return x.Axis == 0 && x.Shift == 0 && x.Const == 0 && x.Table < 0 && !x.Down && !slices.ContainsFunc(g.Dims[1:], func(d ir.GridDim) bool { return d.Size > 1 })
}
