package visits_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/build/internal/visits"
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

// byVisits is a column of the table, of four visits in steps of two.
func byVisits(s visits.Schedule, entries []int64, column int) (by []int64) {
	for visit := range 4 {
		by = append(by, entries[s.Entry(column, visit%2).Const+visit/2])
	}
	return by
}

// The example of the package: sequences of 5, 2 and 6 tokens in blocks of 8, in steps of two
// visits.
func TestExample(t *testing.T) {
	s := visits.Schedule{Sequences: 3, Blocks: 2, Chunk: 8, Places: 2}
	entries, marks := scheduled(t, []int64{0, 5, 7, 13}, func(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) { return s.Make(b, cu, nil) })
	require.EqualValues(t, 2, entries[0], "steps")
	column := func(c int) []int64 { return byVisits(s, entries, c) }
	require.Equal(t, []int64{0, 0, 0, 1}, column(visits.Block))
	require.Equal(t, []int64{0, 1, 2, 2}, column(visits.Next))
	require.Equal(t, []int64{-1, -1, 0, 1}, column(visits.Done))
	require.Equal(t, []int64{-1, 0, 1, -1}, column(visits.Closed))
	last := s.Entry(visits.Last, 0).Const
	require.Equal(t, []int64{-1, 2}, entries[last:last+2], "by steps")

	for visit, want := range [][]int64{
		{visits.First: 0, visits.From: 0, visits.To: 5},
		{visits.First: 5, visits.From: 5, visits.To: 7},
		{visits.First: 7, visits.From: 7, visits.To: 8},
		{visits.First: 0, visits.From: 9, visits.To: 9},
	} {
		for mark, n := range want {
			require.Equal(t, n, marks[(visit*visits.Rows+mark)*s.Chunk], "mark %d of visit %d", mark, visit)
		}
	}
}

// The same sequences in a pool: the second is skipped, the third starts from zeros.
func TestPool(t *testing.T) {
	s := visits.Schedule{Sequences: 3, Blocks: 2, Chunk: 8, Places: 2}
	slots := func(b *ir.Builder) *visits.Slots {
		list := func(of ...float64) *ir.Value {
			var l []*ir.Value
			for _, x := range of {
				l = append(l, b.Const(ir.T(ir.I32, 1), x))
			}
			return b.Concat(0, l...)
		}
		fresh := list(0, 0, 1)
		return &visits.Slots{From: list(4, 9, 5), To: list(7, -1, 5), Fresh: b.Compare(ir.GT, fresh, b.Like(fresh, 0))}
	}
	entries, marks := scheduled(t, []int64{0, 5, 7, 13}, func(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) { return s.Make(b, cu, slots(b)) })
	column := func(c int) []int64 { return byVisits(s, entries, c) }
	require.Equal(t, []int64{4, 9, 5, 5}, column(visits.Next))
	require.Equal(t, []int64{-1, 7, -1, -1}, column(visits.Closed))
	last := s.Entry(visits.Last, 0).Const
	require.Equal(t, []int64{-1, 5}, entries[last:last+2], "by steps")
	for visit, want := range [][]int64{
		{visits.First: 0, visits.From: 0, visits.To: 5, visits.Keep: 1, visits.Open: 0, visits.Enter: 0, visits.Fresh: 0},
		{visits.First: 5, visits.From: 5, visits.To: 7, visits.Keep: 1, visits.Open: 5, visits.Enter: 9, visits.Fresh: 0},
		{visits.First: 7, visits.From: 7, visits.To: 8, visits.Keep: 1, visits.Open: 9, visits.Enter: 7, visits.Fresh: 1},
		{visits.First: 0, visits.From: 9, visits.To: 9, visits.Keep: 1, visits.Open: 0, visits.Enter: 9, visits.Fresh: 0},
	} {
		for mark, n := range want {
			require.Equal(t, n, marks[(visit*visits.Rows+mark)*s.Chunk], "mark %d of visit %d", mark, visit)
		}
	}
}
