package pallas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// segment is the part of a phase that belongs to one stage.
type segment struct {
	stage   string
	line    int // of lines
	nodes   []*node
	reads   []*item // made by earlier stages
	results []*item // read by later ones
}

// isCast tells another view of a reference, which stands wherever it is used.
func isCast(x *item) bool {
	return x.maker != nil && x.maker.in != nil && x.maker.in.Op == ir.OpRefCast
}

// segments cuts the lines of a phase by stage and finds what passes between them.
func segments(l lines) []*segment {
	var out []*segment
	for line, nodes := range l {
		for i, n := range nodes {
			if i == 0 || n.stage != nodes[i-1].stage {
				out = append(out, &segment{stage: n.stage, line: line})
			}
			s := out[len(out)-1]
			s.nodes = append(s.nodes, n)
		}
	}
	made := map[*item]*segment{}
	for _, s := range out {
		var read func(ns []*node)
		ref := func(r ref) {
			if m := made[r.item]; m != nil && m != s && !isCast(r.item) {
				if !slices.Contains(s.reads, r.item) {
					s.reads = append(s.reads, r.item)
				}
				if !slices.Contains(m.results, r.item) {
					m.results = append(m.results, r.item)
				}
			}
		}
		read = func(ns []*node) {
			for _, n := range ns {
				for _, r := range n.args {
					ref(r)
				}
				for _, r := range n.list {
					ref(r)
				}
				for _, r := range n.yield {
					ref(r)
				}
				if n.loop != nil {
					for _, c := range n.loop.carries {
						ref(c.init)
					}
					read(n.loop.body)
				}
				read(n.body)
			}
		}
		read(s.nodes)
		for _, n := range s.nodes {
			for _, d := range n.defs {
				made[d] = s
			}
		}
	}
	return out
}

// body writes nodes as the body of a function, or of a part of it.
func (p *printer) body(nodes []*node) []statement {
	body := p.nodes(nodes)
	return append(p.prelude, body...)
}

func header(name string, hints []string, result string) string {
	return "def " + name + "(" + strings.Join(hints, ", ") + ") -> " + result + ":"
}

// hint is the Python type of an item.
func hint(x *item) string {
	switch {
	case x.param != 0:
		return "Ref"
	case x.isList():
		if x.elems[0] != nil && x.elems[0].isList() {
			return "list[list[jax.Array]]"
		}
		return "list[jax.Array]"
	}
	return "jax.Array"
}

func returns(items []*item, generator bool) string {
	t := make([]string, len(items))
	for i, x := range items {
		t[i] = hint(x)
	}
	s := "None"
	switch {
	case len(t) == 1:
		s = t[0]
	case len(t) > 1:
		s = "tuple[" + strings.Join(t, ", ") + "]"
	}
	if generator {
		return "Work[" + s + "]"
	}
	return s
}

func sortedParams(set map[*item]bool) []*item {
	var out []*item
	for x := range set {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *item) int { return a.param - b.param })
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
	"decay":    "Weighs the products by the decay between their tokens.",
	"leaf":     "Inverts the diagonal blocks by substitution.",
	"solve":    "Merges the inverses of blocks to that of the chunk.",
	"operands": "Makes what meets the state: K and Q with their decay.",
	"state":    "Reads and updates the state.",
	"output":   "Scales the output.",
	"store":    "Stores what the chunk made.",
	"token":    "Steps through the tokens.",
	"explicit": "Makes U and W.",
}

func (m *module) stageDoc(s *segment, p *printer) string {
	doc := stageDocs[s.stage]
	if doc == "" {
		doc = strings.ToUpper(s.stage[:min(1, len(s.stage))]) + s.stage[min(1, len(s.stage)):] + "."
	}
	var parts []string
	for _, x := range s.results {
		parts = append(parts, p.name(x)+" "+shapeDoc(x))
	}
	if len(parts) > 0 {
		doc = strings.TrimSuffix(doc, ".") + ": " + strings.Join(parts, ", ") + "."
	}
	return doc
}

func shapeDoc(x *item) string {
	switch {
	case x.isList() && x.elems[0] == nil:
		return fmt.Sprintf("%d x %s", len(x.elems), shortType(x.typ))
	case x.isList():
		return fmt.Sprintf("%d x %s", len(x.elems), strings.TrimPrefix(shapeDoc(x.elems[0]), "of "))
	}
	return shortType(x.typ)
}

func shortType(t ir.Type) string {
	s := make([]string, len(t.Shape))
	for i, n := range t.Shape {
		s[i] = strconv.Itoa(n)
	}
	return t.DType.String() + "[" + strings.Join(s, ", ") + "]"
}
