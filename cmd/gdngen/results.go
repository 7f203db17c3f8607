package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/measure"
)

// resultsTable is the table that is made when no other is given.
//
//go:embed results.json
var resultsTable []byte

// resultsPlan says what the table of results holds: rows of work, and candidates to compute each with.
type resultsPlan struct {
	Classes    []string          `json:"classes"` // of inputs, by which a champion is judged
	Candidates []resultCandidate `json:"candidates"`
	Rows       []resultRow       `json:"rows"` // the first is what others are measured by
	Front      *resultFront      `json:"front,omitempty"`
	Peers      []resultPeer      `json:"peers,omitempty"`
}

// resultCandidate is a variant that may be the champion of a row.
type resultCandidate struct {
	Name    string `json:"name"`
	Variant string `json:"variant"`           // auto is the best known for row and target
	Targets string `json:"targets,omitempty"` // as --target takes them; empty: all

	variant gdn.Variant // of auto that of a row
}

// resultRow is one piece of work.
type resultRow struct {
	Title      string            `json:"title"`
	Spec       string            `json:"spec"`
	Precision  string            `json:"precision"`            // of the candidates' matrix products; empty: any
	Targets    string            `json:"targets,omitempty"`    // those of the table that it is computed for; empty: all
	Of         string            `json:"of,omitempty"`         // title of the row that its cycles are measured by; empty: the first
	Within     float64           `json:"within,omitempty"`     // most cycles per token and head, as a multiple of that row's
	Traffic    float64           `json:"traffic,omitempty"`    // most main memory traffic, as a multiple of the necessary; 0: 1.3
	Field      bool              `json:"field,omitempty"`      // gradients are held to the limits of flash-linear-attention on every class
	Candidates []resultCandidate `json:"candidates,omitempty"` // in place of the plan's
	Also       []resultCandidate `json:"also,omitempty"`       // beside the plan's

	spec gdn.Spec
}

// champion is the cheapest candidate of a row on a target whose numbers are right.
type champion struct {
	Target   string       `json:"target"`
	Name     string       `json:"name,omitempty"` // of the candidate; empty where none will do
	Text     string       `json:"text,omitempty"` // of the candidate, as --variant takes it
	Variant  string       `json:"variant,omitempty"`
	PerToken float64      `json:"cycles_per_token_head,omitempty"`
	HBMRatio float64      `json:"hbm_ratio,omitempty"` // main memory traffic over the necessary; 0 where not known
	Cost     *resultCost  `json:"cost,omitempty"`
	Errors   []classError `json:"errors,omitempty"`
	Rejected []string     `json:"rejected,omitempty"` // candidates that will not do, with the reason
}

// classError is the largest error of a class of inputs, over the outputs.
type classError struct {
	Class string  `json:"class"`
	Error float64 `json:"error"`
	Limit float64 `json:"limit"`
}

// rowResult is a row with its champions.
type rowResult struct {
	resultRow
	Champions []*champion `json:"champions"`
}

// results is the whole table.
type results struct {
	Compiler   string            `json:"compiler"`
	Revision   string            `json:"revision,omitempty"` // of gdngen, where the build knows it
	Note       string            `json:"note"`
	Classes    []string          `json:"classes"`
	Rows       []rowResult       `json:"rows"`
	Candidates []resultCandidate `json:"candidates"`
	Front      *front            `json:"front,omitempty"`
	Missed     []string          `json:"missed"` // requirements, in words
	Peers      []resultPeer      `json:"peers,omitempty"`
}

func (a *app) resultsCmd() *cobra.Command {
	var target, table, file string
	var fresh bool
	c := &cobra.Command{
		Use:   "results",
		Short: "Make the table of the cheapest variants, by target and shape",
		Long: `results compiles candidates for each target and piece of work of a table, and names the champion: the one of least static cycles whose
numbers are within the limits of every class of inputs, as the interpreter computes them from the lowered kernel at fewer tokens. The
same table and compiler give the same file. The file is written anew after each work. What was computed once is kept in the cache, by
the hash of the program, so that a run that was interrupted goes on where it was.`,
		Example: "  gdngen results -o docs/results.md\n  gdngen results --target v6e --table rows.json -o results.json",
		GroupID: "work",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			targets, err := parseTargets(target)
			if err != nil {
				return err
			}
			data := resultsTable
			if table != "" {
				if data, err = a.readInput(table); err != nil {
					return err
				}
			}
			plan, err := parsePlan(data)
			if err != nil {
				return usage(fmt.Errorf("%s: %w", cmp.Or(table, "table of results"), err))
			}
			if table == "" {
				measured, err := measuredPeers(peersTable)
				if err != nil {
					return err
				}
				plan.Peers = append(measured, plan.Peers...)
			}
			if file != "" && file != "-" {
				if err := store.Writable(file); err != nil {
					return err
				}
			}
			write := func(r *results) error {
				if file == "" || file == "-" {
					return nil
				}
				text, err := r.text(strings.HasSuffix(file, ".json"))
				if err != nil {
					return err
				}
				return store.WriteFile(file, text)
			}
			r, err := a.results(plan, targets, fresh, write)
			if err != nil || file != "" && file != "-" {
				return err
			}
			text, err := r.text(false)
			if err == nil {
				_, err = a.stdout.Write(text)
			}
			return err
		},
	}
	c.Flags().StringVar(&target, "target", "all", "TPU generations, separated by commas, or all (see gdngen targets)")
	complete(c, "target", append(targetNames(), "all"))
	c.Flags().StringVar(&table, "table", "", "rows and candidates, in place of those built in; - is standard input")
	c.Flags().StringVarP(&file, "output", "o", "", "write to this file, data where it ends in .json; standard output without")
	c.Flags().BoolVar(&fresh, "fresh", false, "take nothing from the cache")
	return c
}

