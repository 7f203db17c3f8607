package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// batchRule says how an op inside a grid becomes one over leading batch dimensions. Without emit, operands are aligned and
// the op is repeated with its attributes shifted by the number of batch dimensions.
//
// With lead [2, 3], the sizes of two axes, attributes become
//
//	slice      {starts=[0,4], limits=[8,8]}     {starts=[0,0,0,4], limits=[2,3,8,8]}
//	concat     {axis=1}                         {axis=3}
//	reduce     {dims=[1]}                       {dims=[3]}
//	transpose  {dims=[1,0]}                     {dims=[0,1,3,2]}
//
// emit is for ops of which each point does something else, by an index of its own, and for those with a body. refuse says why no grid has the op.
type batchRule struct {
	shift  func(a *ir.Attrs, lead []int)
	emit   func(b *batcher, in *ir.Instr) []batched
	refuse string
}

const kernelOnly = "acts on references, which a grid's pure body does not have"

// batchRules has a row for every op.
//
// A test goes through all ops, so a new one without a row is found there and not by a program that happens to have it.
var batchRules [ir.NumOps]batchRule

func init() { // loop's rule refers back to the table
	same := batchRule{shift: func(*ir.Attrs, []int) {}}
	for op := ir.BadOp; op < ir.NumOps; op++ {
		if op.IsElementwise() {
			batchRules[op] = same
		}
	}
	axis := batchRule{shift: func(a *ir.Attrs, lead []int) { a.Axis += len(lead) }}
	reduce := batchRule{shift: func(a *ir.Attrs, lead []int) { a.Dims = later(a.Dims, len(lead)) }}
	dims := batchRule{shift: func(a *ir.Attrs, lead []int) { a.Dims = append(upTo(len(lead)), later(a.Dims, len(lead))...) }}
	// Words and halves pair rows of the last dimension but one, wherever that is. The shape of a reshape is no attribute: repeat puts the sizes of
	// the axes before it.
	for op, r := range map[ir.Op]batchRule{
		ir.BadOp:       {refuse: "is no op"},
		ir.OpConst:     same, // no operands, so no batch dimensions
		ir.OpIota:      same,
		ir.OpSelect:    {emit: (*batcher).choose},
		ir.OpWords:     same,
		ir.OpHalves:    same,
		ir.OpReshape:   same,
		ir.OpKeep:      same,
		ir.OpBroadcast: dims,
		ir.OpTranspose: dims,
		ir.OpSlice: {shift: func(a *ir.Attrs, lead []int) {
			n := len(lead)
			a.Starts = append(make([]int, n), a.Starts...)
			a.Limits = append(slices.Clone(lead), a.Limits...)
			if a.Strides != nil {
				a.Strides = append(filled(n, 1), a.Strides...)
			}
		}},
		ir.OpPad: {shift: func(a *ir.Attrs, lead []int) {
			a.Starts = append(make([]int, len(lead)), a.Starts...)
			a.Limits = append(make([]int, len(lead)), a.Limits...)
		}},
		ir.OpConcat:     axis,
		ir.OpCumsum:     axis,
		ir.OpTake:       axis,
		ir.OpReduceSum:  reduce,
		ir.OpReduceMax:  reduce,
		ir.OpGatherRows: {emit: (*batcher).gatherRows},
		ir.OpDynSlice:   {emit: (*batcher).dynSlice},
		ir.OpDynUpdate:  {emit: (*batcher).dynUpdate},
		ir.OpDot:        {emit: (*batcher).dot},
		ir.OpLoop:       {emit: (*batcher).loop},
		ir.OpProgramID:  {emit: (*batcher).programID},
		ir.OpGrid:       {refuse: "is batched before the grid around it"},
		ir.OpKernel:     {refuse: "is a kernel within a grid: lower the outer grid instead"},
		ir.OpWhen:       {refuse: kernelOnly},
		ir.OpLoad:       {refuse: kernelOnly},
		ir.OpStore:      {refuse: kernelOnly},
		ir.OpRefCast:    {refuse: kernelOnly},
		ir.OpDMAStart:   {refuse: kernelOnly},
		ir.OpDMAWait:    {refuse: kernelOnly},
	} {
		batchRules[op] = r
	}
}

