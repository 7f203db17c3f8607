package visits_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/build/internal/visits"
)

// single is what a schedule of visits of one sequence says of each place of the walk: block, sequence, number, first row, end, kept, and whether it
// enters the sequence.
func single(t *testing.T, s visits.Single, cu []int64) (live int64, rows [][]int64) {
	entries, marks := scheduled(t, cu, s.Make)
	for place := range s.Visits() {
		entry := func(column int) int64 { return entries[1+column*s.Visits()+place] }
		mark := func(mark int) int64 { return marks[(place*visits.Rows+mark)*s.Chunk] }
		rows = append(rows, []int64{entry(visits.OneBlock), entry(visits.OneSequence), entry(visits.OneVisit), mark(visits.OneFirst), mark(visits.OneEnd), mark(visits.OneKept), mark(visits.OneEnters)})
	}
	return entries[0], rows
}

// The example of Single: sequences of 5, 0 and 6 tokens in blocks of 8.
func TestSingle(t *testing.T) {
	cu := []int64{0, 5, 5, 11}
	live, up := single(t, visits.Single{Sequences: 3, Blocks: 2, Chunk: 8}, cu)
	require.EqualValues(t, 4, live)
	require.Equal(t, [][]int64{{0, 0, 0, 0, 5, 0, 1}, {0, 1, 1, 8, 0, 8, 1}, {0, 2, 2, 5, 8, 5, 1}, {1, 2, 3, 0, 3, 0, 0}}, up)
	live, down := single(t, visits.Single{Sequences: 3, Blocks: 2, Chunk: 8, Down: true}, cu)
	require.EqualValues(t, 4, live)
	require.Equal(t, [][]int64{{1, 2, 3, 0, 3, 8, 1}, {0, 2, 2, 5, 8, 8, 0}, {0, 1, 1, 8, 0, 0, 1}, {0, 0, 0, 0, 5, 5, 1}}, down)
}

// Whatever the sequences, and whether or not visits behind the last run, each token is written by the visit of its sequence last, and
// tokens of none by one that has no rows of them; visits of a block and of a sequence follow one another.
func TestSingleCovers(t *testing.T) {
	const chunk = 8
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		n, nb := 1+r.IntN(6), 1+r.IntN(5)
		cu := []int64{0}
		for range n {
			room := int64(nb*chunk) - cu[len(cu)-1]
			cu = append(cu, cu[len(cu)-1]+min(room, int64(r.IntN(14)*r.IntN(2))))
		}
		for _, down := range []bool{false, true} {
			s := visits.Single{Sequences: n, Blocks: nb, Chunk: chunk, Down: down}
			live, rows := single(t, s, cu)
			for _, run := range []int64{live, int64(s.Visits())} {
				name := fmt.Sprintf("%v, down %v, %d of %d visits", cu, down, run, s.Visits())
				by := make([]int64, nb*chunk) // 0: not written, -1: without rows, else the sequence and 1
				seen := map[int64]bool{}      // blocks that the walk has left
				numbers, entered := map[int64]bool{}, map[int64]bool{}
				for place, x := range rows[:run] {
					block, seq, number, first, end, kept := x[0], x[1], x[2], x[3], x[4], x[5]
					require.False(t, seen[block], name)
					require.False(t, numbers[number], name)
					numbers[number] = true
					require.Equal(t, !entered[seq], x[6] == 1, name)
					entered[seq] = true
					if place > 0 && rows[place-1][0] != block {
						seen[rows[place-1][0]] = true
					}
					for i := range int64(chunk) {
						if down && i >= kept || !down && i < kept {
							require.NotZero(t, by[block*chunk+i], "%s: visit %d keeps row %d, which nobody has written", name, place, i)
							continue
						}
						by[block*chunk+i] = -1
						if first <= i && i < end {
							by[block*chunk+i] = seq + 1
						}
					}
				}
				require.Len(t, entered, n, "%s: each sequence has a visit", name)
				for token := range by {
					want := int64(-1)
					for q := range n {
						if cu[q] <= int64(token) && int64(token) < cu[q+1] {
							want = int64(q) + 1
						}
					}
					require.Equal(t, want, by[token], "%s: token %d", name, token)
				}
			}
		}
	}
}
