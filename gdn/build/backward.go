package build

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// The backward pass walks the chunks from the last to the first and carries dS, the gradient of the state. With beta in the
// columns, E_ij = exp(G_i - G_j) beta_j for i >= j, and S the state before the chunk, the forward pass of a chunk is
//
//	N = strict(K K^T . E)   P = scale tril(Q K^T . E)   T = (I + N)^-1   U = T (V - e^G K S)   V' = beta U
//	O = scale e^G Q S + P U                             S <- e^GC S + Kd^T U,  Kd = beta e^(GC-G) K
//
// and from dO and the gradient dS of the state after the chunk its gradients are
//
//	dU = P^T dO + Kd dS     dR = T^T dU = dV     dO' = scale e^G dO     n = -e^G dR     dS <- e^GC dS + Q^T dO' + K^T n
//	X = scale dP . E, dP = dO U^T                Y = dN . E, dN = -strict(dR U^T)       (summed over the value heads of a key head)
//	dQ = dO' S^T + X K      dK = n S^T + Ud dS^T + X^T Q + (Y + Y^T) K,  Ud = beta e^(GC-G) U
//	dbeta = rows(U . dR) / beta
//	dg_t = sum over i >= t of (rows_i W - columns_i W + r_i) + sum over j < t of y_j + e^GC <S, dS>,
//	W = dP . P + dN . N     r = rows(dO' S^T . Q + n S^T . K)     y = rows(Ud dS^T . K)
//
// The sums of rows and of columns of W cancel for the most part, so both must be of the same, once rounded, W. Or else: dR = T^T dU
// is (I + N)^T dR = dU, from which follows columns_j W + y_j = z_j, z = rows(U . dR), and
//
//	dg_t = sum over i >= t of r_i + sum over j < t of (z_j - rows_j W) + e^GC <S, dS>,
//
// without sums of columns and y. That is as accurate as the inverse and dU are: better than the first form on correlated keys where they
// are, and worse where decay is strong and they are not, since it sums over tokens whose parts in dg cancel.
//
// z is the diagonal of U dR^T. Matrices of tokens x tokens are held transposed: then only T, Q, K, X and Y are ever turned, and
// sums of rows of W are sums of registers.

// betaFloor keeps the logarithm of beta and the division by it finite; everything that beta multiplies stays in its column.
const betaFloor = 1e-20

// kept are the operands that the forward pass keeps for the backward pass; those that are nil are made again.
type kept struct {
	s, t, u []*operand // one, or a part each
}

func (k kept) list() []*operand { return slices.Concat(k.s, k.t, k.u) }

// names of what is kept, as outputs of the forward and inputs of the backward module of Training.
func (k kept) names() []string {
	var l []string
	for _, n := range []struct {
		name string
		ops  []*operand
	}{{"kept_s", k.s}, {"kept_t", k.t}, {"kept_u", k.u}} {
		for i := range n.ops {
			l = append(l, n.name+[]string{"", "_rest"}[i])
		}
	}
	return l
}