// upTo is 0 to n - 1: the leading dimensions, where they are.
func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// later is dimensions behind n that were put before them.
func later(s []int, n int) []int {
	out := make([]int, len(s))
	for i, x := range s {
		out[i] = x + n
	}
	return out
}

// block batches the instructions of a block.
func (b *batcher) block(blk *ir.Block) {
	for _, in := range blk.Instrs {
		if b.Err() != nil {
			return
		}
		// What stands for an instruction has its task, and its position, which errors name.
		b.Of(in)
		rule := batchRules[in.Op]
		var rs []batched
		switch {
		case rule.refuse != "":
			b.Failf("grid %s: %s %s", b.g.Name, in.Op, rule.refuse)
			return
		case rule.emit != nil:
			rs = rule.emit(b, in)
		default:
			rs = b.repeat(in, rule)
		}
		for i, r := range in.Results {
			b.env[r] = rs[i]
		}
	}
}

// union is the set of axes that any of the values depends on.
//
// An op on these axes has a result for every point that any of its operands tells apart, and no more.
func (b *batcher) union(vs []*ir.Value) axes {
	var on axes
	for _, v := range vs {
		on |= b.value(v).on
	}
	return on
}

// aligned gives values for all points of the axes.
func (b *batcher) aligned(vs []*ir.Value, on axes) []*ir.Value {
	out := make([]*ir.Value, len(vs))
	for i, v := range vs {
		out[i] = b.align(b.value(v), on)
	}
	return out
}

// repeat is an op of which all points do the same: once over all points, on the axes of all operands. An op of no operands, as a constant or an iota, so
// is on no axes, and a mask made of such is made once.
func (b *batcher) repeat(in *ir.Instr, rule batchRule) []batched {
	on := b.union(in.Args)
	at := passes.CloneAttrs(in.Attrs)
	rule.shift(&at, b.sizes(on))
	var explicit []ir.Type
	if ir.Ops[in.Op].Explicit {
		t := in.Result().Type
		explicit = []ir.Type{ir.T(t.DType, b.sizes(on, t.Shape...)...)}
	}
	return []batched{{b.Append(in.Op, b.aligned(in.Args, on), at, nil, explicit...)[0], on}}
}

// choose spreads a scalar condition that depends on the point over the branches.
//
// A condition is of the branches' shape, or one scalar for all elements. A scalar of one point stays a scalar; that of many points is a vector [points],
// which select would not take beside branches of [points, 8, 8].
func (b *batcher) choose(in *ir.Instr) []batched {
	on := b.union(in.Args)
	c := b.value(in.Args[0])
	// Else the scalar is the same at all points, and is one for all elements of all points.
	if in.Args[0].Type.Rank() > 0 || c.on != 0 {
		c.v = b.align(c, on)
		if in.Args[0].Type.Rank() == 0 {
			c.v = b.along(c.v, on, in.Result().Type.Shape)
		}
	}
	return []batched{{b.Select(c.v, b.align(b.value(in.Args[1]), on), b.align(b.value(in.Args[2]), on)), on}}
}

// programID is where points begin to differ: the id of a parallel axis is the vector 0, 1, ... on that axis. settle knows the same rule.
func (b *batcher) programID(in *ir.Instr) []batched {
	a := in.Attrs.Axis
	switch dim := b.g.Dims[a]; {
	case dim.Size == 1:
		return []batched{{v: b.scalar(0)}}
	case dim.Seq:
		return []batched{{v: b.step}}
	default:
		return []batched{{b.Iota(ir.T(ir.I32, dim.Size), 0), 1 << a}}
	}
}

