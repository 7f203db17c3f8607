package passes

import "github.com/gdngen/gdngen/ir"

// DCE removes instructions without effect whose results are not read. All results of a loop or grid with a live result
// stay, and the yields of their bodies, since a loop without one of its carries would be another loop.
//
//	%2 = neg %1     %3 = exp %2     %4 = abs %1     yield %4
//
// Going backwards from the yield, %4 is live, and so is %1. %3 is not live when it is reached, so it does not make its operand %2 live: one walk
// finds whole chains.
func DCE(m *ir.Module) (*ir.Module, error) {
	live := map[*ir.Value]bool{}
	keep := map[*ir.Instr]bool{}
	mark(m.Body, live, keep)
	return Transform(m, func(_ *Rewriter, in *ir.Instr, _ []*ir.Value) ([]*ir.Value, bool) {
		// Returning true without values drops an instruction.
		return make([]*ir.Value, len(in.Results)), !keep[in]
	})
}

// mark marks live instructions of a block, backwards, since definitions come before uses.
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
		// A body may read outer values. They are defined before this instruction, so they are marked before the walk reaches them.
		if in.Body != nil {
			mark(in.Body, live, keep)
		}
	}
}

// effects reports whether an instruction touches references of an outer body. References of a kernel's own body do not count.
//
// A when that stores, or a loop with one in it, must stay though it has no result that is read. A kernel's stores are its results; if
// these are not read, the stores have no effect.
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