// parsePlan reads and checks a table.
func parsePlan(data []byte) (*resultsPlan, error) {
	var p resultsPlan
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, gdn.JSONError(data, err)
	}
	if len(p.Rows) == 0 {
		return nil, errors.New("there are no rows")
	}
	for _, name := range p.Classes {
		if _, err := gdn.LookupClass(name); err != nil {
			return nil, err
		}
	}
	lists := [][]resultCandidate{p.Candidates}
	titles := map[string]bool{"": true}
	if p.Front != nil {
		if err := p.Front.parse(); err != nil {
			return nil, err
		}
		lists = append(lists, p.Front.Candidates)
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		var err error
		if row.spec, err = gdn.Parse(row.Spec); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Title, err)
		}
		if row.Precision != "" {
			if _, err := ir.ParsePrecision(row.Precision); err != nil {
				return nil, fmt.Errorf("row %q: %w", row.Title, err)
			}
		}
		if _, err := parseTargets(cmp.Or(row.Targets, "all")); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Title, err)
		}
		if !titles[row.Of] {
			return nil, fmt.Errorf("row %q: it is measured by %q, and no row before it has that title", row.Title, row.Of)
		}
		titles[row.Title] = true
		lists = append(lists, row.Candidates, row.Also)
	}
	for _, list := range lists {
		for i := range list {
			c := &list[i]
			var err error
			if err = checkText(c.Variant); err != nil {
				return nil, fmt.Errorf("candidate %q: %w", c.Name, err)
			}
			if _, err := parseTargets(cmp.Or(c.Targets, "all")); err != nil {
				return nil, fmt.Errorf("candidate %q: %w", c.Name, err)
			}
		}
	}
	return &p, nil
}

// candidatesFor lists what a row is computed with.
func (p *resultsPlan) candidatesFor(row *resultRow) []resultCandidate {
	all := slices.Concat(p.Candidates, row.Also)
	if len(row.Candidates) > 0 {
		all = row.Candidates
	}
	var list []resultCandidate
	for _, c := range all {
		var err error
		if c.variant, err = c.about(row.spec); err == nil && (row.Precision == "" || c.variant.Precision().String() == row.Precision) {
			list = append(list, c)
		}
	}
	return list
}

// about is the variant of a candidate on a spec, whatever the target: of auto the form that is asked first on matrix units of 256 rows.
func (c *resultCandidate) about(s gdn.Spec) (gdn.Variant, error) {
	if _, ok := gdn.ParseAuto(c.Variant); !ok {
		return gdn.ParseVariant(c.Variant)
	}
	choices, err := gdn.Choices(c.Variant, s, gdn.HostTPU, gdn.Machine{Cores: 1, MXUSize: 256})
	if err != nil {
		return gdn.Variant{}, err
	}
	return choices[0].Variant, nil
}

// text renders the table, as data or as a page.
func (r *results) text(data bool) ([]byte, error) {
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

// results finds the champions, and shows what it has after each piece of work.
func (a *app) results(p *resultsPlan, targets []*codegen.Target, fresh bool, show func(*results) error) (*results, error) {
	x, err := a.instrument(fresh)
	if err != nil {
		return nil, err
	}
	r := &results{Compiler: versionOf(a.tpu), Note: staticNote, Classes: p.Classes, Peers: p.Peers, Missed: []string{}}
	_, r.Revision = version()
	l := &lab{app: a, Instrument: x, classes: p.Classes}
	for i := range p.Rows {
		row := &p.Rows[i]
		out := rowResult{resultRow: *row}
		list := p.candidatesFor(row)
		for _, c := range list {
			if !slices.ContainsFunc(r.Candidates, func(o resultCandidate) bool { return o.Name == c.Name && o.Variant == c.Variant }) {
				c.Targets = ""
				r.Candidates = append(r.Candidates, c)
			}
		}
		l.trials = nil
		for _, t := range only(targets, row.Targets) {
			start := time.Now()
			best, err := l.champion(row, list, t)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", row.Title, t.Name, err)
			}
			a.note("[%d/%d] %s, %s: %s %.3f (%.0f s)", i+1, len(p.Rows), row.Title, t.Name, cmp.Or(best.Name, "none"), best.PerToken, time.Since(start).Seconds())
			out.Champions = append(out.Champions, best)
		}
		r.Rows = append(r.Rows, out)
		r.require()
		if err := show(r); err != nil {
			return nil, err
		}
	}
	if p.Front != nil {
		l.trials = nil
		if r.Front, err = l.front(p.Front, targets); err != nil {
			return nil, err
		}
	}
	return r, show(r)
}

