package model

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Core returns the core of causal attention as plain ops, which Parts and Pieces leave to a public kernel: qkv [B T, width] to o [B T, heads dim], and
// gradients with recomputed attention weights. ok is false without attention layers.
func Core(c Config) (x Piece, ok bool) {
	for _, p := range Parts(c) {
		if p.Build == nil {
			build := module(func(p *program, backward bool) { p.attention(c, backward) })
			return Piece{Name: "core", Kind: p.Kind, Layers: p.Layers, Flops: p.Flops,
				Build: func(_ gdn.Variant, backward bool) (*ir.Module, error) { return build(gdn.Variant{}, backward) }}, true
		}
	}
	return Piece{}, false
}

// attention is causal softmax(q k^T / sqrt D) v, times the sigmoid of the gate if there is one. A row of qkv has queries, gates, keys and
// values, in this order.
func (p *program) attention(c Config, backward bool) {
	p.Stage("attention")
	a, b, t := c.Attention, c.Batch, c.Tokens
	heads := []int{a.Heads, a.HeadsKV, a.HeadsKV}
	if a.Gate {
		heads = append(heads, a.Heads)
	}
	width := 0
	for _, n := range heads {
		width += n * a.Dim
	}
	x := p.Reshape(p.param("qkv", b*t, width), b, t, width)
	// split returns [B, heads, T, D] of n heads from [B, T, heads D], each repeated for its query heads.
	split := func(x *ir.Value, n int) *ir.Value {
		x = p.Transpose(p.Reshape(x, b, t, n, a.Dim), 0, 2, 1, 3)
		return p.Reshape(p.Broadcast(x, []int{b, n, a.Heads / n, t, a.Dim}, 0, 1, 3, 4), b, a.Heads, t, a.Dim)
	}
	// join is the gradient of split.
	join := func(x *ir.Value, n int) *ir.Value {
		x = p.Sum(p.Reshape(x, b, n, a.Heads/n, t, a.Dim), 2)
		return p.Reshape(p.Transpose(x, 0, 2, 1, 3), b, t, n*a.Dim)
	}
	var parts []*ir.Value
	at := 0
	for _, n := range heads {
		parts = append(parts, split(p.SliceAxis(x, 2, at, at+n*a.Dim), n))
		at += n * a.Dim
	}
	dot := func(x, y *ir.Value, tx, ty bool) *ir.Value {
		return p.MatMul(p.Convert(x, p.narrow), p.Convert(y, p.narrow), tx, ty, p.product())
	}
	over := func(op ir.Op, x *ir.Value) *ir.Value {
		return p.Append(op, []*ir.Value{x}, ir.Attrs{Dims: []int{3}}, nil)[0]
	}
	q, k, v := parts[0], parts[1], parts[2]
	s := p.Scale(p.Convert(dot(q, k, false, true), p.wide), 1/math.Sqrt(float64(a.Dim)))
	place := ir.T(ir.I32, s.Type.Shape...)
	s = p.Select(p.Compare(ir.GE, p.Iota(place, 2), p.Iota(place, 3)), s, p.Like(s, -1e30))
	e := p.Exp(p.Sub(s, p.rows(over(ir.OpReduceMax, s), s)))
	w := p.Div(e, p.rows(over(ir.OpReduceSum, e), e))
	o := p.Convert(dot(w, v, false, false), p.wide)
	var gate *ir.Value
	if a.Gate {
		gate = p.Unary(ir.OpLogistic, p.Convert(parts[3], p.wide))
	}
	if !backward {
		if gate != nil {
			o = p.Mul(o, gate)
		}
		p.give("o", p.Reshape(join(o, a.Heads), b*t, a.Heads*a.Dim))
		return
	}
	do := split(p.Reshape(p.input("do", b*t, a.Heads*a.Dim), b, t, a.Heads*a.Dim), a.Heads)
	var dgate []*ir.Value
	if gate != nil {
		dgate = append(dgate, join(p.Mul(p.Mul(do, o), p.Mul(gate, p.Sub(p.Like(gate, 1), gate))), a.Heads))
		do = p.Mul(do, gate)
	}
	dw := p.Convert(dot(do, v, false, true), p.wide)
	ds := p.Scale(p.Mul(w, p.Sub(dw, p.rows(over(ir.OpReduceSum, p.Mul(dw, w)), w))), 1/math.Sqrt(float64(a.Dim)))
	all := []*ir.Value{join(dot(ds, k, false, false), a.Heads), join(dot(ds, q, true, false), a.HeadsKV), join(dot(w, do, true, false), a.HeadsKV)}
	for i := range all {
		all[i] = p.Convert(all[i], p.wide)
	}
	p.give("dqkv", p.Reshape(p.Concat(2, append(all, dgate...)...), b*t, width))
}
