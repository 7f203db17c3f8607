package results

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// Champion is the cheapest correct candidate of a row on a target.
type Champion struct {
	Target   string        `json:"target"`
	Name     string        `json:"name,omitempty"` // of the candidate; empty if none is correct
	Text     string        `json:"text,omitempty"` // of the candidate, in the form of --variant
	Variant  string        `json:"variant,omitempty"`
	Ruler    ruler.Ruler   `json:"ruler,omitempty"`                 // unit of the ranking on the target
	PerToken float64       `json:"cycles_per_token_head,omitempty"` // by the ruler
	Issued   float64       `json:"issue_per_token_head,omitempty"`
	HBMRatio float64       `json:"hbm_ratio,omitempty"` // HBM traffic over the necessary; 0: unknown
	Cost     *measure.Cost `json:"cost,omitempty"`
	Errors   []check.Row   `json:"errors,omitempty"`   // in the form of gdngen check
	Rejected []string      `json:"rejected,omitempty"` // candidates left out, with the reason
}

// cell returns a champion's figure: in-order cycles, with issue cycles in brackets; only issue cycles if in-order cycles are unknown.
func (c *Champion) cell() string { return figure("%.2f", c.Ruler, c.PerToken, c.Issued) }

// figure formats cycles by a ruler, with the issue cycles.
func figure(format string, by ruler.Ruler, cycles, issued float64) string {
	if by == ruler.Issue {
		return fmt.Sprintf("("+format+")", cycles)
	}
	return fmt.Sprintf(format+" ("+format+")", cycles, issued)
}

// Result is a row of the plan with its champion on each target.
type Result struct {
	Row
	Champions []*Champion `json:"champions"`
}

// Table has the results of the page docs/data/results.md: a row for each spec, with its cheapest variants by target.
type Table struct {
	Compiler   string      `json:"compiler"`
	Revision   string      `json:"revision,omitempty"` // of gdngen, if the build knows it
	Note       string      `json:"note"`
	Classes    []string    `json:"classes"`
	Rows       []Result    `json:"rows"`
	Candidates []Candidate `json:"candidates"`
	Front      *Front      `json:"front,omitempty"`
	Missed     []string    `json:"missed"` // unmet requirements, in words
	Peers      []Peer      `json:"peers,omitempty"`
}

// Text returns the table as JSON if data, else as a page of Markdown.
func (r *Table) Text(data bool) ([]byte, error) {
	var b bytes.Buffer
	if !data {
		r.markdown(&b)
		return b.Bytes(), nil
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return b.Bytes(), err
}

// Make finds the champions, and calls show with the table so far after each row.
func (l *Maker) Make(ctx context.Context, p *Plan, targets []*target.Target, show func(*Table) error) (*Table, error) {
	r := &Table{Compiler: l.Compiler, Revision: l.Revision, Note: measure.StaticNote, Classes: p.Classes, Peers: p.Peers, Missed: []string{}}
	for i := range p.Rows {
		row := &p.Rows[i]
		out := Result{Row: *row}
		list := p.candidatesFor(row)
		for _, c := range list {
			if !slices.ContainsFunc(r.Candidates, func(o Candidate) bool { return o.Name == c.Name && o.Variant == c.Variant }) {
				c.Targets = ""
				r.Candidates = append(r.Candidates, c)
			}
		}
		w := l.work(p.Classes)
		for _, t := range only(targets, row.Targets) {
			start := time.Now()
			best, err := w.champion(ctx, row, list, t)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", row.Title, t.Name, err)
			}
			l.Note("[%d/%d] %s, %s: %s %.3f (%.0f s)", i+1, len(p.Rows), row.Title, t.Name, cmp.Or(best.Name, "none"), best.PerToken, time.Since(start).Seconds())
			out.Champions = append(out.Champions, best)
		}
		r.Rows = append(r.Rows, out)
		r.require()
		if err := show(r); err != nil {
			return nil, err
		}
	}
	if p.Front != nil {
		var err error
		if r.Front, err = l.work(p.Classes).front(ctx, p.Front, targets); err != nil {
			return nil, err
		}
	}
	return r, show(r)
}

// by returns the row that a row's cycles are compared with.
func (r *Table) by(row *Result) *Result {
	for i := range r.Rows {
		if r.Rows[i].Title == row.Of {
			return &r.Rows[i]
		}
	}
	return &r.Rows[0]
}

// on returns the champion of a row on a target.
func (row *Result) on(target string) *Champion {
	for _, c := range row.Champions {
		if c.Target == target {
			return c
		}
	}
	return &Champion{}
}