// dot keeps an axis of one operand alone as a free dimension of it. To repeat that operand over the axes of the other, as elementwise ops do, would
// multiply the work: 16 value heads by the K^T of one key head are one product of 16 times as many columns, not 16 products.
//
//	x f32[64,128] on {}, y f32[128,64] on {h}, h:16, lc=[1] rc=[0]
//	y over its points   f32[16,128,64]
//	product             f32[64,16,64], lc=[1] rc=[1]: x's rows, then the free dimensions of y, of which h is the first
//	transposed          f32[16,64,64]: axes first, as everywhere
//
// An axis that both operands have is a batch dimension of the product.
func (b *batcher) dot(in *ir.Instr) []batched {
	x, y := b.value(in.Args[0]), b.value(in.Args[1])
	xs, ys := x.on.list(), y.on.list()
	both := x.on & y.on
	at := passes.CloneAttrs(in.Attrs)
	d := at.Dot
	lb, rb := later(d.LB, len(xs)), later(d.RB, len(ys))
	d.LB, d.RB = nil, nil
	for _, a := range both.list() {
		d.LB, d.RB = append(d.LB, slices.Index(xs, a)), append(d.RB, slices.Index(ys, a))
	}
	d.LB, d.RB = append(d.LB, lb...), append(d.RB, rb...)
	d.LC, d.RC = later(d.LC, len(xs)), later(d.RC, len(ys))

	// The product's dimensions: shared axes, batch, x's own axes, x's free, y's own axes, y's free.
	t := in.Result().Type
	left := in.Args[0].Type.Rank() - len(in.Attrs.Dot.LC) // batch and free dimensions of the left operand
	nb := len(in.Attrs.Dot.LB)
	// An axis is a bit of 64, so the two kinds of numbers do not meet, and sorting puts axes first.
	var order []int // where each dimension of the product goes, as axis or, from 64 on, as dimension of t
	order = append(order, both.list()...)
	order = append(order, later(upTo(nb), 64)...)
	order = append(order, (x.on &^ both).list()...)
	order = append(order, later(upTo(left-nb), 64+nb)...)
	order = append(order, (y.on &^ both).list()...)
	order = append(order, later(upTo(t.Rank()-left), 64+left)...)
	shape, perm := make([]int, len(order)), upTo(len(order))
	for i, o := range order {
		if o < 64 {
			shape[i] = b.g.Dims[o].Size
		} else {
			shape[i] = t.Shape[o-64]
		}
	}
	slices.SortFunc(perm, func(i, j int) int { return order[i] - order[j] })
	v := b.Append(ir.OpDot, []*ir.Value{x.v, y.v}, at, nil, ir.T(t.DType, shape...))[0]
	return []batched{{b.permute(v, perm), x.on | y.on}}
}

// loop carries each value with all axes it comes to depend on. A sum that begins as a constant depends on none before the loop, but on the
// axes of what the first step adds after it. A loop's types may not change, so these must be known before the body is written (settle).
//
//	%s = loop 4 (const 0) { i, s -> s + x }      x on {h}: s is f32[2,8] from the start, a broadcast zero
func (b *batcher) loop(in *ir.Instr) []batched {
	on := make([]axes, len(in.Args))
	for i, v := range in.Args {
		on[i] = b.value(v).on
	}
	for i, s := range b.settle(in.Body, on, map[*ir.Value]axes{}) {
		// These contain the axes of the initial values, from which settle starts.
		on[i] = s
	}
	init := make([]*ir.Value, len(in.Args))
	for i, v := range in.Args {
		init[i] = b.align(b.value(v), on[i])
	}
	rs := b.Loop(in.Attrs.Count, init, func(nb *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
		defer func(old *ir.Builder) { b.Builder = old }(b.Builder)
		b.Builder = nb
		b.env[in.Body.Params[0]] = batched{v: i}
		for j, v := range carried {
			b.env[in.Body.Params[1+j]] = batched{v, on[j]}
		}
		b.block(in.Body)
		if b.Err() != nil {
			return carried
		}
		next := make([]*ir.Value, len(carried))
		for j, y := range in.Body.Yield {
			next[j] = b.align(b.value(y), on[j])
		}
		return next
	})
	out := make([]batched, len(rs))
	for i, v := range rs {
		out[i] = batched{v, on[i]}
	}
	return out
}

