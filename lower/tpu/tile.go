package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// Tile lowers every grid to a kernel: windows and carries become references, and every batched value becomes 2-D tiles that
// are computed in lockstep, one op over all tiles before the next op. Carries live in their output window.
func Tile(m *ir.Module) (*ir.Module, error) {
	out := &ir.Module{Name: m.Name, Results: m.Results, Reuse: m.Reuse, Body: &ir.Block{}}
	b := ir.NewBuilder(out.Body)
	env := map[*ir.Value]*ir.Value{}
	for _, p := range m.Body.Params {
		env[p] = b.Param(p.Name, p.Type)
	}
	for _, in := range m.Body.Instrs {
		args := make([]*ir.Value, len(in.Args))
		for i, a := range in.Args {
			args[i] = env[a]
		}
		var rs []*ir.Value
		if in.Op == ir.OpGrid {
			var err error
			if rs, err = tileGrid(b, in, args); err != nil {
				return nil, fmt.Errorf("tile %s: %w", in.Attrs.Grid.Name, err)
			}
		} else {
			b.Of(in)
			var ts []ir.Type
			for _, r := range in.Results {
				ts = append(ts, r.Type)
			}
			if in.Body != nil {
				return nil, fmt.Errorf("tile: %s outside a grid is not lowered to a kernel's glue: programs of such loops (pack=stream of a variant) are for the backend stablehlo", in.Op)
			}
			rs = b.Append(in.Op, args, in.Attrs, nil, explicit(in.Op, ts)...)
		}
		if b.Err() != nil {
			return nil, b.Err()
		}
		for i, r := range in.Results {
			env[r] = rs[i]
		}
	}
	for _, y := range m.Body.Yield {
		out.Body.Yield = append(out.Body.Yield, env[y])
	}
	return out, nil
}

func explicit(op ir.Op, ts []ir.Type) []ir.Type {
	if ir.Ops[op].Explicit {
		return ts
	}
	return nil
}

// tiler lowers one grid's body.
type tiler struct {
	g    *ir.Grid // the kernel's grid, growing scratch and windows
	body *ir.Block
	sc   *scope
	refs []*ir.Value // scratch parameters, in order

	into *ir.Value // where not nil, stores go to this half of their reference

	heads int                // entries of the first carry, or the most of an input; 0: none
	exact map[*ir.Value]bool // f32 values that bf16 holds exactly
}

// scope is a block under construction with the values known in it.
type scope struct {
	b    *ir.Builder
	env  map[*ir.Value]*tiled
	memo map[string]*ir.Value
	mats map[*tiled][]*ir.Value
	cols map[string]*columns
	up   *scope
}

func newScope(b *ir.Builder, up *scope) *scope {
	return &scope{b: b, env: map[*ir.Value]*tiled{}, memo: map[string]*ir.Value{}, mats: map[*tiled][]*ir.Value{}, cols: map[string]*columns{}, up: up}
}

func (s *scope) find(v *ir.Value) *tiled {
	for ; s != nil; s = s.up {
		if t := s.env[v]; t != nil {
			return t
		}
	}
	return nil
}

func (t *tiler) b() *ir.Builder { return t.sc.b }

// once emits f's value unless the same key was emitted in this block or one around it.
func (t *tiler) once(key string, f func() *ir.Value) *ir.Value {
	for s := t.sc; s != nil; s = s.up {
		if v := s.memo[key]; v != nil {
			return v
		}
	}
	v := f()
	t.sc.memo[key] = v
	return v
}

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

