package model

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// eps is added to a mean square before its root.
const eps = 1e-6

// program builds the module of a part. Values between parts are narrow, sums and elementwise work wide.
type program struct {
	*ir.Builder
	wide, narrow ir.DType
	names        []string
	results      []*ir.Value
}

// param adds a narrow parameter.
func (p *program) param(name string, shape ...int) *ir.Value {
	return p.Param(name, ir.T(p.narrow, shape...))
}

// input adds a narrow parameter and widens it.
func (p *program) input(name string, shape ...int) *ir.Value {
	return p.Convert(p.param(name, shape...), p.wide)
}

// give adds a narrow result.
func (p *program) give(name string, x *ir.Value) {
	p.names, p.results = append(p.names, name), append(p.results, p.Convert(x, p.narrow))
}

// giveWide adds a wide result: the gradient of a weight.
func (p *program) giveWide(name string, x *ir.Value) {
	p.names, p.results = append(p.names, name), append(p.results, x)
}

// lanes repeats a vector over the last dimension of x's shape, rows one over the others.
func (p *program) lanes(v, x *ir.Value) *ir.Value {
	return p.Broadcast(v, x.Type.Shape, x.Type.Rank()-1)
}

func (p *program) rows(v, x *ir.Value) *ir.Value {
	dims := make([]int, x.Type.Rank()-1)
	for i := range dims {
		dims[i] = i
	}
	return p.Broadcast(v, x.Type.Shape, dims...)
}

// overRows sums over all dimensions but the last.
func (p *program) overRows(x *ir.Value) *ir.Value {
	dims := make([]int, x.Type.Rank()-1)
	for i := range dims {
		dims[i] = i
	}
	return p.Sum(x, dims...)
}

// overLanes sums over the last dimension.
func (p *program) overLanes(x *ir.Value) *ir.Value { return p.Sum(x, x.Type.Rank()-1) }

// dense is y = x W, and its backward pass dx = dy W^T, dW = x^T dy.
func (p *program) dense(t, in, out int, backward bool) {
	p.Stage("projection")
	x, w := p.param("x", t, in), p.param("w", in, out)
	if !backward {
		p.give("y", p.MatMul(x, w, false, false, p.product()))
		return
	}
	dy := p.param("dy", t, out)
	p.give("dx", p.MatMul(dy, w, false, true, p.product()))
	p.giveWide("dw", p.MatMul(x, dy, true, false, p.product()))
}

func (p *program) product() ir.Precision {
	if p.narrow == ir.BF16 {
		return ir.PrecBF16x1
	}
	return ir.PrecF32
}

// norm is RMSNorm: y = w x / rms(x).
func (p *program) norm(t, d int, backward bool) {
	p.Stage("norm")
	x, w := p.input("x", t, d), p.input("w", d)
	if !backward {
		_, n := p.unit(x)
		p.give("y", p.Mul(n, p.lanes(w, n)))
		return
	}
	dx, dw := p.normBack(x, w, p.input("dy", t, d))
	p.give("dx", dx)
	p.giveWide("dw", dw)
}

// unit scales rows to mean square 1; r is by what.
func (p *program) unit(x *ir.Value) (r, n *ir.Value) {
	d := float64(x.Type.Shape[x.Type.Rank()-1])
	mean := p.Scale(p.overLanes(p.Mul(x, x)), 1/d)
	r = p.Unary(ir.OpRsqrt, p.Add(mean, p.Like(mean, eps)))
	return r, p.Mul(x, p.rows(r, x))
}

// normBack is the backward pass of y = w unit(x): dx = r (w dy - n mean(w dy n)), dw = sum of dy n.
func (p *program) normBack(x, w, dy *ir.Value) (dx, dw *ir.Value) {
	d := float64(x.Type.Shape[x.Type.Rank()-1])
	r, n := p.unit(x)
	g := p.Mul(dy, p.lanes(w, dy))
	mean := p.Scale(p.overLanes(p.Mul(g, n)), 1/d)
	return p.Mul(p.Sub(g, p.Mul(n, p.rows(mean, n))), p.rows(r, x)), p.overRows(p.Mul(dy, n))
}

