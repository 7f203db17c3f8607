package passes

import "github.com/gdngen/gdngen/ir"

// Handed are the operands and results of kernels that one hands to another, under whatever shape, such as what a training step keeps for
// its backward pass; but for those that the taking kernel changes in place, such as a pool's, which stay in main memory.
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