func tileGrid(b *ir.Builder, in *ir.Instr, args []*ir.Value) ([]*ir.Value, error) {
	src := in.Attrs.Grid
	g := *src
	g.Carry, g.Scratch = nil, nil
	g.In, g.Out, g.Outs, g.Into, g.Alias = slices.Clone(src.In), slices.Clone(src.Out), slices.Clone(src.Outs), nil, slices.Clone(src.Alias)
	if src.Into != nil { // arrays of several windows stay in main memory
		g.Outs = src.Arrays()
		g.Out = make([]ir.Window, len(g.Outs))
	}
	nin := len(src.In)
	kargs := slices.Clone(args[:src.Tables+nin])
	t := &tiler{g: &g, body: &ir.Block{}, exact: map[*ir.Value]bool{}}
	t.sc = newScope(b.On(t.body), nil)

	// Carries: an output window each, started from an input window or a constant.
	type carry struct {
		in    int // input window, -1: constant
		value float64
		out   int
	}
	var carries []carry
	for i, w := range src.Carry {
		if i == 0 && len(w.Block) > 2 {
			t.heads = product(w.Block[:len(w.Block)-2])
		}
		init := args[src.Tables+nin+i]
		c := carry{in: -1, out: len(g.Out)}
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
		carries = append(carries, c)
	}

	for _, w := range src.In {
		if len(src.Carry) == 0 && len(w.Block) > 2 {
			t.heads = max(t.heads, product(w.Block[:len(w.Block)-2]))
		}
	}

	// Parameters, in the kernel's order. Scratch follows as it is found to be needed.
	kb := t.b()
	var tables, ins, outs []*ir.Value
	for _, a := range args[:src.Tables] {
		tables = append(tables, kb.Param("", ir.Ref(ir.SMEM, ir.I32, a.Type.Shape...)))
	}
	for i, w := range g.In {
		ins = append(ins, kb.Param("", ir.Ref(ir.VMEM, kargs[src.Tables+i].Type.DType, w.Block...)))
	}
	for i, w := range g.Out {
		if w.Whole(g.Outs[i]) {
			outs = append(outs, kb.Param("", ir.Ref(ir.HBM, g.Outs[i].DType, g.Outs[i].Shape...)))
			continue
		}
		outs = append(outs, kb.Param("", ir.Ref(ir.VMEM, g.Outs[i].DType, w.Block...)))
	}

	kb.Stage("init")
	for i, c := range carries {
		first := t.firstVisit(src.Carry[i], tables)
		set := func(b *ir.Builder) {
			ref := outs[c.out]
			s := ref.Type.Shape
			lead, rows, lanes := rowsLanes(s)
			for _, at := range points(lead) {
				starts := append(slices.Clone(at), 0, 0)
				var v *ir.Value
				if c.in >= 0 {
					v = b.Load(ins[c.in], []int{rows, lanes}, starts, nil)
				} else {
					v = b.Const(ir.T(ref.Type.DType, rows, lanes), c.value)
				}
				b.Store(v, ref, starts, nil)
			}
		}
		if first == nil {
			set(kb)
		} else {
			kb.When(first, set)
		}
	}

	for i := range src.In {
		t.sc.env[in.Body.Params[i]] = window(ins[i], true)
	}
	for i := range src.Carry {
		t.sc.env[in.Body.Params[nin+i]] = window(outs[carries[i].out], true)
	}
	if err := t.block(in.Body); err != nil {
		return nil, err
	}
	// All results are in registers before the first store, for a carry may still be read.
	var puts []func() error
	var copies []copied
	for i, y := range in.Body.Yield {
		v := t.sc.find(y)
		if v == nil {
			return nil, fmt.Errorf("result %d comes from outside the grid", i)
		}
		kb.Stage("store")
		var to *ir.Value
		switch carry := i - len(src.Out); {
		case carry >= 0:
			to = outs[carries[carry].out]
		case src.Into == nil:
			to = outs[i]
		default:
			var held *ir.Value
			if k := slices.Index(in.Body.Yield[len(src.Out):], y); k >= 0 {
				held = outs[carries[k].out]
			}
			c, err := t.copied(src.Out[i], outs[src.Into[i]], held)
			if err != nil {
				return nil, fmt.Errorf("output window %d: %w", i, err)
			}
			copies = append(copies, c)
			if to = c.buffer; to == held {
				puts = append(puts, func() error { return nil })
				continue
			}
		}
		put, err := t.prepareStore(v, to)
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
		puts = append(puts, put)
	}
	var half *ir.Value
	if len(copies) > 0 {
		half = kb.And(kb.ProgramID(len(g.Dims)-1), kb.Const(ir.T(ir.I32), 1))
	}
	for i, put := range puts {
		kb.Stage("store")
		if t.into = nil; i < len(copies) {
			t.into = half
			if made := in.Body.Yield[i].Def; made != nil { // nobody reads a buffer: what goes there need not wait
				kb.Of(made)
			}
		}
		if err := put(); err != nil {
			return nil, err
		}
	}
	t.copyOut(copies, half, tables)
	t.body.Params = append(t.body.Params, t.refs...)
	if kb.Err() != nil {
		return nil, kb.Err()
	}
	b.Of(in)
	return b.Append(ir.OpKernel, kargs, ir.Attrs{Grid: &g}, t.body), b.Err()
}

