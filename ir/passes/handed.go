package passes

import "github.com/gdngen/gdngen/ir"

// Handed are the operands and results of kernels that one hands to another, under whatever shape, such as what a training step keeps for
// its backward pass.
func Handed(m *ir.Module) map[*ir.Value]bool {
	out := map[*ir.Value]bool{}
	for _, in := range m.Body.Instrs {
		if in.Op != ir.OpKernel {
			continue
		}
		for _, a := range in.Args {
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
