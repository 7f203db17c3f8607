package model

import "github.com/gdngen/gdngen/ir"

// eps is added to a mean square before its root.
const eps = 1e-6

// program builds the module of a part. Values between parts are narrow, sums and elementwise work wide.
type program struct {
	*ir.Builder
	wide, narrow ir.DType
	plain        bool // no grids
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
	dy := p.input("dy", t, d)
	r, n := p.unit(x)
	p.give("dx", p.unitBack(r, n, p.Mul(dy, p.lanes(w, dy))))
	p.giveWide("dw", p.Sum(p.Mul(dy, n), 0))
}

// unit scales rows to mean square 1; r is by what.
func (p *program) unit(x *ir.Value) (r, n *ir.Value) {
	d := float64(x.Type.Shape[x.Type.Rank()-1])
	mean := p.Scale(p.overLanes(p.Mul(x, x)), 1/d)
	r = p.Unary(ir.OpRsqrt, p.Add(mean, p.Like(mean, eps)))
	return r, p.Mul(x, p.rows(r, x))
}

// unitBack is the gradient of x from that of n = unit(x): r (dn - n mean(dn n)).
func (p *program) unitBack(r, n, dn *ir.Value) *ir.Value {
	d := float64(n.Type.Shape[n.Type.Rank()-1])
	mean := p.Scale(p.overLanes(p.Mul(dn, n)), 1/d)
	return p.Mul(p.Sub(dn, p.Mul(n, p.rows(mean, n))), p.rows(r, n))
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
	r, n := c.Rule, c.Rule.Conv-1
	after := (n + 7) / 8 * 8 // tokens of the next block that the gradient of this one needs, in whole registers
	parts := []struct {
		name string
		h, d int
	}{{"q", r.HeadsK, r.K}, {"k", r.HeadsK, r.K}, {"v", r.HeadsV, r.V}}
	mixed, w := p.param("mixed", c.Batch, c.Tokens, r.qkv()), p.param("taps", r.Conv, r.qkv())
	m := tokenMap{name: "convolution", batch: c.Batch, lanes: commonWidth(r.HeadsK*r.K, r.HeadsV*r.V),
		tokens: []tokens{{pieces: []*ir.Value{mixed}, before: true}}, weights: []*ir.Value{w}}
	if !backward {
		for _, part := range parts {
			m.gives = append(m.gives, part.h*part.d)
		}
		y := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
			x, w := in[0], in[1]
			return []*ir.Value{p.silu(p.taps(p.shifted(x, r.Conv, halo-n, 1, x.Type.Shape[1]-halo), w))}, nil
		})
		for i, part := range parts {
			p.give(part.name, p.Reshape(y[i], c.Batch, c.Tokens, part.h, part.d))
		}
		return
	}
	var dy []*ir.Value
	for _, part := range parts {
		dy = append(dy, p.Reshape(p.param("d"+part.name, c.Batch, c.Tokens, part.h, part.d), c.Batch, c.Tokens, part.h*part.d))
	}
	m.name, m.gives, m.sums = "convolution_back", []int{r.qkv()}, []int{r.Conv}
	m.tokens[0].after = true
	m.tokens = append(m.tokens, tokens{pieces: dy, after: true})
	g := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
		x, dy, w := in[0], in[1], in[2]
		t := dy.Type.Shape[1] - halo
		xs := p.shifted(x, r.Conv, halo-n, 1, t+after)
		ds := p.Mul(p.SliceAxis(dy, 1, 0, t+after), p.siluBack(p.taps(xs, w)))
		now := p.SliceAxis(ds, 1, 0, t)
		for _, x := range xs {
			sums = append(sums, p.overTokensOf(p.Mul(now, p.SliceAxis(x, 1, 0, t))))
		}
		return []*ir.Value{p.taps(p.shifted(ds, r.Conv, n, -1, t), w)}, []*ir.Value{p.Concat(1, sums...)}
	})
	p.give("dmixed", g[0])
	p.giveWide("dtaps", g[1])
}

// shifted gives t tokens of x [N, tokens, lanes] from token at on, then those from at + step on, and so forth.
func (p *program) shifted(x *ir.Value, count, at, step, t int) []*ir.Value {
	var list []*ir.Value
	for j := range count {
		list = append(list, p.SliceAxis(x, 1, at+j*step, at+j*step+t))
	}
	return list
}

