package segments_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// Whatever the sequences, each token of one is last given by a visit of that sequence, which knows how far before it begins where that is near, and
// starts from its state; blocks are done once, by the last visit of each.
func TestPass(t *testing.T) {
	const chunk = 16
	r := rand.New(rand.NewPCG(3, 1))
	for i := range 80 {
		n, nb := 1+r.IntN(6), 1+r.IntN(4)
		cu := []int64{int64(r.IntN(2) * r.IntN(20))}
		for range n {
			cu = append(cu, min(cu[len(cu)-1]+int64(r.IntN(30)*r.IntN(2)), int64(nb*chunk)))
		}
		cu[0] = min(cu[0], cu[1])
		s := segments.Pass{Sequences: n, Blocks: nb, Chunk: chunk, Kernel: i%2 == 1}
		table, marks := scheduled(t, cu, func(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) {
			begin, end := b.SliceAxis(b.Convert(cu, ir.I32), 0, 0, n), b.SliceAxis(b.Convert(cu, ir.I32), 0, 1, n+1)
			from := b.Add(b.Iota(begin.Type, 0), b.Like(begin, 10))
			return s.Make(b, begin, end, from, b.Compare(ir.EQ, b.And(b.Iota(begin.Type, 0), b.Like(begin, 1)), b.Like(begin, 1)))
		})
		given := make([]int, nb*chunk) // the visit that gives a token
		done := map[int64]int{}
		live := int(table[0])
		require.LessOrEqual(t, live, s.Segments())
		entry := func(visit, column int) int64 { return table[s.Entry(0, column).Const+visit] }
		mark := func(visit, which int) int64 { return marks[(visit*segments.Rows+which)*chunk] }
		for visit := range live {
			block := entry(visit, segments.PassBlock)
			require.Equal(t, max(block*chunk/segments.PassRows-1, 0), entry(visit, segments.PassBefore))
			for i := mark(visit, segments.PassFirst); i < chunk; i++ {
				given[block*chunk+i] = visit
			}
			if to := entry(visit, segments.PassDone); to >= 0 {
				require.Equal(t, block, to)
				done[to]++
				require.True(t, visit == live-1 || entry(visit+1, segments.PassBlock) > block)
			}
		}
		require.Len(t, done, nb)
		for seq := range n {
			for token := cu[seq]; token < cu[seq+1]; token++ {
				visit := given[token]
				require.EqualValues(t, 10+seq, entry(visit, segments.PassState), "%v: token %d", cu, token)
				require.EqualValues(t, seq%2, mark(visit, segments.PassFresh))
				row := token - entry(visit, segments.PassBlock)*chunk
				before := row + segments.PassReach - mark(visit, segments.PassBegin)
				require.Equal(t, min(token-cu[seq], row+segments.PassReach), before, "%v: token %d", cu, token)
			}
		}
		for visit := live; visit < s.Segments(); visit++ {
			require.EqualValues(t, -1, entry(visit, segments.PassDone))
		}
	}
}
