package model

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// AdamW's constants: what a step learns, how long it remembers gradients and their squares, and the decay of weights.
const (
	learningRate = 3e-4
	memory       = .9
	memorySquare = .999
	weightDecay  = .01
	leastSquare  = 1e-16 // added to a mean square of gradients before its root
)

// Optimiser lists the updates at the end of a step: AdamW in float32, on all weights of a layer of a kind at once. They have no model flops, and no
// passes: Build gives the same for both.
func Optimiser(c Config) (list []Piece) {
	parts := Parts(c)
	for _, kind := range Kinds(parts) {
		var weights int64
		layers := 0
		for _, p := range parts {
			if p.Kind == kind {
				weights, layers = weights+p.Weights, p.Layers
			}
		}
		update := module(func(p *program, _ bool) { p.adamW(int((weights + lanes - 1) / lanes)) })
		list = append(list, Piece{Name: "AdamW", Kind: kind, Layers: layers, Build: func(v gdn.Variant, _ bool) (*ir.Module, error) { return update(v, false) }})
	}
	return list
}

// lanes is the width of a row of weights: flat rows fill registers whatever the shapes of the weights.
const lanes = 128

// adamW gives weights and their two moments after a step, from rows of these and of gradients. The moments are taken as they are: the correction of
// the first steps is two scalars.
func (p *program) adamW(rows int) {
	p.Stage("optimiser")
	wide := func(name string) *ir.Value { return p.Param(name, ir.T(p.wide, rows, lanes)) }
	w, m, v, g := wide("w"), wide("m"), wide("v"), wide("dw")
	m = p.Add(p.Scale(m, memory), p.Scale(g, 1-memory))
	v = p.Add(p.Scale(v, memorySquare), p.Scale(p.Mul(g, g), 1-memorySquare))
	step := p.Add(p.Mul(m, p.Unary(ir.OpRsqrt, p.Add(v, p.Like(v, leastSquare)))), p.Scale(w, weightDecay))
	p.giveWide("w_next", p.Sub(w, p.Scale(step, learningRate)))
	p.giveWide("m_next", m)
	p.giveWide("v_next", v)
}
