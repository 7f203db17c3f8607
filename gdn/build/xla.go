package build

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/packs"
	"github.com/gdngen/gdngen/gdn/build/internal/pool"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// xlaIn brings the inputs into the order of the grids.
//
// Tokens are padded to whole chunks with tokens that do not change the state: q, k, v, log decay and beta are 0, for every rule.
// Raw gates are padded with a number whose log decay, or beta, is exactly zero.
//
//	gates=given                 g and beta unchanged, padded with 0
//	gates=fused, fuse=xla       computed here for all tokens (xlaGates), then padded with 0
//	gates=fused, fuse=kernel    a and b unchanged, padded with ClosedDecay and ClosedGate; A_log and dt_bias for each program
//
// The axis fuse also decides whether q and k are normalized here or in the kernel.
func (p *plan) xlaIn() *operands {
	s, b := p.s, p.b
	b.Stage("glue")
	in := &operands{}
	var slots *packs.Slots
	if s.Seqs > 0 && p.v.Mapping.Pack == gdn.PackGather {
		slots = p.packs().Slots(p.sequences())
		in.slotting = slots
	}
	if p.visiting() {
		in.single = newSingle(p)
	}
	token := func(x *ir.Value, fill float64) *ir.Value { return p.tokens(x, slots, fill) }
	ofHead := func(x *ir.Value, fill float64) *operand {
		if x == nil {
			return nil
		}
		return p.gate(token(x, fill))
	}
	wide := func(x *ir.Value, fill float64) *operand { // per channel, in v's layout
		if x == nil {
			return nil
		}
		return p.rows(token(p.lanes(x), fill), p.valueHeads(), p.headBlock(), p.headAxes())
	}
	// A per-channel decay is as wide as K and has v's layout, while beta is always per head.
	decay, ofHeads := ofHead, func(x *ir.Value) *operand { return whole(b.Reshape(x, 1, s.HeadsV)) }
	if s.Rule.Channels() {
		decay, ofHeads = wide, p.headChannels
	}
	keys := func(x *ir.Value) *operand {
		return p.rows(token(p.lanes(x), 0), []int{s.HeadsK}, []int{p.kb}, []axis{axisHead})
	}
	p.convolve()
	q, k, v := p.args["q"], p.args["k"], p.args["v"]
	if s.L2Norm && p.v.Fuse == gdn.PlaceXLA {
		if q != nil {
			q = gate.NormRows(b, q)
		}
		k = gate.NormRows(b, k)
	}
	if convolvesFirst(p) && !convolvesWithin(p) {
		p.pass(in)
		q, k, v = nil, nil, nil
	}
	if q != nil { // a summary reads no q
		in.q = keys(q)
	}
	if k != nil {
		in.k = keys(k)
	}
	if v != nil {
		in.v = p.rows(token(p.lanes(v), 0), p.valueHeads(), p.headBlock(), p.headAxes())
	}
	if convolving(p) || stepping(p) || convolvesWithin(p) {
		in.q.conv = tapsOf(p, "conv_q", stageKeys, []int{p.kb}, []axis{axisHead})
		in.k.conv = tapsOf(p, "conv_k", stageKeys, []int{p.kb}, []axis{axisHead})
		in.v.conv = tapsOf(p, "conv_v", stageValues, p.headBlock(), p.headAxes())
		in.k.conv.first, in.v.conv.first = s.HeadsK*s.K, 2*s.HeadsK*s.K
	}
	switch {
	case s.Gates == gdn.GatesFused && p.v.Fuse == gdn.PlaceKernel:
		in.raw = true
		a := p.args["a"]
		if !s.Rule.Channels() {
			a = p.rawGate("a")
		}
		if raw := p.args["b"]; s.Rule.SplitGates() {
			in.g, in.erase, in.write = decay(a, s.ClosedDecay()), wide(raw, gdn.ClosedGate), wide(p.args["w"], gdn.ClosedGate)
		} else {
			raw = p.rawGate("b")
			in.g, in.beta = decay(a, s.ClosedDecay()), ofHead(raw, gdn.ClosedGate)
		}
		if a != nil {
			if s.Rule.Channels() || p.copying() {
				in.aLog, in.dt = ofHeads(p.args["A_log"]), ofHeads(p.args["dt_bias"])
			} else {
				in.aLog, in.dt, in.scales = &operand{}, &operand{}, p.headScales()
			}
		}
	default:
		g, beta := p.xlaGates()
		in.g, in.beta = decay(g, 0), ofHead(beta, 0)
		erase, write := p.xlaSplitGates()
		in.erase, in.write = wide(erase, 0), wide(write, 0)
	}
	if p.pooled() { // which sequences have a state; outputs of others are zero
		in.held = whole(b.Reshape(p.args["state_indices"], 1, 1, s.Batch))
	}
	p.cachesIn(in)
	if !p.aligned() { // which describes states for itself (specStates)
		in.state = p.stateOperand(p.args["initial_state"])
	}
	return in
}

