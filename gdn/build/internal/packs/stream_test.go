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
