package autotune

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// Estimates order variants as their schedules do: each pair's costs were counted in schedules for v6e on the bench work.
func TestEstimates(t *testing.T) {
	s, err := gdn.LookupPreset("bench")
	require.NoError(t, err)
	e := newEstimator(s, []*target.Target{mustTarget(t, "v6e"), mustTarget(t, "v5e")})
	cycles := func(text string) float64 {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		x := e.estimate(v)
		require.NotNil(t, x, text)
		require.Len(t, x.Targets, 2)
		require.GreaterOrEqual(t, x.Targets[1].Kernel, x.Targets[0].Kernel, "its vector unit has no bf16")
		c := x.Targets[0].Kernel + x.Targets[0].XLA
		require.Positive(t, c, text)
		require.Equal(t, x.Targets[:1], newEstimator(s, []*target.Target{mustTarget(t, "v6e")}).estimate(v).Targets, "a function of the variant")
		return c
	}
	for _, row := range []struct {
		from, to string
		real     float64 // logarithm of what it saves
	}{
		{"naive", "solve=block,heads=1", 1.26},
		{"naive", "solve=forward,heads=0", .46},
		{"solve=block,kq=joined", "solve=block,kq=joined,precinv=bf16x1", .24},
		{"solve=block,kq=joined,precinv=bf16x1", "solve=block,kq=joined,precinv=bf16x1,chunks=4", .18},
		{"solve=block,kq=joined,precinv=bf16x1,chunks=4", "solve=block,kq=joined,precinv=bf16x1,chunks=4,form=uw", -.2},
		{"solve=block,kq=joined,precinv=bf16x1,chunks=4", "algo=token,chunk=16", -2.56},
	} {
		got := math.Log(cycles(row.from) / cycles(row.to))
		require.Equal(t, row.real > 0, got > 0, "%s to %s: %.2f", row.from, row.to, got)
		require.InDelta(t, row.real, got, .6)
	}
}
