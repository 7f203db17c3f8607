package model

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
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
	// is that of a public kernel: see AttentionCycles.
	Build func(v gdn.Variant, backward bool) (*ir.Module, error)
}

// Parts lists what a training step consists of, in the order of the forward pass. Parts that the model does not have are left out.
func Parts(c Config) []Part {
	t := c.Batch * c.Tokens
	r, a := c.Rule, c.Attention
	dense := func(kind, name string, in, out int) Part {
		return Part{Name: name, Kind: kind, Weights: int64(in) * int64(out), Flops: 2 * float64(t) * float64(in) * float64(out),
			Build: module(func(p *program, backward bool) { p.dense(t, in, out, backward) })}
	}
	norm := func(kind string) Part {
		return Part{Name: "norm", Kind: kind, Weights: int64(c.Hidden),
			Build: module(func(p *program, backward bool) { p.norm(t, c.Hidden, backward) })}
	}
	width := a.Heads * a.Dim
	queries := width
	if a.Gate {
		queries *= 2
	}
	parts := []Part{
		norm("rule"),
		dense("rule", "project in", c.Hidden, r.qkv()+r.z()+r.gates()),
		{Name: "convolution", Kind: "rule", Weights: int64(r.Conv * r.qkv()), Build: module(func(p *program, backward bool) { p.convolution(c, backward) })},
		{Name: "rule", Kind: "rule", Weights: int64(r.gates()), Flops: c.Spec().Flops(RuleChunk),
			Build: func(v gdn.Variant, backward bool) (*ir.Module, error) { return rule(c, v, backward) }},
		{Name: "gated norm", Kind: "rule", Weights: int64(r.V), Build: module(func(p *program, backward bool) { p.gatedNorm(c, backward) })},
		dense("rule", "project out", r.z(), c.Hidden),

		norm("attention"),
		dense("attention", "project in", c.Hidden, queries+2*a.HeadsKV*a.Dim),
		{Name: "attention", Kind: "attention", Flops: 2 * float64(t) * float64(c.Tokens) * float64(width)},
		dense("attention", "project out", width, c.Hidden),

		norm("mlp"),
		dense("mlp", "up and gate", c.Hidden, 2*c.MLP),
		{Name: "SwiGLU", Kind: "mlp", Build: module(func(p *program, backward bool) { p.swiglu(t, c.MLP, backward) })},
		dense("mlp", "down", c.MLP, c.Hidden),

		norm("model"),
		dense("model", "head", c.Hidden, c.Vocab),
		{Name: "loss", Kind: "model", Build: module(func(p *program, backward bool) { p.loss(t, c.Vocab, backward) })},
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

// Core is the whole token mixer by the rule but its projections as one module: convolution, rule, gated norm, or their gradients from the last to
// the first. What it costs beyond its parts is changes of layout between them; what it costs less, fusions.
//
// What has heads passes between the two passes with the heads of a token side by side, [B, T, H D]. A training step is one module, in which a reshape to
// [B, T, H, D] forward and its inverse backward cancel; at the border of a module each would be a copy, since H rows of D fill no tile.
//
// The kernel of the backward pass takes what comes from outside from main memory: the compiler would copy whole arrays to vector memory before it, and
// has nothing to hide that behind here (15000 cycles of 291000 on v6e). That holds for any variant.
func Core(c Config, v gdn.Variant, backward bool) (*ir.Module, error) {
	if w, err := v.With("main", "yes"); err == nil && backward {
		v = w
	}
	m, b := ir.NewModule("core")
	p := &program{Builder: b, wide: ir.F32, narrow: ir.BF16}
	made := map[string]*ir.Value{}
	var names []string
	for _, name := range coreParts(backward) {
		part, err := c.part(name).Build(v, backward)
		if err != nil {
			return nil, err
		}
		var args []*ir.Value
		for _, in := range part.Params() {
			if made[in.Name] == nil {
				made[in.Name] = b.Reshape(b.Param(in.Name, ir.T(in.Type.DType, besides(in.Type.Shape)...)), in.Type.Shape...)
			}
			args = append(args, made[in.Name])
		}
		for i, x := range passes.Inline(b, part, args) {
			made[part.Results[i]] = x
			names = append(names, part.Results[i])
		}
	}
	// What the next part takes stays inside; the backward pass reads the outputs of the convolution and of the rule, so the forward pass gives them.
	for _, name := range names {
		if backward && (name == "do" || name == "dq" || name == "dk" || name == "dv") {
			continue
		}
		x := made[name]
		p.names, p.results = append(p.names, name), append(p.results, b.Reshape(x, besides(x.Type.Shape)...))
	}
	return m, b.Finish(m, p.names, p.results)
}

// besides is the shape of [B, T, H, D] with heads side by side, and any other as it is. States are [B, H, K, V] too, but none crosses here: what is kept of
// them has five dimensions.
func besides(shape []int) []int {
	if len(shape) != 4 {
		return shape
	}
	return []int{shape[0], shape[1], shape[2] * shape[3]}
}

func coreParts(backward bool) []string {
	list := []string{"convolution", "rule", "gated norm"}
	if backward {
		slices.Reverse(list)
	}
	return list
}

// part finds a part of the layer of the rule by name.
func (c Config) part(name string) Part {
	for _, p := range Parts(c) {
		if p.Kind == "rule" && p.Name == name {
			return p
		}
	}
	panic("no part " + name)
}
