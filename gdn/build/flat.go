package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Flat rows (gdn.Rows) are parameters and results alone: the plan has heads as an axis, by reshapes that move nothing where plain ops are. On a TPU they
// move everything, so with layout=bt_hd, whose windows have heads side by side, a kernel reads parameters and writes results as they are (lanes, tokensOut).

// flat says whether kernels take flat rows as they are.
func (p *plan) flat() bool { return p.rowsOf != gdn.RowsHeads && p.v.Layout == gdn.LayoutBTLanes }

// params declares parameters, and gives those of rows with heads as an axis, as args.
func (p *plan) params(s gdn.Spec, inputs []gdn.Param) {
	byHeads := map[string]ir.Type{}
	for _, in := range s.ByHeads().Inputs() {
		byHeads[in.Name] = in.Type
	}
	for _, in := range inputs {
		x := p.b.Param(in.Name, in.Type)
		if t, ok := byHeads[in.Name]; ok {
			p.args[in.Name] = p.b.Reshape(x, t.Shape...)
			continue
		}
		if in.Name != "qkv" {
			p.args[in.Name] = x
			continue
		}
		for _, part := range s.Slices() {
			p.args[part.Name] = p.b.Reshape(p.b.SliceAxis(x, x.Type.Rank()-1, part.From, part.To), part.Type.Shape...)
		}
	}
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

// asRowsOf gives results the rows of outputs.
func (p *plan) asRowsOf(outputs []gdn.Param, results []*ir.Value) []*ir.Value {
	for i, o := range outputs {
		if i < len(results) && results[i].Type.Size() == o.Type.Size() && results[i].Type.Rank() != o.Type.Rank() {
			results[i] = p.reshape(results[i], o.Type.Shape...)
		}
	}
	return results
}
