package model

import (
	"cmp"
	"math"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// eps is added to a mean square before its root.
const eps = 1e-6

// program builds the module of a part. Values between parts are narrow (bf16), sums and elementwise work wide (f32).
type program struct {
	*ir.Builder
	wide, narrow ir.DType
	plain        bool // without grids
	kernel       bool // inside a grid's body
	names        []string
	results      []*ir.Value
	weights      map[string]*ir.Value // weights of products by name
}

// param adds a narrow parameter.
func (p *program) param(name string, shape ...int) *ir.Value {
	return p.Param(name, ir.T(p.narrow, shape...))
}

// weight adds the weights [in, out] of a product, or returns them if they exist.
func (p *program) weight(name string, in, out int) *ir.Value {
	if p.weights == nil {
		p.weights = map[string]*ir.Value{}
	}
	if p.weights[name] == nil {
		p.weights[name] = p.param("w_"+name, in, out)
	}
	return p.weights[name]
}

// input adds a narrow parameter and returns it widened.
func (p *program) input(name string, shape ...int) *ir.Value {
	return p.Convert(p.param(name, shape...), p.wide)
}

// give adds a narrow result.
func (p *program) give(name string, x *ir.Value) {
	p.names, p.results = append(p.names, name), append(p.results, p.Convert(x, p.narrow))
}

// giveWide adds a wide result, such as the gradient of a weight.
func (p *program) giveWide(name string, x *ir.Value) {
	p.names, p.results = append(p.names, name), append(p.results, x)
}

// rows broadcasts a vector along the last dimension of x to x's shape.
func (p *program) rows(v, x *ir.Value) *ir.Value {
	dims := make([]int, x.Type.Rank()-1)
	for i := range dims {
		dims[i] = i
	}
	return p.Broadcast(v, x.Type.Shape, dims...)
}

// overLanes sums over the last dimension.
func (p *program) overLanes(x *ir.Value) *ir.Value { return p.Sum(x, x.Type.Rank()-1) }

// dense returns the products y = x W of x [t, in] with weights w_name [in, width].
func (p *program) dense(x *ir.Value, names []string, widths ...int) (ys []*ir.Value) {
	p.Stage("projection")
	for i, width := range widths {
		ys = append(ys, p.MatMul(x, p.weight(names[i], x.Type.Shape[1], width), false, false, p.product()))
	}
	return ys
}

// denseBack is the backward pass of dense: dW = x^T dy, and dx is the sum of dy W^T. Its terms are narrow; wide ones would go through HBM.
func (p *program) denseBack(x *ir.Value, names []string, dys ...*ir.Value) (dx *ir.Value) {
	p.Stage("projection")
	for i, dy := range dys {
		t, width := x.Type.Shape[0], dy.Type.Size()/x.Type.Shape[0]
		dy = p.Convert(p.Reshape(dy, t, width), p.narrow)
		p.giveWide("dw_"+names[i], p.MatMul(x, dy, true, false, p.product()))
		d := p.Convert(p.MatMul(dy, p.weight(names[i], x.Type.Shape[1], width), false, true, p.product()), p.narrow)
		if dx != nil {
			d = p.Convert(p.Add(p.Convert(dx, p.wide), p.Convert(d, p.wide)), p.narrow)
		}
		dx = d
	}
	return dx
}

// project is y = x W for named values [t, in] and [t, width].
func (p *program) project(x, y string, t, in, width int, backward bool) {
	from, names := p.param(x, t, in), []string{y}
	if !backward {
		p.give(y, p.dense(from, names, width)[0])
		return
	}
	p.give("d"+x, p.denseBack(from, names, p.param("d"+y, t, width)))
}

// projectOut is the output projection. Where c.fused, the gradient of its operand is made by gatedNorm, which reads it.
func (p *program) projectOut(c Config, backward bool) {
	t := c.Batch * c.Tokens
	if !backward || !c.fused() {
		p.project("normed", "out", t, c.Rule.z(), c.Hidden, backward)
		return
	}
	p.Stage("projection")
	p.giveWide("dw_out", p.MatMul(p.param("normed", t, c.Rule.z()), p.param("dout", t, c.Hidden), true, false, p.product()))
}

// fused reports whether convolution makes its input, and the backward pass of gatedNorm the gradient that it reads, which are products with weights of
// the layer: the weights [hidden, width] fit vector memory.
func (c Config) fused() bool {
	r := c.Rule
	whole := !r.channels() && c.Tokens%blockTokens == 0 && r.V == target.Lanes && r.K%target.Lanes == 0 && c.Hidden%target.Lanes == 0
	return whole && 32*c.Hidden*max(r.qkv(), r.z()) <= cmp.Or(c.VMEM, leastMemory)
}

// projectIn computes the convolution's input, the norm's gate z, and the raw gates a and b. Where c.fused, convolution makes the first.
func (p *program) projectIn(c Config, backward bool) {
	t, r := c.Batch*c.Tokens, c.Rule
	if r.channels() {
		p.projectChannels(c, backward)
		return
	}
	n, names := p.param("n", t, c.Hidden), []string{"mixed", "z", "gates"}
	if !backward {
		if !c.fused() {
			p.give("mixed", p.Reshape(p.dense(n, names, r.qkv())[0], c.Batch, c.Tokens, r.qkv()))
		}
		y := p.dense(n, names[1:], r.z(), 2*r.HeadsV)
		p.give("z", p.Reshape(y[0], c.Batch, c.Tokens, r.z()))
		for i, name := range []string{"a", "b"} {
			p.giveWide(name, p.Reshape(p.SliceAxis(y[1], 1, i*r.HeadsV, (i+1)*r.HeadsV), c.Batch, c.Tokens, r.HeadsV))
		}
		return
	}
	gate := func(name string) *ir.Value {
		return p.Reshape(p.Param(name, ir.T(p.wide, c.Batch, c.Tokens, r.HeadsV)), t, r.HeadsV)
	}
	dmixed, dz := p.param("dmixed", c.Batch, c.Tokens, r.qkv()), p.param("dz", c.Batch, c.Tokens, r.z())
	p.give("dn", p.denseBack(n, names, dmixed, dz, p.Concat(1, gate("da"), gate("db"))))
}

// inputs lists the input projections of a rule with per-channel decays, some through a rank.
func (c Config) inputs() []projected {
	b, t, r := c.Batch, c.Tokens, c.Rule
	return []projected{
		{"mixed", 0, r.qkv(), []int{b, t, r.qkv()}}, {"z", r.GateRank, r.z(), []int{b, t, r.z()}},
		{"a", r.DecayRank, r.decays(), []int{b, t, r.decays()}}, {"b", 0, r.HeadsV, []int{b, t, r.HeadsV}},
	}
}

type projected struct {
	name        string
	rank, width int
	shape       []int
}

// first returns name and width of the projection that reads the layer's input.
func (x projected) first() (string, int) {
	if x.rank > 0 {
		return x.name + "_down", x.rank
	}
	return x.name, x.width
}

// inputWeights returns the number of weights of the input projection.
func (c Config) inputWeights() (n int) {
	if !c.Rule.channels() {
		return c.Hidden * (c.Rule.qkv() + c.Rule.z() + 2*c.Rule.HeadsV)
	}
	for _, x := range c.inputs() {
		_, width := x.first()
		n += c.Hidden*width + x.rank*x.width
	}
	return n
}

// projectChannels is projectIn for a rule with per-channel decays. The backward pass recomputes the narrow values between two projections.
func (p *program) projectChannels(c Config, backward bool) {
	n := p.param("n", c.Batch*c.Tokens, c.Hidden)
	var names []string
	var gradients []*ir.Value
	for _, x := range c.inputs() {
		name, width := x.first()
		names = append(names, name)
		var y *ir.Value
		if !backward || x.rank > 0 {
			y = p.dense(n, []string{name}, width)[0]
		}
		if x.rank > 0 {
			y = p.Convert(y, p.narrow)
		}
		switch {
		case backward:
			dy := p.param("d"+x.name, x.shape...)
			if x.rank > 0 {
				dy = p.denseBack(y, []string{x.name}, dy)
			}
			gradients = append(gradients, dy)
		case x.rank > 0:
			p.give(x.name, p.Reshape(p.dense(y, []string{x.name}, x.width)[0], x.shape...))
		default:
			p.give(x.name, p.Reshape(y, x.shape...))
		}
	}
	if backward {
		p.give("dn", p.denseBack(n, names, gradients...))
	}
}

// upAndGate computes both operands of a SwiGLU.
func (p *program) upAndGate(t, d, width int, backward bool) {
	n, names := p.param("n", t, d), []string{"gate", "up"}
	if backward {
		p.give("dn", p.denseBack(n, names, p.param("dgate", t, width), p.param("dup", t, width)))
		return
	}
	for i, y := range p.dense(n, names, width, width) {
		p.give(names[i], y)
	}
}

func (p *program) product() ir.Precision {
	if p.narrow == ir.BF16 {
		return ir.PrecBF16x1
	}
	return ir.PrecF32
}

// norm is RMSNorm: n = w x / rms(x). It reads x once; XLA would read it for the squares and again for a product. If residual is named, its
// gradient is added to the gradient of x.
func (p *program) norm(t, d int, backward bool, residual string) {
	p.Stage("norm")
	flat := func(name string) tokens { return tokens{pieces: []*ir.Value{p.Reshape(p.param(name, t, d), 1, t, d)}} }
	m := tokenMap{name: "norm", batch: 1, lanes: d, tokens: []tokens{flat("x")}, weights: []*ir.Value{p.Reshape(p.param("scale", d), 1, d)}, gives: []int{d}}
	if !backward {
		y := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
			_, u := p.unit(in[0], float64(d))
			return []*ir.Value{p.weighed(u, in[1])}, nil
		})
		p.give("n", p.Reshape(y[0], t, d))
		return
	}
	m.name, m.sums, m.tokens = "norm_back", []int{1}, append(m.tokens, flat("dn"))
	if residual != "" {
		m.tokens = append(m.tokens, flat(residual))
	}
	y := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
		x, dn := in[0], in[1]
		r, u := p.unit(x, float64(d))
		du := p.weighed(dn, in[len(in)-1])
		dx := p.unitBack(r, u, du, p.Mul(du, u), float64(d))
		if residual != "" {
			dx = p.Add(dx, in[2])
		}
		return []*ir.Value{dx}, []*ir.Value{p.overTokensOf(p.Mul(dn, u))}
	})
	p.give("dx", p.Reshape(y[0], t, d))
	p.giveWide("dscale", p.Reshape(y[1], d))
}

