package pallas

import (
	"strconv"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
)

// due is the part of a time slot that a phase has, or a stage of one, in hundredths.
type due struct {
	of         string
	begin, end int
}

// spans are those of a kernel whose phases are ordered while JAX traces them: what its schedule says.
func (m *module) spans(k *kernel) (out []due) {
	s := m.scheds[k.In.Attrs.Grid.Name]
	for i := range k.Phases {
		x := due{of: naming.Phase(i, len(k.Phases)), end: 100}
		if i == s.State() {
			x.begin = s.Late
		}
		out = append(out, x)
	}
	for _, stage := range s.Side {
		out = append(out, due{of: pythonName(stage), end: 100})
	}
	// Decays of channels are more than half of a first phase, which begins with them. Behind them matrix units take over: with a pause between
	// the forward kernel of KDA takes 5 % less on v6e. It alone gains by the schedule's end of a phase; others take up to 2 % less without.
	if first := k.Phases[0].Nodes; s.State() > 0 && first[0].Stage == "decay" {
		if s.Ends != nil {
			out[0].end = s.Ends[0]
		}
		out[0].begin = out[0].end * 55 / 100
		out = append(out, due{of: "decay", end: out[0].end * 35 / 100})
	}
	return out
}

// spansText is the table of them in Python.
func (m *module) spansText(k *kernel, name string) string {
	var pairs []lists.Pair
	spans := m.spans(k)
	for _, x := range spans {
		pairs = append(pairs, lists.Pair{Key: strconv.Quote(x.of), Value: "(" + hundredths(x.begin) + ", " + hundredths(x.end) + ")"})
	}
	// Packed sequences: what is due within 1/200 of a slot stands together by phases, which costs .6 % less on v6e. Where a stage has a time
	// of its own, as the decays of channels, its work is spread among the rest, and pieces undo that: .7 % more.
	if k.In.Attrs.Grid.Tables > 0 && len(spans) == len(k.Phases) {
		pairs = append(pairs, lists.Pair{Key: `"piece"`, Value: "(0.000, 0.005)"})
	}
	return lists.Dict(name, pairs)
}

func hundredths(n int) string { return strconv.FormatFloat(float64(n)/100, 'f', 2, 64) }
