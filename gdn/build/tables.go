package build

import (
	"github.com/gdngen/gdngen/gdn/build/internal/pool"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Kernels of packed tokens look up the blocks and states of a step in tables, and the rows of a sequence in marks. Both follow from the starts and ends
// of sequences and from the indices of their states. For a mixed batch one kernel makes them (tabled): XLA needs some sixty ops, each of which waits
// for HBM or for a sum over lanes. For other packed tokens XLA makes them.

// tables are the tables of the kernels.
type tables struct {
	packed scheduled // segments.Schedule
	passed scheduled // segments.Pass, for the convolution if it has a kernel of its own
	left   scheduled // caches after the last token of each sequence, unless the kernel of the rule writes them
}

// scheduled is a table [entries] in scalar memory and marks [steps, rows, lanes], both i32. The first entry of the table is the number of steps that run,
// which live [] is too, if the table is of a kernel.
type scheduled struct{ table, marks, live *ir.Value }

// steps returns the first argument of a grid, its table, and bounds its steps by their number.
func (x scheduled) steps(g *ir.Grid) []*ir.Value {
	g.Tables, g.Live = 1, 1
	return []*ir.Value{x.table}
}

// bounded appends to all arguments of a grid the number of its steps, if that is an operand of its own.
func bounded(g *ir.Grid, args []*ir.Value, live *ir.Value) []*ir.Value {
	if live == nil || g.Live == 0 {
		return args
	}
	g.Dims[len(g.Dims)-1].Bound = true
	return append(args, live)
}

// mostSegments bounds what a kernel makes tables for, whose text grows with the visits.
const mostSegments = 256

// tabling reports whether a kernel makes the tables of a mixed batch, whose prompts p is for.
func (x *mixing) tabling(p *plan) bool {
	return p.prompts && convolvesFirst(p) && x.s.Mixed == 1 && p.padded()/p.c+p.s.Seqs <= mostSegments
}

// passes is the schedule of the convolution.
func (p *plan) passes() segments.Pass {
	return segments.Pass{Sequences: p.s.Seqs, Blocks: p.nc, Chunk: p.c, Kernel: p.ready != nil}
}

// convolution are the tables of the kernels that convolve packed tokens, of sequences from begin [sequences] to end.
func (p *plan) convolution(l segments.Lists, begin, end *ir.Value, slots *segments.Slots) (passed, left scheduled) {
	if !convolvesWithin(p) {
		fresh := slots.Fresh
		if fresh == nil {
			fresh = l.Compare(ir.LT, slots.From, l.Like(begin, 0))
		}
		passed.table, passed.marks = p.passes().Make(l.Builder, begin, end, slots.From, fresh)
	}
	if cachesWithin(p) {
		return passed, left
	}

	n, tiles, r := p.s.Seqs, segments.PassRows, p.s.CacheRows()
	last := l.Max(l.Plus(end, -1), l.Like(end, 0))
	last = l.Min(l.Div(last, l.Like(end, float64(tiles))), l.Like(end, float64(p.padded()/tiles-1))) // its last tile
	of := func(y *ir.Value) *ir.Value { return l.Tall(y, segments.Rows, lanesOfMarks) }
	first := of(begin)
	token := l.Add(of(l.Plus(end, -r)), l.Iota(first.Type, 1))
	own := l.Add(l.Sub(token, of(l.Scale(last, float64(tiles)))), l.Like(token, float64(tiles)))
	earlier := l.Add(l.Sub(token, first), l.Like(token, float64(2*tiles+r)))
	if slots.Fresh != nil {
		fresh := of(l.One(slots.Fresh))
		earlier = l.Select(l.Compare(ir.GT, fresh, l.Like(fresh, 0)), l.Like(earlier, -1), earlier)
	}
	left.marks = l.Select(l.Compare(ir.GE, token, first), own, earlier)

	// Sequences at the end that leave nothing are not taken.
	seq := l.Count(n)
	live := l.Most(l.Select(l.Compare(ir.LT, slots.To, l.Like(begin, 0)), l.Like(begin, 1), l.Plus(seq, 1)), n)
	columns := []*ir.Value{live, slots.To, l.Max(slots.From, l.Like(begin, 0)), l.Max(l.Plus(last, -1), l.Like(last, 0)), last}
	if l.Kernel { // as wide as registers
		wide := l.Count(segments.Stride(n, true))
		for i, x := range columns {
			columns[i] = l.Over(wide, ir.EQ, seq, x)
		}
	}
	left.table = l.Table(columns...)
	return passed, left
}

// tables are what a kernel has made, or XLA makes.
func (x *passing) tables() *tables {
	if x.ready != nil {
		return x.ready
	}
	l := segments.Lists{Builder: x.b}
	slots := x.pool().Slots(l)
	begin, end := x.sequences()
	t := &tables{}
	t.passed, t.left = x.convolution(l, begin, end, slots)
	return t
}

// putsAhead reports whether the kernel of the prompts puts outputs of decodes before its own: so many rows, all in the first block. If zeros are ahead of
// the tokens, XLA cuts them off, and puts the outputs of decodes in the same pass.
func (p *plan) putsAhead(rows int) bool {
	return p.front() == 0 && aheadRows(rows) <= p.c && rows <= segments.MostGiven(p.c)
}

// aheadRows are so many rows in whole tiles of bf16.
func aheadRows(rows int) int {
	const tile = 2 * target.Sublanes
	return (rows + tile - 1) / tile * tile
}

// tabled has one kernel make what decodes and prompts look up. Outside of it x has the number of tokens of the decodes alone. Of decodes it gives the
// states that they leave [rows], their table (plan.named), and its number of steps [].
func (x *mixing) tabled(rows, step int, p *plan) (states, named, live *ir.Value) {
	p.ready = &tables{}
	grid := &ir.Grid{Name: "tables", Dims: []ir.GridDim{{Name: "c", Size: 1}}}
	whole := func(shape []int) ir.Window {
		w := ir.Window{Block: shape}
		for range shape {
			w.Index = append(w.Index, ir.IndexConst(0))
		}
		return w
	}
	names := []string{"cu_seqlens", "distribution", "state_indices", "read_indices"}
	var args []*ir.Value
	for _, name := range names {
		y := x.Convert(x.args[name], ir.I32)
		y = x.Reshape(y, 1, y.Type.Shape[0])
		grid.In, args = append(grid.In, whole(y.Type.Shape)), append(args, y)
	}
	made := x.Grid(grid, args, func(b *ir.Builder, blocks, _ []*ir.Value) (ys, next []*ir.Value) {
		y := &mixing{Lists: segments.Lists{Builder: b.Stage("tables"), Kernel: true}, s: x.s, args: map[string]*ir.Value{}}
		for i, name := range names {
			y.args[name] = y.Reshape(blocks[i], blocks[i].Type.Shape[1])
		}
		y.cut()
		decodes := y.decodeLists(rows, step)
		prompts := y.promptLists()
		begin, end := y.From(prompts["cu_seqlens"], 0, p.s.Seqs), y.From(prompts["cu_seqlens"], 1, p.s.Seqs)
		if n := p.front(); n > 0 {
			begin, end = y.Plus(begin, n), y.Plus(end, n)
		}
		slots := pool.Of{Written: prompts["state_indices"], Read: prompts["read_indices"], Group: 1, States: p.s.Pool}.Slots(y.Lists)
		if p.putsAhead(rows) {
			slots.Given = y.tokens
		}
		table, marks := aligning{p}.schedule().Make(y.Builder, begin, end, slots)
		passed, left := p.convolution(y.Lists, begin, end, slots)
		flat := func(z *ir.Value) *ir.Value { return y.Reshape(z, 1, z.Type.Shape[0]) }
		wide := y.Number(decodes.runs, 0, segments.Stride(rows, true))
		count := func(x *ir.Value) *ir.Value { return flat(y.SliceAxis(x, 0, 0, 1)) }
		ys = []*ir.Value{flat(y.From(decodes.states, 0, rows)), y.Table(wide, decodes.states, decodes.reads), count(wide)}
		if !p.putsAhead(rows) {
			ys = append(ys, flat(y.tokens))
		}
		for _, x := range []scheduled{{table: table, marks: marks}, left, passed} {
			if x.table != nil {
				first := y.SliceAxis(x.table, 0, 0, 1)
				ys = append(ys, x.table, x.marks, count(y.Reshape(first, first.Type.Size())))
			}
		}
		for _, z := range ys {
			grid.Out, grid.Outs = append(grid.Out, whole(z.Type.Shape)), append(grid.Outs, z.Type)
		}
		return ys, nil
	})
	flat := func(i int) *ir.Value { return x.Reshape(made[i], made[i].Type.Size()) }
	next := 3
	if !p.putsAhead(rows) {
		x.tokens, next = flat(3), 4
	}
	number := func(i int) *ir.Value { return x.Reshape(made[i]) }
	of := func(i int) scheduled {
		if i >= len(made) {
			return scheduled{}
		}
		return scheduled{flat(i), made[i+1], number(i + 2)}
	}
	*p.ready = tables{packed: of(next), left: of(next + 3), passed: of(next + 6)}
	return flat(0), flat(1), number(2)
}