// by is the row that a row's cycles are measured by.
func (r *results) by(row *rowResult) *rowResult {
	for i := range r.Rows {
		if r.Rows[i].Title == row.Of {
			return &r.Rows[i]
		}
	}
	return &r.Rows[0]
}

// on is the champion of a row on a target.
func (row *rowResult) on(target string) *champion {
	for _, c := range row.Champions {
		if c.Target == target {
			return c
		}
	}
	return &champion{}
}

// only keeps the targets that a list names; an empty one names all.
func only(targets []*codegen.Target, names string) []*codegen.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t *codegen.Target) bool {
		return names != "" && !slices.Contains(strings.Split(names, ","), t.Name)
	})
}

// lab is what costs and errors are computed with.
type lab struct {
	*app
	*measure.Instrument
	classes []string
	trials  []*trial // of the work at hand
}

// trial gives a candidate for the work and the target.
func (l *lab) trial(s gdn.Spec, c resultCandidate, t *codegen.Target) (*trial, error) {
	f, err := lower.Suit(s, c.Variant, t)
	if err != nil {
		return nil, fmt.Errorf("candidate %q: %w", c.Name, err)
	}
	i := slices.IndexFunc(l.trials, func(o *trial) bool { return o.Name == c.Name && o.variant == f.Variant })
	if i < 0 {
		i = len(l.trials)
		c.variant = f.Variant
		l.trials = append(l.trials, newTrial(f, c))
	}
	return l.trials[i], nil
}

// champion costs the candidates of a row on a target and takes the cheapest whose numbers are right.
func (l *lab) champion(row *resultRow, candidates []resultCandidate, t *codegen.Target) (*champion, error) {
	best := &champion{Target: t.Name}
	type entry struct {
		*trial
		cost  *resultCost
		score int64
	}
	var list []entry
	for _, c := range candidates {
		if len(only([]*codegen.Target{t}, c.Targets)) == 0 {
			continue
		}
		try, err := l.trial(row.spec, c, t)
		if err != nil {
			return nil, err
		}
		cost, err := try.cost(l.ctx, l.Instrument, t)
		if err != nil {
			return nil, err
		}
		if cost.Refused != "" {
			best.Rejected = append(best.Rejected, try.Name+": "+cost.Refused)
			continue
		}
		list = append(list, entry{try, cost, measure.Score(cost.Cycles, cost.HBMBytes, row.spec, t)})
	}
	slices.SortStableFunc(list, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.cost.Cycles, y.cost.Cycles))
	})
	for _, e := range list {
		errs, err := await(l.app, func() ([]classError, error) { return e.errors(l.Cache, l.classes, row.Field) })
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(errs, func(c classError) bool { return !(c.Error <= c.Limit) }); i >= 0 {
			off := fmt.Sprintf("off by %.2e", errs[i].Error)
			if errs[i].Error == maxError {
				off = "no number"
			}
			best.Rejected = append(best.Rejected, fmt.Sprintf("%s: %s on %s, %.2g is allowed", e.Name, off, errs[i].Class, errs[i].Limit))
			continue
		}
		best.Name, best.Text, best.Variant, best.Cost, best.Errors = e.Name, e.Variant, e.variant.String(), e.cost, errs
		best.PerToken = float64(e.cost.Cycles) / float64(row.spec.Batch*row.spec.Tokens*row.spec.HeadsV)
		if e.cost.HBMBytes >= 0 {
			best.HBMRatio = float64(e.cost.HBMBytes) / float64(row.spec.NecessaryBytes())
		}
		return best, nil
	}
	return best, nil
}

// maxHBMRatio is the most traffic that a champion may cause where its row does not say otherwise, as a multiple of the necessary.
const maxHBMRatio = 1.3

// require lists what the champions miss.
func (r *results) require() {
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
				r.Missed = append(r.Missed, fmt.Sprintf("%s on %s: %.2f x the necessary main memory traffic, more than %.1f x", row.Title, c.Target, c.HBMRatio, traffic))
			}
		}
	}
}

// within is a title inside a sentence.
func within(title string) string { return strings.ToLower(title[:1]) + title[1:] }

// trial is a candidate with the program made from it, once for all targets.
type trial struct {
	resultCandidate
	spec    gdn.Spec
	program func() (*measure.Program, error)
}

func newTrial(f *lower.Form, c resultCandidate) *trial {
	return &trial{resultCandidate: c, spec: f.Spec, program: sync.OnceValues(func() (*measure.Program, error) {
		if err := f.Variant.Check(f.Spec); err != nil {
			return nil, &measure.Refusal{Verdict: measure.Invalid, Err: err}
		}
		route, err := lower.Lookup("mosaic")
		if err != nil {
			return nil, err
		}
		return measure.Of(f, route)
	})}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