// rawGate returns an input in float32, or unchanged if a kernel that copies converts it (loadGate); nil if the rule has
// none.
func (p *plan) rawGate(name string) *ir.Value {
	if p.args[name] == nil || p.copying() && p.v.Fuse == gdn.PlaceKernel || fetchesGates(p) || gatesLie(p) {
		return p.args[name]
	}
	return p.b.Convert(p.args[name], ir.F32)
}

// xlaGates returns log decay and beta of all tokens, given or computed from raw gates; nil if the rule has none. A_log [Hv] and dt_bias [Hv] are broadcast
// over tokens; with per-channel decays dt_bias is [Hv, K], and A_log is still [Hv].
func (p *plan) xlaGates() (g, beta *ir.Value) {
	s, b := p.s, p.b
	if s.Gates == gdn.GatesGiven {
		return p.args["g"], p.args["beta"]
	}
	if a := p.rawGate("a"); a != nil {
		aLog, over := p.args["A_log"], []int{a.Type.Rank() - 1}
		if s.Rule.Channels() {
			aLog, over = b.Broadcast(aLog, p.args["dt_bias"].Type.Shape, 0), []int{a.Type.Rank() - 2, a.Type.Rank() - 1}
		}
		aLog, bias := gate.Held(b, aLog, p.args["dt_bias"], s.Bound)
		g = gate.Decay(b, a, b.Broadcast(aLog, a.Type.Shape, over...), b.Broadcast(bias, a.Type.Shape, over...), s.Bound)
	}
	if raw := p.rawGate("b"); raw != nil && !s.Rule.SplitGates() {
		beta = gate.Beta(b, raw, s.NegEigval)
	}
	return g, beta
}

// xlaSplitGates is xlaGates for erase and write gates.
func (p *plan) xlaSplitGates() (erase, write *ir.Value) {
	switch {
	case !p.s.Rule.SplitGates():
		return nil, nil
	case p.s.Gates == gdn.GatesGiven:
		return p.args["erase"], p.args["write"]
	}
	return gate.Beta(p.b, p.rawGate("b"), p.s.NegEigval), gate.Beta(p.b, p.rawGate("w"), false)
}

// cachesIn adds what kernels of a pool convolve behind, and of a mixed batch the outputs of decodes.
func (p *plan) cachesIn(in *operands) {
	if y := p.decoded; y != nil {
		in.ahead = &operand{value: y, axes: []axis{axisNone, axisNone, axisHead}, block: []int{1, y.Type.Shape[1], p.v.Mapping.Heads * p.s.V}}
	}
	if within := convolvesWithin(p); within || stepping(p) {
		x := p.args["initial_conv"]
		t := x.Type.Shape
		in.cache = &operand{value: x, axes: []axis{axisBatch, axisNone, axisNone}, block: join([]int{1}, t[1:]), shape: t, dtype: x.Type.DType}
		if within {
			in.cache.axes[0] = axisSeq
			p.within(in)
		}
	}
}

// headBlock and headAxes are the window of valueHeads: the heads of a program, [heads], or where programs share a key head [1, gb], one key head and some of
// its value heads.
func (p *plan) headBlock() []int {
	if p.groupSplit() {
		return []int{1, p.gb}
	}
	return []int{p.v.Mapping.Heads}
}

// headAxes returns the axes along which headBlock moves.
func (p *plan) headAxes() []axis {
	if p.groupSplit() {
		return []axis{axisHead, axisGroup}
	}
	return []axis{axisHead}
}