// points lists the index vectors of a shape in row-major order.
func points(shape []int) [][]int {
	out := [][]int{{}}
	for _, n := range shape {
		var next [][]int
		for _, p := range out {
			for i := range n {
				next = append(next, append(slices.Clone(p), i))
			}
		}
		out = next
	}
	return out
}

// firstVisit is the condition that a carry's window differs from the previous point's; nil where every point is a first visit.
func (t *tiler) firstVisit(w ir.Window, tables []*ir.Value) *ir.Value {
	n := len(t.g.Dims)
	if n == 0 || !t.g.Dims[n-1].Seq {
		return nil
	}
	b := t.b()
	c := b.ProgramID(n - 1)
	zero := b.Const(ir.T(ir.I32), 0)
	first := b.Compare(ir.EQ, c, zero)
	for _, x := range w.Index {
		if x.Table < 0 || x.Axis != n-1 {
			continue
		}
		first = b.Or(first, b.Compare(ir.NE, lookUp(b, x, c, 0, tables), lookUp(b, x, c, -1, tables)))
	}
	return first
}

// copied is an output window that a kernel moves by itself: both halves of the buffer are blocks, of successive points.
type copied struct {
	window          ir.Window
	block           ir.Index // its number
	buffer, to, sem *ir.Value
	carried         bool // the buffer is one block, a carry: a copy ends with its point
}

// copied makes the buffer of a window of one of the blocks of an array that stays in main memory, unless a carry holds it.
func (t *tiler) copied(w ir.Window, to, held *ir.Value) (copied, error) {
	axis, err := ir.BlockAxis(to.Type, w.Block)
	last := len(t.g.Dims) - 1
	if err != nil || last < 0 || !t.g.Dims[last].Seq {
		return copied{}, fmt.Errorf("blocks %v of %s can not be copied from a kernel: they must follow one another along one dimension, by a sequential axis", w.Block, to.Type)
	}
	if slices.Equal(to.Type.Shape, w.Block) { // one block, wherever its number is
		axis = max(slices.IndexFunc(w.Index, func(x ir.Index) bool { return x.Table >= 0 }), 0)
	}
	for d, x := range w.Index {
		if d != axis && (x.Axis >= 0 && t.g.Dims[x.Axis].Size > 1 || x.Table >= 0) || d == axis && x.Axis != last {
			return copied{}, fmt.Errorf("blocks %v of %s are looked up along dimension %d", w.Block, to.Type, d)
		}
	}
	c := copied{window: w, block: w.Index[axis], buffer: held, to: to, sem: t.scratch(ir.VMEM, ir.Sem), carried: held != nil}
	if held == nil {
		shape := slices.Clone(w.Block)
		shape[0] *= 2
		c.buffer = t.scratch(ir.VMEM, to.Type.DType, shape...)
	}
	return c, nil
}