// Training makes a training step as two programs, for callers that compute the loss between them. The forward module
// takes the inputs of the forward spec and gives its outputs, then what v keeps: kept_s, kept_t, kept_u as far as save says, each
// with a kept_x_rest where it is kept as two parts.
// The backward module takes the inputs of the spec with direction=train, then what is kept, and gives the gradients. The
// direction of s does not matter.
func Training(s gdn.Spec, v gdn.Variant) (forward, backward *ir.Module, err error) {
	s.Direction = gdn.Train
	if s.Rule != (gdn.Rule{}) && !s.Rule.Channels() {
		return nil, nil, fmt.Errorf("variant: the two passes of rule=%s are no modules of their own: build direction=train, or take rule=gdn", s.Rule)
	}
	if err := v.Check(s); err != nil {
		return nil, nil, err
	}
	v = v.Fit(s)
	plain := s
	plain.Direction = gdn.Forward
	forward, b := ir.NewModule("gdn_forward")
	p := newPlan(s, v, b, plain.Inputs())
	in := p.glueIn()
	r, keep := p.forward(in, v.Training.Save != gdn.SaveNone, true)
	results := p.glueOut(in, r)
	var names []string
	for _, o := range s.Results() {
		names = append(names, o.Name)
	}
	for i, o := range keep.list() {
		results, names = append(results, o.value), append(names, keep.names()[i])
	}
	if err = b.Finish(forward, names, results); err == nil {
		err = p.schedule(forward, v)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build the forward pass of %s by %s: %w", s, v, err)
	}

	backward, b = ir.NewModule("gdn_backward")
	inputs := s.Inputs()
	for i, o := range keep.list() {
		inputs = append(inputs, gdn.Param{Name: keep.names()[i], Type: o.value.Type})
	}
	p = newPlan(s, v, b, inputs)
	for i, o := range keep.list() {
		o.value = p.args[keep.names()[i]]
	}
	if keep.s == nil {
		_, keep = p.forward(p.glueIn(), true, false)
	}
	names = nil
	for _, g := range gdn.Gradients(s.Differentiable()) {
		names = append(names, g.Name)
	}
	if err = b.Finish(backward, names, p.backward(keep)); err == nil {
		err = p.schedule(backward, v)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build the backward pass of %s by %s: %w", s, v, err)
	}
	return forward, backward, nil
}

// KeptBytes is what v keeps in main memory from the forward to the backward pass of a training step.
func KeptBytes(s gdn.Spec, v gdn.Variant) int64 {
	s.Direction = gdn.Train
	f := v.Fit(s)
	if f.Training.Save == gdn.SaveNone {
		return 0
	}
	c := newPlan(s, f, nil, nil)
	chunks := int64(s.Batch) * int64(c.nc) * int64(s.HeadsV)
	bytes := func(rows, width int, p ir.Precision) int64 {
		n := int64(f.Training.Saved.Bytes())
		if keepsParts(f, p) {
			n *= 2
		}
		return n * int64(rows) * int64(width)
	}
	total := bytes(s.K, s.V, f.Numerics.PrecState)
	switch {
	case f.Training.Save < gdn.SaveInverse:
	case pairedInverse(f):
		total += bytes(f.Chunk, f.Chunk, ir.PrecBF16x1)
	default:
		total += bytes(f.Chunk, f.Chunk, f.ApplyPrecision())
	}
	if f.Training.Save >= gdn.SaveAll {
		total += bytes(f.Chunk, s.V, f.GradPrecision())
	}
	return chunks * total
}

// training emits a forward grid that keeps what the backward grid reads, and that grid. Results are those of the spec.
func (p *plan) training() []*ir.Value {
	var results []*ir.Value
	var keep kept
	if p.s.Direction == gdn.Train {
		in := p.glueIn()
		var r gridResult
		r, keep = p.forward(in, p.v.Training.Save != gdn.SaveNone, true)
		results = p.glueOut(in, r)
	}
	if keep.s == nil {
		_, keep = p.forward(p.glueIn(), true, false)
	}
	return append(results, p.backward(keep)...)
}

// forward emits the forward grid, with or without what is kept and the output.
func (p *plan) forward(in *operands, keep, output bool) (gridResult, kept) {
	name, used := "recompute", append([]*operand{in.k}, in.values()...)
	if output {
		name, used = "forward", append([]*operand{in.q, in.k}, in.values()...)
	}
	var k kept
	r := p.grid(name, in, append(used, in.gates()...), in.state, func(t *tiles) []blockOut {
		e := newChunkwise(t)
		outs := e.steps(e.stateFree())
		if !keep {
			return outs
		}
		hold := func(x *ir.Value, p ir.Precision) (l []*operand) {
			for _, o := range e.hold(x, p) {
				outs, l = append(outs, o), append(l, o.operand)
			}
			return l
		}
		k.s = hold(e.Concat(0, e.before...), p.v.Numerics.PrecState)
		if p.v.Training.Save >= gdn.SaveInverse {
			if pairedInverse(p.v) {
				k.t = hold(e.paired(e.inverted), ir.PrecBF16x1)
			} else {
				k.t = hold(e.inverted, p.v.ApplyPrecision())
			}
		}
		if p.v.Training.Save >= gdn.SaveAll {
			k.u = hold(e.Concat(0, e.values...), p.v.GradPrecision())
		}
		return outs
	})
	return r, k
}

