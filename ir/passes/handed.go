package passes

import "github.com/gdngen/gdngen/ir"

// Handed returns the values that pass from one kernel to another, possibly reshaped, such as values saved by a training step for
// its backward pass. Arrays that the reading kernel changes in place, such as a pool's, are excluded; they stay in HBM.
func Handed(m *ir.Module) map[*ir.Value]bool {
	out := map[*ir.Value]bool{}
	for _, in := range m.Body.Instrs {
		if in.Op != ir.OpKernel {
			continue
		}
		inPlace := map[*ir.Value]bool{}
		for _, a := range in.Attrs.Grid.Alias {
			inPlace[in.Args[in.Attrs.Grid.Tables+a[1]]] = true
		}
		for _, a := range in.Args {
			if inPlace[a] {
				continue
			}
			x := a
			for x.Def != nil && x.Def.Op == ir.OpReshape {
				x = x.Def.Args[0]
			}
			if x.Def != nil && x.Def.Op == ir.OpKernel {
				out[a], out[x] = true, true
			}
		}
	}
	return out
}