// tokens converts [B, T, ...] or [T, ...] to [B, padded, ...]; padding, and slots of other sequences, hold fill.
//
//	gather   rows by slots.Source; padding reads zeros, another fill is selected
//	masked   each sequence is a batch row of all tokens; tokens of other sequences hold fill
//	else     padded at the end
//
// Sequences of 3 and 2 tokens, gathered in chunks of 4: [a0 a1 a2 .  b0 b1 . .  . . . .]. There are enough chunks for any lengths.
func (p *plan) tokens(x *ir.Value, slots *packs.Slots, fill float64) *ir.Value {
	if p.s.Packed {
		x = p.b.Reshape(x, append([]int{1}, x.Type.Shape...)...)
	}
	if slots != nil {
		y := p.b.GatherRows(x, slots.Source, 1)
		if fill == 0 {
			return y
		}
		valid := p.b.Broadcast(slots.Valid, y.Type.Shape, 1)
		return p.b.Select(valid, y, p.b.Like(y, fill))
	}
	if p.asRows() {
		x = p.perSequence(x)
	}
	x = p.whole(x, fill)
	if p.asRows() {
		x = p.b.Select(p.b.Broadcast(p.own(p.padded()), x.Type.Shape, 0, 1), x, p.b.Like(x, fill))
	}
	return x
}

// rows describes [B, padded, H, D], or flat rows [B, padded, H D], to the grids in the variant's layout.
// heads, block and at are the head dimensions of shape, window and axes; w is the tokens of a window.
//
//	layout                        array                      window                     copies
//	bhtd                          [B, heads, T, D]           [batch, block, w, D]       all: a transpose
//	bthd, all heads               [B, T H, D]                [batch, w H, D]            none
//	bthd, some heads              [B, T, H/n, n, D]          [batch, w, 1, n, D]        none: n heads of each token
//	bt_hd                         [B, T, H D]                [batch, w, n D]            none: a head is D lanes of a row
//	bhdt                          [B, heads, D, T]           [batch, block, D, w]       a transpose; none if heads narrower than a register are stored so
func (p *plan) rows(x *ir.Value, heads, block []int, at []axis) *operand {
	b, v := p.b, p.v
	h := 1
	for _, n := range heads {
		h *= n
	}
	d := x.Type.Size() / (p.s.Batch * p.padded() * h)
	o := &operand{axes: []axis{axisBatch, p.tokenAxis(), axisNone}, block: []int{v.Mapping.Batch, p.window() * p.c * h, d}}
	switch {
	case v.Layout == gdn.LayoutBTLanes: // loadRows needs the width to split heads
		o.value = b.Reshape(x, p.s.Batch, p.padded(), h*d)
		o.axes = join([]axis{axisBatch, p.tokenAxis()}, at)
		o.block = []int{v.Mapping.Batch, p.window() * p.c, block[0] * d}
		o.width = d
		return o
	case v.Layout == gdn.LayoutBTHD && v.Mapping.Heads < p.s.HeadsV: // a window with the program's heads at each token
		hb := block[0]
		o.value = b.Reshape(x, p.s.Batch, p.padded(), h/hb, hb, d)
		o.axes = join([]axis{axisBatch, p.tokenAxis()}, at, []axis{axisNone, axisNone})
		o.block = []int{v.Mapping.Batch, p.window() * p.c, 1, hb, d}
		return o
	case v.Layout == gdn.LayoutBTHD:
		o.value = b.Reshape(x, p.s.Batch, p.padded()*h, d)
		return o
	case v.Layout == gdn.LayoutBHDT:
		x = b.Transpose(x, 0, 2, 3, 1)
		o.value = b.Reshape(x, join([]int{p.s.Batch}, heads, []int{d, p.padded()})...)
		o.axes = join([]axis{axisBatch}, at, []axis{axisNone, p.tokenAxis()})
		o.block = join([]int{v.Mapping.Batch}, block, []int{d, p.window() * p.c})
		return o
	}
	x = b.Transpose(x, 0, 2, 1, 3)
	o.value = b.Reshape(x, join([]int{p.s.Batch}, heads, []int{p.padded(), d})...)
	o.axes = join([]axis{axisBatch}, at, []axis{p.tokenAxis(), axisNone})
	o.block = join([]int{v.Mapping.Batch}, block, []int{p.window() * p.c, d})
	return o
}

// join concatenates parts of a shape, a block or axes.
func join[E any](l ...[]E) []E { return slices.Concat(l...) }