// silu is x s(x), s the logistic function; siluBack its derivative s (1 + x (1 - s)).
func (p *program) silu(x *ir.Value) *ir.Value { return p.Mul(x, p.Unary(ir.OpLogistic, x)) }

func (p *program) siluBack(x *ir.Value) *ir.Value {
	s := p.Unary(ir.OpLogistic, x)
	one := p.Like(x, 1)
	return p.Mul(s, p.Add(one, p.Mul(x, p.Sub(one, s))))
}

// convolution is the causal depthwise convolution of mixed [B, T, qkv] with taps [W, qkv], the last tap on the token itself, then SiLU, split into
// q, k [B, T, Hk, K] and v [B, T, Hv, V].
func (p *program) convolution(c Config, backward bool) {
	p.Stage("convolution")
	mixed, taps := p.param("mixed", c.Batch, c.Tokens, c.Rule.qkv()), p.param("taps", c.Rule.Conv, c.Rule.qkv())
	if !backward {
		q, k, v := p.convolve(c, mixed, taps)
		p.give("q", q)
		p.give("k", k)
		p.give("v", v)
		return
	}
	x, w := p.Convert(mixed, p.wide), p.Convert(taps, p.wide)
	joined := func(name string, h, d int) *ir.Value {
		return p.Reshape(p.input(name, c.Batch, c.Tokens, h, d), c.Batch, c.Tokens, h*d)
	}
	r, n := c.Rule, c.Rule.Conv-1
	dy := p.Concat(2, joined("dq", r.HeadsK, r.K), joined("dk", r.HeadsK, r.K), joined("dv", r.HeadsV, r.V))
	past := p.Pad(x, 0, []int{0, n, 0}, []int{0, 0, 0})
	ds := p.Mul(dy, p.siluBack(p.taps(past, w, c.Tokens)))
	dx := p.taps(p.Pad(ds, 0, []int{0, 0, 0}, []int{0, n, 0}), p.reversed(w), c.Tokens)
	var dw []*ir.Value
	for j := range c.Rule.Conv {
		dw = append(dw, p.Reshape(p.overRows(p.Mul(ds, p.SliceAxis(past, 1, j, j+c.Tokens))), 1, r.qkv()))
	}
	p.give("dmixed", dx)
	p.giveWide("dtaps", p.Concat(0, dw...))
}

// taps sums the tokens j .. j+t of x by row j of w.
func (p *program) taps(x, w *ir.Value, t int) *ir.Value {
	var y *ir.Value
	for j := range w.Type.Shape[0] {
		slice := p.SliceAxis(x, 1, j, j+t)
		term := p.Mul(slice, p.lanes(p.Reshape(p.SliceAxis(w, 0, j, j+1), w.Type.Shape[1]), slice))
		if y == nil {
			y = term
		} else {
			y = p.Add(y, term)
		}
	}
	return y
}

// reversed gives the rows of w from the last to the first.
func (p *program) reversed(w *ir.Value) *ir.Value {
	var rows []*ir.Value
	for j := range w.Type.Shape[0] {
		rows = append(rows, p.SliceAxis(w, 0, j, j+1))
	}
	slices.Reverse(rows)
	return p.Concat(0, rows...)
}

// convolve is the forward pass of convolution.
func (p *program) convolve(c Config, mixed, taps *ir.Value) (q, k, v *ir.Value) {
	r := c.Rule
	x := p.Pad(p.Convert(mixed, p.wide), 0, []int{0, r.Conv - 1, 0}, []int{0, 0, 0})
	y := p.Convert(p.silu(p.taps(x, p.Convert(taps, p.wide), c.Tokens)), p.narrow)
	at := 0
	part := func(h, d int) *ir.Value {
		at += h * d
		return p.Reshape(p.SliceAxis(y, 2, at-h*d, at), c.Batch, c.Tokens, h, d)
	}
	q, k, v = part(r.HeadsK, r.K), part(r.HeadsK, r.K), part(r.HeadsV, r.V)
	return q, k, v
}

