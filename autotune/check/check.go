// Package check compares an engine's outputs with expected ones: a spec with the float64 reference on classes of inputs, and
// stored cases with the tensors that they expect. The limits come from gdn/exam and from the cases; nothing here loosens them.
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

// Row is the error of one output on one class of inputs, of one kind: the worst over all value heads and seeds.
type Row struct {
	Class  string         `json:"class"`
	Output string         `json:"output"`
	Kind   string         `json:"kind,omitempty"` // rms, max or bias
	Error  journal.Figure `json:"error"`
	Limit  journal.Figure `json:"limit"`
	Pass   bool           `json:"pass"`
}

// Result is the result of a check of one spec.
type Result struct {
	Spec      string   `json:"spec"`
	Variant   string   `json:"variant"`
	Engine    string   `json:"engine"`
	Target    string   `json:"target,omitempty"`
	Level     string   `json:"level,omitempty"` // of the interpreter: tensor or kernel
	Precision string   `json:"precision"`
	Seed      uint64   `json:"seed"` // the first
	Seeds     []uint64 `json:"seeds,omitempty"`
	Field     bool     `json:"field,omitempty"` // gradients are held to the limits of flash-linear-attention, on every class
	Unsafe    string   `json:"unsafe,omitempty"`
	Rows      []Row    `json:"checks"`
	Pass      bool     `json:"pass"`
}

// Classes returns classes by name, or without names all that the spec supports.
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

// Run computes and judges all accuracy tests for each seed, and fills the rows. It stops when ctx is done.
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

// Seeds returns n consecutive seeds from first.
func Seeds(first uint64, n int) (list []uint64) {
	for i := range n {
		list = append(list, first+uint64(i))
	}
	return list
}

// Missed returns the number of exceeded limits.
func (r *Result) Missed() (n int) {
	for _, row := range r.Rows {
		if !row.Pass {
			n++
		}
	}
	return n
}

// judge computes and judges the outputs for one deal of classes.
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

// HoldToField tightens the limits of the gradients in rows to those of flash-linear-attention, whatever the class, and updates Pass.
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

// rowsOf returns the worst mark of each class, output and kind, in the order of the classes.
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

// head describes the check in the report's first lines.
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

// Write prints one line per class and output, with its errors of each kind.
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
