package judge_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
)

// TestMain makes the test binary a worker, or a driver of its own, where that is asked for.
func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	device.RunWorkerIfAsked()
	if dir := os.Getenv(realEnv); dir != "" {
		real(dir)
		return
	}
	os.Exit(m.Run())
}

// decisions lists the header and the candidates of a run without their times.
func decisions(t *testing.T, dir string) (l []string) {
	_, _, err := journal.Read(dir, func(r journal.Record) error {
		if text, ok := r.Decision(); ok {
			l = append(l, text)
		}
		return nil
	})
	require.NoError(t, err)
	return l
}

// requireVerified gives the champions of a run whose decisions all follow from its records.
func requireVerified(t *testing.T, dir string) map[string]int {
	v, err := autotune.Verify(dir, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	return v.Champions
}

// A small search through every real gate: structures with costs, the whole-chunk series rejected by their numbers, the
// same integers in a second run.
func TestRealSearch(t *testing.T) {
	c := autotune.Config{Spec: judge.ParseSpec(t, "b=1,t=64,hk=1,hv=2,k=128,v=128,dtype=bf16"), Targets: []string{"v6e"}, Dir: t.TempDir(), Strategy: "exhaustive",
		Seeds: []string{"forward,chunk=8,prec=bf16x1", "neumann", "newton", "forward,chunk=8,prec=bf16x1,heads=2", "merge-rows,chunk=16,leaf=8,prec=bf16x1"}, Candidates: 4, Evaluator: judge.OpenLab(t, judge.LabOptions{})}
	sum, err := autotune.Search(t.Context(), c)
	require.NoError(t, err)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	all := s.Now().Candidates()
	require.Len(t, all, 4) // heads=2 is all heads: that seed is known already
	var verdicts []journal.Verdict
	for _, k := range all {
		t.Log(k.Verdict, k.Variant, k.Reason)
		verdicts = append(verdicts, k.Verdict)
	}
	require.True(t, verdicts[0].Ranked())
	require.Equal(t, journal.Numerics, verdicts[1])
	require.Equal(t, journal.Numerics, verdicts[2])
	require.Contains(t, all[1].Reason, "on identical inputs")
	require.Greater(t, float64(all[1].Worst().Error), 1e3)
	first := all[0]
	seen := map[string]map[string]bool{}
	for _, e := range first.Errors {
		if seen[e.Engine] == nil {
			seen[e.Engine] = map[string]bool{}
		}
		seen[e.Engine][e.Class+e.Kind] = true
	}
	require.Len(t, seen["interp"], 3*judge.TinyClasses, "rms, max and bias")
	require.Len(t, seen["kernels"], 3*len(exam.Supported(c.Spec)))
	require.Len(t, seen["cpu"], 3*len(exam.Supported(c.Spec)))
	for _, e := range first.Errors {
		require.LessOrEqual(t, e.Use(), 1., e.Class)
	}
	cost := first.Cost("v6e")
	require.NotNil(t, cost)
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	require.Greater(t, cost.Cycles, measure.Least(c.Spec, gdn.DefaultVariant(), target))
	require.InDelta(t, float64(cost.Score)/128, float64(cost.PerToken), 1e-9)
	require.Equal(t, ruler.InOrder, cost.Ruler)
	require.Greater(t, cost.Wall, cost.Cycles)
	require.Equal(t, cost.Wall, cost.Score, "its traffic takes less")
	for _, role := range []string{"ir", "module/v6e", "schedule/v6e"} {
		require.Contains(t, first.Objects, role)
	}
	text, err := autotune.Object(c.Dir, first.Objects["module/v6e"])
	require.NoError(t, err)
	require.Contains(t, string(text), "tpu_custom_call")
	requireVerified(t, c.Dir)

	again := c
	again.Dir = t.TempDir()
	again.Candidates = 1
	_, err = autotune.Search(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, decisions(t, c.Dir)[:2], decisions(t, again.Dir))
	require.NotEmpty(t, sum.Rankings[0].Rows)
}

// With a device attached, what is kept is examined and timed in pairs against the champion of its time; where its numbers are right the
// decisions are those of a run without one.
func TestDevice(t *testing.T) {
	c := autotune.Config{Spec: judge.ParseSpec(t, "b=1,t=64,hk=1,hv=2,k=32,v=32,dtype=bf16"), Targets: []string{"v6e"}, Strategy: "exhaustive", Generator: "test", Lookahead: 1, Workers: 1,
		Seeds: []string{"forward,chunk=16,prec=bf16x1", "merge-packed,prec=bf16x1"}, Candidates: 2}
	var all [2][]string
	for i, plugin := range []string{"", "cpu"} {
		l := judge.OpenLab(t, judge.LabOptions{Workers: 1, Device: plugin})
		c.Dir, c.Evaluator = t.TempDir(), l
		sum, err := autotune.Search(t.Context(), c)
		require.NoError(t, err)
		s, _, err := journal.Read(c.Dir, nil)
		require.NoError(t, err)
		for _, k := range s.Now().Candidates() {
			examined := 0
			for _, e := range k.Errors {
				if e.Engine == "device" {
					require.LessOrEqual(t, e.Use(), 1.)
					examined++
				}
			}
			if plugin != "" && k.Verdict != journal.Worse {
				require.Equal(t, 3*judge.DeviceClasses, examined, "rms, max and bias of each class")
			} else {
				require.Zero(t, examined)
			}
			all[i] = append(all[i], fmt.Sprint(k.Variant, k.Verdict, k.Reason, k.Costs, k.IR))
		}
		for _, r := range sum.Rankings[0].Rows {
			require.Equal(t, plugin != "" && r.Verdict != journal.Worse, r.Runs != nil)
			if r.Runs == nil {
				continue
			}
			require.Equal(t, 1, r.Runs.Against, "the first against itself, the second against the first")
			require.Equal(t, judge.DevicePairs, r.Runs.Pairs)
			require.Positive(t, r.Runs.Seconds)
			require.LessOrEqual(t, r.Runs.Low, r.Runs.Ratio)
			require.GreaterOrEqual(t, r.Runs.High, r.Runs.Ratio)
		}
		requireVerified(t, c.Dir)
	}
	require.Equal(t, all[0], all[1])
}

// A real search: the gates of Triton pass what is right, wrong numbers have their verdict, and a second run takes exams and compiles from the cache.
func TestGPULab(t *testing.T) {
	lab, err := judge.NewGPULab(t.Context(), judge.LabOptions{Cache: &measure.Cache{Dir: t.TempDir()}})
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not tested: %v", err)
	}
	require.NoError(t, err)
	c := autotune.Config{Spec: judge.ParseSpec(t, "b=1,t=40,hk=8,hv=8,k=16,v=16,dtype=f32"), Targets: []string{"h100"}, Seeds: []string{"auto,chunk=16"}, Axes: []string{"stages"}, Candidates: 2, Dir: t.TempDir(), Evaluator: lab, Workers: 1}
	_, err = autotune.Search(t.Context(), c)
	require.NoError(t, err)
	best, err := autotune.Best(c.Dir, "")
	require.NoError(t, err)
	cost := best.Cost("h100")
	require.Positive(t, cost.Score)
	h100, err := target.LookupGPU("h100")
	require.NoError(t, err)
	require.InDelta(t, float64(cost.Micros)*h100.Clock*1e-6, float64(cost.Score), 2)
	require.NotEmpty(t, best.Errors)
	require.Equal(t, "triton", best.Errors[0].Engine)

	lab.Lose() // what is asked for again comes from the cache
	again := c
	again.Dir = t.TempDir()
	start := time.Now()
	_, err = autotune.Search(t.Context(), again)
	require.NoError(t, err)
	require.Less(t, time.Since(start), 5*time.Second)
	require.Equal(t, decisions(t, c.Dir), decisions(t, again.Dir))
}
