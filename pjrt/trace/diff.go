package trace

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
)

// Change compares a row of two traces: time per step in A and in B, and the difference.
type Change struct {
	Name  string  `json:"name"`
	A     float64 `json:"a_ps"` // per step
	B     float64 `json:"b_ps"`
	Delta float64 `json:"delta_ps"`        // B - A
	State string  `json:"state,omitempty"` // new or gone
}

// Difference compares two traces, per step.
type Difference struct {
	A        *Summary  `json:"a"`
	B        *Summary  `json:"b"`
	Unit     string    `json:"unit"` // what the figures are per
	Step     Change    `json:"step"`
	Gap      Change    `json:"gap"`
	Rows     []*Change `json:"rows"` // largest change first
	Warnings []string  `json:"warnings,omitempty"`
}

// Regression returns the relative change of the step time from A to B; negative: B is faster.
func (d *Difference) Regression() float64 { return d.Step.Delta / d.Step.A }

// Diff compares two traces by one query; it errs if both are the same files.
func Diff(a, b *Trace, q Query) (*Difference, error) {
	same, err := equalFiles(a.Files, b.Files)
	if err != nil {
		return nil, err
	}
	if same {
		return nil, fmt.Errorf("%s and %s hold the same bytes: there is nothing to compare", a.Files[0], b.Files[0])
	}
	d := &Difference{}
	if d.A, err = a.Sum(q); err != nil {
		return nil, err
	}
	if d.B, err = b.Sum(q); err != nil {
		return nil, err
	}
	figure := func(r *Row) float64 { return r.Step.Median }
	d.Unit = "step"
	d.Step = change("step", d.A.Steps.Time.Median, d.B.Steps.Time.Median)
	d.Gap = change("gaps", d.A.Steps.Gap.Median, d.B.Steps.Gap.Median)
	if d.A.Steps.Count == 0 || d.B.Steps.Count == 0 {
		d.Unit, figure = "whole trace", func(r *Row) float64 { return r.Self }
		d.Step = change("self time", d.A.Self, d.B.Self)
	}
	before, after := byName(d.A.Rows), byName(d.B.Rows)
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		x, y := before[name], after[name]
		var c Change
		switch {
		case y == nil:
			c = change(name, figure(x), 0)
			c.State = "gone"
		case x == nil:
			c = change(name, 0, figure(y))
			c.State = "new"
		default:
			c = change(name, figure(x), figure(y))
		}
		d.Rows = append(d.Rows, &c)
	}
	slices.SortStableFunc(d.Rows, func(a, b *Change) int { return cmp.Compare(math.Abs(b.Delta), math.Abs(a.Delta)) })
	d.compare()
	return d, nil
}

func change(name string, a, b float64) Change { return Change{Name: name, A: a, B: b, Delta: b - a} }

// byName maps rows by their keys.
func byName(rows []*Row) map[string]*Row {
	m := map[string]*Row{}
	for _, r := range rows {
		m[r.Name] = r
	}
	return m
}

func union(a, b map[string]*Row) map[string]*Row {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// compare adds warnings about differences that make two traces hard to compare.
func (d *Difference) compare() {
	warn := func(what string, a, b any) {
		if a != b {
			d.Warnings = append(d.Warnings, fmt.Sprintf("%s: %v before, %v after", what, a, b))
		}
	}
	text := func(v any) any { return cmp.Or(fmt.Sprint(v), "unknown") }
	warn("device", text(d.A.Facts["device_type_string"]), text(d.B.Facts["device_type_string"]))
	warn("devices", len(d.A.Devices), len(d.B.Devices))
	warn("steps", d.A.Steps.Count, d.B.Steps.Count)
	warn("steps are", d.A.Steps.From, d.B.Steps.From)
	warn("events are", d.A.Line, d.B.Line)
	keys := maps.Clone(d.A.Versions)
	if keys == nil {
		keys = map[string]any{}
	}
	maps.Copy(keys, d.B.Versions)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		warn(k, text(d.A.Versions[k]), text(d.B.Versions[k]))
	}
	for _, s := range []*Summary{d.A, d.B} {
		for _, w := range s.Warnings {
			d.Warnings = append(d.Warnings, s.Files[0]+": "+w)
		}
	}
}

// equalFiles compares files by hash.
func equalFiles(a, b []string) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		x, err1 := hash(a[i])
		y, err2 := hash(b[i])
		if err := errors.Join(err1, err2); err != nil || x != y {
			return false, err
		}
	}
	return true, nil
}

func hash(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}
