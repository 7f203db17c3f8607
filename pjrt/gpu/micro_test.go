package gpu

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu/sass"
)

// Microkernels compile for every GPU, and their loops hold what they are named for: ptxas folded no chain. A table is found again from the times that
// it gives: each microkernel tells its constant, whatever the others are.
func TestMicrokernels(t *testing.T) {
	k := open(t)
	var kernels map[string]Launch
	for _, g := range slices.Backward(target.GPUs()) {
		var err error
		kernels, err = k.microkernels(t.Context(), g)
		require.NoError(t, err)
		require.Len(t, kernels, len(micros)+2)
		for _, m := range micros {
			op := map[string]string{"special": "MUFU.EX2", "shuffle": "SHFL.BFLY", "shared": "LDS ", "fragment": "LDSM.16.M88.4", "barrier": "BAR.SYNC",
				"matmuluse": "HMMA.16816", "dram": "LDG.E "}[m.name]
			_, loop, ok := strings.Cut(kernels[m.name].SASS, "CS2R")
			require.True(t, ok, m.name)
			want := m.count
			if m.name == "matmuluse" {
				want *= 8
			}
			require.Equal(t, want, strings.Count(loop, op), "%s %s", g.Name, m.name)
		}
	}
	hidden, g := fitted(h100(t)), fitted(h100(t))
	for i, m := range micros {
		x := m.constant(hidden.Timing)
		*x = math.Min(m.high*.9, *x*(1.1+.03*float64(i)))
	}
	for _, m := range micros {
		code, err := sass.Parse(kernels[m.name].SASS, kernels[m.name].Usage)
		require.NoError(t, err)
		took, err := m.turn(code, hidden)
		require.NoError(t, err)
		got, err := m.solve(code, g, took)
		require.NoError(t, err)
		require.InEpsilon(t, took, got, .01, m.name)
		require.InEpsilon(t, *m.constant(hidden.Timing), *m.constant(g.Timing), .03, m.name)
	}
}