// settle gives the axes of the carried values of a loop, from those of their initial values: the least sets that the body leaves as they are. It passes
// through the body again as long as a set grows, at most once for each axis and carried value.
//
// It only adds up sets, and makes no instruction: a set is that of an op's operands, as batched ops have it, but for the id of an axis. Were it too
// small, a value that the body yields could not be brought to its carry's axes (align); were it too large, points would repeat the same work.
//
//	carried a, b from {}; the body yields a' = b, b' = b + x, x on {h}
//	pass 1: a {}, b {h}     pass 2: a {h}, b {h}     pass 3: as before, done
func (b *batcher) settle(body *ir.Block, init []axes, known map[*ir.Value]axes) []axes {
	on := slices.Clone(init)
	of := func(v *ir.Value) axes {
		if s, ok := known[v]; ok {
			return s
		}
		return b.value(v).on
	}
	for {
		known[body.Params[0]] = 0
		for i, s := range on {
			known[body.Params[1+i]] = s
		}
		for _, in := range body.Instrs {
			var s axes
			for _, v := range in.Args {
				s |= of(v)
			}
			// A loop in the body settles by itself, from the sets that this pass has so far. It may be asked again with larger ones in the next.
			if in.Op == ir.OpLoop {
				args := make([]axes, len(in.Args))
				for i, v := range in.Args {
					args[i] = of(v)
				}
				for i, s := range b.settle(in.Body, args, known) {
					known[in.Results[i]] = s
				}
				continue
			}
			if dim := in.Attrs.Axis; in.Op == ir.OpProgramID && !b.g.Dims[dim].Seq && b.g.Dims[dim].Size > 1 {
				s = 1 << dim
			}
			for _, r := range in.Results {
				known[r] = s
			}
		}
		stable := true
		for i, y := range body.Yield {
			if s := on[i] | of(y); s != on[i] {
				on[i], stable = s, false
			}
		}
		if stable {
			return on
		}
	}
}

// along spreads scalars, one a point, over a full shape.
//
// Over axes of sizes 2 and 3, starts [2, 3] become [2, 3, 8, 4] for blocks of [8, 4].
func (b *batcher) along(x *ir.Value, on axes, shape []int) *ir.Value {
	return b.Broadcast(x, b.sizes(on, shape...), upTo(len(on.list()))...)
}

// clampTo bounds indices from 0 to hi.
//
// A take wants every index in range, where dyn_slice, dyn_update and gather_rows say what an index out of range means. So whoever lowers to a take bounds.
func (b *batcher) clampTo(i *ir.Value, hi int) *ir.Value {
	return b.Min(b.Max(i, b.Like(i, 0)), b.Like(i, float64(hi)))
}

// gatherRows is one gather where all points ask for the same rows. Else it is a take, with an index for each element, and zeros where a point's
// index was out of range, as gather_rows has it.
//
//	x f32[8,4], y i32[2] on {h}, h:3, axis=0      rows i32[3,2,4], taken from x as f32[3,8,4] along dimension 1
func (b *batcher) gatherRows(in *ir.Instr) []batched {
	x, idx := b.value(in.Args[0]), b.value(in.Args[1])
	axis := in.Attrs.Axis
	if idx.on == 0 {
		return []batched{{b.GatherRows(x.v, idx.v, axis+len(x.on.list())), x.on}}
	}
	on := x.on | idx.on
	n, t := len(on.list()), in.Result().Type
	rows := b.Broadcast(b.align(idx, on), b.sizes(on, t.Shape...), append(upTo(n), n+axis)...)
	count := in.Args[0].Type.Shape[axis]
	zero := b.Const(ir.T(t.DType, rows.Type.Shape...), 0)
	// No index is in range, so all is zeros, and a take would have nothing to take.
	if count == 0 {
		return []batched{{zero, on}}
	}
	v := b.Take(b.align(x, on), b.clampTo(rows, count-1), n+axis)
	held := b.And(b.Compare(ir.GE, rows, b.Like(rows, 0)), b.Compare(ir.LT, rows, b.Like(rows, float64(count))))
	return []batched{{b.Select(held, v, zero), on}}
}

