package judge

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/ir/target"
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
			o := device.Options{Plugin: plugin, Emit: route.Text}
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

// A TPU of a generation that a run is not for is refused.
func TestDeviceOfAnotherKind(t *testing.T) {
	plugin := devicetest.Stub(t)
	t.Setenv(devicetest.Platform, "tpu")
	t.Setenv(devicetest.Kind, "TPU v4")
	l := &Lab{plugins: map[string]string{}}
	var err error
	l.device, err = openAttached(t.Context(), device.Options{Plugin: plugin, Emit: route.Text})
	require.NoError(t, err)
	defer l.device.drop()
	var none *DeviceError
	err = l.Attach([]*target.Target{mustTarget(t, "v6e"), mustTarget(t, "v5e")})
	require.ErrorAs(t, err, &none)
	require.ErrorContains(t, err, "is a v4 (TPU v4), and programs are wanted for v6e (TPU v6 lite), v5e (TPU v5 lite)")
	require.NoError(t, l.Attach([]*target.Target{mustTarget(t, "v4")}))
	require.Equal(t, "v4", l.device.open.Target().Name)
}
