package tune

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
)

// Row is the kernel for one work on one target.
type Row struct {
	Work    string `json:"work"`
	Spec    string `json:"spec"`
	Load    string `json:"load,omitempty"` // tokens of each sequence of a server's step
	Target  string `json:"target"`
	Variant string `json:"variant"`
	Why     string `json:"why,omitempty"` // reason of auto's choice
	Program string `json:"program"`       // hash of the Mosaic program
	Facts   string `json:"facts"`         // hash of the target's facts in the cost model

	Ruler    ruler.Ruler `json:"ruler"`
	Cycles   int64       `json:"cycles,omitempty"` // of one layer, by the ruler; 0: unknown
	Issue    int64       `json:"issue,omitempty"`
	PerToken float64     `json:"cycles_per_token_head,omitempty"`
	Layers   int         `json:"layers"`
	All      int64       `json:"all_layers,omitempty"` // cycles of the rule in all layers
	Source   string      `json:"source,omitempty"`     // of the cost: a compiler, or a stored result of one
	Unknown  string      `json:"unknown,omitempty"`    // why there is no cost
	Files    []string    `json:"files,omitempty"`

	program *measure.Program
	form    *route.Form
	to      *target.Target
	load    Load
}

// Result is tune's answer for a model.
type Result struct {
	Model  model.Config `json:"model"`
	Layers int          `json:"rule_layers"`
	Note   string       `json:"note"`
	Rows   []*Row       `json:"rows"`
}

// Resolve returns the form of a spec for a target.
type Resolve func(gdn.Spec, *target.Target) (*route.Form, error)

// New chooses the variants of a model's works on some targets, and makes their programs. Nothing is compiled yet.

func New(c model.Config, works []*Work, z Sizes, targets []*target.Target, suit Resolve) (*Result, error) {
	r := &Result{Model: c, Layers: c.RuleLayers(), Note: measure.StaticNote}
	if r.Layers == 0 {
		return nil, errors.New("model: no layer mixes by the gated delta rule")
	}
	for _, w := range works {
		s, err := w.Spec(c, z)
		if err != nil {
			return nil, err
		}
		for _, t := range targets {
			loads := []Load{{tokens: s.Batch * s.Tokens}} // everything in the spec
			if w.Name == serve {
				loads = z.Loads
			}
			for _, load := range loads {
				row := &Row{Work: w.Name, Spec: s.String(), Load: load.Text, load: load, Target: t.Name, Ruler: ruler.InOrder.On(t.Name), Layers: r.Layers, Facts: measure.Facts(t), to: t}
				if err := row.make(s, suit); err != nil {
					return nil, fmt.Errorf("%s on %s: %w", w.Name, t.Name, err)
				}
				r.Rows = append(r.Rows, row)
			}
		}
	}
	return r, nil
}

// Known reports whether all costs are stored.
func (r *Result) Known(stored Stored) bool {
	for _, row := range r.Rows {
		if stored[row.key()] == nil {
			return false
		}
	}
	return true
}

// make resolves the form of the row and emits its program.
func (row *Row) make(s gdn.Spec, suit Resolve) error {
	f, err := suit(s, row.to)
	if err != nil {
		return err
	}
	route, err := route.Lookup("mosaic")
	if err != nil {
		return err
	}
	row.form, row.Variant, row.Why = f, f.Variant.Short(), f.Why()
	if row.program, err = measure.Of(f, route); err != nil {
		return err
	}
	if row.Load != "" {
		if err := row.program.Under(row.load.lengths); err != nil {
			return err
		}
	}
	text, err := row.program.Text(row.to)
	row.Program = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:12]
	return err
}

// Cost sets the costs of all rows: from the stored ones, or else, with an instrument, by a compile.
func (r *Result) Cost(ctx context.Context, stored Stored, x *measure.Instrument) error {
	for _, row := range r.Rows {
		if stored.fill(row) || x == nil {
			continue
		}
		c, err := x.Static(ctx, row.program, row.to, measure.Options{})
		if refusal := (*measure.Refusal)(nil); errors.As(err, &refusal) {
			row.Unknown, _, _ = strings.Cut(err.Error(), "\n")
			continue
		}
		if err != nil {
			return fmt.Errorf("%s on %s: %w", row.Work, row.Target, err)
		}
		cycles, err := measure.CyclesBy(row.Ruler, c.Report)
		if err != nil {
			row.Unknown = err.Error()
			continue
		}
		row.Source = x.Libtpu
		row.set(cycles, c.Report.Cycles)
	}
	return nil
}

// set fills the figures that follow from the cycles of one layer.
func (row *Row) set(cycles, issue int64) {
	row.Cycles, row.Issue, row.All = cycles, issue, cycles*int64(row.Layers)
	row.PerToken = float64(cycles) / float64(row.load.tokens*row.form.Spec.HeadsV)
}

// Best returns the row of the first work with the fewest cycles; without costs the first row.
func (r *Result) Best() *Row {
	best := r.Rows[0]
	for _, row := range r.Rows {
		if row.Work == best.Work && row.Cycles > 0 && (best.Cycles == 0 || row.Cycles < best.Cycles) {
			best = row
		}
	}
	return best
}

// Write prints the model, a table for each work, and what to do next.
func (r *Result) Write(w io.Writer) {
	c := r.Model
	fmt.Fprintf(w, "model     %s: %s by %s, %d key and %d value heads, K %d, V %d%s\n",
		cmp.Or(c.Name, "by sizes"), counted(r.Layers, "layer"), c.Rule.Title(), c.Rule.HeadsK, c.Rule.HeadsV, c.Rule.K, c.Rule.V, map[bool]string{true: ", beta up to 2"}[c.Rule.NegEigval])
	work := ""
	var t *terminal.Table
	for i, row := range r.Rows {
		if row.Work != work {
			work = row.Work
			fmt.Fprintf(w, "\n%-9s %s\n\n", work, row.Spec)
			head := []string{"TARGET", ">CYCLES", ">PER TOKEN AND HEAD", ">" + strings.ToUpper(counted(r.Layers, "layer")), "BY", "FROM", "VARIANT"}
			if row.Load != "" {
				head = slices.Insert(head, 1, "LOAD")
			}
			t = terminal.NewTable(head...)
		}
		cycles, per, all := "-", "-", "-"
		if row.Cycles > 0 {
			cycles, per, all = fmt.Sprint(row.Cycles), fmt.Sprintf("%.2f", row.PerToken), fmt.Sprint(row.All)
		}
		cells := []any{row.Target, cycles, per, all, row.Ruler, cmp.Or(row.Unknown, row.Source, "-"), row.Variant}
		if row.Load != "" {
			cells = slices.Insert(cells, 1, any(row.Load))
		}
		t.Add(cells...)
		if i+1 == len(r.Rows) || r.Rows[i+1].Work != work {
			t.Write(w)
		}
	}
	for _, row := range r.Rows {
		for _, f := range row.Files {
			fmt.Fprintf(w, "wrote     %s\n", f)
		}
	}
	fmt.Fprintln(w)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
