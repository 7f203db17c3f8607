package autotune

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
)

// The interval of a ratio of noisy pairs holds the ratio, does not hold 1 where there is a difference, and is the same again.
func TestCompareRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, ratio := range []float64{.8, 1, 1.3} {
		var pairs [][2]time.Duration
		for range 40 {
			busy := 1 + r.Float64() // what slows the machine slows both
			noise := func() float64 { return busy * (1 + .02*r.NormFloat64()) }
			pairs = append(pairs, [2]time.Duration{time.Duration(1e6 * ratio * noise()), time.Duration(1e6 * noise())})
		}
		one, two := compareRuns(pairs, rand.New(rand.NewPCG(3, 4))), compareRuns(pairs, rand.New(rand.NewPCG(3, 4)))
		require.Equal(t, one, two)
		require.InDelta(t, ratio, one.Ratio, .03)
		require.Less(t, one.Low, one.Ratio)
		require.Greater(t, one.High, one.Ratio)
		require.Less(t, one.High-one.Low, .05)
		require.Equal(t, ratio == 1, one.Low <= 1 && 1 <= one.High)
	}
}

// With a device attached, what is kept is timed in pairs against the champion of its time; the static decisions are those of a run
// without one.
func TestDevice(t *testing.T) {
	c := Config{Spec: spec(t, "b=1,t=64,hk=1,hv=2,k=32,v=32,dtype=bf16"), Targets: []string{"v6e"}, Strategy: "exhaustive", Generator: "test", Lookahead: 1, Workers: 1,
		Seeds: []string{"forward,chunk=16,prec=bf16x1", "merge-packed,prec=bf16x1"}, Candidates: 2}
	var all [2][]string
	for i, device := range []string{"", "cpu"} {
		l := lab(t, LabOptions{Workers: 1, Device: device})
		c.Dir, c.Evaluator = t.TempDir(), l
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		all[i] = decisions(t, c.Dir)
		for _, r := range sum.Rankings[0].Rows {
			require.Equal(t, device != "" && r.Verdict != journal.Slower, r.Runs != nil)
			if r.Runs == nil {
				continue
			}
			require.Equal(t, 1, r.Runs.Against, "the first against itself, the second against the first")
			require.Equal(t, devicePairs, r.Runs.Pairs)
			require.Positive(t, r.Runs.Seconds)
			require.LessOrEqual(t, r.Runs.Low, r.Runs.Ratio)
			require.GreaterOrEqual(t, r.Runs.High, r.Runs.Ratio)
		}
	}
	require.Equal(t, all[0], all[1])
}
