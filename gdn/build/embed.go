package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// embed gives the plan the gates of the gated rule, as constants: DeltaNet is the gated delta rule with log decays of zero. It is done where a builder takes the
// decay apart from what it weighs, in gradients, aligned blocks and streams, so that those need no form of their own without one (gdn.Variant.Embeds).
// Elsewhere a rule without decay is built without products by it.
//
// Raw gates have no zero: of a, log(1 + e^(a + dt_bias)) must be zero, so a is ClosedGate, beside an A_log and a dt_bias of 0.
func (p *plan) embed() {
	own := p.args
	p.s.Rule = gdn.Rule{}
	for _, in := range p.s.GateParams() {
		if own[in.Name] != nil {
			continue
		}
		fill := 0.0
		if in.Name == "a" {
			fill = gdn.ClosedGate
		}
		p.args[in.Name] = p.b.Const(in.Type, fill)
	}
}

// only takes the results of a spec out of those of the plan, which may compute a rule with more gates: dg of DeltaNet is made, and is
// none of its results.
func (p *plan) only(results []*ir.Value, s gdn.Spec) []*ir.Value {
	made := s
	made.Rule = p.s.Rule
	var list []*ir.Value
	wanted := s.Outputs()
	for i, o := range made.Outputs() {
		if len(list) < len(wanted) && o.Name == wanted[len(list)].Name {
			list = append(list, results[i])
		}
	}
	return list
}