// backward emits the reverse grid, which takes one chunk after another, and the glue around it: the gradients in the order of
// the spec.
func (p *plan) backward(keep kept) []*ir.Value {
	reverse := *p
	reverse.v.Mapping.Chunks, reverse.v.Numerics.DecayBF16, reverse.down = 1, p.v.Training.DecayBF16, true
	in := reverse.glueIn()
	reverse.gradientsIn(in)
	used := append([]*operand{in.q, in.k, in.do}, in.gates()...)
	if keep.u == nil || p.s.Rule.Apart() { // gradients of gates that write need values
		used = append(used, in.values()...)
	}
	for _, o := range keep.list() {
		o.block = slices.Clone(o.block)
		o.block[slices.Index(o.axes, axisChunk)] = 1
	}
	in.kept = keep
	body := (*gradient).reverse
	if p.s.Rule.Channels() {
		body = (*gradient).channels
	}
	return reverse.gradientsOut(in, reverse.grid("backward", in, append(used, keep.list()...), in.dstate, takes(newGradient, body)))
}

// hold gives a value the form in which it is kept: f32, or bf16 parts as far as the products at p use them. Words hold two rows
// of bf16, where rows pair.
func (e *chunkwise) hold(x *ir.Value, p ir.Precision) []blockOut {
	e.b.Stage("keep")
	if e.v.Training.Saved == ir.F32 {
		return []blockOut{e.made(e.b.Convert(x, ir.F32))}
	}
	parts := []*ir.Value{e.b.Convert(x, ir.BF16)}
	if keepsParts(e.v, p) {
		parts = e.Cut(x)
	}
	var outs []blockOut
	for _, part := range parts {
		if part.Type.Shape[1]%2 == 0 {
			part = e.b.Words(part)
		}
		outs = append(outs, e.made(part))
	}
	return outs
}

// pairedInverse says whether T, kept as two parts, is one matrix: the rest, turned, fills the half above the diagonal, where T is
// zero. The diagonal is ones, without a rest.
func pairedInverse(v gdn.Variant) bool { return keepsParts(v, v.ApplyPrecision()) }

// keepsParts says whether what products at p take is kept as two parts.
func keepsParts(v gdn.Variant, p ir.Precision) bool {
	return v.Training.Saved == ir.BF16 && p == ir.PrecBF16x3 && (v.Numerics.Split == gdn.SplitDef || v.Inverse.Refine)
}

// paired is T as one matrix.
func (e *chunkwise) paired(t *ir.Value) *ir.Value {
	b, parts := e.b.Stage("keep"), e.Cut(t)
	return b.Halves(b.Or(b.Words(parts[0]), b.Words(b.Transpose(parts[1], 0, 2, 1))))
}

// loadTurnedInverse is T^T of what is kept of T.
func (e *gradient) loadTurnedInverse() *ir.Value {
	t := e.loadKept(e.in.kept.t)
	if !pairedInverse(e.v) {
		return e.Turned(t)
	}
	return e.Joined([]*ir.Value{e.b.Transpose(e.Lower(t), 0, 2, 1), e.Upper(t, 1)})
}

