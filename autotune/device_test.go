package autotune

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/device/devicetest"
	"github.com/gdngen/gdngen/pjrt/machine"
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

// With a device attached, what is kept is examined and timed in pairs against the champion of its time; where its numbers are right the
// decisions are those of a run without one.
func TestDevice(t *testing.T) {
	c := Config{Spec: spec(t, "b=1,t=64,hk=1,hv=2,k=32,v=32,dtype=bf16"), Targets: []string{"v6e"}, Strategy: "exhaustive", Generator: "test", Lookahead: 1, Workers: 1,
		Seeds: []string{"forward,chunk=16,prec=bf16x1", "merge-packed,prec=bf16x1"}, Candidates: 2}
	var all [2][]string
	for i, plugin := range []string{"", "cpu"} {
		l := lab(t, LabOptions{Workers: 1, Device: plugin})
		c.Dir, c.Evaluator = t.TempDir(), l
		sum, err := Search(t.Context(), c)
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
			if plugin != "" && k.Verdict != journal.Slower {
				require.Equal(t, 3*len(deviceClasses), examined, "rms, max and bias of each class")
			} else {
				require.Zero(t, examined)
			}
			all[i] = append(all[i], fmt.Sprint(k.Variant, k.Verdict, k.Reason, k.Costs, k.IR))
		}
		for _, r := range sum.Rankings[0].Rows {
			require.Equal(t, plugin != "" && r.Verdict != journal.Slower, r.Runs != nil)
			if r.Runs == nil {
				continue
			}
			require.Equal(t, 1, r.Runs.Against, "the first against itself, the second against the first")
			require.Equal(t, devicePairs, r.Runs.Pairs)
			require.Positive(t, r.Runs.Seconds)
			require.LessOrEqual(t, r.Runs.Low, r.Runs.Ratio)
			require.GreaterOrEqual(t, r.Runs.High, r.Runs.Ratio)
		}
		requireVerified(t, c.Dir)
	}
	require.Equal(t, all[0], all[1])
}

// deviceWork is a candidate before the gate of the device, with a cost that makes it the best.
func deviceWork(t *testing.T) *Work {
	w := workOn(t, spec(t, "b=1,t=16,hk=1,hv=1,k=8,v=8,dtype=bf16"), "token")
	state := journal.NewState()
	text, err := json.Marshal(journal.Header{Format: journal.Format, Rules: journal.Rules, Spec: w.Spec.String(), Targets: []string{"v6e"}, Lookahead: 1})
	require.NoError(t, err)
	require.NoError(t, state.Add(journal.Record{Kind: journal.KindHeader, Body: text}))
	w.Known = state.Now()
	r, err := wellFormed(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, r)
	w.Record.Costs = []journal.Cost{{Target: "v6e", Cycles: 1, Score: 1, PerToken: 1}}
	return w
}

// A device that gives wrong numbers, crashes or hangs refuses the candidate, after a second process has done the same; one that dies while
// it is timed leaves a note. It is the device's process alone that dies.
func TestDeviceFaults(t *testing.T) {
	plugin := devicetest.Stub(t)
	for _, row := range []struct {
		fault   string
		verdict journal.Verdict
		says    string
	}{
		{"garbage", journal.Numerics, "device"},
		{"dies:1", journal.Crash, "the process of the device died in a run (signal: killed)"},
		{"stops:2", journal.Timeout, "the device was not done in a run within 2s"},
		{"dies:8", "", "not timed on cpu: the process of the device died while it was timed (signal: killed)"},
		{"", "", ""},
	} {
		t.Run(row.fault, func(t *testing.T) {
			t.Setenv(devicetest.Fault, row.fault)
			l := &Lab{}
			var err error
			o := device.Options{Plugin: plugin}
			if row.verdict == journal.Timeout {
				o.Limit = 2 * time.Second
			}
			l.device, err = openAttached(t.Context(), o)
			require.NoError(t, err)
			defer l.device.drop()
			w := deviceWork(t)
			lock := machine.New(t.TempDir(), nil)
			r, err := l.onDevice(lock.With(t.Context()), w)
			require.NoError(t, err)
			require.Empty(t, lock.Holders())
			require.Equal(t, row.fault == "", w.Runs != nil)
			if row.verdict == "" {
				require.Nil(t, r)
				require.Len(t, w.Record.Errors, 3*len(deviceClasses))
				require.Equal(t, row.says, strings.Join(w.Record.Notes, ";"))
				return
			}
			require.Equal(t, row.verdict, r.Verdict)
			require.Contains(t, r.Reason, row.says)
		})
	}
}

// A TPU of a generation that the run is not for is refused before anything is recorded.
func TestDeviceOfAnotherKind(t *testing.T) {
	plugin := devicetest.Stub(t)
	t.Setenv(devicetest.Platform, "tpu")
	t.Setenv(devicetest.Kind, "TPU v4")
	l := &Lab{plugins: map[string]string{}}
	var err error
	l.device, err = openAttached(t.Context(), device.Options{Plugin: plugin})
	require.NoError(t, err)
	defer l.device.drop()
	c := Config{Spec: spec(t, "tiny"), Targets: []string{"v6e", "v5e"}, Dir: t.TempDir(), Evaluator: l, Generator: "test", Seeds: []string{"default"}, Strategy: "random"}
	_, err = Search(t.Context(), c)
	var none *DeviceError
	require.ErrorAs(t, err, &none)
	require.ErrorContains(t, err, "is a v4 (TPU v4), and programs are wanted for v6e (TPU v6 lite), v5e (TPU v5 lite)")
	_, _, err = journal.Read(c.Dir, nil)
	require.Error(t, err, "no run was begun")
	require.NoError(t, l.Attach([]*codegen.Target{mustTarget(t, "v4")}))
	require.Equal(t, "v4", l.device.open.Target().Name)
}
