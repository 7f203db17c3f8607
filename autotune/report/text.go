package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Text writes the summary for a reader. top limits the rows of each ranking; 0 shows all.
func (s *Summary) Text(out io.Writer, top int) error {
	p := &printer{out: out}
	p.printf("%s\n%d candidates (%d structures with a cost on every target) in %v, %s", s.Spec, s.Candidates, s.Cells,
		s.Elapsed().Round(100*time.Millisecond), verdicts(s.Verdicts))
	if s.Stopped != "" {
		p.printf("; %s", s.Stopped)
	}
	p.printf("\n")
	for _, r := range s.Rankings {
		p.printf("\n%s: cycles per token and value head (static; nothing ran on a TPU)\n", r.Target)
		p.ranking(r.Rows, top)
		p.reasons("no cost on "+r.Target, r.Absent)
	}
	p.reasons("\nrejected", s.Rejected)
	if len(s.Gates) > 0 {
		p.printf("\ntime by gate, %.1f candidates a minute\n", s.PerMinute)
		t := p.table()
		for _, g := range s.Gates {
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
		fmt.Fprintf(t, "  #%d\t%s\t%s\t%s\n", r.ID, r.Verdict, clip(r.Variant, 90), clip(r.Reason, 200))
	}
	p.flush(t)
}

func (p *printer) ranking(rows []Row, top int) {
	if len(rows) == 0 {
		p.printf("  no candidate has a cost\n")
		return
	}
	t := p.table()
	fmt.Fprintf(t, "  rank\tcycles\tverdict\terror\tof limit\tVMEM\tspills\tid\tvariant\n")
	for i, r := range rows {
		if top > 0 && i == top {
			fmt.Fprintf(t, "  ... %d more\n", len(rows)-top)
			break
		}
		fmt.Fprintf(t, "  %d\t%.2f\t%s\t%.1e\t%s\t%s\t%d\t#%d\t%s\n", i+1, float64(r.PerToken), r.Verdict, float64(r.Error),
			share(r.Error, r.Limit), mib(r.Cost.VMEM), r.Cost.Spills, r.ID, r.Variant)
	}
	p.flush(t)
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

// clip shortens a text to one line of at most n characters.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}