func (e *gradient) loadKept(l []*operand) *ir.Value {
	var parts []*ir.Value
	for _, o := range l {
		x := e.loadMade(o)
		if x.Type.DType == ir.U32 {
			x = e.b.Halves(x)
		}
		parts = append(parts, x)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return e.Joined(parts)
}

// reverse takes a chunk backwards.
func (e *gradient) reverse() []blockOut {
	b := e.b.Stage("load")
	q, k := e.loadKey(e.in.q), e.loadKey(e.in.k)
	do := e.loadRows(e.in.do)
	w := e.loadGates()
	e.sums(&w)
	b.Stage("gates")
	scale := e.s.EffectiveScale()
	grown := e.Exp(w.Sum)                // e^G
	left := b.Mul(e.Exp(w.Left), w.beta) // beta e^(GC-G)

	b.Stage("products")
	kq, kk := e.turnedProducts(q, k) // (Q K^T)^T, scaled, and K K^T, which is its own transpose
	f := e.turnedDecay(w)            // E^T
	b.Stage("decay")
	pt := e.Store(e.Times(kq, f))                // P^T
	kd := e.Store(e.ByRows(e.perValue(k), left)) // Kd
	state := e.loadKept(e.in.kept.s)
	tt, u := e.inverseAndValues(k, kk, w, grown, state)
	do = e.Store(do)

	step := e.stateBackward(q, k, do, pt, kd, tt, grown, left)
	dos, ds, dr, low, n := step.dos, step.ds, step.dr, step.low, step.n

	b.Stage("dq")
	joined := e.v.KQ == gdn.JointJoined
	var dp, dn *ir.Value
	if joined && e.v.GradPrecision() == e.v.Numerics.PrecIntra {
		both := e.Dot(u, e.Concat(1, do, low), false, true, e.v.Numerics.PrecIntra)
		dp, dn = b.SliceAxis(both, 2, 0, e.c), b.SliceAxis(both, 2, e.c, 2*e.c)
	} else {
		dp, dn = e.Dot(u, do, false, true, e.v.GradPrecision()), e.Dot(u, low, false, true, e.v.GradPrecision()) // dP^T, and -dN^T with its diagonal, z
	}
	xf := e.Store(e.Times(dp, f))                         // X^T, without the scale
	yf := e.Store(e.StrictlyUpper(e.Times(b.Neg(dn), f))) // Y^T
	wt := b.Add(e.Times(xf, kq), e.Times(yf, kk))         // W^T
	if e.v.Training.DecayBy == gdn.DecayByTokens {
		wt = e.Summand(wt)
	}
	z := e.Diagonal(dn)                             // rows(U . dR)
	intoQ, intoK := e.stateGradients(dos, n, state) // dO' S^T and n S^T
	r := e.alongKeys(intoQ, q, intoK, k)
	xt := e.Store(b.Scale(e.perKey(xf), scale))
	x := e.Turned(xt)
	var dq *ir.Value
	if e.v.Training.Grads == gdn.GradsInLanes {
		dq = b.Add(e.perKey(intoQ), e.Dot(e.Turned(k), xt, false, false, e.v.GradPrecision()))
	} else {
		dq = b.Add(e.perKey(intoQ), e.Dot(x, k, false, false, e.v.GradPrecision()))
	}

	dk, fromState := e.keyGradient(keyParts{q: q, k: k, u: u, x: x, xt: xt, yf: yf, ds: ds, left: left, into: intoK})
	var along *ir.Value // what is summed to y
	if e.v.Training.DecayBy == gdn.DecayByTokens {
		along = e.alongKeys(fromState, k, nil, nil)
	}

	b.Stage("dg")
	after, before := e.decaySums(wt, r, z, along)
	whole := b.Sum(b.Sum(b.Convert(e.Times(state, e.handed(ds)), ir.F32), 1), 1)
	dg := e.DecayGradient(after, before, b.Mul(b.Reshape(b.SliceAxis(grown, 1, e.c-1, e.c), whole.Type.Shape...), whole))
	dg = e.Alive(w.g, dg)
	dbeta := b.Div(z, w.beta)

	b.Stage("output")
	if e.v.Training.Grads == gdn.GradsInLanes {
		dq, dk = b.Transpose(b.Convert(dq, e.s.DType), 0, 2, 1), b.Transpose(b.Convert(dk, e.s.DType), 0, 2, 1)
	}
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		dq, dk = gate.NormRowsGradient(b, e.loadRows(e.in.q), dq), gate.NormRowsGradient(b, e.loadRows(e.in.k), dk)
	}
	return []blockOut{
		e.tokenRows([]*ir.Value{dq}, e.in.q, e.s.DType), e.tokenRows([]*ir.Value{dk}, e.in.k, e.s.DType), e.tokenRows([]*ir.Value{dr}, e.in.v, e.s.DType),
		e.betaRows(dg), e.betaRows(dbeta),
	}
}

