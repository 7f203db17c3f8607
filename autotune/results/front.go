package results

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// FrontPlan selects the candidates and targets of the front of cycles and errors.
type FrontPlan struct {
	Spec       string      `json:"spec"`
	Targets    string      `json:"targets,omitempty"` // targets of the table to include; empty: all
	Candidates []Candidate `json:"candidates"`

	spec gdn.Spec
}

func (f *FrontPlan) parse() (err error) {
	if f.spec, err = gdn.Parse(f.Spec); err == nil {
		_, err = target.Parse(cmp.Or(f.Targets, "all"))
	}
	if err != nil {
		err = fmt.Errorf("front: %w", err)
	}
	return err
}

// Front lists each candidate's cycles and errors on one spec.
type Front struct {
	Spec    string   `json:"spec"`
	Targets []string `json:"targets"`
	Points  []Point  `json:"points"`
}

// Point is a candidate: its errors, and for each target its cycles and whether it is on the front: no other has both
// fewer cycles and a smaller worst error.
type Point struct {
	Name      string         `json:"name"`
	Text      string         `json:"text"`
	Precision string         `json:"precision"`
	PerToken  []float64      `json:"cycles_per_token_head"` // in-order, if known for the target; 0: refused
	Best      []bool         `json:"on_front"`
	Worst     journal.Figure `json:"worst_error"` // largest rms over the classes shown
	Errors    []check.Row    `json:"errors"`
}

// front costs the candidates of a front on each target, and measures their errors.
func (w *work) front(ctx context.Context, f *FrontPlan, targets []*target.Target) (*Front, error) {
	out := &Front{Spec: f.Spec}
	targets = only(targets, f.Targets)
	for _, t := range targets {
		out.Targets = append(out.Targets, t.Name)
	}
	for i, c := range f.Candidates {
		start := time.Now()
		var err error
		if c.variant, err = c.about(f.spec); err != nil {
			return nil, err
		}
		p := Point{Name: c.Name, Text: c.Variant, Precision: c.variant.Precision().String()}
		for _, t := range targets {
			try, err := newTrial(f.spec, c, t)
			if err != nil {
				return nil, err
			}
			cost, err := w.forms.Cost(ctx, w.Instrument, try.Form, t)
			if err != nil {
				return nil, fmt.Errorf("front, %s on %s: %w", c.Name, t.Name, err)
			}
			took, _ := cost.By(ruler.InOrder, t.Name)
			p.PerToken = append(p.PerToken, float64(took)/float64(f.spec.Work()))
			if p.Errors == nil {
				if p.Errors, err = try.errors(ctx, w.Instrument.Cache, false); err != nil {
					return nil, err
				}
			}
		}
		p.Worst = worstRMS(p.Errors, w.classes)
		out.Points = append(out.Points, p)
		w.Note("[front %d/%d] %s (%.0f s)", i+1, len(f.Candidates), c.Name, time.Since(start).Seconds())
	}
	out.mark()
	return out, nil
}

// mark marks the points of the front.
func (f *Front) mark() {
	for i := range f.Points {
		p := &f.Points[i]
		p.Best = make([]bool, len(f.Targets))
		for k := range f.Targets {
			p.Best[k] = p.PerToken[k] > 0 && !slices.ContainsFunc(f.Points, func(q Point) bool {
				return q.PerToken[k] > 0 && q.PerToken[k] <= p.PerToken[k] && q.Worst <= p.Worst && (q.PerToken[k] < p.PerToken[k] || q.Worst < p.Worst)
			})
		}
	}
}

const frontTitle = "## Cycles against error"

func (f *Front) markdown(b *bytes.Buffer, classes []string) {
	fmt.Fprintf(b, "%s\n\n`%s`. In-order cycles, and issue cycles of targets whose latencies are not known. In bold what no other candidate beats in both cycles on that target and the worst error of all classes.\n\n| variant | class |", frontTitle, f.Spec)
	for _, t := range f.Targets {
		fmt.Fprintf(b, " %s |", t)
	}
	b.WriteString(" worst |")
	for _, c := range classes {
		fmt.Fprintf(b, " %s |", c)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(f.Targets)+1+len(classes)) + "\n")
	for i := range f.Points {
		b.WriteString(f.Points[i].markdown(classes) + "\n")
	}
	b.WriteString("\n")
}

// markdown returns the line of a candidate.
func (p *Point) markdown(classes []string) string {
	line := fmt.Sprintf("| `%s` | %s |", p.Text, p.Precision)
	for k, n := range p.PerToken {
		cell := "-"
		switch {
		case p.Best[k]:
			cell = fmt.Sprintf("**%.2f**", n)
		case n > 0:
			cell = fmt.Sprintf("%.2f", n)
		}
		line += fmt.Sprintf(" %s |", cell)
	}
	return line + fmt.Sprintf(" %s |%s", errorText(float64(p.Worst)), errorCells(p.Errors, classes))
}

// errorCells returns a cell for each class; empty if the spec does not support it.
func errorCells(rows []check.Row, classes []string) string {
	var b strings.Builder
	for _, name := range classes {
		cell := ""
		if off, ok := rmsOf(rows, name); ok {
			cell = errorText(off)
		}
		fmt.Fprintf(&b, " %s |", cell)
	}
	return b.String()
}

func errorText(e float64) string {
	if math.IsNaN(e) || math.IsInf(e, 0) {
		return "none"
	}
	return fmt.Sprintf("%.1e", e)
}
