package pallas

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/plan"
)

// body writes nodes as the body of a function, or a part of it.
func (p *printer) body(nodes []*loops.Node) []statement {
	body := p.nodes(nodes)
	return append(p.prelude, body...)
}

func header(name string, hints []string, result string) string {
	return "def " + name + "(" + strings.Join(hints, ", ") + ") -> " + result + ":"
}

func sortedParams(set map[*loops.Item]bool) []*loops.Item {
	var out []*loops.Item
	for x := range set {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *loops.Item) int { return a.Param - b.Param })
	return out
}

func pythonName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(s))
	if s == "" {
		return "body"
	}
	return s
}

func (m *module) stageDoc(s *plan.Segment, p *printer) string {
	doc := naming.StageDoc(s.Stage, s.Moves(), s.Multiplies())
	var parts []string
	if len(s.Results) > 0 && !slices.ContainsFunc(s.Results, func(x *loops.Item) bool { return naming.Unnumbered(p.name(x)) != "masks" }) {
		doc = "Makes masks of tokens."
	}
	for _, x := range s.Results {
		parts = append(parts, p.name(x)+" "+loops.ShapeDoc(x))
	}
	if shapes := strings.TrimSuffix(doc, ".") + ": " + strings.Join(parts, ", ") + "."; len(parts) > 0 && width(shapes) <= lineWidth {
		return shapes
	}
	return doc
}