// keyParts are what the gradient of K is made of.
type keyParts struct {
	q, k, u *ir.Value
	x, xt   *ir.Value // X and X^T
	yf      *ir.Value // Y, of value heads
	ds      *ir.Value
	left    *ir.Value // exp of the decay that is left, times beta
	into    *ir.Value // what K has from the state before
}

// keyGradient is dK of key heads, and what of it comes from the state after, of value heads.
func (e *gradient) keyGradient(p keyParts) (dk, fromState *ir.Value) {
	b := e.b.Stage("dk")
	y := e.Mirrored(e.perKey(p.yf))
	ud := e.Store(e.ByRows(e.Operand(p.u, e.v.Numerics.PrecState), p.left))
	var own [2][2]*ir.Value // X^T Q and (Y + Y^T) K
	if e.v.Training.Grads == gdn.GradsInLanes {
		fromState = e.Dot(p.ds, ud, false, true, e.v.Numerics.PrecState)
		own = [2][2]*ir.Value{{e.Turned(p.q), e.Operand(p.x, e.v.Numerics.PrecIntra)}, {e.Turned(p.k), y}}
	} else {
		fromState = e.Dot(ud, p.ds, false, true, e.v.Numerics.PrecState)
		own = [2][2]*ir.Value{{e.Operand(p.xt, e.v.Numerics.PrecIntra), p.q}, {y, p.k}}
	}
	dk = b.Add(e.perKey(p.into), e.perKey(fromState))
	if e.v.KQ == gdn.JointJoined {
		return b.Add(dk, e.Dot(e.Concat(2, own[0][0], own[1][0]), e.Concat(1, own[0][1], own[1][1]), false, false, e.v.Numerics.PrecIntra)), fromState
	}
	return b.Add(dk, b.Add(e.Dot(own[0][0], own[0][1], false, false, e.v.Numerics.PrecIntra), e.Dot(own[1][0], own[1][1], false, false, e.v.Numerics.PrecIntra))), fromState
}

// decaySums are what passes a token on its way to those after it, and to those before, [N, C].
func (e *gradient) decaySums(wt, r, z, along *ir.Value) (after, before *ir.Value) {
	b := e.b
	rows := b.Sum(b.Convert(wt, ir.F32), 1)
	switch {
	case e.v.Training.DecayBy == gdn.DecayByInverse && e.v.Training.Grads == gdn.GradsInLanes:
		return r, b.Sub(z, rows)
	case e.v.Training.DecayBy == gdn.DecayByInverse:
		return e.SumLanes(tile.Lanes{{X: r, Sign: 1}})[0], b.Sub(z, rows)
	case e.v.Training.Grads == gdn.GradsInLanes:
		return b.Add(b.Add(rows, r), e.SumLanes(tile.Lanes{{X: wt, Sign: -1}})[0]), along
	}
	sums := e.SumLanes(tile.Lanes{{X: r, Sign: 1}, {X: wt, Sign: -1}}, tile.Lanes{{X: along, Sign: 1}})
	return b.Add(rows, sums[0]), sums[1]
}

// stateStep are the gradients on the way from the state after a chunk to the state before it: those at the head of this file.
type stateStep struct {
	dos *ir.Value // dO'
	ds  *ir.Value // dS after the chunk
	dr  *ir.Value // dR, and low as products take it
	low *ir.Value
	n   *ir.Value
}

