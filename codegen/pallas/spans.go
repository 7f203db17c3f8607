package pallas

import (
	"strconv"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
)

// due is the part of a time slot that a phase or one of its stages has, in hundredths.
type due struct {
	of         string
	begin, end int
}

// spans returns the time of each phase of a kernel whose phases JAX interleaves while tracing, as its schedule says.
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
	// Decays of channels are more than half of the first phase, which begins with them; then the MXUs take over. With a pause between,
	// the forward kernel of KDA takes 5 % less on v6e. Only this kernel gains from the schedule's end of a phase; others take up to 2 %
	// less without it.
	if first := k.Phases[0].Nodes; s.State() > 0 && first[0].Stage == "decay" {
		if s.Ends != nil {
			out[0].end = s.Ends[0]
		}
		out[0].begin = out[0].end * 55 / 100
		out = append(out, due{of: "decay", end: out[0].end * 35 / 100})
	}
	return out
}

// spansText returns the spans as a Python table.
func (m *module) spansText(k *kernel, name string) string {
	var pairs []lists.Pair
	spans := m.spans(k)
	for _, x := range spans {
		pairs = append(pairs, lists.Pair{Key: strconv.Quote(x.of), Value: "(" + hundredths(x.begin) + ", " + hundredths(x.end) + ")"})
	}
	// Packed sequences: work due within 1/200 of a slot is grouped by phases, which costs .6 % less on v6e. If a stage has its own time,
	// such as decays of channels, its work is spread among the rest, and grouping undoes that: .7 % more.
	if k.In.Attrs.Grid.Tables > 0 && len(spans) == len(k.Phases) {
		pairs = append(pairs, lists.Pair{Key: `"piece"`, Value: "(0.000, 0.005)"})
	}
	return lists.Dict(name, pairs)
}

func hundredths(n int) string { return strconv.FormatFloat(float64(n)/100, 'f', 2, 64) }
