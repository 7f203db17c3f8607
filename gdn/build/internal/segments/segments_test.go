package segments_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// scheduled is the table and the marks that make gives for cu_seqlens.
func scheduled(t *testing.T, cu []int64, make func(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value)) (entries, marks []int64) {
	t.Helper()
	m := &ir.Module{Name: "schedule", Body: &ir.Block{}}
	b := ir.NewBuilder(m.Body)
	table, marked := make(b, b.Param("cu_seqlens", ir.T(ir.I32, len(cu))))
	require.NoError(t, b.Finish(m, []string{"table", "marked"}, []*ir.Value{table, marked}))
	out, err := interp.Run(m, map[string]*array.Array{"cu_seqlens": array.FromInt64s(ir.I32, []int{len(cu)}, cu)}, interp.Options{})
	require.NoError(t, err)
	return out["table"].Int64s(), out["marked"].Int64s()
}

// bySegments is a column of the table, of four visits in steps of two.
func bySegments(s segments.Schedule, entries []int64, column int) (by []int64) {
	for visit := range 4 {
		by = append(by, entries[s.Entry(column, visit%2).Const+visit/2])
	}
	return by
}

// The example of the package: sequences of 5, 2 and 6 tokens in blocks of 8, in steps of two
// visits.
func TestExample(t *testing.T) {
	for _, kernel := range []bool{false, true} {
		testExample(t, segments.Schedule{Sequences: 3, Blocks: 2, Chunk: 8, Places: 2, Kernel: kernel})
	}
}

func testExample(t *testing.T, s segments.Schedule) {
	t.Helper()
	entries, marks := scheduled(t, []int64{0, 5, 7, 13}, func(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) {
		return s.Make(b, b.SliceAxis(cu, 0, 0, 3), b.SliceAxis(cu, 0, 1, 4), nil)
	})
	require.EqualValues(t, 2, entries[0], "steps")
	column := func(c int) []int64 { return bySegments(s, entries, c) }
	require.Equal(t, []int64{0, 0, 0, 1}, column(segments.Block))
	require.Equal(t, []int64{0, 1, 2, 2}, column(segments.Next))
	require.Equal(t, []int64{-1, -1, 0, 1}, column(segments.Done))
	require.Equal(t, []int64{-1, 0, 1, -1}, column(segments.Closed))
	last := s.Entry(segments.Last, 0).Const
	require.Equal(t, []int64{-1, 2}, entries[last:last+2], "by steps")

	for visit, want := range [][]int64{
		{segments.First: 0, segments.From: 0, segments.To: 5},
		{segments.First: 5, segments.From: 5, segments.To: 7},
		{segments.First: 7, segments.From: 7, segments.To: 8},
		{segments.First: 0, segments.From: 9, segments.To: 9},
	} {
		for mark, n := range want {
			require.Equal(t, n, marks[(visit*segments.Rows+mark)*s.Chunk], "mark %d of visit %d", mark, visit)
		}
	}
}

// The same sequences in a pool: the second is skipped, the third starts from zeros.
func TestPool(t *testing.T) {
	for _, kernel := range []bool{false, true} {
		testPool(t, segments.Schedule{Sequences: 3, Blocks: 2, Chunk: 8, Places: 2, Kernel: kernel})
	}
}

func testPool(t *testing.T, s segments.Schedule) {
	t.Helper()
	slots := func(b *ir.Builder) *segments.Slots {
		list := func(of ...float64) *ir.Value {
			var l []*ir.Value
			for _, x := range of {
				l = append(l, b.Const(ir.T(ir.I32, 1), x))
			}
			return b.Concat(0, l...)
		}
		fresh := list(0, 0, 1)
		return &segments.Slots{From: list(4, 9, 5), To: list(7, -1, 5), Fresh: b.Compare(ir.GT, fresh, b.Like(fresh, 0))}
	}
	entries, marks := scheduled(t, []int64{0, 5, 7, 13}, func(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) {
		return s.Make(b, b.SliceAxis(cu, 0, 0, 3), b.SliceAxis(cu, 0, 1, 4), slots(b))
	})
	column := func(c int) []int64 { return bySegments(s, entries, c) }
	require.Equal(t, []int64{4, 9, 5, 5}, column(segments.Next))
	require.Equal(t, []int64{-1, 7, -1, -1}, column(segments.Closed))
	last := s.Entry(segments.Last, 0).Const
	require.Equal(t, []int64{-1, 5}, entries[last:last+2], "by steps")
	for visit, want := range [][]int64{
		{segments.First: 0, segments.From: 0, segments.To: 5, segments.Keep: 1, segments.Open: 0, segments.Enter: 0, segments.Fresh: 0},
		{segments.First: 5, segments.From: 5, segments.To: 7, segments.Keep: 1, segments.Open: 5, segments.Enter: 9, segments.Fresh: 0},
		{segments.First: 7, segments.From: 7, segments.To: 8, segments.Keep: 1, segments.Open: 9, segments.Enter: 7, segments.Fresh: 1},
		{segments.First: 0, segments.From: 9, segments.To: 9, segments.Keep: 1, segments.Open: 0, segments.Enter: 9, segments.Fresh: 0},
	} {
		for mark, n := range want {
			require.Equal(t, n, marks[(visit*segments.Rows+mark)*s.Chunk], "mark %d of visit %d", mark, visit)
		}
	}
}

// The same sequences, of a mixed batch: a visit knows where the open sequence began if that was in its block, and blocks ahead of the first sequence have no visit.
func TestBegan(t *testing.T) {
	for _, kernel := range []bool{false, true} {
		s := segments.Schedule{Sequences: 3, Blocks: 3, Chunk: 8, Places: 2, Began: true, Skip: true, Kernel: kernel}
		entries, marks := scheduled(t, []int64{8, 13, 15, 21}, func(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) {
			return s.Make(b, b.SliceAxis(cu, 0, 0, 3), b.SliceAxis(cu, 0, 1, 4), nil)
		})
		require.EqualValues(t, 2, entries[0], "steps")
		block := s.Entry(segments.Block, 0).Const
		require.Equal(t, []int64{1, 1, 1, 2}, []int64{entries[block], entries[s.Entry(segments.Block, 1).Const], entries[block+1], entries[s.Entry(segments.Block, 1).Const+1]})
		for visit, want := range []int64{0, 0, 5, 0} {
			require.Equal(t, want, marks[(visit*segments.Rows+segments.Began)*s.Chunk], "visit %d", visit)
		}
	}
}