// gate describes [B, padded, Hv] to the grids as [B/batch, chunks/step, Hv/heads, N, C]. A window is a tile of a program's N
// entries by the tokens of a chunk.
//
// Token t of head h and batch row b, in chunk c = t / C with n chunks in a window, is in lane t % C of row
//
//	((c % n) batch + b % batch) heads + h % heads     of window   b / batch, c / n, h / heads
//
// This is the order of entries. So a sum along a chunk is a sum along lanes, for all entries at once, and a program fetches one dense tile. A decode step
// that copies has all gates in one array instead (tiles.ofStep).
func (p *plan) gate(x *ir.Value) *operand {
	b, v, s := p.b, p.v, p.s
	switch {
	case p.copying() && p.few():
		return whole(b.Reshape(x, s.Batch, s.HeadsV))
	case p.copying():
		return whole(b.Transpose(x, 1, 2, 0))
	case gatesLie(p):
		x = b.Transpose(b.Reshape(x, 1, p.blocks(), p.c, s.HeadsV), 0, 1, 3, 2)
		return &operand{value: x, axes: []axis{axisBatch, p.tokenAxis(), axisNone, axisNone}, block: []int{1, p.window(), s.HeadsV, p.c}}
	}
	groups, order := []int{s.Batch / v.Mapping.Batch, v.Mapping.Batch}, []int{0, 2, 5, 3, 1, 6, 4}
	if v.Mapping.PersistentRows { // interleaved rows are a stride apart (gridding.chained)
		groups[0], groups[1], order[0], order[4] = groups[1], groups[0], 1, 0
	}
	x = b.Reshape(x, join(groups, []int{p.blocks() / p.window(), p.window(), p.c, s.HeadsV / v.Mapping.Heads, v.Mapping.Heads})...)
	x = b.Transpose(x, order...)
	lead, at := p.headPrograms()
	return &operand{
		value: b.Reshape(x, join([]int{s.Batch / v.Mapping.Batch, p.blocks() / p.window()}, lead, []int{p.window() * v.Mapping.Batch * v.Mapping.Heads, p.c})...),
		axes:  join([]axis{axisBatch, p.tokenAxis()}, at, []axis{axisNone, axisNone}),
		block: join([]int{1, 1}, ones(len(lead)), []int{p.window() * v.Mapping.Batch * v.Mapping.Heads, p.c}),
	}
}

// gatesLie reports whether the kernel copies the gates of heads from the caller's arrays. A TPU stores them with tokens along the lanes, so that a chunk
// of the heads is one tile, and nothing precedes the kernel: XLA's ops take 600 cycles each on v6e, whatever the number of tokens. Eight heads in float32 are
// rows of whole tiles in either form.
func gatesLie(p *plan) bool {
	f, s := p.v.Forward, p.s
	kernel := p.v.Algo == gdn.AlgoChunk && p.v.Flow == gdn.FlowFused && fetches(p) && f.HBM && p.v.Mapping.Heads == s.HeadsV && p.c == target.Lanes
	whole := s.Direction == gdn.Forward && s.Batch == 1 && s.Seqs == 0 && s.Tokens%p.c == 0
	raw := s.Gates == gdn.GatesFused
	return kernel && whole && (!raw || p.v.Fuse == gdn.PlaceKernel) && (raw && s.GateDType == ir.BF16 || s.HeadsV%target.Sublanes != 0)
}

// few reports whether a TPU stores gates with heads along the lanes, [B, Hv] instead of [Hv, B]: at most 8 batch rows of one token. Transposing
// a caller's array would be an op before the kernel.
func (p *plan) few() bool { return p.s.Batch <= target.Sublanes && p.padded() == 1 }

// whole returns an operand that each step reads entirely: its window does not move, so a kernel fetches it once.
func whole(x *ir.Value) *operand {
	return &operand{value: x, axes: make([]axis, x.Type.Rank()), block: x.Type.Shape}
}

// window returns the number of chunks in a window of tokens: all chunks of a step, since they are adjacent; 1 for visits, which are not.
func (p *plan) window() int {
	if p.aligned() || p.visiting() {
		return 1
	}
	return p.v.Mapping.Chunks
}

// entries returns N, the number of interleaved entries of a program: chunks in flight x batch rows x value heads. The number of IR instructions does
// not depend on N. A kernel issues each for all entries before the next, so that the unit stays busy while results of one entry are pending.
func (p *plan) entries() int { return p.v.Mapping.Chunks * p.v.Mapping.Batch * p.v.Mapping.Heads }

// headPrograms returns the number of programs along the axes of the value heads, and these axes. An array of gates has a dimension of programs
// where an array of values has heads, split by headBlock.
func (p *plan) headPrograms() ([]int, []axis) {
	if p.groupSplit() {
		return []int{p.s.HeadsK, p.s.Groups() / p.gb}, []axis{axisHead, axisGroup}
	}
	return []int{p.s.HeadsV / p.v.Mapping.Heads}, []axis{axisHead}
}

