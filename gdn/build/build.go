package build

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/packs"
	"github.com/gdngen/gdngen/gdn/build/internal/pool"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/gdn/schedule"
	"github.com/gdngen/gdngen/ir"
)

// Module returns the program of s by v: a module whose parameters are s.Inputs and whose results are s.Outputs. XLA ops
// (reshapes, transposes, padding, gathering of packed sequences) surround grids with pure bodies. In a body, values are
// [N, rows, lanes], where N is chunks in flight x batch rows x heads, interleaved. It fails if v cannot be built for s.
func Module(s gdn.Spec, v gdn.Variant) (*ir.Module, error) {
	b, err := BaseOf(s, v)
	if err != nil {
		return nil, err
	}
	p, m, err := b.build()
	if err == nil {
		err = p.schedule(m, v.Fit(s))
	}
	if err != nil {
		return nil, fmt.Errorf("build %s by %s: %w", s, v, err)
	}
	return m, nil
}

// Build returns the program of a base.
func (b Base) Build() (*Program, error) {
	p, m, err := b.build()
	if err != nil {
		return nil, fmt.Errorf("build %s by %s: %w", b.spec, b.variant, err)
	}
	return &Program{Module: m, base: b, carriers: *p.carriers}, nil
}

// build returns the module and its plan, which knows the grids to schedule.
func (base Base) build() (*plan, *ir.Module, error) {
	s := base.spec
	m, b := ir.NewModule("gdn")
	p, results, err := base.write(b)
	if err != nil {
		return nil, nil, err
	}
	names := make([]string, len(results))
	for i, o := range s.Outputs() {
		names[i] = o.Name
	}
	if s.InPlace {
		m.Reuse = []ir.Reuse{{Result: "final_state", Param: "initial_state"}}
		if s.ConvState {
			m.Reuse = append(m.Reuse, ir.Reuse{Result: "final_conv", Param: "initial_conv"})
		}
	}
	return p, m, b.Finish(m, names, results)
}

// write emits the program of a base, and returns its results in the spec's form.
func (base Base) write(b *ir.Builder) (*plan, []*ir.Value, error) {
	if base.spec.Mixed > 0 {
		return base.mixed(b)
	}
	p := base.plan(b, base.spec.Inputs(), nil)
	results, err := p.emit()
	if err != nil {
		return nil, nil, err
	}
	return p, p.asTaken(base.spec.Outputs(), p.only(results, base.spec)), nil
}

// emit returns the results of module, or the builder's first error.
func (p *plan) emit() (results []*ir.Value, err error) {
	err = p.guarded(func() { results = append(p.module(), p.caches...) })
	return results, err
}

// guarded runs write and returns the builder's first error, also if write panics after it.
//
// After an error, the builder's ops return values of their first operand's type, so that callers need no checks. Code that expects
// another shape may then panic; guarded recovers this panic and reports the error instead. A panic without an error propagates.
func (p *plan) guarded(write func()) (err error) {
	defer func() {
		if fault := p.b.Err(); fault != nil {
			recover()
			err = fault
		}
	}()
	write()
	return nil
}

