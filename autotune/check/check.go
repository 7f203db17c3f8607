// Package check compares what an engine computes with what is right: a spec with the float64 reference on classes of inputs, and stored
// cases with the tensors that they expect. Limits are those of gdn/exam and of the cases; nothing here loosens them.
package check

import (
	"context"
	"fmt"
	"io"

	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/interrupt"
	"github.com/gdngen/gdngen/internal/terminal"
)

// Row is the error of one output on one class of inputs, of one kind: the worst of all value heads and seeds.
type Row struct {
	Class  string         `json:"class"`
	Output string         `json:"output"`
	Kind   string         `json:"kind,omitempty"` // rms, max or bias
	Error  journal.Figure `json:"error"`
	Limit  journal.Figure `json:"limit"`
	Pass   bool           `json:"pass"`
}

// Result is a whole check.
type Result struct {
	Spec      string   `json:"spec"`
	Variant   string   `json:"variant"`
	Engine    string   `json:"engine"`
	Target    string   `json:"target,omitempty"`
	Level     string   `json:"level,omitempty"` // of the interpreter: tensor or kernel
	Precision string   `json:"precision"`
	Seed      uint64   `json:"seed"` // the first
	Seeds     []uint64 `json:"seeds,omitempty"`
	Field     bool     `json:"field,omitempty"` // gradients are held to the limits of flash-linear-attention on every class
	Unsafe    string   `json:"unsafe,omitempty"`
	Rows      []Row    `json:"checks"`
	Pass      bool     `json:"pass"`
}

// Classes finds classes by name, or all that the spec can have.
func Classes(s gdn.Spec, names []string) ([]truth.Class, error) {
	var list []truth.Class
	if len(names) == 0 {
		for _, c := range truth.Classes {
			if c.Supports(s) == nil {
				list = append(list, c)
			}
		}
	}
	for _, name := range names {
		c, err := truth.LookupClass(name)
		if err == nil {
			err = c.Supports(s)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// Run computes and judges all sheets and fills the rows. A done context ends it.
func (r *Result) Run(ctx context.Context, s gdn.Spec, f engine.Compute, classes []truth.Class, note func(format string, args ...any)) error {
	var marks []exam.Mark
	deals := exam.Deal(s, classes)
	for i, seed := range r.Seeds {
		for j, deal := range deals {
			l, err := interrupt.Await(ctx, func() ([]exam.Mark, error) { return r.judge(s, f, deal, seed) })
			if err != nil {
				return err
			}
			marks = append(marks, l...)
			note("[%d/%d] seed %d", i*len(deals)+j+1, len(deals)*len(r.Seeds), seed)
		}
	}
	r.Rows = rowsOf(marks, classes)
	if r.Field {
		HoldToField(s, r.Rows)
	}
	r.Pass = r.Missed() == 0
	return nil
}

// Seeds lists n seeds from the first.
func Seeds(first uint64, n int) (list []uint64) {
	for i := range n {
		list = append(list, first+uint64(i))
	}
	return list
}

// Missed is the number of limits that are missed.
func (r *Result) Missed() (n int) {
	for _, row := range r.Rows {
		if !row.Pass {
			n++
		}
	}
	return n
}

// judge computes and judges one sheet.
func (r *Result) judge(s gdn.Spec, f engine.Compute, classes []truth.Class, seed uint64) ([]exam.Mark, error) {
	x, err := exam.Draw(s, classes, seed)
	if err != nil {
		return nil, err
	}
	got, err := f(s, x.Inputs)
	if err != nil {
		return nil, err
	}
	return x.Judge(r.Precision, got)
}

// HoldToField holds the gradients among the rows of a spec to the limits of flash-linear-attention, whatever the class.
func HoldToField(s gdn.Spec, rows []Row) {
	for i := range rows {
		row := &rows[i]
		if s.IsResult(row.Output) {
			continue
		}
		row.Limit = min(row.Limit, journal.Figure(truth.FieldLimit(gdn.Param{Name: row.Output})))
		row.Pass = row.Error <= row.Limit
	}
}

// rowsOf are the worst marks of each class, output and kind, in the order of the classes.
func rowsOf(marks []exam.Mark, classes []truth.Class) []Row {
	type group struct{ class, output, kind string }
	worst := exam.Worst(marks, func(m exam.Mark) group { return group{m.Class, m.Output, m.Family()} })
	var rows []Row
	for _, c := range classes {
		for _, m := range worst {
			if m.Class == c.Name {
				rows = append(rows, Row{Class: m.Class, Output: m.Output, Kind: m.Family(), Error: journal.Figure(m.Error), Limit: journal.Figure(m.Limit), Pass: m.Pass()})
			}
		}
	}
	return rows
}

// head says what is checked.
func (r *Result) head() string {
	by := "by " + r.Engine
	if r.Level != "" {
		by += " at the " + r.Level + " level"
	}
	if r.Target != "" {
		by += " for " + r.Target
	}
	seeds := fmt.Sprintf("seed %d", r.Seed)
	if n := len(r.Seeds); n > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", r.Seed, r.Seeds[n-1])
	}
	return fmt.Sprintf("spec %s\nvariant %s\n%s, precision %s, %s\n", r.Spec, r.Variant, by, r.Precision, seeds)
}

// Write shows the errors of an output side by side.
func (r *Result) Write(w io.Writer) {
	fmt.Fprintln(w, r.head())
	t := terminal.NewTable("CLASS", "OUTPUT", ">RMS", ">LIMIT", ">MAX", ">LIMIT", ">BIAS", ">LIMIT", "STATUS")
	for rows := r.Rows; len(rows) > 0; {
		n := 1
		for n < len(rows) && rows[n].Class == rows[0].Class && rows[n].Output == rows[0].Output {
			n++
		}
		line, status := []any{rows[0].Class, rows[0].Output}, Pass
		for _, kind := range []string{exam.RMS, exam.Max, exam.Bias} {
			figure, limit := "-", "-"
			for _, row := range rows[:n] {
				if row.Kind == kind {
					figure, limit = fmt.Sprintf("%.2e", float64(row.Error)), fmt.Sprintf("%.1e", float64(row.Limit))
				}
				if !row.Pass {
					status = Fail
				}
			}
			line = append(line, figure, limit)
		}
		t.Add(append(line, status)...)
		rows = rows[n:]
	}
	t.Write(w)
}