// unit returns a row factor r and u = r x, whose squares sum to sum over a row. RMSNorm of width d would use d. If a row is one register, multiplying by a
// row factor costs an instruction per row, so sum is 1 there and sqrt(d) is multiplied into the weight.
func (p *program) unit(x *ir.Value, sum float64) (r, u *ir.Value) {
	squares := p.overLanes(p.Mul(x, x))
	squares = p.Add(squares, p.Like(squares, eps*float64(x.Type.Shape[x.Type.Rank()-1])))
	r = p.Unary(ir.OpRsqrt, p.by(squares, 1/sum))
	return r, p.Mul(x, p.rows(r, x))
}

// unitBack returns the gradient of x from du, with product = du u: r (du - u total / sum), where total is the sum of du u over a row.
func (p *program) unitBack(r, u, du, product *ir.Value, sum float64) *ir.Value {
	total := p.by(p.overLanes(product), 1/sum)
	return p.Mul(p.Sub(du, p.Mul(u, p.rows(total, u))), p.rows(r, u))
}

// by returns x times a number, or x itself for 1.
func (p *program) by(x *ir.Value, factor float64) *ir.Value {
	if factor == 1 {
		return x
	}
	return p.Scale(x, factor)
}

// inStrips computes values of t tokens [N, t, lanes] in strips, one after another, since values of all tokens of a step would not stay in registers. Do
// not use it for sums over lanes, since the next strip would wait for them.
func (p *program) inStrips(t int, of func(from, to int) *ir.Value) *ir.Value {
	if !p.kernel {
		return of(0, t)
	}
	var list []*ir.Value
	for from := 0; from < t; {
		to := from + strip
		if t-to < strip {
			to = t
		}
		list = append(list, of(from, to))
		from = to
	}
	return p.Concat(1, list...)
}