// plan is the fitted shape of the program: the heads, rows and chunks of a grid program, and the arrays of a spec in a variant's layout.
//
//	bench: 4 key heads, 8 value heads, 4096 tokens, chunk=128, chunks=4       gb 2, kb 4, nc 32: one program of 8 heads, 8 steps of 4 chunks
//	the same with heads=2                                                    gb 2, kb 1: 4 programs, each a key head with its 2 value heads
//	16 value heads of 4 key heads, heads=2                                   gb 2, kb 1: two programs share a key head (groupSplit)
type plan struct {
	s      gdn.Spec    // as the grids see it: sequences as batch rows, missing gates added as constants, an axis of heads
	v      gdn.Variant // without a schedule
	b      *ir.Builder
	c      int                  // tokens of a chunk; for the token recurrence, of a grid step
	nc     int                  // number of chunks, a multiple of v.Chunks x v.Steps, and of v.BackSteps in a training step
	gb     int                  // value heads of a program per key head
	kb     int                  // key heads of a program
	lead   int                  // zero columns in front of v: see summary.go
	down   bool                 // grids traverse the chunks from last to first
	args   map[string]*ir.Value // parameters by name, with an axis of heads, and constants for missing gates; q, k and v after a convolution by XLA ops
	caches []*ir.Value          // of the convolution, final_conv and convs, if XLA ops make them

	rowsOf  gdn.Rows  // how parameters and results lie
	prompts bool      // of a mixed batch: there are as many sequences as a run may have
	runs    *ir.Value // [1] for decodes of a mixed batch: the number of steps that run; nil: all
	named   *ir.Value // for such decodes, from a kernel: one table of runs, states written and states read, in place of runs and the pool's tables; nil: none
	live    *ir.Value // [], the number of runs in that table
	ready   *tables   // tables of a mixed batch from a kernel; nil: XLA ops make them
	decoded *ir.Value // [1, rows, lanes], outputs of a mixed batch's decodes, which the kernel of the prompts puts before its own; nil: XLA joins them
	clean   bool      // read_indices has -1 where state_indices names no state
	turned  bool      // states have their last two axes the other way round in parameters and results

	ordered  bool                // a schedule will follow
	reversed bool                // a schedule for the grid from last to first will follow
	carriers *[]schedule.Carrier // the grids to schedule, of this plan and of plans derived from it
}

// newPlan returns the plan of a fitted variant.
func newPlan(s gdn.Spec, v gdn.Variant, b *ir.Builder, inputs []gdn.Param) *plan {
	return baseOf(s, v).plan(b, inputs, nil)
}

// plan adds the parameters of a module, except ones given by name, and returns the plan over them.
func (base Base) plan(b *ir.Builder, inputs []gdn.Param, given map[string]*ir.Value) *plan {
	v := base.variant
	s := v.Packing(base.spec).ByHeads()
	turned := turns(s, v)
	if turned {
		s.State = gdn.StateKV + gdn.StateVK - s.State
	}
	p := &plan{s: s, rowsOf: base.spec.Rows, turned: turned, v: v, b: b, c: v.Chunk, nc: base.chunks, gb: min(v.Mapping.Heads, s.Groups()), args: map[string]*ir.Value{}, ordered: base.ordered, reversed: base.reversed, carriers: &[]schedule.Carrier{}}
	p.kb = v.Mapping.Heads / p.gb
	p.params(base.spec, inputs, given)
	if v.Embeds(s) {
		p.embed()
	}
	return p
}

// blocks returns the number of chunks that hold the tokens. Grids have more if a block gets a visit for each of its sequences.
func (p *plan) blocks() int {
	if p.visiting() {
		return blocksOf(p.s, p.v)
	}
	return p.nc
}

// padded returns the number of tokens in whole chunks, the length of token arrays between XLA ops and grids.
func (p *plan) padded() int { return p.blocks() * p.c }

// front returns the number of zeros ahead of the tokens of a mixed batch, whose last block is whole then. Decodes that fill the rest of the first block leave it
// without a prompt, and it has no visit. Otherwise, and where XLA makes the tables, zeros are behind the tokens.
func (p *plan) front() int {
	if p.ready != nil && cachesWithin(p) {
		return p.padded() - p.s.Tokens
	}
	return 0
}

// whole pads [B, T, ...] to whole chunks of tokens.
func (p *plan) whole(x *ir.Value, fill float64) *ir.Value {
	if n := p.padded() - p.s.Tokens; n > 0 {
		lo, hi := make([]int, x.Type.Rank()), make([]int, x.Type.Rank())
		lo[1], hi[1] = p.front(), n-p.front()
		x = p.b.Pad(x, fill, lo, hi)
	}
	return x
}

// groupSplit reports whether the value heads of one key head are spread over programs. They then have their own grid axis, along which the window of K and
// Q does not move.
func (p *plan) groupSplit() bool { return p.gb < p.s.Groups() }