// dynSlice takes a block for each point of a grid, whose starts may differ. Dimensions with one start for all points are one dyn_slice, which
// comes first since it makes the operand smaller. Each other dimension is a take along it, at the indices start + 0, 1, ... of the point.
func (b *batcher) dynSlice(in *ir.Instr) []batched {
	x, starts := b.value(in.Args[0]), in.Args[1:]
	t := in.Result().Type
	common := func(x batched) batched { // the starts that all points share
		n := len(x.on.list())
		args, shape := []*ir.Value{x.v}, slices.Clone(x.v.Type.Shape)
		// The axes' dimensions are taken whole.
		for range n {
			args = append(args, b.scalar(0))
		}
		for d, s := range starts {
			if s := b.value(s); s.on == 0 {
				args, shape[n+d] = append(args, s.v), t.Shape[d]
			} else {
				// Whole as well for now; its points differ.
				args = append(args, b.scalar(0))
			}
		}
		return batched{b.Append(ir.OpDynSlice, args, ir.Attrs{}, nil, ir.T(t.DType, shape...))[0], x.on}
	}
	x = common(x)
	for d, s := range starts {
		start := b.value(s)
		if start.on == 0 {
			continue
		}
		on := x.on | start.on
		n := len(on.list())
		v := b.align(x, on)
		shape := slices.Clone(v.Type.Shape[n:])
		// As dyn_slice does, a start too far on moves back until the block fits.
		first := b.clampTo(b.align(start, on), shape[d]-t.Shape[d])
		shape[d] = t.Shape[d]
		rows := b.Add(b.along(first, on, shape), b.Iota(ir.T(ir.I32, b.sizes(on, shape...)...), n+d))
		x = batched{b.Take(v, rows, n+d), on}
	}
	return []batched{x}
}

// dynUpdate writes blocks of which each point may have another start. The IR has no scatter, so it is turned round: each element of the
// whole asks which element of the block comes to be on it, if any.
//
//	whole [6], block [a b c], start 2 at this point
//	place     -2 -1  0  1  2  3      index - start
//	inside     .  .  a  b  c  .      0 <= place < 3; elsewhere x stays
func (b *batcher) dynUpdate(in *ir.Instr) []batched {
	starts := in.Args[2:]
	on := b.union(in.Args)
	n := len(on.list())
	x, y := b.align(b.value(in.Args[0]), on), b.align(b.value(in.Args[1]), on)
	if b.union(starts) == 0 {
		args := []*ir.Value{x, y}
		for range n {
			args = append(args, b.scalar(0))
		}
		for _, s := range starts {
			args = append(args, b.value(s).v)
		}
		return []batched{{b.Append(ir.OpDynUpdate, args, ir.Attrs{}, nil)[0], on}}
	}
	// Each element picks its place in the block; elements outside of it keep x.
	whole, block := in.Args[0].Type.Shape, in.Args[1].Type.Shape
	if slices.Contains(block, 0) {
		return []batched{{x, on}}
	}
	inside := b.Const(ir.T(ir.Bool, b.sizes(on, whole...)...), 1)
	for d, s := range starts {
		first := b.clampTo(b.align(b.value(s), on), whole[d]-block[d])
		place := func(shape []int) *ir.Value {
			return b.Sub(b.Iota(ir.T(ir.I32, b.sizes(on, shape...)...), n+d), b.along(first, on, shape))
		}
		// An element is in the block if it is so along every dimension.
		at := place(whole)
		inside = b.And(inside, b.And(b.Compare(ir.GE, at, b.Like(at, 0)), b.Compare(ir.LT, at, b.Like(at, float64(block[d])))))
		// y grows to the whole one dimension at a time: those before d have been, those after are still the block's.
		shape := slices.Clone(y.Type.Shape[n:])
		shape[d] = whole[d]
		y = b.Take(y, b.clampTo(place(shape), block[d]-1), n+d)
	}
	return []batched{{b.Select(inside, y, x), on}}
}
