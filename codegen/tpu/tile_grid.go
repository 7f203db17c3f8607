package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// carry is a carry of the grid, as the kernel has it. It lives in an output window, and starts from an input window or a constant. The
// compiler keeps an output window in VMEM while its index stays the same, and writes it to HBM when the index changes. So the body reads
// and writes the state in place, and the final state needs no code.
type carry struct {
	window  ir.Window
	in, out int     // windows of the kernel; in is -1 if the carry starts from the constant
	value   float64 // the constant
}

// tileGrid makes a kernel of a grid: its windows, its parameters, then the code before the body, the body, and the code after it. The
// order of the parameters is the order of ir.OpKernel: tables, input windows, output windows, scratch.
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
	switch {
	case in.Attrs.Grid.Bounded():
		kargs = append(kargs, args[len(args)-1])
	case t.bounded(): // kernels without copies have a schedule, which skips points
		n := len(t.g.Dims) - 1
		t.g.Dims = slices.Clone(t.g.Dims)
		t.g.Dims[n].Bound = true
		kargs = append(kargs, b.Reshape(b.SliceAxis(args[t.g.Live-1], 0, 0, 1)))
	}
	if src := in.Attrs.Grid; src.Copies > 0 {
		t.g.Live = 0
	}
	return b.Append(ir.OpKernel, kargs, ir.Attrs{Grid: t.g}, t.body), b.Err()
}

// newTiler begins a kernel with the windows of the grid except its carries. The compiler's windows write each array once, so an array
// that several windows write stays in HBM: the kernel stores to buffers and copies them out (tile_copy.go).
//
//	grid     out: windows 0 and 1 of array 0, window 2 of array 1
//	kernel   out: arrays 0 and 1, whole; scratch: three buffers
func newTiler(b *ir.Builder, in *ir.Instr) *tiler {
	src := in.Attrs.Grid
	// The kernel has the windows and axes of the grid. Carries become outputs; copies and scratch are added by the kernel.
	g := *src
	g.Carry, g.Scratch, g.Copies = nil, nil, 0
	g.In, g.Out, g.Outs, g.Into, g.Alias = slices.Clone(src.In), slices.Clone(src.Out), slices.Clone(src.Outs), nil, slices.Clone(src.Alias)
	// Outputs are the arrays: one window each if a single window shows its blocks in order, else the whole array.
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

// alone reports whether the compiler can have an output window: it is the only window of its array, no table chooses its blocks, and the
// grid has no copies (then the kernel copies all outputs itself).
func alone(g *ir.Grid, window int) bool {
	table := slices.ContainsFunc(g.Out[window].Index, func(x ir.Index) bool { return x.Table >= 0 })
	others := slices.DeleteFunc(slices.Clone(g.Into), func(a int) bool { return a != g.Into[window] })
	return g.Copies == 0 && !table && len(others) == 1
}

// headsOf returns the number of heads: the product of the leading dimensions of the first carry, or without carries the largest of an
// input; 0 without leading dimensions. Tile i of n belongs to head i * heads / n (ofHead).
//
//	carry [8, 128, 128]           8 heads
//	carry [4, 8, 128, 128]        32: heads of four sequences count as different heads
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

// addCarries adds the windows of the carries, and returns the kernel's operands. A carry that starts from one number needs no input: the
// kernel stores the number. If a table numbers the blocks of a carry, some blocks are never shown. Then the output is an alias of the
// input, so that these blocks keep their values.
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
		// The zeros of a pool are an input too: blocks that no point shows must come out as zeros.
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

// splat returns the number that all elements of a value equal, if that is known. It looks through ops that only move elements, because
// XLA ops around the kernel reshape the zeros of a state.
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

// addParams makes the kernel's parameters in order, and binds the body's parameters to them. A window of a whole array stays in HBM, for
// copies only; all others are blocks in VMEM. Scratch is added when a rule needs it.
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
	// The body's parameters are views of the windows, so a load is emitted only when a rule reads.
	for at, i := range t.kept {
		if i < n && !g.In[at].Whole(kargs[g.Tables+at].Type) {
			t.sc.env[t.src.Body.Params[i]] = window(t.ins[at], true)
		}
	}
	for i, c := range t.carries {
		t.sc.env[t.src.Body.Params[n+i]] = window(t.outs[c.out], true)
	}
}

// startCarries sets the window of each carry at the first point of a block. The sequential axis runs through all blocks, so each step
// tests the condition; the pipeline pass removes the test from steps in which it can not hold.
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

// firstSegment returns the condition that a carry's window differs from the previous point's; nil if it differs at every point. It holds
// at the first point of the sequential axis, and at a point whose table entry differs from the entry before, where another sequence
// begins. If a window shows a block for Every points in a row, it holds at the first of them.
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
	// LookUp of the point before the first gives the first point's entry, so the table alone would not show the first point.
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

// result is a value that the body yields for a window of the grid, in registers.
type result struct {
	from *ir.Value
	put  func() error // stores it; nil if a carry stores the same value
	out  bool         // it goes to a buffer that is copied out
}

// storeResults stores the values that the body yields. All are in registers before the first store, since stores may overwrite a carry
// that is still read: the old and the new state share a window.
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
			// The stores get the task of the instruction that makes the value, and are scheduled with it.
			if made := r.from.Def; made != nil { // no instruction reads a buffer, so its stores need not wait
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

// prepareResult brings y, the i-th result, into registers. Its target is a carry's output window, an array's output window, or a buffer
// that is copied out. If a carry yields the same value, the carry's window is the buffer, so the value is stored once.
//
// Example: a state that is carried, and also yielded as a block of an array of states.
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