// valueHeads returns the shape of the value heads in an operand: [Hv], or [Hk, Hv/Hk], whose second dimension moves with the axis of groups.
func (p *plan) valueHeads() []int {
	if p.groupSplit() {
		return []int{p.s.HeadsK, p.s.Groups()}
	}
	return []int{p.s.HeadsV}
}

// module emits XLA ops, grids and XLA ops.
//
//	flow=fused     one grid "fused": the whole chunk, with the state carried from step to step
//	flow=solve     "inverse", parallel over chunks, makes T; "scan" reads it and carries the state
//	flow=split     "intra", parallel over chunks, makes T and P, or with form=uw U, W and P; "scan" reads them and carries the state
//	algo=token     "recurrence": a step takes a few tokens, one by one
//
// A grid without a state has unordered chunks; its results pass to the next grid through an array. With beta=left, U and W include beta, so the scan does
// not read it. With beta in the columns, P includes it, but the update needs it again.
func (p *plan) module() []*ir.Value {
	if p.s.Direction != gdn.Forward {
		return p.training()
	}
	if p.streamed() { // loops of plain ops without a grid
		return streaming{p}.module()
	}
	in := p.xlaIn()
	gates := in.gates()
	all := append(append(append([]*operand{in.q, in.k}, in.values()...), gates...), in.taps()...)
	switch {
	case p.v.Algo == gdn.AlgoToken:
		return p.xlaOut(in, p.grid("recurrence", in, all, in.state, takes(newTokenwise, (*tokenwise).token)))
	case p.aligned():
		return aligning{p}.module(in, all)
	case p.v.Flow == gdn.FlowFused:
		return p.xlaOut(in, p.grid("fused", in, all, in.state, takes(newChunks, (*chunks).fused)))
	case p.v.Flow == gdn.FlowSolve:
		r := p.grid("inverse", in, append([]*operand{in.k}, gates...), nil, takes(newChunks, (*chunks).inverse))
		in.t = r.outputs[0]
		return p.xlaOut(in, p.grid("scan", in, append(all, in.t), in.state, takes(newChunks, (*chunks).fused)))
	case p.v.Form == gdn.FormUW:
		r := p.grid("intra", in, all, nil, takes(newChunks, (*chunks).intra))
		in.u, in.w, in.p = r.outputs[0], r.outputs[1], r.outputs[2]
		used := append([]*operand{in.q, in.k, in.u, in.w, in.p}, gates...)
		if p.v.Beta == gdn.BetaLeft { // U and W include beta
			used = append([]*operand{in.q, in.k, in.u, in.w, in.p}, in.Decay()...)
		}
		return p.xlaOut(in, p.grid("scan", in, used, in.state, takes(newChunks, (*chunks).fused)))
	default:
		r := p.grid("intra", in, append([]*operand{in.q, in.k}, gates...), nil, takes(newChunks, (*chunks).intra))
		in.t, in.p = r.outputs[0], r.outputs[1]
		return p.xlaOut(in, p.grid("scan", in, append(all, in.t, in.p), in.state, takes(newChunks, (*chunks).fused)))
	}
}

// operand is an input or output of a grid: the whole array and its window.
//
// Dimension d of a window has block[d] elements and moves along axes[d]. Example: V of bench with heads before tokens, chunks=4, heads=2:
//
//	value  [B, 8, 4096, 128]     axes  [batch, head, chunk, none]     block  [1, 2, 512, 128]
//
// Batch row b, program h and step c of the grid read block b, h, c, 0. An output has shape and dtype, and gets its value with the grid.
type operand struct {
	value *ir.Value
	axes  []axis
	block []int
	shape []int
	dtype ir.DType
	conv  *convolution // for q, k and v if the kernel convolves them
	width int          // lanes of a head if heads share the lanes; otherwise 0
	zeros bool         // a state of zeros

	// For steps with several visits: the window's visit, and whether it is an output that is written when a table says so.
	place       int
	conditional bool
}

// axis is the axis along which a dimension of an operand moves. window maps it to a dimension of a grid.
type axis uint8

