package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/measure"
)

// resultCost is the static cost of a program, or why it has none.
type resultCost struct {
	Cycles   int64  `json:"cycles,omitempty"`
	HBMBytes int64  `json:"hbm_bytes,omitempty"`
	VMEM     int64  `json:"vmem,omitempty"`
	Spills   int64  `json:"spills,omitempty"`
	Fills    int64  `json:"fills,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

// cost measures the candidate for a target. A timeout is no refusal: another day it may have a cost.
func (t *trial) cost(ctx context.Context, x *measure.Instrument, target *codegen.Target) (*resultCost, error) {
	p, err := t.program()
	var made *measure.Compiled
	if err == nil {
		made, err = x.Static(ctx, p, target, measure.Options{})
	}
	if refusal := (*measure.Refusal)(nil); errors.As(err, &refusal) && refusal.Verdict != measure.Timeout {
		return &resultCost{Refused: string(refusal.Verdict) + ": " + firstLine(err)}, nil
	}
	if err != nil {
		return nil, err
	}
	r := made.Report
	c := &resultCost{Cycles: r.Cycles, HBMBytes: r.HBMBytes, VMEM: r.VMEM}
	for _, op := range r.Ops {
		c.Spills += op.Calls * op.Spills
		c.Fills += op.Calls * op.Fills
	}
	return c, nil
}

// judgement changes when numbers are computed or judged otherwise than before, so that what is kept of errors no longer holds.
const judgement = "3"

// examTokens is the most tokens that numbers are judged on: several chunks and a part of one. It bounds tokens x key heads too,
// so that one token is not judged by one q·k, of which nothing may be left.
const examTokens = 576

// exam is the spec that numbers are judged on: few tokens, of many one key head and its value heads, and gradients with an initial state.
func (t *trial) exam() gdn.Spec {
	s := t.spec
	s.Tokens = min(s.Tokens, examTokens)
	heads, groups := min(s.HeadsK, max(1, examTokens/s.Tokens)), s.Groups()
	s.HeadsK, s.HeadsV = heads, heads*groups
	s.Batch = min(s.Batch, max(1, t.variant.Fit(s).Batch))
	s.Init = s.Init || s.Direction != gdn.Forward
	return s
}

// errors are those of the lowered kernel, as the interpreter computes it, against float64: in each class of inputs that of the
// output that is nearest to its limit. Those of gradients may be held to the limits of the field.
func (t *trial) errors(cache *measure.Cache, classes []string, field bool) ([]classError, error) {
	s := t.exam()
	if err := t.variant.Check(s); err != nil {
		return nil, fmt.Errorf("%s at %d tokens: %w", t.Name, s.Tokens, err)
	}
	m, err := lower.NewForm(s, t.variant).Kernels()
	if err != nil {
		return nil, fmt.Errorf("%s at %d tokens: %w", t.Name, s.Tokens, err)
	}
	compute := func(_ gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		return interp.Run(m, inputs, interp.Options{})
	}
	r := &checkResult{Precision: t.variant.Precision().String(), Seed: 1, Field: field}
	var list []classError
	text := m.String()
	for _, name := range classes {
		class, err := gdn.LookupClass(name)
		if err != nil {
			return nil, err
		}
		if class.Supports(s) != nil {
			continue
		}
		limits := fmt.Sprint(r.Precision, field)
		for _, p := range s.Outputs() {
			own, err := class.Limit(s, r.Precision, p.Type.DType)
			gradient, err2 := class.GradientLimit(s, r.Precision, p)
			if err := errors.Join(err, err2); err != nil {
				return nil, err
			}
			limits += fmt.Sprint(" ", own, gradient, gdn.FieldLimit(p))
		}
		rows, err := measure.Kept(cache, func() ([]checkRow, error) { return checkClass(r, s, compute, class) }, "checks", judgement, s.String(), name, text, limits)
		if err != nil {
			return nil, err
		}
		worst := classError{Class: name, Limit: 1}
		for _, row := range rows {
			e := classError{name, float64(row.Error), float64(row.Limit)}
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