// rooted returns x times sqrt(d), d the width of a norm.
func (p *program) rooted(x *ir.Value, d int) *ir.Value { return p.Scale(x, math.Sqrt(float64(d))) }

// silu is x s(x), with s the logistic function; siluBack is its derivative s (1 + x (1 - s)).
func (p *program) silu(x *ir.Value) *ir.Value { return p.Mul(x, p.Unary(ir.OpLogistic, x)) }

func (p *program) siluBack(x *ir.Value) *ir.Value {
	s := p.Unary(ir.OpLogistic, x)
	one := p.Like(x, 1)
	return p.Mul(s, p.Add(one, p.Mul(x, p.Sub(one, s))))
}

// twiceSiluBack is twice the derivative of SiLU at 2h: (1 + t) (1 + h (1 - t)) with t = tanh(h). SiLU(2h) is h + h t.
func (p *program) twiceSiluBack(h *ir.Value) *ir.Value {
	t, one := p.Unary(ir.OpTanh, h), p.Like(h, 1)
	return p.Mul(p.Add(one, t), p.Add(one, p.Mul(h, p.Sub(one, t))))
}

// convolution is the causal depthwise convolution of mixed [B, T, qkv] with taps [W, qkv], the current token's tap last, then SiLU. The result is split
// into q, k [B, T, Hk K] and v [B, T, Hv V]. Where c.fused, it makes mixed from n, and gives slope, twice the derivative of SiLU, for the backward pass.
func (p *program) convolution(c Config, backward bool) {
	p.Stage("convolution")
	r, n := c.Rule, c.Rule.Conv-1
	w := p.param("taps", r.Conv, r.qkv())
	m := tokenMap{name: "convolution", batch: c.Batch, lanes: commonWidth(r.HeadsK*r.K, r.HeadsV*r.V), weights: []*ir.Value{w}}
	if backward {
		p.convolutionBack(c, m)
		return
	}
	for _, part := range r.convolved() {
		m.gives = append(m.gives, part.width)
	}
	fused := c.fused()
	if fused {
		x := p.Reshape(p.param("n", c.Batch*c.Tokens, c.Hidden), c.Batch, c.Tokens, c.Hidden)
		m.tokens = []tokens{{pieces: []*ir.Value{x}, before: true, by: p.weight("mixed", c.Hidden, r.qkv())}}
		m.gives = append(m.gives, r.qkv(), r.qkv())
	} else {
		m.tokens = []tokens{{pieces: []*ir.Value{p.param("mixed", c.Batch, c.Tokens, r.qkv())}, before: true}}
	}
	y := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
		x, half := in[0], p.Scale(in[1], .5)
		t := x.Type.Shape[1] - halo
		hs := func(from, to int) *ir.Value { return p.taps(p.shifted(x, r.Conv, halo-n+from, 1, to-from), half) }
		if !fused {
			return []*ir.Value{p.inStrips(t, func(from, to int) *ir.Value {
				h := hs(from, to)
				return p.Add(h, p.Mul(h, p.Unary(ir.OpTanh, h)))
			})}, nil
		}
		var slopes []*ir.Value
		y := p.inStrips(t, func(from, to int) *ir.Value {
			h := hs(from, to)
			u := p.Unary(ir.OpTanh, h)
			u = p.Add(u, p.Like(u, 1))
			y := p.Mul(h, u)
			slopes = append(slopes, p.Convert(p.Add(u, p.Mul(y, p.Sub(p.Like(u, 2), u))), p.narrow))
			return y
		})
		mixed := p.inStrips(t, func(from, to int) *ir.Value {
			return p.Convert(p.SliceAxis(x, 1, halo+from, halo+to), p.narrow)
		})
		return []*ir.Value{y, mixed, p.Concat(1, slopes...)}, nil
	})
	names := []string{"q", "k", "v", "mixed", "slope"}
	for i, y := range y {
		p.give(names[i], y)
	}
}

