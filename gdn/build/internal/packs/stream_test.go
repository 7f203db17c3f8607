package packs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/build/internal/packs"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// The example of Steps: sequences of 5, 2 and 3 tokens in chunks of 4.
func TestOneByOne(t *testing.T) {
	m := &ir.Module{Name: "stream", Body: &ir.Block{}}
	b := ir.NewBuilder(m.Body)
	p := packs.Chunking{Builder: b, Tokens: 10, Chunks: 5, Chunk: 4}
	begin, end := p.Bounds(b.Param("cu_seqlens", ir.T(ir.I32, 4)))
	s := p.OneByOne(begin, end, 1)
	require.NoError(t, b.Finish(m, []string{"used", "seq", "start", "lo", "hi"}, []*ir.Value{s.Used, s.Seq, s.Start, s.Lo, s.Hi}))
	out, err := interp.Run(m, map[string]*array.Array{"cu_seqlens": array.FromInt64s(ir.I32, []int{4}, []int64{0, 5, 7, 10})}, interp.Options{})
	require.NoError(t, err)
	require.Equal(t, []int64{4}, out["used"].Int64s())
	for name, want := range map[string][]int64{"seq": {0, 0, 1, 2}, "start": {0, 4, 5, 6}, "lo": {0, 0, 0, 1}, "hi": {5, 1, 2, 4}} {
		require.Equal(t, want, out[name].Int64s()[:4], name)
	}
	require.LessOrEqual(t, out["hi"].Int64s()[4], out["lo"].Int64s()[4], "a step without a chunk has no rows")
}

// The example of Rounds: sequences of 9, 2, 5, 13 and 1 tokens in chunks of 4, four interleaved.
func TestRounds(t *testing.T) {
	m := &ir.Module{Name: "rounds", Body: &ir.Block{}}
	b := ir.NewBuilder(m.Body)
	p := packs.Chunking{Builder: b, Tokens: 30, Chunks: 12, Chunk: 4}
	begin, end := p.Bounds(b.Param("cu_seqlens", ir.T(ir.I32, 6)))
	s, taken := p.Rounds(begin, end, 4)
	require.NoError(t, b.Finish(m, []string{"used", "begins", "lasts", "taken", "seq", "start", "lo", "hi"}, []*ir.Value{s.Used, s.Begins, s.Lasts, taken, s.Seq, s.Start, s.Lo, s.Hi}))
	out, err := interp.Run(m, map[string]*array.Array{"cu_seqlens": array.FromInt64s(ir.I32, []int{6}, []int64{0, 9, 11, 16, 29, 30})}, interp.Options{})
	require.NoError(t, err)
	for name, want := range map[string][]int64{"used": {2}, "begins": {0, 0}, "lasts": {0, 2}, "taken": {2, 0, 2, 2, 1}} {
		require.Equal(t, want, out[name].Int64s(), name)
	}
	for name, want := range map[string][]int64{"seq": {4, 2, 0, 3, 4, 2, 0, 3}, "start": {26, 11, 0, 16, 26, 15, 4, 20}} {
		require.Equal(t, want, out[name].Int64s()[:8], name)
	}
	lo, hi := out["lo"].Int64s(), out["hi"].Int64s()
	require.Equal(t, []int64{3, 4}, []int64{lo[0], hi[0]}, "the slice of the last token ends with the tokens")
	require.LessOrEqual(t, hi[4], lo[4], "a sequence that is done waits")
}