// taps sums xs[j] [N, tokens, lanes] times row j of w [N, taps, lanes] over j.
func (p *program) taps(xs []*ir.Value, w *ir.Value) *ir.Value {
	var y *ir.Value
	for j, x := range xs {
		row := p.Reshape(p.SliceAxis(w, 1, j, j+1), w.Type.Shape[0], w.Type.Shape[2])
		term := p.Mul(x, p.Broadcast(row, x.Type.Shape, 0, 2))
		if y == nil {
			y = term
		} else {
			y = p.Add(y, term)
		}
	}
	return y
}

// gatedNorm is RMSNorm over each head of o [B, T, Hv, V] with one weight [V], times SiLU of z [B, T, Hv V].
func (p *program) gatedNorm(c Config, backward bool) {
	p.Stage("gated-norm")
	r := c.Rule
	flat := func(x *ir.Value) tokens { return tokens{pieces: []*ir.Value{p.Reshape(x, c.Batch, c.Tokens, r.z())}} }
	o, z := p.param("o", c.Batch, c.Tokens, r.HeadsV, r.V), p.param("z", c.Batch, c.Tokens, r.z())
	w := p.Reshape(p.param("weight", r.V), 1, r.V)
	m := tokenMap{name: "gated_norm", batch: c.Batch, lanes: r.V, tokens: []tokens{flat(o), flat(z)}, weights: []*ir.Value{w}, gives: []int{r.z()}}
	// scaled repeats the weight [N, 1, V] over tokens.
	scaled := func(p *program, w, x *ir.Value) *ir.Value {
		return p.Broadcast(p.Reshape(w, w.Type.Shape[0], w.Type.Shape[2]), x.Type.Shape, 0, 2)
	}
	if !backward {
		y := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
			_, n := p.unit(in[0])
			return []*ir.Value{p.Mul(p.Mul(n, scaled(p, in[2], n)), p.silu(in[1]))}, nil
		})
		p.give("y", y[0])
		return
	}
	m.name, m.gives, m.sums = "gated_norm_back", []int{r.z(), r.z()}, []int{1}
	m.tokens = append(m.tokens, flat(p.param("dy", c.Batch, c.Tokens, r.z())))
	g := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
		o, z, dy, w := in[0], in[1], in[2], scaled(p, in[3], in[0])
		scale, n := p.unit(o)
		dz := p.Mul(p.Mul(dy, p.Mul(n, w)), p.siluBack(z))
		dn := p.Mul(dy, p.silu(z))
		return []*ir.Value{p.unitBack(scale, n, p.Mul(dn, w)), dz}, []*ir.Value{p.overTokensOf(p.Mul(dn, n))}
	})
	p.give("do", p.Reshape(g[0], c.Batch, c.Tokens, r.HeadsV, r.V))
	p.give("dz", g[1])
	p.giveWide("dweight", p.Reshape(g[2], r.V))
}

// swiglu is SiLU of the first half of the lanes times the second.
func (p *program) swiglu(t, d int, backward bool) {
	p.Stage("SwiGLU")
	operand := func(name string, width int) tokens {
		return tokens{pieces: []*ir.Value{p.Reshape(p.param(name, t, width), 1, t, width)}}
	}
	m := tokenMap{name: "swiglu", batch: 1, lanes: commonWidth(d, d), tokens: []tokens{operand("h", 2*d)}, gives: []int{d}}
	halves := func(p *program, h *ir.Value) (gate, up *ir.Value) {
		n := h.Type.Shape[0] / 2
		return p.SliceAxis(h, 0, 0, n), p.SliceAxis(h, 0, n, 2*n)
	}
	if !backward {
		y := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
			gate, up := halves(p, in[0])
			return []*ir.Value{p.Mul(p.silu(gate), up)}, nil
		})
		p.give("y", p.Reshape(y[0], t, d))
		return
	}
	m.name, m.gives = "swiglu_back", []int{2 * d}
	m.tokens = append(m.tokens, operand("dy", d))
	g := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
		gate, up := halves(p, in[0])
		dy := in[1]
		return []*ir.Value{p.Concat(0, p.Mul(p.Mul(dy, up), p.siluBack(gate)), p.Mul(dy, p.silu(gate)))}, nil
	})
	p.give("dh", p.Reshape(g[0], t, 2*d))
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