func ones(n int) []int { return slices.Repeat([]int{1}, n) }

// headScales describes A_log and dt_bias to the grids as one array, [Hv/heads, 2 heads, C], equal in every lane, so that kernels combine them with
// raw gates as tiles of one shape. One array saves a second latency of HBM before the kernel. In the given form, along the lanes, each step
// would wait for a transpose.
func (p *plan) headScales() *operand {
	b, heads := p.b, p.v.Mapping.Heads
	of := func(name string) *ir.Value { return b.Reshape(p.args[name], p.s.HeadsV/heads, heads) }
	x := b.Concat(1, of("A_log"), of("dt_bias"))
	x = b.Broadcast(x, append(x.Type.Shape, p.c), 0, 1)
	lead, at := p.headPrograms()
	return &operand{
		value: b.Reshape(x, join(lead, []int{2 * heads, p.c})...),
		axes:  join(at, []axis{axisNone, axisNone}),
		block: join(ones(len(lead)), []int{2 * heads, p.c}),
	}
}

// stateOperand describes states to the scan, zero without initial states: in float32 and [N, Hv, K, V], or in the spec's form.
//
// Chunks take states [K, V] in float32, so [V, K] or bf16 states are transposed and widened here, once a call. A decode step reads and writes each state
// once, so this would double its traffic: the token recurrence takes states unchanged (native). With a pool the sequences' states are gathered; if
// the grid looks them up itself (pooled), the whole pool is the operand.
func (p *plan) stateOperand(x *ir.Value) *operand {
	s, b, zeros := p.s, p.b, x == nil
	shape := []int{s.Sequences(), s.HeadsV, s.K, s.V}
	if p.native() {
		shape = s.StateType().Shape
		if !p.pooled() {
			shape[0] = s.Sequences()
		}
	}
	if x != nil {
		if s.Pool > 0 && !p.pooled() {
			x = b.GatherRows(x, p.pool().From(), 0)
		}
		if !p.native() {
			x = b.Convert(x, ir.F32)
			if s.State == gdn.StateVK {
				x = b.Transpose(x, 0, 1, 3, 2)
			}
		}
	} else {
		x = b.Const(ir.T(p.stateDType(), shape...), 0)
	}
	value := b.Reshape(x, join(shape[:1], p.valueHeads(), shape[2:])...)
	o := &operand{
		value: value, dtype: value.Type.DType, shape: value.Type.Shape, zeros: zeros,
		axes:  join([]axis{axisBatch}, p.headAxes(), []axis{axisNone, axisNone}),
		block: join([]int{p.v.Mapping.Batch}, p.headBlock(), shape[2:]),
	}
	if s.Seqs > 0 {
		o.axes[0] = axisSeq
	}
	if p.pooled() {
		o.block[0] = 1
	}
	return o
}

// xlaOut converts the scan's output and final states to the order of the spec, and the states every so many tokens if the spec has them.
func (p *plan) xlaOut(in *operands, r gridResult) []*ir.Value {
	p.b.Stage("glue")
	if r.cache != nil {
		p.caches = append(p.caches, r.cache)
	}
	o := p.tokensOut(in, r.outputs[0], p.s.HeadsV)
	if p.s.Pool > 0 && !p.pooled() {
		o = p.skip(o, in)
	}
	results := []*ir.Value{o}
	if p.s.Final {
		results = append(results, p.stateOut(in, r.state))
	}
	if p.s.Every > 0 {
		results = append(results, p.statesOut(r.outputs[len(r.outputs)-1].value))
	}
	return results
}

// tokensOut is the inverse of tokens and rows: it returns [B, T, heads, D], or [T, heads, D] without a batch axis. It also serves gradients of q and k, with
// key heads, and of per-channel gates, so the width comes from the array.
func (p *plan) tokensOut(in *operands, o *operand, heads int) *ir.Value {
	s, b, x := p.s, p.b, o.value
	d := x.Type.Size() / (s.Batch * p.padded() * heads)
	if p.flat() {
		x = p.trim(in, p.reshape(x, s.Batch, p.padded(), heads*d))
		shape := x.Type.Shape
		return p.reshape(x, join(shape[:len(shape)-1], []int{heads, d})...)
	}
	switch p.v.Layout {
	case gdn.LayoutBTHD, gdn.LayoutBTLanes:
		x = b.Reshape(x, s.Batch, p.padded(), heads, d)
	case gdn.LayoutBHDT:
		x = b.Transpose(b.Reshape(x, s.Batch, heads, d, p.padded()), 0, 3, 1, 2)
	default:
		x = b.Transpose(b.Reshape(x, s.Batch, heads, p.padded(), d), 0, 2, 1, 3)
	}
	return p.trim(in, x)
}

