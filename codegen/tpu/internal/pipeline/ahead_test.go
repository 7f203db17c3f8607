package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// A step finds the blocks that it reads, each started and awaited once, whatever the delays of windows, and however many chunks there are or run. No wait can
// take the copy of another step for its own, and none is left under way.
func TestAhead(t *testing.T) {
	for _, delays := range [][]int{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {0, 4}, {4}} {
		for chunks := 1; chunks <= 9; chunks++ {
			checkAhead(t, delays, chunks, -1)
			for live := 0; live <= chunks; live++ {
				checkAhead(t, delays, chunks, live)
			}
		}
	}
}

// checkAhead runs a kernel that only copies: of so many chunks, of which live run where that is not below zero.
func checkAhead(t *testing.T, delays []int, chunks, live int) {
	what := fmt.Sprintf("delays %v, %d chunks, %d run", delays, chunks, live)
	blk := &ir.Block{}
	b := ir.NewBuilder(blk)
	index := ir.IndexAxis(0)
	index.Max = chunks - 1
	l := &pipeline{g: &ir.Grid{Dims: []ir.GridDim{{Size: chunks, Seq: true}}}, ng: &ir.Grid{}, opt: &ir.Sched{Steps: 1, Lags: []int{0, 1}}, body: &ir.Block{},
		steps: chunks, last: max(1, slices.Max(delays)), params: map[seen]*ir.Value{}, rings: map[*ir.Value]*ring{}}
	if live >= 0 {
		l.g.Live = 1
		l.params[seen{0, 0}] = b.Param("", ir.Ref(ir.SMEM, ir.I32, 1))
	}
	for d := range l.last + 1 {
		l.slots = append(l.slots, slot{phase: d, delay: d})
	}
	for i, d := range delays {
		at := index
		at.Shift = -d
		f := &fetch{window: ir.Window{Block: []int{8, 128}, Index: []ir.Index{at, ir.IndexConst(0)}}, block: tiles.Numbering{Index: at}, seen: seen{i + 1, d}}
		f.from = b.Param("", ir.Ref(ir.HBM, ir.F32, 8*chunks, 128))
		l.fetched = append(l.fetched, f)
	}
	l.ahead = newAhead(l)
	l.unrolled = l.few()
	l.makeBuffers(b)
	require.NoError(t, l.bodies(b), what)

	m := &copyMachine{pipeline: l, under: map[place]transfer{}, there: map[place]int{}, live: live}
	run := chunks
	if live >= 0 {
		run = live
	}
	for c := range chunks + l.last {
		m.step = c
		require.NoError(t, m.run(blk.Instrs, map[*ir.Value]int{}), "%s, step %d", what, c)
		for _, f := range l.fetched {
			if d := f.seen.delay; c >= d && c < run+d {
				require.Equal(t, c-d+1, m.there[place{f.buffer, c & 1}], "%s, step %d, delay %d", what, c, d)
			}
		}
	}
	require.Empty(t, m.under, what)
}

// copyMachine runs the scalar program of a kernel and its copies.
type copyMachine struct {
	*pipeline
	step, live int
	under      map[place]transfer // what is under way to a place
	there      map[place]int      // which block lies there, from 1
}

type place struct {
	buffer *ir.Value
	half   int
}

type transfer struct {
	block, step int // that reads it
	sem         *ir.Value
}

func (m *copyMachine) run(list []*ir.Instr, env map[*ir.Value]int) error {
	truth := map[bool]int{true: 1}
	for _, in := range list {
		arg := func(i int) int { return env[in.Args[i]] }
		x := 0
		switch in.Op {
		case ir.OpWhen:
			if arg(0) != 0 {
				if err := m.run(in.Body.Instrs, env); err != nil {
					return err
				}
			}
			continue
		case ir.OpDMAStart, ir.OpDMAWait:
			if err := m.copy(in, arg(3), arg(4)); err != nil {
				return err
			}
			continue
		case ir.OpConst:
			x = int(in.Attrs.Value)
		case ir.OpProgramID:
			x = m.step
		case ir.OpLoad:
			x = m.live
		case ir.OpReshape:
			x = arg(0)
		case ir.OpAdd:
			x = arg(0) + arg(1)
		case ir.OpSub:
			x = arg(0) - arg(1)
		case ir.OpMul:
			x = arg(0) * arg(1)
		case ir.OpMax:
			x = max(arg(0), arg(1))
		case ir.OpMin:
			x = min(arg(0), arg(1))
		case ir.OpAnd:
			x = arg(0) & arg(1)
		case ir.OpCompare:
			x = truth[map[ir.Cmp]bool{ir.EQ: arg(0) == arg(1), ir.GE: arg(0) >= arg(1), ir.GT: arg(0) > arg(1), ir.LE: arg(0) <= arg(1), ir.LT: arg(0) < arg(1)}[in.Attrs.Cmp]]
		default:
			return fmt.Errorf("%s is not of a kernel that only copies", in.Op)
		}
		env[in.Result()] = x
	}
	return nil
}

func (m *copyMachine) copy(in *ir.Instr, block, half int) error {
	at := place{in.Args[1], half}
	f := m.fetched[slices.IndexFunc(m.fetched, func(f *fetch) bool { return f.buffer == at.buffer })]
	now := transfer{block, block + f.seen.delay, in.Args[2]}
	was, busy := m.under[at]
	switch {
	case in.Op == ir.OpDMAStart && busy:
		return fmt.Errorf("half %d of delay %d is busy with block %d", half, f.seen.delay, was.block)
	case in.Op == ir.OpDMAStart:
		m.under[at] = now
		return nil
	case was != now:
		return fmt.Errorf("no copy of block %d to half %d of delay %d was started", block, half, f.seen.delay)
	}
	for _, x := range m.under {
		if x.sem == now.sem && x.step != now.step {
			return fmt.Errorf("the wait for block %d of delay %d may take that of step %d for its own", block, f.seen.delay, x.step)
		}
	}
	delete(m.under, at)
	m.there[at] = block + 1
	return nil
}
