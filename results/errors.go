package results

import (
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/measure"
)

// judgement changes when numbers are computed or judged otherwise than before, so that what is kept of errors no longer holds.
const judgement = "3"

// examTokens is the most tokens that numbers are judged on: several chunks and a part of one. It bounds tokens x key heads too,
// so that one token is not judged by one q·k, of which nothing may be left.
const examTokens = 576

// exam is the spec that numbers are judged on: few tokens, of many one key head and its value heads, and gradients with an initial state.
func (t *trial) exam() gdn.Spec {
	s := t.Form.Spec
	s.Tokens = min(s.Tokens, examTokens)
	heads, groups := min(s.HeadsK, max(1, examTokens/s.Tokens)), s.Groups()
	s.HeadsK, s.HeadsV = heads, heads*groups
	s.Batch = min(s.Batch, max(1, t.Form.Variant.Fit(s).Mapping.Batch))
	s.Init = s.Init || s.Direction != gdn.Forward
	return s
}

// errors are those of the lowered kernel, as the interpreter computes it, against float64: in each class of inputs that of the
// output that is nearest to its limit. Those of gradients may be held to the limits of the field.
func (t *trial) errors(cache *measure.Cache, classes []string, field bool) ([]ClassError, error) {
	s := t.exam()
	if err := t.Form.Variant.Check(s); err != nil {
		return nil, fmt.Errorf("%s at %d tokens: %w", t.Name, s.Tokens, err)
	}
	m, err := lower.NewForm(s, t.Form.Variant).Kernels()
	if err != nil {
		return nil, fmt.Errorf("%s at %d tokens: %w", t.Name, s.Tokens, err)
	}
	precision := t.Form.Variant.Precision().String()
	var list []ClassError
	text := m.String()
	for _, name := range classes {
		class, err := truth.LookupClass(name)
		if err != nil {
			return nil, err
		}
		if class.Supports(s) != nil {
			continue
		}
		limits := fmt.Sprint(precision, field)
		for _, p := range s.Outputs() {
			own, err := class.Limit(s, precision, p.Type.DType)
			gradient, err2 := class.GradientLimit(s, precision, p)
			if err := errors.Join(err, err2); err != nil {
				return nil, err
			}
			limits += fmt.Sprint(" ", own, gradient, truth.FieldLimit(p))
		}
		rows, err := measure.Kept(cache, func() ([]outputError, error) { return onClass(m, s, class, precision, field) }, "checks", judgement, s.String(), name, text, limits)
		if err != nil {
			return nil, err
		}
		worst := ClassError{Class: name, Limit: 1}
		for _, row := range rows {
			e := ClassError{name, float64(row.Error), float64(row.Limit)}
			if !(e.Error < maxError) {
				e.Error = maxError
			}
			if e.Error/e.Limit >= worst.Error/worst.Limit {
				worst = e
			}
		}
		list = append(list, worst)
	}
	return list, nil
}

// maxError stands for all errors that are larger, and for what is not a number.
const maxError = 1e30

// outputError is the error of an output on a class of inputs, as the cache keeps it.
type outputError struct {
	Class  string         `json:"class"`
	Output string         `json:"output"`
	Error  journal.Figure `json:"error"`
	Limit  journal.Figure `json:"limit"`
	Pass   bool           `json:"pass"`
}

// seed is that of the inputs.
const seed = 1

// onClass is the largest error of each output of a lowered kernel on one class.
func onClass(m *ir.Module, s gdn.Spec, c truth.Class, precision string, field bool) ([]outputError, error) {
	inputs, err := c.Generate(s, seed)
	if err != nil {
		return nil, err
	}
	want, err := truth.Reference(s, inputs)
	if err != nil {
		return nil, err
	}
	got, err := interp.Run(m, inputs, interp.Options{})
	if err != nil {
		return nil, err
	}
	var rows []outputError
	for _, p := range s.Outputs() {
		off, limit, err := c.Error(s, precision, p, got, want)
		if err != nil {
			return nil, err
		}
		if gradient := p.Name != "o" && p.Name != "final_state"; field && gradient {
			limit = min(limit, truth.FieldLimit(p))
		}
		rows = append(rows, outputError{c.Name, p.Name, journal.Figure(off), journal.Figure(limit), off <= limit})
	}
	return rows, nil
}
