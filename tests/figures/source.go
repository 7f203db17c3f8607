package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/autotune/results"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
)

// source is the origin of a figure: a term or a sum of terms, or a quotient of two such.
type source struct{ terms, over []*term }

// term is a quantity of a program on a target, of a part of a model, of a public kernel, or an error.
type term struct {
	quantity string
	spec     gdn.Spec
	variant  string
	target   *target.Target
	part     *part         // of mfu
	peer     *results.Peer // the public kernel
	off      *off          // the error
}

// part is one of a training step, or several that run equally often.
type part struct {
	model, kind, pass string
	names             []string
}

// quantities of a program, from what was measured of it.
var quantities = map[string]func(p *measure.Program, c *measure.Compiled, t *target.Target) (float64, error){
	"cycles": func(_ *measure.Program, c *measure.Compiled, _ *target.Target) (float64, error) {
		return known(c.Report.Cycles)
	},
	"token": func(p *measure.Program, c *measure.Compiled, _ *target.Target) (float64, error) {
		return perToken(p, c.Report.Cycles)
	},
	"in-order": func(_ *measure.Program, c *measure.Compiled, _ *target.Target) (float64, error) {
		return known(c.Report.Wall.Cycles)
	},
	"in-order-token": func(p *measure.Program, c *measure.Compiled, _ *target.Target) (float64, error) {
		return perToken(p, c.Report.Wall.Cycles)
	},
	"hbm": func(_ *measure.Program, c *measure.Compiled, _ *target.Target) (float64, error) {
		return known(c.Report.HBMBytes)
	},
	"vmem": func(_ *measure.Program, c *measure.Compiled, _ *target.Target) (float64, error) {
		return known(c.Report.VMEM)
	},
	"bound": func(p *measure.Program, c *measure.Compiled, t *target.Target) (float64, error) {
		return bound(p, c, t, "hbm, spec")
	},
	"module-bound": func(p *measure.Program, c *measure.Compiled, t *target.Target) (float64, error) {
		return bound(p, c, t, "slots, module")
	},
}

func known(n int64) (float64, error) {
	if n < 0 {
		return 0, errors.New("it is not known")
	}
	return float64(n), nil
}

func perToken(p *measure.Program, cycles int64) (float64, error) {
	n, err := known(cycles)
	return n / float64(p.Spec.Work()), err
}

func bound(p *measure.Program, c *measure.Compiled, t *target.Target, name string) (float64, error) {
	for _, b := range p.Bounds(c.Report, t) {
		if b.Name == name {
			return perToken(p, b.Cycles)
		}
	}
	return 0, fmt.Errorf("the program has no bound %q", name)
}

// fields of parts of a training step: cycles by the ruler, the same and issue cycles per token and value head, issue
// cycles, and the utilisation.
var fields = map[string]func(sum *mfu.Row, c model.Config, t *target.Target) float64{
	"time": func(sum *mfu.Row, _ model.Config, _ *target.Target) float64 { return sum.Time },
	"in-order-token": func(sum *mfu.Row, c model.Config, _ *target.Target) float64 {
		return sum.Time / float64(c.Spec().Work())
	},
	"token": func(sum *mfu.Row, c model.Config, _ *target.Target) float64 {
		return float64(sum.Cycles) / float64(c.Spec().Work())
	},
	"cycles": func(sum *mfu.Row, _ model.Config, _ *target.Target) float64 { return float64(sum.Cycles) },
	"percent": func(sum *mfu.Row, _ model.Config, t *target.Target) float64 {
		return 100 * sum.Flops / (sum.Time * t.PeakFlops())
	},
}

// parseSource reads what is in the braces.
func parseSource(text string) (*source, error) {
	first, second, over := strings.Cut(text, " / ")
	s := &source{}
	var err error
	if s.terms, err = parseSum(first); err == nil && over {
		s.over, err = parseSum(second)
	}
	if err != nil {
		return nil, fmt.Errorf("{%s}: %w", text, err)
	}
	return s, nil
}

