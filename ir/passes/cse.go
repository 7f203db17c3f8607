package passes

import (
	"github.com/gdngen/gdngen/ir"
)

// CSE merges equal instructions without effect or body: equal ops, operands, attributes and types. A value found in an
// outer block is reused in the bodies of loops and whens. Grid and kernel bodies are separate, so that they
// capture no new outer value: a kernel would get an operand without a window.
//
// Of equal instructions the first stays, with its task: stage, chunk and head. Schedules order by tasks, so the first one
// decides where the work is done; a builder that wants it elsewhere must build it there first.
//
//	%3 = neg %1 : f32[8]                     %3 = neg %1 : f32[8]
//	%4 = loop %2 { %7 = neg %1 ... %7 }      %4 = loop %2 { ... %3 }
//	%5 = neg %1 : f32[8]                     gone, its readers read %3
//	%6 = load %r     %9 = load %r            both stay: a store may be between them
//
// One walk is enough. Operands are defined before their readers, so when a reader's key is computed, equal operands are one value already.
func CSE(m *ir.Module) (*ir.Module, error) {
	known := map[string][]*ir.Value{}
	return Transform(m, func(r *Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if in.Body != nil {
			outer := known
			inner := map[string][]*ir.Value{}
			if in.Op == ir.OpLoop || in.Op == ir.OpWhen {
				// A copy: values made by the body are not defined after it, and must not be found there.
				for k, v := range outer {
					inner[k] = v
				}
			}
			known = inner
			defer func() { known = outer }()
			return r.Copy(in, args), true
		}
		// Loads and stores: equal ones need not have equal results.
		if !in.Op.Pure() {
			return nil, false
		}
		// Constants and iotas have no operands, and differ by type only.
		var types []ir.Type
		for _, v := range in.Results {
			types = append(types, v.Type)
		}
		k := Identity(in.Op, in.Attrs, args, types...)
		vs, ok := known[k]
		if !ok {
			vs = r.Copy(in, args)
			known[k] = vs
		}
		return vs, true
	})
}
