package segments_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/build/internal/segments"
)

// single is what a schedule of visits of one sequence says of each place of the walk: block, sequence, number, first row, end, kept, and whether it
// enters the sequence; of steps of several visits also the block that is done, and the sequence that is closed. live counts steps.
func single(t *testing.T, s segments.Single, cu []int64) (live int64, rows [][]int64) {
	entries, marks := scheduled(t, cu, s.Make)
	for place := range s.Segments {
		entry := func(column int) int64 { return entries[s.Entry(0, column, place%s.Places).Const+place/s.Places] }
		mark := func(mark int) int64 { return marks[(place*segments.Rows+mark)*s.Chunk] }
		row := []int64{entry(segments.OneBlock), entry(segments.OneSequence), entry(segments.OneSegment), mark(segments.OneFirst), mark(segments.OneEnd), mark(segments.OneKept), mark(segments.OneEnters)}
		if s.Places > 1 {
			row = append(row, entry(segments.OneDone), entry(segments.OneClosed))
		}
		rows = append(rows, row)
	}
	return entries[0], rows
}

// The example of Single: sequences of 5, 0 and 6 tokens in blocks of 8.
func TestSingle(t *testing.T) {
	cu := []int64{0, 5, 5, 11}
	live, up := single(t, segments.Single{Sequences: 3, Blocks: 2, Chunk: 8, Segments: 4, Places: 1}, cu)
	require.EqualValues(t, 4, live)
	require.Equal(t, [][]int64{{0, 0, 0, 0, 5, 0, 1}, {0, 1, 1, 8, 0, 8, 1}, {0, 2, 2, 5, 8, 5, 1}, {1, 2, 3, 0, 3, 0, 0}}, up)
	live, down := single(t, segments.Single{Sequences: 3, Blocks: 2, Chunk: 8, Segments: 4, Places: 1, Down: true}, cu)
	require.EqualValues(t, 4, live)
	require.Equal(t, [][]int64{{1, 2, 3, 0, 3, 8, 1}, {0, 2, 2, 5, 8, 8, 0}, {0, 1, 1, 8, 0, 0, 1}, {0, 0, 0, 0, 5, 5, 1}}, down)
}

// Sequences of 5, 0 and 6 tokens in blocks of 8, two visits a step: block 0 is done where the next visit goes on, and each sequence is closed by its last visit.
func TestSinglePlaces(t *testing.T) {
	live, up := single(t, segments.Single{Sequences: 3, Blocks: 2, Chunk: 8, Segments: 4, Places: 2}, []int64{0, 5, 5, 11})
	require.EqualValues(t, 2, live)
	require.Equal(t, [][]int64{{0, 0, 0, 0, 5, 0, 1, -1, 0}, {0, 1, 1, 8, 0, 8, 1, -1, 1}, {0, 2, 2, 5, 8, 5, 1, 0, -1}, {1, 2, 3, 0, 3, 0, 0, 1, 2}}, up)
}

// Whatever the sequences, and whether or not visits behind the last run, each token is written by the visit of its sequence last, and
// tokens of none by one that has no rows of them; visits of a block and of a sequence follow one another. Where a step has several visits, blocks
// are written once, and each sequence is closed once.
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
		for _, s := range []segments.Single{{Places: 1}, {Places: 1, Down: true}, {Places: 2}, {Places: 4}} {
			s.Sequences, s.Blocks, s.Chunk, s.Segments = n, nb, chunk, segments.Bound(n, nb, 1+r.IntN(2)*3)
			s.Segments = max(s.Segments, segments.Bound(n, nb, s.Places))
			live, rows := single(t, s, cu)
			for _, run := range []int64{live * int64(s.Places), int64(s.Segments)} {
				covers(t, fmt.Sprintf("%v, %+v, %d of %d visits", cu, s, run, s.Segments), s, cu, rows[:run])
			}
		}
	}
}

func covers(t *testing.T, name string, s segments.Single, cu []int64, rows [][]int64) {
	chunk := s.Chunk
	by := make([]int64, s.Blocks*chunk) // 0: not written, -1: without rows, else the sequence and 1
	held := make([]int64, chunk)        // the same of the block at hand
	seen := map[int64]bool{}            // blocks that the walk has left
	numbers, entered, closed := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	for place, x := range rows {
		block, seq, number, first, end, kept := x[0], x[1], x[2], x[3], x[4], x[5]
		require.False(t, seen[block], name)
		require.False(t, numbers[number], name)
		require.False(t, closed[seq] && first < end, name)
		numbers[number] = true
		require.Equal(t, !entered[seq], x[6] == 1, name)
		entered[seq] = true
		if place > 0 && rows[place-1][0] != block {
			seen[rows[place-1][0]] = true
			clear(held)
		}
		for i := range int64(chunk) {
			switch {
			case s.Down && i >= kept || !s.Down && i < kept:
				require.NotZero(t, held[i], "%s: visit %d keeps row %d, which nobody has written", name, place, i)
			case first <= i && i < end:
				held[i] = seq + 1
			default:
				held[i] = -1
			}
		}
		if done := block; s.Places == 1 || x[7] >= 0 {
			if s.Places > 1 {
				require.Equal(t, x[7], done, name)
				require.Zero(t, by[block*int64(chunk)], "%s: block %d is written twice", name, block)
			}
			copy(by[block*int64(chunk):], held)
		}
		if s.Places > 1 && x[8] >= 0 {
			require.Equal(t, seq, x[8], name)
			require.False(t, closed[seq], name)
			closed[seq] = true
		}
	}
	require.Len(t, entered, s.Sequences, "%s: each sequence has a visit", name)
	if s.Places > 1 {
		require.Len(t, closed, s.Sequences, "%s: each sequence is closed", name)
	}
	for token := range by {
		want := int64(-1)
		for q := range s.Sequences {
			if cu[q] <= int64(token) && int64(token) < cu[q+1] {
				want = int64(q) + 1
			}
		}
		require.Equal(t, want, by[token], "%s: token %d", name, token)
	}
}
