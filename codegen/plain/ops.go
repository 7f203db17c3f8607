package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// batchRule says how an op inside a grid becomes one op with leading batch dimensions. Without emit, operands are aligned, and the op is
// repeated with its attributes shifted by the number of batch dimensions.
//
// With lead [2, 3], the sizes of two axes, attributes become:
//
//	slice      {starts=[0,4], limits=[8,8]}     {starts=[0,0,0,4], limits=[2,3,8,8]}
//	concat     {axis=1}                         {axis=3}
//	reduce     {dims=[1]}                       {dims=[3]}
//	transpose  {dims=[1,0]}                     {dims=[0,1,3,2]}
//
// emit is for ops with a body, and for ops in which points differ by an index. refuse says why a grid can not have the op.
type batchRule struct {
	shift  func(a *ir.Attrs, lead []int)
	emit   func(b *batcher, in *ir.Instr) []batched
	refuse string
}

const kernelOnly = "acts on references, which a grid's pure body does not have"

// batchRules has a row for every op; a test checks that.
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
	// Words and halves pair rows of the second-to-last dimension, which batch dimensions do not move. The shape of a reshape is no
	// attribute: repeat prepends the sizes of the axes.
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

// upTo returns 0 to n - 1.
func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// later returns dimensions shifted by n leading ones.
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
		// New instructions get the task of the old one, and its position, which errors name.
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

// union returns the set of axes that any of the values depends on.
func (b *batcher) union(vs []*ir.Value) axes {
	var on axes
	for _, v := range vs {
		on |= b.value(v).on
	}
	return on
}

// aligned returns the values on the axes on.
func (b *batcher) aligned(vs []*ir.Value, on axes) []*ir.Value {
	out := make([]*ir.Value, len(vs))
	for i, v := range vs {
		out[i] = b.align(b.value(v), on)
	}
	return out
}

// repeat emits an op in which all points do the same: one op on the axes of all operands. An op without operands, such as a constant or
// iota, is on no axes, so a mask made of such is computed once.
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

// choose emits a select. Its condition has the branches' shape, or is one scalar for all elements. A scalar that depends on the point is
// a vector [points], which select would refuse with branches of [points, 8, 8]; it is broadcast over the branches.
func (b *batcher) choose(in *ir.Instr) []batched {
	on := b.union(in.Args)
	c := b.value(in.Args[0])
	// Otherwise the scalar is the same at all points, and stays a scalar.
	if in.Args[0].Type.Rank() > 0 || c.on != 0 {
		c.v = b.align(c, on)
		if in.Args[0].Type.Rank() == 0 {
			c.v = b.along(c.v, on, in.Result().Type.Shape)
		}
	}
	return []batched{{b.Select(c.v, b.align(b.value(in.Args[1]), on), b.align(b.value(in.Args[2]), on)), on}}
}

// programID is where points begin to differ: the id of a parallel axis is the vector 0, 1, ... on that axis. settle repeats this rule.
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

// dot keeps an axis that only one operand has as a free dimension of that operand. Repeating the other operand over the axis, as
// elementwise ops do, would multiply the work: 16 value heads times the K^T of one key head are one product with 16 times as many
// columns, not 16 products.
//
//	x f32[64,128] on {}, y f32[128,64] on {h}, h:16, lc=[1] rc=[0]
//	y over its points   f32[16,128,64]
//	product             f32[64,16,64], lc=[1] rc=[1]: x's rows, then the free dimensions of y, of which h is the first
//	transposed          f32[16,64,64]: axes first, as for all batched values
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

	// The product's dimensions: shared axes, batch, x's other axes, x's free, y's other axes, y's free.
	t := in.Result().Type
	left := in.Args[0].Type.Rank() - len(in.Attrs.Dot.LC) // batch and free dimensions of the left operand
	nb := len(in.Attrs.Dot.LB)
	// Axes are below 64 and dimensions of t start at 64, so sorting puts axes first.
	var order []int // for each dimension of the product: its axis, or 64 + its dimension of t
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

