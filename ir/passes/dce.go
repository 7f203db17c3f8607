package passes

import "github.com/gdngen/gdngen/ir"

// DCE removes instructions without effect whose results are not read. Results of a loop or grid that has a live result
// stay, and with them what their bodies yield: a loop without one of its carries would be another loop.
//
//	%2 = neg %1     %3 = exp %2     %4 = abs %1     yield %4
//
// Backwards from the yield %4 is live, and by it %1. Nobody has asked for %3 when it is passed, so its operand %2 is not asked for either: one walk
// finds whole chains.
func DCE(m *ir.Module) (*ir.Module, error) {
	live := map[*ir.Value]bool{}
	keep := map[*ir.Instr]bool{}
	mark(m.Body, live, keep)
	return Transform(m, func(_ *Rewriter, in *ir.Instr, _ []*ir.Value) ([]*ir.Value, bool) {
		// Done without a value for any result is what drops an instruction.
		return make([]*ir.Value, len(in.Results)), !keep[in]
	})
}

// mark walks a block backwards: definitions are before their uses.
func mark(b *ir.Block, live map[*ir.Value]bool, keep map[*ir.Instr]bool) {
	for _, v := range b.Yield {
		live[v] = true
	}
	for i := len(b.Instrs) - 1; i >= 0; i-- {
		in := b.Instrs[i]
		needed := effects(in)
		for _, r := range in.Results {
			needed = needed || live[r]
		}
		if !needed {
			continue
		}
		keep[in] = true
		for _, a := range in.Args {
			live[a] = true
		}
		// A body may read values from around it. They are above this instruction, so they are marked before the walk comes to them.
		if in.Body != nil {
			mark(in.Body, live, keep)
		}
	}
}

// effects tells whether an instruction touches references of an outer body. Those of a kernel's body are its own.
//
// A when that stores, or a loop with one in it, must stay though it has no result that anybody reads. A kernel gives what it stores as its results; if
// nobody reads these, nobody sees the stores.
func effects(in *ir.Instr) bool {
	if in.Op == ir.OpKernel {
		return false
	}
	found := ir.Ops[in.Op].Effect
	if in.Body != nil {
		for _, c := range in.Body.Instrs {
			found = found || effects(c)
		}
	}
	return found
}