const (
	axisNone axis = iota
	axisBatch
	axisHead
	axisGroup
	axisChunk
	axisSeq   // the sequence of the chunk, by a table
	axisBlock // the token block of the chunk's visit, by a table
	axisStep  // the step, where the chunk is looked up
)

// operands are the inputs of the grids. Unused fields are nil. A grid may read fewer operands than exist, so a body asks which blocks it has, and
// a missing block means work for another grid.
type operands struct {
	q, k, v      *operand
	whole        *operand // of aligned blocks: all three, where they came as one array and the kernel convolves them
	raw          bool     // gates are fused in the kernel: g and beta are the raw a and b
	g, beta      *operand // nil where the rule has none
	aLog, dt     *operand // where gates are fused in the kernel, and only there
	scales       *operand // both as one array, of which a body cuts them (cutScales)
	erase, write *operand // gates of channels of the key and of the value, in place of beta
	held         *operand // of a pool: the states that sequences leave, below zero none

	t, u, w, p *operand // from an earlier grid: T, U, W and P of internal/chunkwise

	state    *operand
	cache    *operand     // of a pool: caches of the convolution that the kernel reads and leaves
	ahead    *operand     // outputs of a mixed batch's decodes, which the kernel of the prompts puts before its own
	slotting *packs.Slots // of packed sequences that are gathered
	single   *single      // of such by visits

	do, dstate *operand // for the reverse grid: gradients of the output and of the final state
	kept       kept     // for the reverse grid: values saved by the forward grid
}

// Decay returns the inputs of the log decay.
func (o *operands) Decay() []*operand { return append(given(o.g), o.head()...) }

// gates returns all gates except the write gate, which goes with the values; with a pool also held.
func (o *operands) gates() []*operand {
	return slices.Concat(given(o.g), o.head(), given(o.beta, o.erase, o.held))
}

// head returns the per-head inputs that do not depend on the token.
func (o *operands) head() []*operand {
	if o.scales != nil {
		return []*operand{o.scales}
	}
	return given(o.aLog, o.dt)
}

// values returns v and its write gate.
func (o *operands) values() []*operand { return given(o.v, o.write) }

// taps returns the taps of q, k and v if the kernel convolves them.
func (o *operands) taps() (list []*operand) {
	for _, x := range given(o.q, o.k, o.v) {
		if x.conv != nil {
			list = append(append(list, x.conv.operand), given(x.conv.bias)...)
		}
	}
	return list
}

// given returns the operands that are not nil.
func given(l ...*operand) []*operand {
	return slices.DeleteFunc(l, func(o *operand) bool { return o == nil })
}

// gridResult is the result of a grid: its outputs in the order of the body, with values, and the final states.
type gridResult struct {
	outputs []*operand
	state   *ir.Value
	cache   *ir.Value // convolution caches, if the grid writes them
}

// grid emits one grid over batch rows, heads and chunks that reads the used operands. With a state its chunks are
// sequential and carry it; the body sees it as e.state.
//
//	dims     b: batch rows / batch   h: key heads / kb   g: groups, where they are split   c: chunks / chunks of a step, in order if there is a state
//	carry    the state [batch, heads, K, V], a window over b, h and g: loaded where one of them changes, stored before it does
//
// Batch rows and heads are thus independent programs, and a program traverses c. With gathered packed sequences, the carry's window is looked up by the
// chunk's sequence in a table, and the same rule of loading and storing changes states where a sequence ends.
func (p *plan) grid(name string, in *operands, used []*operand, state *operand, body func(*tiles) []blockOut) gridResult {
	if p.visiting() {
		used = append(slices.Clone(used), in.single.marks)
	}
	x := &gridding{plan: p, in: in, used: used, state: state, once: state != nil && p.once()}
	if state != nil && p.v.Mapping.PersistentRows {
		x.state = x.chained(state)
	}
	x.begin(name)
	rs := p.b.Grid(x.grid, x.arguments(), func(b *ir.Builder, blocks, carried []*ir.Value) (ys, next []*ir.Value) {
		return x.body(b, blocks, carried, body)
	})
	var r gridResult
	if n := len(firsts(x.outs)); state != nil && len(rs) > n { // carried states, or states in their own array, are the result after the outputs
		r.state = rs[n]
		if in.cache != nil {
			r.cache = rs[n+1]
		}
	}
	// Outputs of pooled sequences have split dimensions (spaced): merge them.
	for i, o := range firsts(x.outs) {
		o.operand.value = rs[i]
		if o.operand.shape != nil {
			o.operand.value = p.b.Reshape(rs[i], o.operand.shape...)
		}
		r.outputs = append(r.outputs, o.operand)
	}
	return r
}