func parseSum(text string) (list []*term, err error) {
	for one := range strings.SplitSeq(text, " + ") {
		t, err := parseTerm(one)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func parseTerm(text string) (*term, error) {
	words := strings.Fields(text)
	if len(words) > 0 && words[0] == "mfu" {
		if len(words) != 7 || fields[words[1]] == nil {
			return nil, errors.New("want mfu FIELD MODEL TARGET KIND PART PASS, with time, cycles, in-order-token, token or percent as the field")
		}
		target, err := target.Lookup(words[3])
		p := &part{model: words[2], kind: words[4], names: strings.Split(words[5], "+"), pass: words[6]}
		if p.pass != "forward" && p.pass != "backward" && p.pass != "both" {
			return nil, fmt.Errorf("%q is no pass; there are forward, backward and both", p.pass)
		}
		return &term{quantity: words[1], target: target, part: p}, err
	}
	if len(words) > 0 && words[0] == "peer" {
		return parsePeer(words[1:])
	}
	if len(words) > 0 && words[0] == "error" {
		return parseOff(words[1:])
	}
	if len(words) != 4 || quantities[words[0]] == nil && words[0] != "kept" {
		return nil, errors.New("want QUANTITY SPEC VARIANT TARGET")
	}
	s, err := gdn.Parse(words[1])
	if err != nil {
		return nil, err
	}
	target, err := target.Lookup(words[3])
	return &term{quantity: words[0], spec: s, variant: words[2], target: target}, err
}

// meter measures.
type meter struct{ measure.Instrument }

// value computes the figure of a source.
func (m *meter) value(ctx context.Context, text string) (float64, error) {
	s, err := parseSource(text)
	if err != nil {
		return 0, err
	}
	return s.value(ctx, m)
}

func (s *source) value(ctx context.Context, m *meter) (float64, error) {
	x, err := sum(ctx, m, s.terms)
	if err != nil || s.over == nil {
		return x, err
	}
	y, err := sum(ctx, m, s.over)
	return x / y, err
}

func sum(ctx context.Context, m *meter, terms []*term) (x float64, err error) {
	for _, t := range terms {
		y, err := t.value(ctx, m)
		if err != nil {
			return 0, err
		}
		x += y
	}
	return x, nil
}

// quick reports whether a test may compute the figure.
func (s *source) quick() bool {
	return !slices.ContainsFunc(slices.Concat(s.terms, s.over), func(t *term) bool { return !t.quick() })
}

func (t *term) value(ctx context.Context, m *meter) (float64, error) {
	switch {
	case t.part != nil:
		return t.ofModel(ctx, m)
	case t.peer != nil:
		return t.ofPeer()
	case t.off != nil:
		return t.off.value(ctx, m)
	}
	route, err := route.Lookup("mosaic")
	if err != nil {
		return 0, err
	}
	p, err := measure.Make(t.spec, t.variant, route, t.target)
	if err != nil {
		return 0, err
	}
	if t.quantity == "kept" {
		return perToken(p, build.KeptBytes(t.spec, p.Variant))
	}
	c, err := m.Static(ctx, p, t.target, measure.Options{})
	if err != nil {
		return 0, err
	}
	return quantities[t.quantity](p, c, t.target)
}

// ofModel is a figure of parts of a training step. Parts that are no sums are measured alone.
func (t *term) ofModel(ctx context.Context, m *meter) (float64, error) {
	config, err := model.Preset(t.part.model)
	if err != nil {
		return 0, err
	}
	v, err := mfu.Variant(config, gdn.Auto, t.target)
	if err != nil {
		return 0, err
	}
	rows, err := mfu.Parts(ctx, &m.Instrument, config, v, t.target, t.part.has)
	if err == nil && len(rows) == 0 {
		rows, err = mfu.Rows(ctx, &m.Instrument, config, v, t.target, false)
	}
	if err != nil {
		return 0, err
	}
	var sum mfu.Row
	for _, r := range rows {
		if t.part.has(r) {
			sum.Time, sum.Cycles, sum.Flops = sum.Time+r.Time, sum.Cycles+r.Cycles, sum.Flops+r.Flops
		}
	}
	if sum.Time == 0 {
		return 0, fmt.Errorf("the step of %s has no part %s %s", t.part.model, t.part.kind, strings.Join(t.part.names, "+"))
	}
	return fields[t.quantity](&sum, config, t.target), nil
}

// has reports whether a row is one of the parts. Rows that sum both passes are asked for by both.
func (p *part) has(r *mfu.Row) bool {
	return plain(r.Kind) == p.kind && slices.Contains(p.names, plain(r.Part)) && (p.pass == "both" || p.pass == r.Pass)
}

// quick reports whether a test may compile what the term measures: short programs, and of a training step the norms.
func (t *term) quick() bool {
	switch {
	case t.peer != nil:
		return true
	case t.off != nil:
		return t.off.quick()
	case t.part == nil:
		return t.spec.Tokens <= sampleTokens
	}
	return slices.Equal(t.part.names, []string{"norm"})
}

// sampleTokens is the most tokens of a program that a test compiles: some ten processor seconds.
const sampleTokens = 64

// plain is a name in one word.
func plain(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-")
}
