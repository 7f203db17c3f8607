package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ruler"
)

// Text writes the summary for a reader. top limits the rows of each ranking; 0 shows all.
func (s *Summary) Text(out io.Writer, top int) error {
	p := &printer{out: out}
	p.printf("%s\n%d candidates (%d structures with a cost on every target) in %v", s.Spec, s.Candidates, s.Cells, s.Elapsed().Round(100*time.Millisecond))
	if s.Candidates > 0 {
		p.printf(", %s", verdicts(s.Verdicts))
	}
	if s.Stopped != "" {
		p.printf("; %s", s.Stopped)
	}
	p.printf("\n")
	if s.Objective != "" {
		p.printf("objective %s: errors by class of inputs are those of docs/accuracy.md\n", s.Objective)
	}
	if s.Flight != "" {
		p.printf("judged %s\n", s.Flight)
	}
	for _, r := range s.Rankings {
		if s.Ruler == ruler.Modelled {
			p.printf("\n%s: cycles per token and value head, and microseconds, modelled from machine code (nothing ran on a GPU)\n", r.Target)
		} else {
			p.printf("\n%s: %s cycles per token and value head (static; nothing ran on a TPU)\n", r.Target, cmp.Or(r.Ruler, s.Ruler))
		}
		p.ranking(r.Rows, top)
		if r.Base != nil {
			p.printf("  %s\n", r.Base)
		}
		p.reasons("no cost on "+r.Target, r.Absent)
	}
	p.standings(s.Standings)
	p.portfolio(s.Portfolio, len(s.Targets))
	p.printf("\nimproved: the best when it was judged; close: %s of it. Error is the largest of its class of inputs, of limit its share of what is allowed.\n", journal.CloseText)
	p.reasons("\nrejected", s.Rejected)
	p.dead(s.Axes)
	p.nodes(s.Nodes)
	if len(s.Gates) > 0 {
		p.printf("\ntime by gate, %.1f candidates a minute", s.PerMinute)
		if s.CPU > 0 && s.Candidates > 0 {
			p.printf(", %.1f s of processor time each", s.CPU/float64(s.Candidates))
		}
		p.printf("\n")
		t := p.table()
		for _, g := range s.Gates {
			if g.Idle() {
				continue
			}
			fmt.Fprintf(t, "  %s\t%.1f s\t%d judged\t%d refused\n", g.Gate, g.Seconds, g.Reached, g.Refused)
		}
		p.flush(t)
	}
	return p.err
}

type printer struct {
	out io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

func (p *printer) table() *tabwriter.Writer { return tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0) }

func (p *printer) flush(t *tabwriter.Writer) {
	if err := t.Flush(); p.err == nil {
		p.err = err
	}
}

func (p *printer) reasons(title string, rows []Row) {
	if len(rows) == 0 {
		return
	}
	p.printf("%s\n", title)
	t := p.table()
	for _, r := range rows {
		fmt.Fprintf(t, "  #%d\t%s\t%s\t%s\n", r.ID, r.Verdict, Clip(r.Label(), 90), Clip(r.Reason, 200))
	}
	p.flush(t)
}

func (p *printer) ranking(rows []Row, top int) {
	if len(rows) == 0 {
		p.printf("  no candidate has a cost\n")
		return
	}
	t := p.table()
	timed := slices.ContainsFunc(rows, func(r Row) bool { return r.Runs != nil })
	head, memory, us := "", "VMEM", ""
	if timed {
		head = "device\t"
	}
	modelled := rows[0].Cost.RulerName() == ruler.Modelled
	if modelled {
		memory, us = "shared", "us\t"
	}
	fmt.Fprintf(t, "  rank\tcycles\t%sverdict\terror\tof limit\t%s\tspills\t%sid\tvariant\n", us, memory, head)
	for i, r := range rows {
		if top > 0 && i == top {
			fmt.Fprintf(t, "  ... %d more (--top 0 shows all)\n", len(rows)-top)
			break
		}
		cell := ""
		if timed {
			cell = measured(r.Runs) + "\t"
		}
		held := mib(r.Cost.VMEM)
		if modelled {
			us, held = fmt.Sprintf("%.1f\t", float64(r.Cost.Micros)), fmt.Sprintf("%.1f KiB", float64(r.Cost.VMEM)/1024)
		}
		fmt.Fprintf(t, "  %d\t%.2f\t%s%s\t%.1e\t%s\t%s\t%d\t%s#%d\t%s\n", i+1, float64(r.PerToken), us, r.Verdict, float64(r.Error),
			share(r.Error, r.Limit), held, r.Cost.Spills, cell, r.ID, Clip(r.Label(), 160))
	}
	p.flush(t)
}

func (p *printer) portfolio(l []Member, targets int) {
	if targets < 2 || len(l) == 0 {
		return
	}
	p.printf("\nportfolio: the fewest candidates within %.0f %% of the best on every target\n", 100*journal.PortfolioWithin)
	t := p.table()
	for _, m := range l {
		fmt.Fprintf(t, "  #%d\t%s\t%.3f x the best at most\t%s\n", m.ID, strings.Join(m.Targets, " "), float64(m.Ratios), short(m.Variant))
	}
	p.flush(t)
}

func (p *printer) dead(l []AxisFact) {
	for _, f := range l {
		if f.Dead {
			p.printf("dead axis: %s was moved %d times and never changed a schedule\n", f.Axis, f.Moves)
		}
	}
}

// named is the text of a variant, or of a candidate that is none.
func named(variant string) string {
	if variant == "" {
		return "(text of a program)"
	}
	return variant
}

// measured is the time on a device, against the champion of its time.
func measured(r *journal.Timing) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g ms, %.2f [%.2f, %.2f] x #%d", 1e3*r.Seconds, r.Ratio, r.Low, r.High, r.Against)
}

// share is the error as a part of its limit.
func share(e, limit journal.Figure) string {
	if limit == 0 {
		return "-"
	}
	if u := float64(e / limit); !math.IsNaN(u) {
		return fmt.Sprintf("%.0f %%", 100*u)
	}
	return "not finite"
}

func mib(bytes int64) string {
	if bytes < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// verdicts lists the counts that are not zero, best verdict first.
func verdicts(count map[journal.Verdict]int) string {
	var parts []string
	for _, v := range journal.Verdicts {
		if n := count[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(parts, ", ")
}

// Clip shortens a text to one line of at most n characters.
func Clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}
