package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Comparison compares module B with module A on one target. Each list begins with the largest change.
type Comparison struct {
	Totals []Change `json:"totals"` // in a fixed order
	Stages []Change `json:"stages"` // cycles by stage of the algorithm
	Slots  []Change `json:"slots"`  // instructions executed, by slot
	Ops    []Change `json:"ops"`    // cycles over all calls, by op
}

// Change is one figure of A and of B.
type Change struct {
	Name  string `json:"name"`
	A     int64  `json:"a"`
	B     int64  `json:"b"`
	Delta int64  `json:"delta"`            // B - A
	FullA string `json:"full_a,omitempty"` // of a slot: the share of its capacity that A fills
	FullB string `json:"full_b,omitempty"`
}

// Ratio returns B over A as text, or "-" if A is 0.
func (c Change) Ratio() string {
	if c.A == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f x", float64(c.B)/float64(c.A))
}

// Compare compares module b with module a.
func Compare(a, b *Explanation) *Comparison {
	return &Comparison{Totals: merge(totals(a.Report), totals(b.Report)), Stages: sorted(merge(stageRows(a), stageRows(b))),
		Slots: sorted(merge(slotRows(a.Report), slotRows(b.Report))), Ops: sorted(merge(opRows(a), opRows(b)))}
}

func totals(r *llo.Report) []Change {
	var stall, spills, fills int64
	for _, op := range r.Ops {
		stall += op.Calls * op.Stall
		spills += op.Calls * op.Spills
		fills += op.Calls * op.Fills
	}
	var list []Change
	if r.Wall.Unknown == "" {
		list = []Change{{Name: "in order", A: r.Wall.Cycles}}
	}
	return append(list, []Change{{Name: "issue", A: r.Cycles}, {Name: "bundles", A: r.Bundles}, {Name: "stall cycles", A: stall}, {Name: "MXU busy cycles", A: measure.MXUBusy(r)},
		{Name: "spills", A: spills}, {Name: "fills", A: fills}, {Name: "HBM bytes", A: r.HBMBytes}, {Name: "VMEM bytes", A: r.VMEM}}...)
}

func stageRows(e *Explanation) []Change {
	var list []Change
	for _, s := range e.Stages {
		list = append(list, Change{Name: s.File, A: measure.StageBy(e.Ruler, e.Report, s)})
	}
	return list
}

func slotRows(r *llo.Report) []Change {
	var list []Change
	capacity := map[string]int64{}
	for _, op := range r.Ops {
		for _, s := range op.Slots {
			i := slices.IndexFunc(list, func(c Change) bool { return c.Name == s.Name })
			if i < 0 {
				i = len(list)
				list = append(list, Change{Name: s.Name})
			}
			list[i].A += op.Calls * s.Used
			capacity[s.Name] += op.Calls * s.Capacity
		}
	}
	for i := range list {
		list[i].FullA = terminal.Percent(list[i].A, capacity[list[i].Name])
	}
	return list
}

func opRows(e *Explanation) []Change {
	var list []Change
	for _, op := range e.Report.Ops {
		list = append(list, Change{Name: op.Name, A: measure.OpBy(e.Ruler, e.Report, &op)})
	}
	return list
}

// merge pairs the figures of a and b by name.
func merge(a, b []Change) []Change {
	list := slices.Clone(a)
	for _, c := range b {
		i := slices.IndexFunc(list, func(o Change) bool { return o.Name == c.Name })
		if i < 0 {
			i = len(list)
			list = append(list, Change{Name: c.Name})
		}
		list[i].B, list[i].FullB = c.A, c.FullA
	}
	for i := range list {
		list[i].Delta = list[i].B - list[i].A
	}
	return list
}

// sorted orders by the size of the change.
func sorted(list []Change) []Change {
	size := func(c Change) int64 { return max(c.Delta, -c.Delta) }
	slices.SortStableFunc(list, func(x, y Change) int { return cmp.Or(cmp.Compare(size(y), size(x)), strings.Compare(x.Name, y.Name)) })
	return list
}

func (d *Comparison) write(w io.Writer, e *Explanation, top int) {
	fmt.Fprintf(w, "target    %s, by %s\n", e.Target, e.Compiler)
	if e.work > 0 {
		fmt.Fprintf(w, "A         %.2f %s cycles per token and value head\nB         %.2f %s\n", e.PerToken, e.Ruler, e.Against.PerToken, e.Against.Ruler)
	}
	for _, part := range []struct {
		head  string
		rows  []Change
		whole bool // all rows
	}{{"WHOLE", d.Totals, true}, {"STAGES BY " + e.heading(), d.Stages, false}, {"INSTRUCTIONS BY SLOT", d.Slots, true}, {"OPS BY " + e.heading(), d.Ops, false}} {
		fmt.Fprintln(w)
		heads := []string{part.head, ">A", ">B", ">B - A", ">B / A"}
		slots := len(part.rows) > 0 && part.rows[0].FullA+part.rows[0].FullB != ""
		if slots {
			heads = append(heads, ">FULL A", ">FULL B")
		}
		t := terminal.NewTable(heads...)
		for i, c := range part.rows {
			if i == top && !part.whole {
				t.Add(fmt.Sprintf("(%d more)", len(part.rows)-top))
				break
			}
			row := []any{c.Name, c.A, c.B, fmt.Sprintf("%+d", c.Delta), c.Ratio()}
			if slots {
				row = append(row, cmp.Or(c.FullA, "-"), cmp.Or(c.FullB, "-"))
			}
			t.Add(row...)
		}
		t.Write(w)
	}
}
