package llo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A new libtpu is an ordinary event: the same module, compiled by two versions that spell instructions differently (vpow2 and vexp2,
// vpop.eup and vpop.erf, vperm.xlu0 and vperm.lane.xlu0), has all figures by both, and they are near each other.
func TestVersions(t *testing.T) {
	var reports []*Report
	for dump, cycles := range map[string]int64{"tiny_v6e_0.0.42.1": 1805, "tiny_v6e_0.0.51": 1814} {
		r, err := Options{}.Analyze(unpack(t, archive(t, dump)), lookup(t, "v6e"))
		require.NoError(t, err, dump)
		require.Equal(t, cycles, r.Cycles, dump)
		require.Empty(t, r.Wall.Unknown, dump)
		require.EqualValues(t, 67616, r.HBMBytes, dump)
		reports = append(reports, r)
	}
	require.InEpsilon(t, reports[0].Wall.Cycles, reports[1].Wall.Cycles, .01)
	require.InEpsilon(t, reports[0].Wall.Latency, reports[1].Wall.Latency, .01)
	require.Equal(t, len(reports[0].Ops), len(reports[1].Ops))
}
