package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Parameters and results lie as callers have them, which the plan does not see. Flat rows (gdn.Rows) are parameters and results alone: the plan has heads as an axis, by reshapes that move nothing where plain ops are. On a TPU they
// move everything, so with layout=bt_hd, whose windows have heads side by side, a kernel reads parameters and writes results as they are (lanes, tokensOut).

// States of a decode step on a TPU are taken as XLA holds them (gdn.Spec.Transposed): with the last two axes swapped, which moves nothing there.

// turns says whether the states of a spec are taken so: by the kernels that read states as they are, and that are for TPUs. States after
// every so many tokens are not.
func turns(s gdn.Spec, v gdn.Variant) bool {
	return v.Native() && v.Unit == gdn.UnitLanes && s.Transposed() && s.Every == 0
}

// flat says whether kernels take flat rows as they are.
func (p *plan) flat() bool { return p.rowsOf != gdn.RowsHeads && p.v.Layout == gdn.LayoutBTLanes }

// params declares parameters that are not given, and gives row parameters with heads as an axis, as args.
func (p *plan) params(s gdn.Spec, inputs []gdn.Param, given map[string]*ir.Value) {
	byHeads := map[string]ir.Type{}
	for _, in := range s.ByHeads().Inputs() {
		byHeads[in.Name] = in.Type
	}
	for _, in := range inputs {
		x := given[in.Name]
		if x == nil {
			x = p.b.Param(in.Name, in.Type)
		}
		if in.Name == "initial_state" {
			p.given(in.Name, x)
			continue
		}
		if t, ok := byHeads[in.Name]; ok && p.rowsOf != gdn.RowsHeads {
			p.args[in.Name] = p.b.Reshape(x, t.Shape...)
			continue
		}
		p.args[in.Name] = x
		if in.Name != "qkv" {
			continue
		}
		for _, part := range s.Slices() {
			p.args[part.Name] = p.b.Reshape(p.b.SliceAxis(x, x.Type.Rank()-1, part.From, part.To), part.Type.Shape...)
		}
	}
}

// given has a value in place of a parameter.
func (p *plan) given(name string, x *ir.Value) {
	if name == "initial_state" && p.turned {
		x = p.turn(x)
	}
	p.args[name] = x
}

// lanes has the heads of each token side by side, [B, T, heads x D], where kernels take flat rows as they are.
func (p *plan) lanes(x *ir.Value) *ir.Value {
	if !p.flat() {
		return x
	}
	s := x.Type.Shape
	n := len(s) - 2
	return p.reshape(x, join(s[:n], []int{s[n] * s[n+1]})...)
}

// reshape is a reshape of what x is a reshape of.
func (p *plan) reshape(x *ir.Value, shape ...int) *ir.Value {
	if x.Def != nil && x.Def.Op == ir.OpReshape {
		x = x.Def.Args[0]
	}
	return p.b.Reshape(x, shape...)
}

// turn swaps the last two axes of states.
func (p *plan) turn(x *ir.Value) *ir.Value { return p.b.Transpose(x, 0, 1, 3, 2) }

// asTaken brings results to the rows of outputs, and states to their order.
func (p *plan) asTaken(outputs []gdn.Param, results []*ir.Value) []*ir.Value {
	for i, o := range outputs {
		if o.Name == "final_state" && p.turned {
			results[i] = p.turn(results[i])
			continue
		}
		if i < len(results) && results[i].Type.Size() == o.Type.Size() && results[i].Type.Rank() != o.Type.Rank() {
			results[i] = p.reshape(results[i], o.Type.Shape...)
		}
	}
	return results
}