// copyOut ends a point with what it gives to main memory. A copy has the time of the next point, unless a carry is its buffer; the
// last point that runs waits for its own.
func (t *tiler) copyOut(copies []copied, half *ir.Value, tables []*ir.Value) {
	if len(copies) == 0 {
		return
	}
	b := t.b().Stage("copy")
	n := len(t.g.Dims) - 1
	c := b.ProgramID(n)
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	written := func(i *ir.Value) *ir.Value { return b.Compare(ir.GE, i, i32(0)) }
	move := func(b *ir.Builder, op ir.Op, x copied, half, block *ir.Value) {
		b.Append(op, []*ir.Value{x.buffer, x.to, x.sem, half, block}, ir.Attrs{Dims: x.window.Block}, nil)
	}
	lasting := slices.DeleteFunc(slices.Clone(copies), func(x copied) bool { return x.carried })
	other := b.Sub(i32(1), half)
	if len(lasting) > 0 {
		b.When(b.Compare(ir.GT, c, i32(0)), func(b *ir.Builder) { // all look-ups first: none can pass a wait
			var blocks []*ir.Value
			for _, x := range lasting {
				blocks = append(blocks, lookUp(b, x.block, c, -1, tables))
			}
			for i, x := range lasting {
				b.When(b.Compare(ir.GE, blocks[i], b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) { move(b, ir.OpDMAWait, x, other, blocks[i]) })
			}
		})
	}
	for _, x := range copies {
		now := lookUp(b, x.block, c, 0, tables)
		b.When(written(now), func(b *ir.Builder) {
			if !x.carried {
				move(b, ir.OpDMAStart, x, half, now)
				return
			}
			zero := b.Const(ir.T(ir.I32), 0)
			move(b, ir.OpDMAStart, x, zero, now)
			move(b, ir.OpDMAWait, x, zero, now)
		})
	}
	if len(lasting) == 0 {
		return
	}
	last := i32(t.g.Dims[n].Size - 1)
	if t.g.Live > 0 {
		last = b.Sub(b.Load(tables[t.g.Live-1], nil, []int{0}, nil), i32(1))
	}
	var blocks []*ir.Value
	for _, x := range lasting {
		blocks = append(blocks, lookUp(b, x.block, c, 0, tables))
	}
	b.When(b.Compare(ir.EQ, c, last), func(b *ir.Builder) {
		for i, x := range lasting {
			b.When(b.Compare(ir.GE, blocks[i], b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) { move(b, ir.OpDMAWait, x, half, blocks[i]) })
		}
	})
}

// store writes to a reference, or to a half of it.
func (t *tiler) store(v, ref *ir.Value, starts, strides []int) {
	b := t.b()
	if t.into == nil {
		b.Store(v, ref, starts, strides)
		return
	}
	idx := make([]*ir.Value, ref.Type.Rank())
	for i := range idx {
		idx[i] = b.Const(ir.T(ir.I32), 0)
	}
	idx[0] = t.into
	if n := ref.Type.Shape[0] / 2; n > 1 {
		idx[0] = b.Mul(t.into, b.Const(ir.T(ir.I32), float64(n)))
	}
	b.Store(v, ref, starts, strides, idx...)
}

// scratch adds a scratch reference.
func (t *tiler) scratch(s ir.Space, d ir.DType, shape ...int) *ir.Value {
	ty := ir.Ref(s, d, shape...)
	t.g.Scratch = append(t.g.Scratch, ty)
	v := &ir.Value{Type: ty}
	t.refs = append(t.refs, v)
	return v
}

func (t *tiler) block(blk *ir.Block) error {
	for _, in := range blk.Instrs {
		t.b().Of(in)
		if err := t.instr(in); err != nil {
			return fmt.Errorf("%s at %s: %w", in.Op, in.Where(), err)
		}
		if err := t.b().Err(); err != nil {
			return err
		}
	}
	return nil
}
