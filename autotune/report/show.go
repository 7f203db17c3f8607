package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/internal/terminal"
)

// WriteCandidates prints a line for each candidate of a run.
func WriteCandidates(w io.Writer, s *journal.State) {
	heads := []string{">ID", ">PARENT", "VERDICT"}
	for _, t := range s.Header.Targets {
		heads = append(heads, ">"+t)
	}
	t := terminal.NewTable(append(heads, "CAUSE", "CHANGE OR VARIANT")...)
	for _, c := range s.Now().Candidates() {
		row := []any{c.ID, c.Parent, c.Verdict}
		for _, name := range s.Header.Targets {
			text := "-"
			if k := c.Cost(name); k != nil {
				text = fmt.Sprintf("%.3f", float64(k.PerToken))
			}
			row = append(row, text)
		}
		what := strings.Join(c.Change, " ")
		if what == "" {
			what = c.Variant
		}
		t.Add(append(row, c.Cause, what)...)
	}
	t.Write(w)
}

// inOrder formats in-order cycles; empty if unknown.
func inOrder(cycles int64) string {
	if cycles == 0 {
		return "?"
	}
	return fmt.Sprint(cycles)
}

// WriteCandidate prints everything recorded about a candidate.
func WriteCandidate(w io.Writer, s *journal.State, c *journal.Candidate) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("candidate", "%d of %d, parent %d", c.ID, s.Len(), c.Parent)
	line("variant", "%s", c.Variant)
	line("hypothesis", "%s", c.Hypothesis)
	line("expected", "%.1f %% less, risk %.0f %%", 100*float64(c.Gain), 100*float64(c.Risk))
	for _, o := range c.Shortlist {
		line("", "  weighed: %s on #%d, %.1f %% less, risk %.0f %%", o.Change, o.Parent, 100*float64(o.Gain), 100*float64(o.Risk))
	}
	line("change", "%s", strings.Join(c.Change, " "))
	if bets, compared := s.Now().BetsOf(c); compared {
		line("bet", "%s", cmp.Or(strings.Join(bets, "; "), "none"))
	}
	if c.Next != "" {
		line("next", "%s", c.Next)
	}
	line("verdict", "%s at %s: %s", c.Verdict, c.Gate, c.Reason)
	if c.Cause != "" {
		line("cause", "%s: %s", c.Cause, c.Evidence)
	}
	line("again", "%s", Command(s.Header, c))
	for _, k := range c.Costs {
		if k.Verdict != "" {
			line("cost", "%s: %s (%s)", k.Target, k.Verdict, k.Reason)
			continue
		}
		line("cost", "%s: %.3f %s cycles per token and value head; %d issue cycles, %s in order, %d of HBM; %d spills, %s of VMEM; %s %.0f %% full", k.Target, float64(k.PerToken), k.RulerName(), k.Cycles, inOrder(k.Wall), k.HBM, k.Spills, terminal.Size(k.VMEM), k.Slot, 100*float64(k.Fill))
		for _, st := range k.Stages {
			line("", "  %-12s %9d", st.Name, st.Cycles)
		}
	}
	for _, e := range c.Errors {
		line("error", "%-12s %-8s %s %s %.2g of %.2g", e.Class, e.Engine, e.Output, cmp.Or(e.Kind, "max"), float64(e.Error), float64(e.Limit))
	}
	if t := s.Times()[c.ID-1]; t.Runs != nil {
		line("device", "%s: %.3g ms, %.3f [%.3f, %.3f] x candidate %d, %d pairs", t.Runs.Device, 1e3*t.Runs.Seconds, t.Runs.Ratio, t.Runs.Low, t.Runs.High, t.Runs.Against, t.Runs.Pairs)
		if t.Runs.Others != "" {
			line("", "%s", t.Runs.Others)
		}
	}
	for _, n := range c.Notes {
		line("note", "%s", n)
	}
	for _, n := range s.NotesOf(c.ID) {
		line("elsewhere", "%s", n.String())
	}
	for _, role := range slices.Sorted(maps.Keys(c.Objects)) {
		line("object", "%-14s %s", role, c.Objects[role])
	}
}