// trim cuts [B, padded, ...] to the tokens of the spec: the inverse of tokens. For gathered sequences it reads each token from its slot.
func (p *plan) trim(in *operands, x *ir.Value) *ir.Value {
	s, b := p.s, p.b
	if in.slotting != nil {
		x = b.GatherRows(x, in.slotting.Slots, 1)
	} else if p.padded() > s.Tokens {
		x = b.SliceAxis(x, 1, p.front(), p.front()+s.Tokens)
	}
	if p.asRows() {
		x = p.ofSequences(x)
	}
	if s.Packed {
		x = b.Reshape(x, x.Type.Shape[1:]...)
	}
	return x
}

// stateOut converts states of the scan to the spec's layout and type. With a pool it writes them into the pool.
func (p *plan) stateOut(in *operands, x *ir.Value) *ir.Value {
	s, b := p.s, p.b
	if p.pooled() {
		return b.Reshape(x, s.StateType().Shape...)
	}
	x = b.Reshape(x, join([]int{s.Sequences(), s.HeadsV}, x.Type.Shape[x.Type.Rank()-2:])...)
	if s.Empty == gdn.EmptyZero {
		x = p.clearEmpty(x)
	}
	if x = p.asSpec(x); s.Pool > 0 {
		x = p.pool().Into(b, p.args["initial_state"], x)
	}
	return x
}

// asSpec converts states [N, Hv, K, V] of the scan to the spec's layout and type; native states are unchanged.
func (p *plan) asSpec(x *ir.Value) *ir.Value {
	if p.s.State == gdn.StateVK && !p.native() {
		x = p.b.Transpose(x, 0, 1, 3, 2)
	}
	return p.b.Convert(x, p.s.StateDType)
}

// statesOut picks the spec's states from the states after each chunk: every second one for every=64 and chunk=32. Chunks end at these tokens, since
// every is a multiple of the chunk (gdn.Variant.Fit).
func (p *plan) statesOut(x *ir.Value) *ir.Value {
	s := p.s
	x = p.asSpec(pool.Ends(p.b, x, s.HeadsV, s.Tokens/s.Every, s.Every/p.c))
	return p.b.Reshape(x, join([]int{s.Batch, s.Tokens / s.Every}, x.Type.Shape[1:])...)
}

// clearEmpty zeroes the final states of empty sequences if the spec says so (empty=zero); otherwise they keep their initial states.
func (p *plan) clearEmpty(x *ir.Value) *ir.Value {
	b := p.b
	begin, end := p.sequences()
	used := b.Compare(ir.GT, end, begin)
	return b.Select(b.Broadcast(used, x.Type.Shape, 0), x, b.Like(x, 0))
}

// skip zeroes the outputs of sequences without a state in the pool. They were computed from zeros and are meaningless. If the grid looks
// states up, the kernel does this (tiles.kept).
func (p *plan) skip(o *ir.Value, in *operands) *ir.Value {
	b, names := p.b, p.pool()
	at := 0          // the dimension of o over sequences, or over tokens if they are packed
	var of *ir.Value // the sequence of each token
	switch {
	case in.slotting != nil:
		of = in.slotting.Seqs
	case p.visiting():
		_, end := p.sequences()
		of = p.packs().NotAfter(end, p.s.Tokens)
	}
	if of != nil {
		names.Written = b.GatherRows(names.Written, of, 0)
		at = o.Type.Rank() - 3
	}
	return b.Select(b.Broadcast(names.Held(b), o.Type.Shape, at), o, b.Like(o, 0))
}

// packs returns the division of packed sequences into chunksOf chunks, enough for any lengths of this many sequences.
func (p *plan) packs() packs.Chunking {
	return packs.Chunking{Builder: p.b, Tokens: p.s.Tokens, Chunks: p.nc, Chunk: p.c}
}

// sequences returns the first token of each packed sequence, and its end (exclusive).
func (p *plan) sequences() (begin, end *ir.Value) { return p.packs().Bounds(p.args["cu_seqlens"]) }