// gatedNorm is RMSNorm over each head of o [B, T, Hv, V] with one weight [V], times SiLU of z [B, T, Hv V].
func (p *program) gatedNorm(c Config, backward bool) {
	p.Stage("gated-norm")
	r := c.Rule
	o, z, w := p.param("o", c.Batch, c.Tokens, r.HeadsV, r.V), p.param("z", c.Batch, c.Tokens, r.z()), p.param("weight", r.V)
	if !backward {
		p.give("y", p.normGated(c, o, z, w))
		return
	}
	heads := func(x *ir.Value) *ir.Value { return p.Reshape(x, c.Batch, c.Tokens, r.HeadsV, r.V) }
	flat := func(x *ir.Value) *ir.Value { return p.Reshape(x, c.Batch, c.Tokens, r.z()) }
	dy, gate, x, weight := heads(p.input("dy", c.Batch, c.Tokens, r.z())), heads(p.Convert(z, p.wide)), p.Convert(o, p.wide), p.Convert(w, p.wide)
	_, n := p.unit(x)
	dz := p.Mul(p.Mul(dy, p.Mul(n, p.lanes(weight, n))), p.siluBack(gate))
	do, dw := p.normBack(x, weight, p.Mul(dy, p.silu(gate)))
	p.give("do", do)
	p.give("dz", flat(dz))
	p.giveWide("dweight", dw)
}

// normGated is the forward pass of gatedNorm.
func (p *program) normGated(c Config, o, z, w *ir.Value) *ir.Value {
	r := c.Rule
	_, n := p.unit(p.Convert(o, p.wide))
	y := p.Mul(n, p.lanes(p.Convert(w, p.wide), n))
	gate := p.silu(p.Reshape(p.Convert(z, p.wide), c.Batch, c.Tokens, r.HeadsV, r.V))
	return p.Reshape(p.Mul(y, gate), c.Batch, c.Tokens, r.z())
}

// swiglu is SiLU of the first half of the lanes times the second.
func (p *program) swiglu(t, d int, backward bool) {
	p.Stage("SwiGLU")
	h := p.input("h", t, 2*d)
	gate, up := p.SliceAxis(h, 1, 0, d), p.SliceAxis(h, 1, d, 2*d)
	if !backward {
		p.give("y", p.Mul(p.silu(gate), up))
		return
	}
	dy := p.input("dy", t, d)
	p.give("dh", p.Concat(1, p.Mul(p.Mul(dy, up), p.siluBack(gate)), p.Mul(dy, p.silu(gate))))
}

// loss is the mean over tokens of log sum exp(logits) - logits[label]. The forward pass gives it and each row's log sum exp; the backward pass
// takes that: dlogits = (softmax - one-hot) / tokens.
func (p *program) loss(t, vocab int, backward bool) {
	p.Stage("loss")
	x := p.input("logits", t, vocab)
	label := p.Param("labels", ir.T(ir.I32, t))
	hit := p.Compare(ir.EQ, p.Iota(ir.T(ir.I32, t, vocab), 1), p.rows(label, x))
	if !backward {
		most := p.Append(ir.OpReduceMax, []*ir.Value{x}, ir.Attrs{Dims: []int{1}}, nil)[0]
		sum := p.overLanes(p.Exp(p.Sub(x, p.rows(most, x))))
		all := p.Add(most, p.Unary(ir.OpLog, sum))
		right := p.overLanes(p.Select(hit, x, p.Like(x, 0)))
		p.giveWide("loss", p.Scale(p.Sum(p.Sub(all, right), 0), 1/float64(t)))
		p.giveWide("logsumexp", all)
		return
	}
	soft := p.Exp(p.Sub(x, p.rows(p.Param("logsumexp", ir.T(p.wide, t)), x)))
	one := p.Select(hit, p.Like(x, 1), p.Like(x, 0))
	p.give("dlogits", p.Scale(p.Sub(soft, one), 1/float64(t)))
}