// gridding is a grid under construction: begin sets dimensions, arguments the inputs, body the work of a step and its outputs.
type gridding struct {
	*plan
	in    *operands
	used  []*operand // the operands that its steps read
	state *operand   // nil: none
	once  bool       // each step takes whole sequences, so no state is carried
	grid  *ir.Grid
	at    map[axis]int // the grid's dimension of each axis
	outs  []blockOut
}

// begin creates the grid with its dimensions, and registers it for a schedule if it carries a state; independent steps need none.
//
//	bench, chunk=128, heads=0, chunks=4        b:1 h:1 c:8 in order
//	bench, chunk=128, heads=2, chunks=1        b:1 h:4 c:32 in order
//	decode, 64 sequences, heads=0, batch=4     b:16 h:1 c:1; if the kernel copies b:1 h:1 c:16 in order, so that a step can prefetch for another
func (x *gridding) begin(name string) {
	s, v := x.s, x.v
	dims := []ir.GridDim{{Name: "b", Size: s.Batch / v.Mapping.Batch}, {Name: "h", Size: s.HeadsK / x.kb}}
	steps := x.nc / v.Mapping.Chunks
	if x.copying() { // groups of sequences run in sequence, so that copies of their states overlap
		dims[0].Size, steps = 1, dims[0].Size
	}
	if v.Mapping.PersistentRows {
		dims[0].Size, steps = 1, steps*dims[0].Size
	}
	// A dimension of size one is included, so that windows need no special case.
	x.at = map[axis]int{axisBatch: 0, axisHead: 1}
	if x.groupSplit() {
		x.at[axisGroup] = len(dims)
		dims = append(dims, ir.GridDim{Name: "g", Size: s.Groups() / x.gb})
	}
	x.at[axisChunk] = len(dims)
	dims = append(dims, ir.GridDim{Name: "c", Size: steps, Seq: x.state != nil})
	x.grid = &ir.Grid{Name: name, Dims: dims, Main: v.Forward.HBM || x.pooled()}
	if x.copying() {
		x.grid.Copies = stepsAhead
	}
	switch {
	case x.down: // one chunk a step, for any number in flight in the forward pass
		*x.carriers = append(*x.carriers, schedule.Carrier{Grid: name, Heads: v.Mapping.Heads * v.Mapping.Batch, Reverse: true})
	case x.state != nil:
		c := schedule.Carrier{Grid: name, Heads: v.Mapping.Heads * v.Mapping.Batch * v.Mapping.Chunks}
		if convolving(x.plan) {
			c.With = stageValues
		}
		*x.carriers = append(*x.carriers, c)
	}
}

// window returns the window of an operand. Going down, step c has the chunks of step nc/chunks - 1 - c. If the kernel copies (copying), the
// axis of chunks counts groups of sequences: batch rows move along it, and chunks do not move, since there is one.
func (x *gridding) window(o *operand) ir.Window {
	w := ir.Window{Block: o.block}
	for _, a := range o.axes {
		i := ir.IndexConst(0)
		switch a {
		case axisNone:
		case axisStep:
			i = ir.IndexAxis(x.at[axisChunk])
		case axisSeq, axisBlock: // per chunk, by the first table
			i = x.looked(a, o.place, o.conditional)
		case axisBatch, axisChunk:
			switch {
			case x.v.Mapping.PersistentRows && a == axisBatch: // by the step within a row
				i = ir.IndexAxis(x.at[axisChunk]).Held(x.nc / x.v.Mapping.Chunks)
			case !x.copying():
				i = ir.IndexAxis(x.at[a])
			case a == axisBatch:
				i = ir.IndexAxis(x.at[axisChunk])
			}
		default:
			i = ir.IndexAxis(x.at[a])
		}
		switch {
		case x.visiting(): // tables have the traversal order
			if x.down && a == axisChunk {
				i = x.looked(a, 0, false)
			}
		case x.down && (a == axisSeq || a == axisChunk):
			i = i.Reversed(x.nc / x.v.Mapping.Chunks)
		}
		w.Index = append(w.Index, i)
	}
	return w
}