// convolved lists what the convolution gives.
func (r Rule) convolved() []projected {
	return []projected{{name: "q", width: r.HeadsK * r.K}, {name: "k", width: r.HeadsK * r.K}, {name: "v", width: r.HeadsV * r.V}}
}

// convolutionBack is the backward pass of convolution: the gradients of mixed and taps.
func (p *program) convolutionBack(c Config, m tokenMap) {
	r, n, fused := c.Rule, c.Rule.Conv-1, c.fused()
	after := (n + 7) / 8 * 8 // tokens of the next block that this block's gradient needs, in whole registers
	mixed := p.param("mixed", c.Batch, c.Tokens, r.qkv())
	var dy []*ir.Value
	for _, part := range r.convolved() {
		dy = append(dy, p.param("d"+part.name, c.Batch, c.Tokens, part.width))
	}
	m.name, m.gives, m.sums = "convolution_back", []int{r.qkv()}, []int{r.Conv}
	m.tokens = []tokens{{pieces: []*ir.Value{mixed}, before: true, after: !fused}, {pieces: dy, after: true}}
	if fused {
		m.tokens = append(m.tokens, tokens{pieces: []*ir.Value{p.param("slope", c.Batch, c.Tokens, r.qkv())}, after: true})
	}
	g := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
		x, dy, w := in[0], in[1], in[len(in)-1]
		t, half := dy.Type.Shape[1]-halo, p.Scale(w, .5)
		ds := p.inStrips(t+after, func(from, to int) *ir.Value {
			if fused {
				return p.Mul(p.SliceAxis(dy, 1, from, to), p.SliceAxis(in[2], 1, from, to))
			}
			h := p.taps(p.shifted(x, r.Conv, halo-n+from, 1, to-from), half)
			return p.Mul(p.SliceAxis(dy, 1, from, to), p.twiceSiluBack(h))
		})
		totals := make([]*ir.Value, r.Conv)
		dx := p.inStrips(t, func(from, to int) *ir.Value {
			now := p.SliceAxis(ds, 1, from, to)
			for j, x := range p.shifted(x, r.Conv, halo-n+from, 1, to-from) {
				if x = p.Mul(now, x); totals[j] != nil {
					x = p.Add(totals[j], x)
				}
				totals[j] = x
			}
			return p.taps(p.shifted(ds, r.Conv, n+from, -1, to-from), half)
		})
		for _, x := range totals {
			sums = append(sums, p.overTokensOf(x))
		}
		return []*ir.Value{dx}, []*ir.Value{p.Scale(p.Concat(1, sums...), .5)}
	})
	p.give("dmixed", g[0])
	p.giveWide("dtaps", g[1])
}

