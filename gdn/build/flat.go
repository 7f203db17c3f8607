package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Parameters and results have the callers' layouts; the plan always has an axis of heads. Plain ops convert flat rows (gdn.Rows) by reshapes without copies.
// On a TPU such reshapes copy everything. So with layout=bt_hd, whose windows span the lanes of several heads, a kernel reads parameters and
// writes results directly (lanes, tokensOut).

// Decode steps on a TPU take states in XLA's own layout (gdn.Spec.Transposed), with the last two axes swapped, which needs no copy there.

// turns reports whether the states of a spec are taken like this: by TPU kernels that read states directly, without outputs of states
// every so many tokens.
func turns(s gdn.Spec, v gdn.Variant) bool {
	return v.Native() && v.Unit == gdn.UnitLanes && s.Transposed() && s.Every == 0
}

// flat reports whether kernels read flat rows directly.
func (p *plan) flat() bool { return p.rowsOf != gdn.RowsHeads && p.v.Layout == gdn.LayoutBTLanes }

// params adds parameters that are not given, and stores all parameters in args, rows with an axis of heads.
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

// given uses a value in place of a parameter.
func (p *plan) given(name string, x *ir.Value) {
	if name == "initial_state" && p.turned {
		x = p.turn(x)
	}
	p.args[name] = x
}

// lanes merges heads and width, [B, T, heads x D], if kernels read flat rows directly.
func (p *plan) lanes(x *ir.Value) *ir.Value {
	if !p.flat() {
		return x
	}
	s := x.Type.Shape
	n := len(s) - 2
	return p.reshape(x, join(s[:n], []int{s[n] * s[n+1]})...)
}

// reshape reshapes x, or the value that x is itself a reshape of.
func (p *plan) reshape(x *ir.Value, shape ...int) *ir.Value {
	if x.Def != nil && x.Def.Op == ir.OpReshape {
		x = x.Def.Args[0]
	}
	return p.b.Reshape(x, shape...)
}

// turn swaps the last two axes of states.
func (p *plan) turn(x *ir.Value) *ir.Value { return p.b.Transpose(x, 0, 1, 3, 2) }

// asTaken converts results to the row layout of the outputs, and states to their order.
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
