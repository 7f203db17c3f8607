package model

import (
	"cmp"
	"fmt"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
)

// RuleChunk is the chunk at which the model flops of the rule are counted, whatever chunk a variant has.
const RuleChunk = 64

// Part is one step of a layer, or of the model.
type Part struct {
	Name    string
	Kind    string // of layer: rule, attention, mlp, or model for what stands once
	Layers  int    // times in a model
	Weights int64  // elements, in one layer
	// Flops are the model flops of one forward pass; backward has twice as many.
	Flops float64
	// Build makes the module of the forward or backward pass; only the rule depends on the variant. It is nil for the core of attention, whose cost
	// is that of a public kernel: see AttentionCycles. Values have one name in all parts of a kind, and the gradient of x is dx.
	Build func(v gdn.Variant, backward bool) (*ir.Module, error)
	// Both says that the forward pass makes the gradients too: there is no backward pass.
	Both bool
	// again says that the backward pass of a whole layer makes the results anew: main memory would take longer to keep them.
	again bool
	// summed is Build of the first part of a layer with a residual, whose gradient is added to that of x.
	summed func(v gdn.Variant, backward bool) (*ir.Module, error)
}

// Passes lists the passes of a step: both, or the forward pass alone.
func Passes(forward bool) []string {
	list := []string{"forward", "backward"}
	if forward {
		return list[:1]
	}
	return list
}

// Passes lists the passes of a step that a part has.
func (p Part) Passes(forward bool) []string { return Passes(forward || p.Both) }

// Parts lists what a training step consists of, in the order of the forward pass. Parts that the model does not have are left out.
func Parts(c Config) []Part {
	t := c.Batch * c.Tokens
	r, a := c.Rule, c.Attention
	dense := func(kind, name string, in, out int, rule func(p *program, backward bool)) Part {
		return Part{Name: name, Kind: kind, Weights: int64(in) * int64(out), Flops: 2 * float64(t) * float64(in) * float64(out), Build: module(rule)}
	}
	// project is dense with values of these names.
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
	last.again = false // the compiler would make it part of the head's gradient, and transpose that: as large as the head
	parts := []Part{
		norm("rule"),
		dense("rule", "project in", 1, c.inputWeights(), func(p *program, backward bool) { p.projectIn(c, backward) }),
		{Name: "convolution", Kind: "rule", Weights: int64(r.Conv * r.qkv()), Build: module(func(p *program, backward bool) { p.convolution(c, backward) })},
		{Name: "rule", Kind: "rule", Weights: int64(r.HeadsV + r.decays()), Flops: c.Spec().Flops(RuleChunk),
			Build: func(v gdn.Variant, backward bool) (*ir.Module, error) { return rule(c, v, backward) }},
		{Name: "gated norm", Kind: "rule", Weights: int64(r.V), Build: module(func(p *program, backward bool) { p.gatedNorm(c, backward) })},
		project("rule", "project out", "normed", "out", r.z(), c.Hidden),

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
		list = append(list, p)
	}
	return list
}

// module makes the Build of a part from its rule.
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

// rule makes the module of the rule: the forward pass with what it keeps for the backward pass, or the backward pass that reads it.
func rule(c Config, v gdn.Variant, backward bool) (*ir.Module, error) {
	forward, back, err := build.Training(c.Spec(), v)
	if backward {
		return back, err
	}
	return forward, err
}
