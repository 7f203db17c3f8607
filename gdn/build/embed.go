package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// embed gives the plan the gates of the gated rule, as constants.
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

// only takes the results of a spec out of those of the plan, which may compute a rule with more gates.
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