// spaced distributes the sequences of a pool over steps with a stride, in the order of the table of their states: the first
// sequence of every step, then the second of every step. So tables need no reordering.
//
// Eight sequences, batch=2: step 0 has sequences 0 and 4, step 1 has 1 and 5. Entry j B / n + step of the table names the state of place j (ofSequence), and
// an array [8, ...] is reshaped to [2, 4, ...] with blocks [2, 1, ...].
func (x *gridding) spaced(o *operand) *operand {
	n := x.v.Mapping.Batch
	if x.v.Mapping.PersistentRows {
		return x.chained(o)
	}
	if !x.striding() || o.axes[0] != axisBatch || x.s.Batch == n {
		return o
	}
	return x.strided(o, n)
}

// strided reshapes rows [B, ...] to [n, B / n, ...], with blocks of n rows at a stride of B / n.
func (x *gridding) strided(o *operand, n int) *operand {
	y := x.seenAs(o, func(shape []int) []int { return join([]int{n, shape[0] / n}, shape[1:]) })
	y.axes, y.block = join([]axis{axisNone}, o.axes), join([]int{n, 1}, o.block[1:])
	return y
}

// seenAs returns a reshaped operand with the same elements in memory.
func (x *gridding) seenAs(o *operand, as func(shape []int) []int) *operand {
	y := *o
	if o.value != nil {
		y.value = x.b.Reshape(o.value, as(o.value.Type.Shape)...)
	} else {
		y.shape = as(o.shape)
	}
	return &y
}

// chained reshapes an operand for back-to-back rows. Interleaved rows have a stride, so that each has its successor behind it in memory: nothing
// moves.
//
// Eight rows, batch=2, of four steps each: steps 0 to 3 have rows 0 and 4, steps 4 to 7 rows 1 and 5
//
//	tokens and chunk values             [8, T, ...] is [2, 4 T, ...]      blocks [2, tokens of a step, ...], one per step
//	states                              [8, Hv, K, V] is [2, 4, Hv, K, V]   blocks [2, 1, ...], one for all steps of a row
func (x *gridding) chained(o *operand) *operand {
	if o.axes[0] != axisBatch {
		return o
	}
	n := o.block[0]
	if o.axes[1] != axisChunk {
		return x.strided(o, n)
	}
	y := x.seenAs(o, func(shape []int) []int { return join([]int{n, shape[0] / n * shape[1]}, shape[2:]) })
	y.axes = join([]axis{axisNone}, o.axes[1:])
	return y
}

// ofSequence returns the window of the state of a step's j-th sequence, by a table of the pool.
func (x *gridding) ofSequence(o *operand, table, j int) ir.Window {
	w := x.window(o)
	w.Index[0] = ir.IndexTable(x.at[axisChunk], table)
	w.Index[0].Const = j * x.s.Batch / x.v.Mapping.Batch
	if x.named != nil { // one table, by lists
		w.Index[0].Table = 0
		w.Index[0].Const += (1 + table) * segments.Stride(x.s.Batch, true)
	}
	return w
}

// sequencesOf returns how many sequences of a step have their own window on a pool; 0 without a pool.
func (x *gridding) sequencesOf(o *operand) int {
	if o == nil {
		return 0
	}
	return x.v.Mapping.Batch
}

