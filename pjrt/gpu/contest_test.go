package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
)

// Modelled times of flash-linear-attention 0.6.0 on contest heads, 8192 tokens in 1 and 57 sequences, with the fastest of all its autotuning's
// configs: docs/gpu.md has the command, sass/testdata/fla.tsv the rows that they are sums of.
const flaOne, flaMany = 220.0, 145.2

// The modelled times that docs/gpu.md shows for contest heads on an h100, and what they are to be: a prefill of one sequence by parts below 150 us
// and one of many below flash-linear-attention's, a decode step of 64 at the rate of HBM in one pass, and of one within 1.2 us.
func TestContestTimes(t *testing.T) {
	k := open(t)
	for _, c := range []struct {
		spec        string
		kernels     int
		shown, most float64
	}{
		{"contest-decode", 1, 23.9, 1.05 * 23.84}, // 5 % above the bytes at the rate of a copy
		{"contest-decode,b=1", 1, .85, 1.2},
		{"contest-prefill,seqs=1", 4, 114.8, min(150, flaOne)},
		{"contest-prefill,seqs=57", 2, 74.1, flaMany},
	} {
		s, err := gdn.Parse(c.spec)
		require.NoError(t, err)
		v, source := program(t, s, "auto")
		launches, err := k.Compile(t.Context(), source, s, h100(t))
		require.NoError(t, err)
		require.Len(t, launches, c.kernels)
		for _, l := range launches {
			require.Empty(t, unfenced(l.PTX), l.Kernel)
		}
		work := triton.WorkOf(s, v)
		list, err := Model(launches, h100(t), work.Of)
		require.NoError(t, err)
		require.InEpsilon(t, c.shown, Time(list), .04, c.spec)
		require.LessOrEqual(t, Time(list), c.most, c.spec)
		if s.Tokens == 1 {
			require.Equal(t, s.NecessaryBytes(), work["decode"].Bytes, "states are read once and written once")
		}
	}
}