// weighed returns x [N, tokens, lanes] times a weight [N, 1, lanes].
func (p *program) weighed(x, w *ir.Value) *ir.Value {
	return p.Mul(x, p.Broadcast(p.Reshape(w, w.Type.Shape[0], w.Type.Shape[2]), x.Type.Shape, 0, 2))
}

// shifted returns count slices of t tokens of x [N, tokens, lanes], which start at at, at + step, and so on.
func (p *program) shifted(x *ir.Value, count, at, step, t int) []*ir.Value {
	var list []*ir.Value
	for j := range count {
		list = append(list, p.SliceAxis(x, 1, at+j*step, at+j*step+t))
	}
	return list
}

// taps returns the sum over j of xs[j] [N, tokens, lanes] times row j of w [N, taps, lanes].
func (p *program) taps(xs []*ir.Value, w *ir.Value) *ir.Value {
	var y *ir.Value
	for j, x := range xs {
		term := p.weighed(x, p.SliceAxis(w, 1, j, j+1))
		if y == nil {
			y = term
		} else {
			y = p.Add(y, term)
		}
	}
	return y
}

// gatedNorm is RMSNorm over each head of o [B, T, Hv V] with one weight [V], times SiLU of z [B, T, Hv V], or the logistic function of z.
//
// With s the logistic function, SiLU is z s with derivative s (1 + z - z s), so dy s occurs in both gradients. The derivative of s is s (1 - s).
func (p *program) gatedNorm(c Config, backward bool) {
	p.Stage("gated-norm")
	r := c.Rule
	flat := func(name string, width int) tokens {
		return tokens{pieces: []*ir.Value{p.Reshape(p.param(name, c.Batch*c.Tokens, width), c.Batch, c.Tokens, width)}}
	}
	o, z := p.param("o", c.Batch, c.Tokens, r.z()), p.param("z", c.Batch, c.Tokens, r.z())
	w := p.Reshape(p.param("weight", r.V), 1, r.V)
	m := tokenMap{name: "gated_norm", batch: c.Batch, lanes: r.V, tokens: []tokens{{pieces: []*ir.Value{o}}, {pieces: []*ir.Value{z}}}, weights: []*ir.Value{w}, gives: []int{r.z()}}
	// over broadcasts the weight [N, 1, V] over tokens.
	over := func(p *program, w, x *ir.Value) *ir.Value {
		return p.Broadcast(p.rooted(p.Reshape(w, w.Type.Shape[0], w.Type.Shape[2]), r.V), x.Type.Shape, 0, 2)
	}
	if !backward {
		y := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
			_, u := p.unit(in[0], 1)
			u = p.Mul(u, over(p, in[2], u))
			if r.SigmoidGate {
				return []*ir.Value{p.Mul(u, p.Unary(ir.OpLogistic, in[1]))}, nil
			}
			return []*ir.Value{p.Mul(u, p.silu(in[1]))}, nil
		})
		p.give("normed", p.Reshape(y[0], c.Batch*c.Tokens, r.z()))
		return
	}
	m.name, m.main, m.gives, m.sums = "gated_norm_back", true, []int{r.z(), r.z()}, []int{1}
	if c.fused() {
		dy := flat("dout", c.Hidden)
		dy.by, dy.turned = p.weight("out", r.z(), c.Hidden), true
		m.tokens = append(m.tokens, dy)
	} else {
		m.tokens = append(m.tokens, flat("dnormed", r.z()))
	}
	g := p.overTokens(m, func(p *program, in []*ir.Value) (out, sums []*ir.Value) {
		o, z, dy, w := in[0], in[1], in[2], over(p, in[3], in[0])
		scale, u := p.unit(o, 1)
		s := p.Unary(ir.OpLogistic, z)
		ds := p.Mul(dy, s)
		times := func(x *ir.Value) *ir.Value { // multiplies by the factor of SiLU other than s
			if r.SigmoidGate {
				return x
			}
			return p.Mul(x, z)
		}
		dn := times(ds)
		gate := p.Mul(ds, p.Mul(u, w))
		product := times(gate)
		dz := p.Mul(product, p.Sub(p.Like(s, 1), s))
		if !r.SigmoidGate {
			dz = p.Add(gate, dz)
		}
		return []*ir.Value{p.unitBack(scale, u, p.Mul(dn, w), product, 1), dz}, []*ir.Value{p.rooted(p.overTokensOf(p.Mul(dn, u)), r.V)}
	})
	p.give("do", g[0])
	p.give("dz", g[1])
	p.giveWide("dweight", p.Reshape(g[2], r.V))
}

// swiglu is SiLU of the gate times up. The compiler fuses it into the neighbouring products.
func (p *program) swiglu(t, d int, backward bool) {
	p.Stage("SwiGLU")
	gate, up := p.input("gate", t, d), p.input("up", t, d)
	if !backward {
		p.give("inner", p.Mul(p.silu(gate), up))
		return
	}
	dy := p.input("dinner", t, d)
	p.give("dgate", p.Mul(p.Mul(dy, up), p.siluBack(gate)))
	p.give("dup", p.Mul(dy, p.silu(gate)))
}
