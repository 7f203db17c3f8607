package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// Three windows are stored at .3, .7 and .9 of the last step: each is sent right behind its store, what the first two have given in the step before is
// awaited once behind the second, and that of the third at the end.
func TestDrain(t *testing.T) {
	body := &ir.Block{}
	b := ir.NewBuilder(body)
	x, holds := b.Const(ir.T(ir.F32, 8, 128), 1), b.Compare(ir.GT, number(b, 2), number(b, 1))
	to := b.Param("", ir.Ref(ir.HBM, ir.F32, 8, 128))
	var buffers, sems []*ir.Value
	for range 3 {
		buffers, sems = append(buffers, b.Param("", ir.Ref(ir.VMEM, ir.F32, 8, 128))), append(sems, b.Param("", ir.Ref(ir.VMEM, ir.Sem)))
	}
	at := make([]float64, len(body.Instrs))
	for i, buffer := range buffers {
		b.Store(x, buffer, []int{0, 0}, nil)
		at = append(at, []float64{.3, .7, .9}[i])
	}
	move := func(b *ir.Builder, op ir.Op, i int) {
		b.When(holds, func(b *ir.Builder) { b.Append(op, []*ir.Value{buffers[i], to, sems[i]}, ir.Attrs{}, nil) })
	}
	wait := len(body.Instrs)
	b.When(holds, func(b *ir.Builder) {
		for i := range buffers {
			move(b, ir.OpDMAWait, i)
		}
	})
	for i := range buffers {
		move(b, ir.OpDMAStart, i)
	}
	require.NoError(t, b.Err())
	at = append(at, 1, 1, 1, 1)
	l := &pipeline{body: body, deps: dependences(body), waitTimes: map[int][]float64{}, root: map[*ir.Value]*ir.Value{}}
	l.drainEarly(at)
	require.Equal(t, []float64{.3, .7, .9}, at[wait+1:])
	require.Len(t, l.waitTimes[wait], 3)
	require.Equal(t, l.waitTimes[wait][0], l.waitTimes[wait][1])
	require.Greater(t, l.waitTimes[wait][0], .7)
	require.Less(t, l.waitTimes[wait][0], .71)
	require.EqualValues(t, 1, l.waitTimes[wait][2])
	for i := range buffers {
		one := awaited(awaitOne(body.Instrs[wait], i))
		require.Len(t, one, 1)
		require.Same(t, sems[i], one[0].Args[2])
	}
}