// loop carries each value on all axes that it comes to depend on. A sum that starts as a constant is on no axis before the loop, but the
// first step may add a value on {h}. A loop's types can not change, so settle finds the axes before the body is emitted.
//
//	%s = loop 4 (const 0) { i, s -> s + x }      x on {h}: s is f32[2,8] from the start, zeros
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

// settle returns the axes of a loop's carried values, given the axes of their initial values: the least sets that the body does not
// enlarge. It repeats while a set grows, at most once per axis and carried value.
//
// It emits nothing. The axes of a result are the union of the operands' axes, or the axis of a program id. If a set were too small,
// align could not bring the yielded value to it; if too large, points would repeat work.
//
//	carried a, b from {}; the body yields a' = b, b' = b + x, x on {h}
//	pass 1: a {}, b {h}     pass 2: a {h}, b {h}     pass 3: unchanged, done
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
			// An inner loop settles by itself, from the sets found so far; a later pass may ask it again with larger ones.
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

// along broadcasts one scalar per point over a full shape. Example: over axes of sizes 2 and 3, starts [2, 3] become [2, 3, 8, 4] for
// blocks of [8, 4].
func (b *batcher) along(x *ir.Value, on axes, shape []int) *ir.Value {
	return b.Broadcast(x, b.sizes(on, shape...), upTo(len(on.list()))...)
}

// clampTo clamps indices to 0..hi. A take requires indices in range, while dyn_slice, dyn_update and gather_rows define out-of-range
// ones; so lowering to a take clamps.
func (b *batcher) clampTo(i *ir.Value, hi int) *ir.Value {
	return b.Min(b.Max(i, b.Like(i, 0)), b.Like(i, float64(hi)))
}

// gatherRows is one gather if all points take the same rows. Otherwise it is a take with an index per element, and zeros where the index
// is out of range, as gather_rows defines.
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
	// No index is in range: all zeros. A take would have no element.
	if count == 0 {
		return []batched{{zero, on}}
	}
	v := b.Take(b.align(x, on), b.clampTo(rows, count-1), n+axis)
	held := b.And(b.Compare(ir.GE, rows, b.Like(rows, 0)), b.Compare(ir.LT, rows, b.Like(rows, float64(count))))
	return []batched{{b.Select(held, v, zero), on}}
}

// dynSlice takes a block per point, whose starts may differ. Dimensions with one start for all points are one dyn_slice, which comes
// first since it makes the operand smaller. Each other dimension is a take along it, at each point's start + 0, 1, ....
func (b *batcher) dynSlice(in *ir.Instr) []batched {
	x, starts := b.value(in.Args[0]), in.Args[1:]
	t := in.Result().Type
	common := func(x batched) batched { // slices by the starts that all points share
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
				// Whole for now; points differ in this start.
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
		// As in dyn_slice, a start too large moves back until the block fits.
		first := b.clampTo(b.align(start, on), shape[d]-t.Shape[d])
		shape[d] = t.Shape[d]
		rows := b.Add(b.along(first, on, shape), b.Iota(ir.T(ir.I32, b.sizes(on, shape...)...), n+d))
		x = batched{b.Take(v, rows, n+d), on}
	}
	return []batched{x}
}

// dynUpdate writes blocks with a start per point. The IR has no scatter, so each element of the whole takes the element of the block
// that covers it, if any.
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
	// Each element takes its element of the block; elements outside keep x.
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
		// An element is in the block if it is inside along every dimension.
		at := place(whole)
		inside = b.And(inside, b.And(b.Compare(ir.GE, at, b.Like(at, 0)), b.Compare(ir.LT, at, b.Like(at, float64(block[d])))))
		// y grows to the whole shape one dimension at a time: dimensions before d have their full size, later ones still have the block's size.
		shape := slices.Clone(y.Type.Shape[n:])
		shape[d] = whole[d]
		y = b.Take(y, b.clampTo(place(shape), block[d]-1), n+d)
	}
	return []batched{{b.Select(inside, y, x), on}}
}
