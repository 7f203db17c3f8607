package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// embed adds the gates of the gated rule to the plan as constants: DeltaNet is the gated delta rule with log decays of zero. Gradients, aligned blocks and
// streams need this, since they compute the decay separately from its operands (gdn.Variant.Embeds). Elsewhere a rule without decay
// is built without decay products.
//
// For raw gates log(1 + e^(a + dt_bias)) must be zero, so a is ClosedGate, and A_log and dt_bias are 0.
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

// only selects the results of a spec from the results of the plan, which may compute a rule with more gates: for DeltaNet, dg is computed but
// is no result.
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
