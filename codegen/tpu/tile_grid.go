package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// carry is a carry of the grid as the kernel has it: it lives in an output window, and starts from
// an input window or from a constant. The compiler keeps an output window in VMEM as long as its
// index stays the same, and writes it to memory when the index changes. So the body reads and
// writes the state where it lies, and the final state needs no code of its own.
type carry struct {
	window  ir.Window
	in, out int     // windows of the kernel; in is -1 where it starts from the constant
	value   float64 // the constant
}

// tileGrid makes a kernel of a grid: its windows, its parameters, then the body between what begins
// and what ends a point. The order of the parameters is that of ir.OpKernel: tables, input windows,
// output windows, scratch.
//
//	operands and results of the grid     tables, in, initial carries         ->  out, final carries
//	parameters of the kernel             tables, in, initial carries that are read,
//	                                     out, final carries, scratch
func tileGrid(b *ir.Builder, in *ir.Instr, args []*ir.Value) ([]*ir.Value, error) {
	t := newTiler(b, in)
	if err := t.addFetches(args); err != nil {
		return nil, err
	}
	kargs := t.addCarries(args)
	t.addParams(kargs)
	t.startCarries()
	t.fetch()
	if err := t.block(in.Body); err != nil {
		return nil, err
	}
	if err := t.storeResults(); err != nil {
		return nil, err
	}
	t.body.Params = append(t.body.Params, t.refs...)
	if err := t.b().Err(); err != nil {
		return nil, err
	}
	b.Of(in)
	if t.bounded() { // others have a schedule, which leaves points out
		n := len(t.g.Dims) - 1
		t.g.Dims = slices.Clone(t.g.Dims)
		t.g.Dims[n].Bound = true
		kargs = append(kargs, b.Reshape(b.SliceAxis(args[t.g.Live-1], 0, 0, 1)))
	}
	if src := in.Attrs.Grid; src.Copies > 0 { // the only point of an axis always runs, and does nothing where no name is a state's
		t.g.Live = 0
	}
	return b.Append(ir.OpKernel, kargs, ir.Attrs{Grid: t.g}, t.body), b.Err()
}

// newTiler begins a kernel with the grid's windows but its carries. Arrays that several windows
// write to stay in main memory, since the compiler's windows write each array once: what goes there
// passes through buffers that the kernel copies out (tile_copy.go).
//
//	grid     out: windows 0 and 1 of array 0, window 2 of array 1
//	kernel   out: arrays 0 and 1, whole; scratch: three buffers
func newTiler(b *ir.Builder, in *ir.Instr) *tiler {
	src := in.Attrs.Grid
	// The kernel's grid has windows and axes as the grid has them; carries become outputs, and
	// copies and scratch are the kernel's own.
	g := *src
	g.Carry, g.Scratch, g.Copies = nil, nil, 0
	g.In, g.Out, g.Outs, g.Into, g.Alias = slices.Clone(src.In), slices.Clone(src.Out), slices.Clone(src.Outs), nil, slices.Clone(src.Alias)
	// Windows into shared arrays: the arrays are the outputs, seen whole but for those that one window shows block by block.
	if src.Into != nil {
		g.Outs = src.Arrays()
		g.Out = make([]ir.Window, len(g.Outs))
		for i, array := range src.Into {
			if alone(src, i) {
				g.Out[array] = src.Out[i]
			}
		}
	}
	t := &tiler{src: in, g: &g, body: &ir.Block{}, exact: map[*ir.Value]bool{}, heads: headsOf(src)}
	t.sc = newScope(b.On(t.body), nil)
	return t
}

// alone says whether an output window of a grid is the only one of its array, and shows each block in its turn, so that the compiler can have it:
// not where a table says which block it is, or none. Kernels that copy what their steps take copy all that they give.
func alone(g *ir.Grid, window int) bool {
	table := slices.ContainsFunc(g.Out[window].Index, func(x ir.Index) bool { return x.Table >= 0 })
	others := slices.DeleteFunc(slices.Clone(g.Into), func(a int) bool { return a != g.Into[window] })
	return g.Copies == 0 && !table && len(others) == 1
}

// headsOf is how many entries the first carry has, or where there are no carries the greatest
// input; 0: no leading dimensions. It is what an instruction's head is counted by: tile i of n
// belongs to head i * heads / n (ofHead).
//
//	carry [8, 128, 128]           8 heads
//	carry [4, 8, 128, 128]        32: heads of four sequences are heads of their own
func headsOf(g *ir.Grid) int {
	windows := g.In
	if len(g.Carry) > 0 {
		windows = g.Carry[:1]
	}
	heads := 0
	for _, w := range windows {
		if len(w.Block) > 2 {
			heads = max(heads, product(w.Block[:len(w.Block)-2]))
		}
	}
	return heads
}