// arguments returns tables, operands and the state, and adds their windows to the grid.
//
// A state has one of four forms. With a pool it is an input window for each sequence of a step, by table. If a step takes whole sequences (once),
// it is an input window, and an output of the same step. With visits it is both of these and a carry (segments.go). Otherwise it is carried.
func (x *gridding) arguments() (args []*ir.Value) {
	g, from := x.grid, 0
	switch {
	case x.visiting():
		g.Tables, g.Inside, args = 1, true, append(args, x.in.single.table)
		if x.ordered && x.reversed {
			g.Live = 1
		}
	case x.state != nil && x.in.slotting != nil:
		g.Tables, args = 1, append(args, x.in.slotting.Table)
	}
	switch {
	case x.pooled() && x.named != nil:
		args, from = append(args, x.named), pool.TableFrom
		g.Tables, g.Live = 1, 1
	case x.pooled():
		args = append(args, x.pool().Tables(x.b)...)
		from = len(args) - 1
		if x.runs != nil {
			args = append(args, x.runs)
			g.Live = len(args)
		}
		g.Tables = len(args)
	}
	for _, o := range x.used {
		o = x.spaced(o)
		for _, y := range x.perSegment(o, false) {
			g.In = append(g.In, x.window(y))
			args = append(args, o.value)
		}
	}
	switch {
	case x.pooled():
		for j := range x.v.Mapping.Batch {
			g.In = append(g.In, x.ofSequence(x.state, from, j))
			args = append(args, x.state.value)
		}
		for j := range x.sequencesOf(x.in.cache) {
			g.In = append(g.In, x.ofSequence(x.in.cache, from, j))
			args = append(args, x.in.cache.value)
		}
	case x.once && x.s.Init, x.visiting() && x.state != nil && !x.state.zeros:
		for _, y := range x.perSegment(x.state, false) {
			g.In = append(g.In, x.window(y))
			args = append(args, x.state.value)
		}
	case x.state != nil && !x.once && !x.visiting():
		g.Carry = []ir.Window{x.window(x.state)}
		args = append(args, x.state.value)
	}
	return bounded(g, args, x.live)
}

