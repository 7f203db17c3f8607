package ladder

import (
	"fmt"
	"io"

	"github.com/gdngen/gdngen/internal/terminal"
)

// Write prints a row for each rung, and the decision.
func (c *Climb) Write(w io.Writer) {
	by := "static cost: nothing ran"
	if c.Config.Device != "" {
		by = "times on " + c.Config.Device
	}
	fmt.Fprintf(w, "kernel     %s on %s, by %s\nbase       %s\ncandidate  %s\n\n", c.Config.Kernel, c.Config.Target, by, c.Config.Base, c.Config.Variant)
	t := terminal.NewTable("RUNG", ">BASE", ">CANDIDATE", "UNIT", ">LESS", ">MFU", "", ">MFU", "OUTCOME")
	for _, r := range c.Rungs {
		f := r.Figures
		if r.Kind == Correct { // the next rung shows the figures
			t.Add(r.Rung, "-", "-", "", "", "", "", "", r.Outcome)
			continue
		}
		less := "-"
		if f.Ratio > 0 {
			less = fmt.Sprintf("%.1f %%", 100*f.Gain())
		}
		if f.Pairs > 0 {
			less += fmt.Sprintf(" [%.1f, %.1f]", 100*(1-f.High), 100*(1-f.Low))
		}
		t.Add(r.Rung, f.text(f.Base.Score), f.text(f.Candidate.Score), f.unit(), less, share(f.Base.MFU), arrow(f), share(f.Candidate.MFU), r.Outcome)
	}
	t.Write(w)
	fmt.Fprintln(w)
	if c.Missing != "" {
		fmt.Fprintf(w, "missing    %s\n", c.Missing)
	}
	fmt.Fprintf(w, "decision   %s; %s\n", c.Decision, c.Reason)
	if c.Goal != "" {
		fmt.Fprintf(w, "goal       %s\n", c.Goal)
	}
	last := c.Last()
	fmt.Fprintf(w, "look       %s\nrecord     %s/%s\n", last.Command, c.Dir, JournalName)
	for _, r := range c.Rungs {
		for _, note := range r.Figures.Notes {
			fmt.Fprintf(w, "note       %s: %s\n", r.Rung, note)
		}
	}
}

func arrow(f *Figures) string {
	if f.Base.MFU > 0 {
		return "->"
	}
	return ""
}

// text formats a score per token and value head if Tokens is set, else as it is.
func (f *Figures) text(score int64) string {
	switch {
	case score == 0:
		return "-"
	case f.Tokens > 0:
		return fmt.Sprintf("%.3f", float64(score)/float64(f.Tokens))
	}
	return fmt.Sprint(score)
}

func (f *Figures) unit() string {
	if f.Tokens > 0 {
		return f.Unit + " per token and value head"
	}
	return f.Unit
}

func share(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}