// addCarries adds the windows of the carries, and gives the kernel's operands. A carry that starts
// from one number needs no input: zeros are stored by the kernel. Blocks of a carry that a table
// numbers are not all visited, so that its array starts as the operand: the output is an alias of
// the input, and what is not visited stays.
//
//	state starts as            input of the kernel    set by startCarries
//	zeros                      none                   to the constant
//	an array, a block each     a window               from the window
//	a pool, by a table         a window, aliased      from the window
func (t *tiler) addCarries(args []*ir.Value) []*ir.Value {
	g, src := t.g, t.src.Attrs.Grid
	n := src.Tables + len(src.In)
	kargs := slices.Clone(args[:src.Tables])
	for _, i := range t.kept {
		kargs = append(kargs, args[src.Tables+i])
	}
	for i, w := range src.Carry {
		init := args[n+i]
		c := carry{window: w, in: -1, out: len(g.Out)}
		// Zeros of a pool are an input all the same: blocks that no point visits must come out as
		// zeros.
		table := slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Table >= 0 })
		v, isConst := splat(init)
		if !isConst || table {
			c.in = len(g.In)
			g.In = append(g.In, w)
			kargs = append(kargs, init)
			if table {
				g.Alias = append(g.Alias, [2]int{c.out, c.in})
			}
		}
		c.value = v
		g.Out, g.Outs = append(g.Out, w), append(g.Outs, init.Type)
		t.carries = append(t.carries, c)
	}
	return kargs
}

// splat is the number that all elements of a value are, if they are known to be one. It looks
// through ops that only move elements, as the glue reshapes the zeros of a state.
//
//	reshape(broadcast(const 0))   0
//	concat(const 0, const 0)      not known to be one: the carry then has an input
func splat(v *ir.Value) (float64, bool) {
	for v.Def != nil {
		switch v.Def.Op {
		case ir.OpConst:
			return v.Def.Attrs.Value, true
		case ir.OpBroadcast, ir.OpReshape, ir.OpTranspose, ir.OpSlice:
			v = v.Def.Args[0]
		default:
			return 0, false
		}
	}
	return 0, false
}

// addParams makes the kernel's parameters, in its order, and has the body's read them. A window of
// a whole array stays in main memory (HBM), and is there for copies alone; all others are blocks in
// VMEM. Scratch follows as it is found to be needed.
//
//	window of f32[16, 64, 128]    vmem [1, 64, 128] at each point, moved by the compiler
//	the whole of it               hbm [16, 64, 128], moved by copies of the body
func (t *tiler) addParams(kargs []*ir.Value) {
	b, g := t.b(), t.g
	for _, a := range kargs[:g.Tables] {
		t.tables = append(t.tables, b.Param("", ir.Ref(ir.SMEM, ir.I32, a.Type.Shape...)))
	}
	for i, w := range g.In {
		x := kargs[g.Tables+i].Type
		ref := ir.Ref(ir.VMEM, x.DType, w.Block...)
		if w.Whole(x) {
			ref = ir.Ref(ir.HBM, x.DType, x.Shape...)
		}
		t.ins = append(t.ins, b.Param("", ref))
	}
	for i, w := range g.Out {
		ref := ir.Ref(ir.VMEM, g.Outs[i].DType, w.Block...)
		if w.Whole(g.Outs[i]) {
			ref = ir.Ref(ir.HBM, g.Outs[i].DType, g.Outs[i].Shape...)
		}
		t.outs = append(t.outs, b.Param("", ref))
	}
	n := len(t.src.Attrs.Grid.In)
	// The body's parameters are views of the windows, so that no load is made before somebody
	// reads.
	for at, i := range t.kept {
		if i < n && !g.In[at].Whole(kargs[g.Tables+at].Type) {
			t.sc.env[t.src.Body.Params[i]] = window(t.ins[at], true)
		}
	}
	for i, c := range t.carries {
		t.sc.env[t.src.Body.Params[n+i]] = window(t.outs[c.out], true)
	}
}

// startCarries sets the window of each carry at the first visit of a block. A kernel has no first
// iteration of its own: the sequential axis runs through all blocks, so that the condition stands
// in every step, and the pipeline pass takes it out of the steps in which it can not hold.
//
//	if c == 0 { state[0] = initial[0]; state[1] = initial[1] }     a store of each tile
func (t *tiler) startCarries() {
	b := t.b()
	b.Stage("init")
	for _, c := range t.carries {
		ref := t.outs[c.out]
		set := func(b *ir.Builder) {
			lead, rows, lanes := tiles.RowsLanes(ref.Type.Shape)
			for _, at := range points(lead) {
				starts := append(slices.Clone(at), 0, 0)
				var v *ir.Value
				if c.in >= 0 {
					v = b.Load(t.ins[c.in], []int{rows, lanes}, starts, nil)
				} else {
					v = b.Const(ir.T(ref.Type.DType, rows, lanes), c.value)
				}
				b.Store(v, ref, starts, nil)
			}
		}
		if first := t.firstSegment(c.window); first == nil {
			set(b)
		} else {
			b.When(first, set)
		}
	}
}

