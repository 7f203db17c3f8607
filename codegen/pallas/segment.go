package pallas

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/plan"
)

// body writes nodes as the body of a function, or of a part of it.
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

// stageDocs says what a stage of the algorithm does.
var stageDocs = map[string]string{
	"init":     "Starts the state.",
	"load":     "Loads the rows of the chunk.",
	"gates":    "Sums the log decay over the chunk.",
	"products": "Multiplies K K^T and Q K^T.",
	"decay":    "Weighs by the decay between tokens.",
	"leaf":     "Inverts the diagonal blocks by substitution.",
	"solve":    "Merges the inverses of blocks to that of the chunk.",
	"operands": "Makes what meets the state: K and Q with their decay.",
	"state":    "Takes the state through the chunk.",
	"keep":     "Keeps states for the gradient.",
	"copy":     "Copies blocks from main memory, and back.",
	"dr":       "Makes dR, the gradient of v and of what the state takes off it.",
	"output":   "Scales the output.",
	"store":    "Stores what the chunk made.",
	"token":    "Steps through the tokens.",
	"explicit": "Makes U and W.",
	joined:     "Makes the gradients of queries, keys and gates.",
}

func (m *module) stageDoc(s *plan.Segment, p *printer) string {
	doc := stageDocs[s.Stage]
	switch {
	case s.Moves() && !slices.Contains([]string{"init", "load", "store", "keep", "copy"}, s.Stage):
		doc = "Loads, or keeps, what other stages take."
	case s.Stage == "state" && !s.Multiplies():
		doc = "Makes the decays of the state."
	}
	if doc == "" {
		doc = strings.ToUpper(s.Stage[:min(1, len(s.Stage))]) + s.Stage[min(1, len(s.Stage)):] + "."
	}
	var parts []string
	for _, x := range s.Results {
		parts = append(parts, p.name(x)+" "+loops.ShapeDoc(x))
	}
	if shapes := strings.TrimSuffix(doc, ".") + ": " + strings.Join(parts, ", ") + "."; len(parts) > 0 && width(shapes) <= lineWidth {
		return shapes
	}
	return doc
}