// body emits the body of a step, and adds its output windows to the grid: outputs of the algorithm, states after each chunk if they are outputs
// of the spec, and final states if none are carried.
//
// In place, or with a pool, the array of final states is an alias of the initial ones: states that no step names keep their values, and no further
// memory is needed. If the kernel copies, all windows of a pool's states write to this one array.
func (x *gridding) body(b *ir.Builder, blocks, carried []*ir.Value, body func(*tiles) []blockOut) (ys, next []*ir.Value) {
	g, s, state := x.grid, x.s, x.state
	e := newTiles(x.plan, b, x.in)
	e.step = x.at[axisChunk]
	i := 0
	for _, o := range x.used {
		n := len(x.perSegment(o, false))
		e.blocks[o] = b.Reshape(blocks[i], o.block...)
		if n > 1 {
			e.slots[o] = blocks[i : i+n]
		}
		i += n
	}
	// The state in a body is [batch x heads, K, V] float32, or [.., V, K] if the spec has this order and the kernel keeps it.
	asTile := func(y *ir.Value) *ir.Value {
		r := len(state.block)
		return b.Convert(b.Reshape(y, x.v.Mapping.Batch*x.v.Mapping.Heads, state.block[r-2], state.block[r-1]), ir.F32)
	}
	switch {
	case state != nil && x.visiting():
		begins := make([]*ir.Value, placesOf(x.plan))
		for j := range blocks[i:] {
			begins[j] = blocks[i+j]
		}
		e.enters = func(visit int, left *ir.Value) *ir.Value {
			return x.enter(e, visit, tile.Each(asTile, begins[visit]), left)
		}
		e.state = e.enters(0, nil)
	case x.once && s.Init:
		end := len(blocks) - x.sequencesOf(x.in.cache)
		e.state, e.caches = asTile(b.Concat(0, blocks[len(x.used):end]...)), blocks[end:]
	case x.once:
		e.state = asTile(b.Const(ir.T(state.dtype, state.block...), 0))
	case state != nil:
		e.state = asTile(carried[0])
	}
	x.outs = body(e)
	if state != nil && s.Every > 0 {
		x.outs = append(x.outs, e.made(e.Concat(0, e.after[len(e.after)-x.v.Mapping.Chunks:]...)))
	}
	for _, o := range x.outs {
		to := x.spaced(o.operand)
		ys = append(ys, b.Reshape(o.block, to.block...))
		g.Out = append(g.Out, x.window(to))
		g.Outs = append(g.Outs, ir.T(to.dtype, to.shape...))
	}
	if placesOf(x.plan) > 1 {
		g.Into = arraysOf(x.outs)
	}
	if state == nil {
		return ys, nil
	}
	finals, window := x.stateBlocks(b, e)
	switch {
	case x.visiting():
		if x.storesStates() {
			for j, y := range x.perSegment(window, true) {
				ys, g.Out, g.Outs = append(ys, finals[j]), append(g.Out, x.window(y)), append(g.Outs, ir.T(state.dtype, state.shape...))
				if g.Into != nil {
					g.Into = append(g.Into, len(firsts(x.outs)))
				}
			}
		}
		return ys, x.carries(e, append([]*ir.Value{e.state}, e.held...))
	case !x.once:
		return ys, append(finals, x.carries(e, e.held)...)
	}
	// States come after all other outputs, and after all other inputs: each array is an alias of the other.
	array := len(x.outs)
	if s.Init && (s.InPlace || x.pooled()) {
		g.Alias = [][2]int{{array, len(x.used)}}
	}
	for j, final := range finals {
		w := x.window(window)
		if x.pooled() {
			w = x.ofSequence(window, pool.TableWritten, j)
		}
		ys, g.Out, g.Outs = append(ys, final), append(g.Out, w), append(g.Outs, ir.T(state.dtype, state.shape...))
	}
	if x.copying() {
		for i := range g.Out {
			g.Into = append(g.Into, min(i, array))
		}
	}
	if cache := x.in.cache; cache != nil {
		g.Alias = append(g.Alias, [2]int{array + 1, len(x.used) + len(finals)})
		group := *cache
		group.block = join([]int{s.Checkpoints()}, cache.block[1:])
		for j, left := range e.nextCaches() {
			ys, g.Out, g.Outs = append(ys, left), append(g.Out, x.ofSequence(&group, pool.TableWritten, j)), append(g.Outs, ir.T(cache.dtype, cache.shape...))
			g.Into = append(g.Into, array+1)
		}
	}
	return ys, nil
}

// stateBlocks returns the blocks of the states that a step writes, with their window. With a pool there is a block per sequence. The checkpoints of a
// window are stored together: the T states of a sequence are its group of T.
func (x *gridding) stateBlocks(b *ir.Builder, e *tiles) ([]*ir.Value, *operand) {
	if n := placesOf(x.plan); n > 1 { // the states after each visit
		var finals []*ir.Value
		for _, y := range e.after[:n] {
			finals = append(finals, b.Reshape(b.Convert(y, x.state.dtype), x.state.block...))
		}
		return finals, x.state
	}
	states := []*ir.Value{e.state}
	if x.s.Window {
		states = e.after[:x.s.Tokens]
	}
	group := *x.state
	group.block = join([]int{len(states) * x.state.block[0]}, x.state.block[1:])
	n := 1
	if x.pooled() {
		n = x.v.Mapping.Batch
	}
	finals := make([]*ir.Value, n)
	for j := range finals {
		var after []*ir.Value
		for _, y := range states {
			y = b.Convert(y, x.state.dtype)
			if n > 1 {
				y = b.SliceAxis(y, 0, j*x.v.Mapping.Heads, (j+1)*x.v.Mapping.Heads)
			}
			after = append(after, b.Reshape(y, x.state.block...))
		}
		finals[j] = b.Concat(0, after...)
	}
	return finals, &group
}

// blockOut is an output block of a step with its array: window, shape and type of an operand without a value yet.
type blockOut struct {
	block   *ir.Value
	operand *operand
}