// firstSegment is the condition that a carry's window differs from the previous point's; nil where
// every point is a first visit. It is the first point of the sequential axis, or one whose entry in
// the table is not that of the point before: there another sequence begins. Of windows that show a block for several points in a row it is
// each first of them.
//
//	point        0    1    2    3    4
//	table        5    5    2    2    2
//	first        yes  no   yes  no   no
func (t *tiler) firstSegment(w ir.Window) *ir.Value {
	n := len(t.g.Dims)
	if n == 0 || !t.g.Dims[n-1].Seq {
		return nil
	}
	b := t.b()
	c := b.ProgramID(n - 1)
	zero := b.Const(ir.T(ir.I32), 0)
	// The point before the first is held at the first (LookUp): the table alone would not tell it.
	first := b.Compare(ir.EQ, c, zero)
	for _, x := range w.Index {
		switch {
		case x.Axis != n-1:
			continue
		case x.Table < 0 && x.Every < 2:
			return nil
		case x.Table < 0:
			return tiles.Begins(b, c, x.Every)
		}
		first = b.Or(first, b.Compare(ir.NE, tiles.LookUp(b, x, c, 0, t.tables), tiles.LookUp(b, x, c, -1, t.tables)))
	}
	return first
}

// result is what the body yields for a window of the grid, in registers.
type result struct {
	from *ir.Value
	put  func() error // stores it; nil where a carry's result, which is the same, does
	out  bool         // it goes to a buffer that is copied out
}

// storeResults stores what the body yields. All of it is in registers before the first store, for a
// carry may still be read: the window of the old state is that of the new one.
//
//	o = S q;  S' = S + u k^T     if S' were stored first, a load of S that is made for o only when o
//	                             is stored would read S'
func (t *tiler) storeResults() error {
	b := t.b()
	var results []result
	var copies []copied
	for i, y := range t.src.Body.Yield {
		b.Stage("store")
		r, c, err := t.prepareResult(i, y)
		if err != nil {
			return err
		}
		if results = append(results, r); c != nil {
			copies = append(copies, *c)
		}
	}
	var own part
	if len(copies) > 0 {
		own = partOf(b, b.ProgramID(len(t.g.Dims)-1), partsOf(t.src.Attrs.Grid))
	}
	for _, r := range results {
		if r.put == nil {
			continue
		}
		b.Stage("store")
		if t.into = (part{}); r.out {
			t.into = own
			// So its stores have the task of what makes it, and stand with it.
			if made := r.from.Def; made != nil { // nobody reads a buffer: what goes there need not wait
				b.Of(made)
			}
		}
		if err := r.put(); err != nil {
			return err
		}
	}
	t.copyOut(copies, own)
	return nil
}

// prepareResult brings the i-th result, y, into registers. It goes to the output window of a carry,
// to that of an array, or to a buffer that is copied out. Where a carry is the same value, its
// window is that buffer: the output of a block that several steps make is stored once.
//
// So it is with a state that is carried, and yielded for a block of an array of states as well.
func (t *tiler) prepareResult(i int, y *ir.Value) (r result, c *copied, err error) {
	src := t.src.Attrs.Grid
	v := t.sc.find(y)
	if v == nil {
		return r, nil, fmt.Errorf("result %d comes from outside the grid", i)
	}
	r.from = y
	var to *ir.Value
	switch k := i - len(src.Out); {
	case k >= 0:
		to = t.outs[t.carries[k].out]
	case src.Into == nil:
		to = t.outs[i]
	case alone(src, i):
		to = t.outs[src.Into[i]]
	default:
		var held *ir.Value // the window of a carry with the same result
		if k := slices.Index(t.src.Body.Yield[len(src.Out):], y); k >= 0 {
			held = t.outs[t.carries[k].out]
		}
		made, err := t.copied(src.Out[i], t.outs[src.Into[i]], held)
		if err != nil {
			return r, nil, fmt.Errorf("output window %d: %w", i, err)
		}
		if c, r.out = &made, true; made.carried {
			return r, c, nil
		}
		to = made.buffer
	}
	if r.put, err = t.prepareStore(v, to); err != nil {
		err = fmt.Errorf("result %d: %w", i, err)
	}
	return r, c, err
}
