package pipeline

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// Every step has exactly one body, and a body's steps use the same places of all rings.
func TestRuns(t *testing.T) {
	for _, mods := range [][]int{nil, {1}, {2, 1}, {1, 4, 2}} {
		l := &pipeline{rings: map[*ir.Value]*ring{}}
		turns := 1
		for _, m := range mods {
			l.rings[&ir.Value{}] = &ring{mod: m}
			turns = max(turns, m)
		}
		for lo := range 4 {
			for hi := lo; hi < lo+9; hi++ {
				bodies := map[int]int{}
				for _, r := range l.runs(lo, hi) {
					require.Equal(t, turns, r.turns)
					for c := r.lo; c <= r.hi; c++ {
						if c%r.turns == r.turn {
							bodies[c]++
						}
					}
				}
				require.Len(t, bodies, hi-lo+1)
				for c := lo; c <= hi; c++ {
					require.Equal(t, 1, bodies[c], "step %d of %d to %d by %d", c, lo, hi, turns)
				}
			}
		}
	}
}

// Pieces keep what depends on what: values of several pieces whichever operand comes first, memory that is stored and then loaded through a cast, and
// each load behind the wait for its piece. What an output stores leaves after the same piece has come, and is awaited.
func TestPieces(t *testing.T) {
	body := &ir.Block{}
	b := ir.NewBuilder(body)
	whole := ir.T(ir.F32, 1, 8, 128, 128)
	ref := func(space ir.Space, x ir.Type) *ir.Value { return b.Param("", ir.Ref(space, x.DType, x.Shape...)) }
	from, to := ref(ir.HBM, whole), ref(ir.HBM, whole)
	in, out, other := ref(ir.VMEM, whole), ref(ir.VMEM, whole), ref(ir.VMEM, ir.T(ir.F32, 128, 128))
	sem, back := ref(ir.VMEM, ir.T(ir.Sem)), ref(ir.VMEM, ir.T(ir.Sem))
	b.Append(ir.OpDMAStart, []*ir.Value{from, in, sem}, ir.Attrs{}, nil)
	b.Append(ir.OpDMAWait, []*ir.Value{from, in, sem}, ir.Attrs{}, nil)
	tile := []int{128, 128}
	var heads []*ir.Value
	for h := range 8 {
		heads = append(heads, b.Load(in, tile, []int{0, h, 0, 0}, nil))
	}
	late := heads[0] // three sums later than its load
	for range 3 {
		late = b.Add(heads[0], b.Broadcast(b.Reshape(b.Sum(late, 1), 128, 1), tile, 0, 1))
	}
	b.Store(late, b.RefCast(other, ir.F32, 128, 128), []int{0, 0}, nil)
	read := b.Load(b.RefCast(other, ir.F32, 128, 128), tile, []int{0, 0}, nil)
	for h := range 8 {
		y := b.Add(late, heads[h])
		if h%2 > 0 {
			y = b.Add(heads[h], late)
		}
		if h == 6 {
			y = b.Add(y, read)
		}
		b.Store(y, out, []int{0, h, 0, 0}, nil)
	}
	b.Append(ir.OpDMAStart, []*ir.Value{out, to, back}, ir.Attrs{}, nil)
	b.Append(ir.OpDMAWait, []*ir.Value{out, to, back}, ir.Attrs{}, nil)
	require.NoError(t, b.Err())
	before := slices.Clone(body.Instrs)
	pieces(b, &ir.Grid{Dims: []ir.GridDim{{Size: 1}}}, body)
	require.NoError(t, b.Err())

	at := map[*ir.Instr]int{}
	for i, x := range body.Instrs {
		at[x] = i
	}
	deps := dependences(&ir.Block{Instrs: before})
	for i, x := range before {
		if x.Op == ir.OpDMAStart || x.Op == ir.OpDMAWait {
			require.NotContains(t, at, x, "the whole is not copied")
			continue
		}
		require.Contains(t, at, x)
		for _, j := range deps[i] {
			if y := before[j]; y.Op != ir.OpDMAStart && y.Op != ir.OpDMAWait {
				require.Less(t, at[y], at[x], "%s before %s", y.Op, x.Op)
			}
		}
	}
	came, left, done := map[int]int{}, map[int]int{}, map[int]int{}
	for i, x := range body.Instrs {
		if x.Op != ir.OpDMAStart && x.Op != ir.OpDMAWait {
			continue
		}
		piece := int(x.Args[3].Def.Attrs.Value)
		switch {
		case x.Op == ir.OpDMAWait && x.Args[1] == in:
			came[piece] = i
		case x.Op == ir.OpDMAStart && x.Args[1] == to:
			left[piece] = i
		case x.Op == ir.OpDMAWait && x.Args[1] == to:
			done[piece] = i
		}
	}
	require.Equal(t, []int{4, 4, 4}, []int{len(came), len(left), len(done)})
	for _, x := range before {
		switch {
		case x.Op == ir.OpLoad && x.Args[0] == in:
			require.Less(t, came[x.Attrs.Starts[1]/2], at[x])
		case x.Op == ir.OpStore && x.Args[1] == out:
			require.Less(t, at[x], left[x.Attrs.Starts[1]/2])
		}
	}
	for i := range 4 {
		require.Less(t, came[i], left[i])
		require.Less(t, left[i], done[i])
	}
}