// only keeps the targets that a list names; an empty list keeps all.
func only(targets []*target.Target, names string) []*target.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t *target.Target) bool {
		return names != "" && !slices.Contains(strings.Split(names, ","), t.Name)
	})
}

// Maker measures the programs of a Table.
type Maker struct {
	Instrument *measure.Instrument
	Compiler   string // name and version
	Revision   string // of gdngen; empty: unknown
	Note       func(format string, args ...any)
}

// work is one row; its candidates share compiled programs.
type work struct {
	*Maker
	classes []string
	forms   measure.Forms
}

func (l *Maker) work(classes []string) *work { return &work{Maker: l, classes: classes} }

// trial is a candidate resolved for a row and a target.
type trial struct {
	Candidate
	*route.Form
}

func newTrial(s gdn.Spec, c Candidate, t *target.Target) (*trial, error) {
	f, err := route.Resolve(s, c.Variant, t, nil)
	if err != nil {
		return nil, err
	}
	return &trial{c, f}, nil
}

// champion costs the candidates of a row on a target and returns the cheapest correct one.
func (w *work) champion(ctx context.Context, row *Row, candidates []Candidate, t *target.Target) (*Champion, error) {
	best := &Champion{Target: t.Name}
	type entry struct {
		*trial
		cost        *measure.Cost
		took, score int64
	}
	var list []entry
	for _, c := range candidates {
		if len(only([]*target.Target{t}, c.Targets)) == 0 {
			continue
		}
		try, err := newTrial(row.spec, c, t)
		if err != nil {
			best.Rejected = append(best.Rejected, c.Name+": "+err.Error())
			continue
		}
		cost, err := w.forms.Cost(ctx, w.Instrument, try.Form, t)
		if err != nil {
			return nil, err
		}
		took, refused := cost.By(ruler.InOrder, t.Name)
		if refused != "" {
			best.Rejected = append(best.Rejected, try.Name+": "+refused)
			continue
		}
		list = append(list, entry{try, cost, took, measure.Score(took, cost.HBMBytes, row.spec, t)})
	}
	slices.SortStableFunc(list, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.took, y.took), cmp.Compare(x.cost.Cycles, y.cost.Cycles))
	})
	for _, e := range list {
		errs, err := e.errors(ctx, w.Instrument.Cache, row.Field)
		if err != nil {
			return nil, err
		}
		if why := refused(errs); why != "" {
			best.Rejected = append(best.Rejected, e.Name+": "+why)
			continue
		}
		best.Name, best.Text, best.Variant, best.Cost, best.Errors = e.Name, e.Candidate.Variant, e.Form.Variant.String(), e.cost, errs
		work := float64(row.spec.Work())
		best.Ruler, best.PerToken, best.Issued = ruler.InOrder.On(t.Name), float64(e.took)/work, float64(e.cost.Cycles)/work
		if e.cost.HBMBytes >= 0 {
			best.HBMRatio = float64(e.cost.HBMBytes) / float64(row.spec.NecessaryBytes())
		}
		return best, nil
	}
	return best, nil
}

// maxHBMRatio is the default limit on a champion's traffic, as a multiple of the necessary.
const maxHBMRatio = 1.3

// require lists the requirements that champions do not meet.
func (r *Table) require() {
	r.Missed = []string{}
	for i := range r.Rows {
		row := &r.Rows[i]
		by, traffic := r.by(row), cmp.Or(row.Traffic, maxHBMRatio)
		for _, c := range row.Champions {
			first := by.on(c.Target)
			switch {
			case c.Name == "":
				r.Missed = append(r.Missed, fmt.Sprintf("%s on %s: no candidate will do", row.Title, c.Target))
				continue
			case row.Within > 0 && first.PerToken > 0 && c.PerToken > row.Within*first.PerToken:
				r.Missed = append(r.Missed, fmt.Sprintf("%s on %s: %.2f x the cycles per token of %s, more than %.2f x", row.Title, c.Target, c.PerToken/first.PerToken, within(by.Title), row.Within))
			}
			if c.HBMRatio > traffic {
				r.Missed = append(r.Missed, fmt.Sprintf("%s on %s: %.2f x the necessary HBM traffic, more than %.1f x", row.Title, c.Target, c.HBMRatio, traffic))
			}
		}
	}
}

// within returns a title with a small first letter.
func within(title string) string { return strings.ToLower(title[:1]) + title[1:] }