// stateBackward takes dS, which is e.state, over a chunk. pt is P^T, kd is Kd and tt T^T; grown and left [N, C] are e^G and beta e^(GC-G).
func (e *gradient) stateBackward(q, k, do, pt, kd, tt, grown, left *ir.Value) stateStep {
	b, scale := e.b, e.s.EffectiveScale()
	b.Stage("operands")
	dos := e.Store(e.ByRows(do, b.Scale(grown, scale))) // dO'

	b.Stage("dr")
	ds := e.Store(e.state)
	var du *ir.Value
	switch {
	case e.v.UpdatePrecision() != e.v.Numerics.PrecState: // K is exact, dS is in parts
		du = b.Add(e.Dot(pt, do, false, false, e.v.UpdatePrecision()), b.Mul(e.Dot(e.perValue(k), ds, false, false, e.v.UpdatePrecision()), e.Column(left, e.s.V)))
	case e.v.Out != gdn.OutSeparate:
		du = e.Dot(e.Concat(2, pt, kd), e.Concat(1, do, ds), false, false, e.v.Numerics.PrecState)
	default:
		du = b.Add(e.Dot(pt, do, false, false, e.v.Numerics.PrecIntra), e.Dot(kd, ds, false, false, e.v.Numerics.PrecState))
	}
	dr := e.Dot(tt, e.Store(du), false, false, e.v.ApplyPrecision()) // T^T dU, which is dV
	low := e.Store(dr)
	n := e.Store(e.ByRows(low, b.Neg(grown))) // -e^G dR: what K S would gain

	b.Stage("state")
	decayed := b.Mul(e.state, e.Scalar(grown, e.c-1, e.s.K, e.s.V)) // e^GC dS
	qt, kt := e.perValue(e.Turned(q)), e.perValue(e.Turned(k))
	var added *ir.Value
	switch {
	case e.s.NegEigval && e.v.UpdatePrecision() != e.v.Numerics.PrecState: // K^T n is to dS what K^T V' is to S: where beta turns states, errors of both stay
		exact := e.Store(e.ByRows(dr, b.Neg(grown)))
		added = b.Add(e.Dot(qt, dos, false, false, e.v.Numerics.PrecState), e.Dot(kt, exact, false, false, e.v.UpdatePrecision()))
	case e.v.Out != gdn.OutSeparate:
		added = e.Dot(e.Concat(2, qt, kt), e.Concat(1, dos, n), false, false, e.v.Numerics.PrecState)
	default:
		added = b.Add(e.Dot(qt, dos, false, false, e.v.Numerics.PrecState), e.Dot(kt, n, false, false, e.v.Numerics.PrecState))
	}
	e.state = b.Add(decayed, added) // dS of the state before the chunk
	return stateStep{dos, ds, dr, low, n}
}

// stateGradients are dO' S^T and n S^T, [N, C, K], or turned where the variant has tokens of gradients in lanes.
func (e *gradient) stateGradients(dos, n, state *ir.Value) (intoQ, intoK *ir.Value) {
	b, p := e.b, e.v.Numerics.PrecState
	inLanes := e.v.Training.Grads == gdn.GradsInLanes
	times := func(x *ir.Value) *ir.Value {
		if inLanes {
			return e.Dot(state, x, false, true, p)
		}
		return e.Dot(x, state, false, true, p)
	}
	if e.v.KQ != gdn.JointJoined {
		return times(dos), times(n)
	}
	axis, both := 1, times(e.Concat(1, dos, n))
	if inLanes {
		axis = 2
	}
	return b.SliceAxis(both, axis, 0, e.c), b.SliceAxis(both, axis, e.c, 2*e.c)
}

// alongKeys multiplies rows of x by those of the keys or queries y, and of x1 by y1 where they are given, for sums over their
// lanes. Where tokens are in lanes these are sums over rows, [N, C], made here.
func (e *gradient) alongKeys(x, y, x1, y1 *ir.Value) *ir.Value {
	b := e.b
	inLanes := e.v.Training.Grads == gdn.GradsInLanes
	times := func(x, y *ir.Value) *ir.Value {
		if inLanes {
			y = e.Turned(y)
		}
		return e.Times(x, e.perValue(y))
	}
	sum := times(x, y)
	if x1 != nil {
		sum = b.Add(sum, times(x1, y1))
	}
	if inLanes {
		return b.Sum(b.Convert(sum, ir.F32), 1)
	}
	return e.Summand(sum)
}

// handed is a state as it passes from its phase to one behind it: rounded where products take it so, and no load of the carry,
// which would hold up its update.
func (e *gradient) handed(state *ir.Value) *ir.Value {
	if e.v.Numerics.PrecState != ir.PrecBF16x1 {
		return state
	}
	return e.b.Convert(state, ir.BF16)
}