// A carry recurs where what it holds comes back to it, by way of other memory too. One that each chunk sets anew does not.
func TestRecurs(t *testing.T) {
	body := &ir.Block{}
	b := ir.NewBuilder(body)
	tile := []int{8, 128}
	ref := func() *ir.Value { return b.Param("", ir.Ref(ir.VMEM, ir.F32, tile...)) }
	window, state, roundabout, rows, scratch, out := ref(), ref(), ref(), ref(), ref(), ref()
	load := func(r *ir.Value) *ir.Value { return b.Load(r, tile, []int{0, 0}, nil) }
	store := func(x, r *ir.Value) { b.Store(x, r, []int{0, 0}, nil) }
	x := load(window)
	store(b.Add(load(rows), x), out)
	store(x, rows)
	store(b.Add(load(state), x), state)
	store(load(roundabout), scratch)
	store(load(scratch), roundabout)
	require.NoError(t, b.Err())
	l := &pipeline{body: body, root: map[*ir.Value]*ir.Value{}}
	require.True(t, l.recurs(state))
	require.True(t, l.recurs(roundabout))
	require.False(t, l.recurs(rows))
}

// What needs no state is of the first phase, turned windows too, but for what enters: it is read, and so turned, in the phase of the state.
func TestEnter(t *testing.T) {
	body := &ir.Block{}
	b := ir.NewBuilder(body)
	tile := []int{128, 128}
	ref := func() *ir.Value { return b.Param("", ir.Ref(ir.VMEM, ir.F32, tile...)) }
	values, entering, state := ref(), ref(), ref()
	load := func(r *ir.Value) *ir.Value { return b.Load(r, tile, []int{0, 0}, nil) }
	turned := []*ir.Value{b.Transpose(load(values), 1, 0), b.Transpose(load(entering), 1, 0)}
	b.Store(b.Add(b.Add(load(state), turned[0]), turned[1]), state, []int{0, 0}, nil)
	require.NoError(t, b.Err())
	phases := func(enter ...int) (of []int) {
		g := &ir.Grid{In: make([]ir.Window, 2), Out: make([]ir.Window, 1)}
		l := &pipeline{g: g, body: body, opt: &ir.Sched{Steps: 1, Lags: []int{0, 1}, Enter: enter}}
		l.analyse()
		for _, x := range turned {
			of = append(of, l.phase[l.index[x]])
		}
		return of
	}
	require.Equal(t, []int{0, 0}, phases())
	require.Equal(t, []int{0, 1}, phases(1))
}

// Kernels of few steps have a body for each: where they copy blocks both ways, from the first step on, and no table says how many steps run.
func TestFew(t *testing.T) {
	of := func(steps int, change func(l *pipeline)) bool {
		l := &pipeline{g: &ir.Grid{}, steps: steps, last: 1, fetched: []*fetch{{seen: seen{0, 1}}, {seen: seen{1, 0}}}, outputs: []*delivery{{}}}
		change(l)
		return l.few()
	}
	as := func(*pipeline) {}
	require.False(t, of(1, as))
	require.True(t, of(2, as))
	require.True(t, of(fewSteps-1, as))
	require.False(t, of(fewSteps, as))
	require.False(t, of(2, func(l *pipeline) { l.g.Live = 1 }))
	require.False(t, of(2, func(l *pipeline) { l.places = map[*ir.Instr]Place{} }))
	require.False(t, of(2, func(l *pipeline) { l.fetched = l.fetched[:1] }))
	require.False(t, of(2, func(l *pipeline) { l.outputs = nil }))
}
