package model

import (
	"cmp"
	"fmt"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
)

// RuleChunk is the chunk at which the rule's model flops are counted, for every variant.
const RuleChunk = 64

// Part is one stage of a layer, or of the model.
type Part struct {
	Name    string
	Kind    string // kind of layer: rule, attention, mlp; or model for parts that occur once
	Layers  int    // number of occurrences in a model
	Weights int64  // number of weights in one layer
	// Flops are the model flops of one forward pass; backward has twice as many.
	Flops float64
	// Moved are model flops, forward and backward, of products that this part makes in place of another, where they are below zero.
	Moved [2]float64
	// Build returns the module of a pass; only the rule depends on the variant. It is nil for the core of attention, whose cost
	// is a public kernel's: see AttentionCycles. Values have one name in all parts of a kind, and the gradient of x is dx.
	Build func(v gdn.Variant, backward bool) (*ir.Module, error)
	// Both means that the forward pass also computes the gradients, so there is no backward pass.
	Both bool
	// again recomputes the results in the backward pass of a whole layer, which is faster than saving them in HBM.
	again bool
	// summed replaces Build for the first part of a layer with a residual; it adds the residual's gradient to dx.
	summed func(v gdn.Variant, backward bool) (*ir.Module, error)
}

// Passes returns the names of the passes of a step: forward alone, or both.
func Passes(forward bool) []string {
	list := []string{"forward", "backward"}
	if forward {
		return list[:1]
	}
	return list
}

// Passes returns the names of the passes of a step that the part has.
func (p Part) Passes(forward bool) []string { return Passes(forward || p.Both) }

// Parts returns the parts of a training step in the order of the forward pass, without parts that the model lacks.
func Parts(c Config) []Part {
	t := c.Batch * c.Tokens
	r, a := c.Rule, c.Attention
	dense := func(kind, name string, in, out int, rule func(p *program, backward bool)) Part {
		return Part{Name: name, Kind: kind, Weights: int64(in) * int64(out), Flops: 2 * float64(t) * float64(in) * float64(out), Build: module(rule)}
	}
	// project is a dense layer from value x to value y.
	project := func(kind, name, x, y string, in, out int) Part {
		return dense(kind, name, in, out, func(p *program, backward bool) { p.project(x, y, t, in, out, backward) })
	}
	norm := func(kind string) Part {
		return Part{Name: "norm", Kind: kind, Weights: int64(c.Hidden), again: true,
			Build:  module(func(p *program, backward bool) { p.norm(t, c.Hidden, backward, "") }),
			summed: module(func(p *program, backward bool) { p.norm(t, c.Hidden, backward, "dout") })}
	}
	width := a.Heads * a.Dim
	queries := width
	if a.Gate {
		queries *= 2
	}
	last := norm("model")
	last.again = false // otherwise the compiler fuses it into the head's gradient and transposes that, which is as large as the head
	parts := []Part{
		norm("rule"),
		dense("rule", "project in", 1, c.inputWeights(), func(p *program, backward bool) { p.projectIn(c, backward) }),
		{Name: "convolution", Kind: "rule", Weights: int64(r.Conv * r.qkv()), Build: module(func(p *program, backward bool) { p.convolution(c, backward) })},
		{Name: "rule", Kind: "rule", Weights: int64(r.HeadsV + r.decays()), Flops: c.Spec().Flops(RuleChunk),
			Build: func(v gdn.Variant, backward bool) (*ir.Module, error) { return rule(c, v, backward) }},
		{Name: "gated norm", Kind: "rule", Weights: int64(r.V), Build: module(func(p *program, backward bool) { p.gatedNorm(c, backward) })},
		dense("rule", "project out", r.z(), c.Hidden, func(p *program, backward bool) { p.projectOut(c, backward) }),

		norm("attention"),
		project("attention", "project in", "n", "qkv", c.Hidden, queries+2*a.HeadsKV*a.Dim),
		{Name: "attention", Kind: "attention", Flops: 2 * float64(t) * float64(c.Tokens) * float64(width)},
		project("attention", "project out", "o", "out", width, c.Hidden),

		norm("mlp"),
		dense("mlp", "up and gate", c.Hidden, 2*c.MLP, func(p *program, backward bool) { p.upAndGate(t, c.Hidden, c.MLP, backward) }),
		{Name: "SwiGLU", Kind: "mlp", Build: module(func(p *program, backward bool) { p.swiglu(t, c.MLP, backward) }), again: true},
		project("mlp", "down", "inner", "out", c.MLP, c.Hidden),

		last,
		project("model", "head", "n", "logits", c.Hidden, c.Vocab),
		{Name: "loss", Kind: "model", Both: true, Build: module(func(p *program, _ bool) { p.loss(t, c.Vocab, cmp.Or(c.VMEM, leastMemory)) })},
	}
	var list []Part
	for _, p := range parts {
		p.Layers = c.layersOf(p.Kind)
		if p.Layers == 0 || p.Kind == "mlp" && c.MLP == 0 || p.Kind == "model" && c.Vocab == 0 {
			continue
		}
		if p.Kind == "rule" {
			p.Moved = c.moved()[p.Name]
		}
		list = append(list, p)
	}
	return list
}

// moved returns Part.Moved of the parts of the rule's layer by name.
func (c Config) moved() map[string][2]float64 {
	if !c.fused() {
		return nil
	}
	product := 2 * float64(c.Batch*c.Tokens) * float64(c.Hidden)
	in, out := product*float64(c.Rule.qkv()), product*float64(c.Rule.z())
	return map[string][2]float64{"project in": {-in, 0}, "convolution": {in, 0}, "gated norm": {0, out}, "project out": {0, -out}}
}

// module returns a Build function for a part.
func module(rule func(p *program, backward bool)) func(gdn.Variant, bool) (*ir.Module, error) {
	return func(_ gdn.Variant, backward bool) (*ir.Module, error) {
		m, b := ir.NewModule("part")
		p := &program{Builder: b, wide: ir.F32, narrow: ir.BF16}
		rule(p, backward)
		if err := b.Finish(m, p.names, p.results); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		return m, nil
	}
}

// rule returns the module of the rule: the forward pass with saved values, or the backward pass that reads them.
func rule(c Config, v gdn.Variant, backward bool) (*ir.Module, error) {
	forward, back, err := build.Training(c.Spec(), v)
	if backward {
		return back, err
	}
	return forward, err
}
