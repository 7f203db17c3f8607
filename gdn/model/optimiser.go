package model

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// AdamW's constants: learning rate, decay rates of the moments, and weight decay.
const (
	learningRate = 3e-4
	memory       = .9
	memorySquare = .999
	weightDecay  = .01
	leastSquare  = 1e-16 // added to the second moment before its root
)

// Optimiser returns the updates at the end of a step: AdamW in float32, with one piece for all weights of a kind of layer. They have no model flops and
// one pass: Build returns the same module for forward and backward.
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

// lanes is the width of a row of weights: flat rows fill registers for any shape of weights.
const lanes = 128

// adamW updates rows of weights and their two moments from rows of gradients. The moments have no bias correction, which would be
// two scalars.
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
