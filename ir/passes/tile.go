package passes

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
			b.At(in.Loc)
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
	g.In, g.Out, g.Outs = slices.Clone(src.In), slices.Clone(src.Out), slices.Clone(src.Outs)
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
	for i, y := range in.Body.Yield {
		v := t.sc.find(y)
		if v == nil {
			return nil, fmt.Errorf("result %d comes from outside the grid", i)
		}
		kb.Stage("store")
		put, err := t.prepareStore(v, outs[i])
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
		puts = append(puts, put)
	}
	for _, put := range puts {
		if err := put(); err != nil {
			return nil, err
		}
	}
	t.body.Params = append(t.body.Params, t.refs...)
	if kb.Err() != nil {
		return nil, kb.Err()
	}
	b.At(in.Loc)
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
		at := func(shift float64) *ir.Value {
			i := b.Max(b.Add(c, b.Const(ir.T(ir.I32), shift+float64(x.Shift))), zero)
			if x.Max >= 0 {
				i = b.Min(i, b.Const(ir.T(ir.I32), float64(x.Max)))
			}
			if x.Down {
				i = b.Sub(b.Const(ir.T(ir.I32), float64(x.Max)), i)
			}
			return b.Load(tables[x.Table], nil, []int{0}, nil, i)
		}
		first = b.Or(first, b.Compare(ir.NE, at(0), at(-1)))
	}
	return first
}

// scratch adds a scratch reference of rows x lanes.
func (t *tiler) scratch(d ir.DType, rows, lanes int) *ir.Value {
	ty := ir.Ref(ir.VMEM, d, rows, lanes)
	t.g.Scratch = append(t.g.Scratch, ty)
	v := &ir.Value{Type: ty}
	t.refs = append(t.refs, v)
	return v
}

func (t *tiler) block(blk *ir.Block) error {
	for _, in := range blk.Instrs {
		t.b().At(in.Loc)
		if err := t.instr(in); err != nil {
			return fmt.Errorf("%s at %q: %w", in.Op, in.Loc, err)
		}
		if err := t.b().Err(); err != nil {
			return err
		}
	}
	return nil
}
