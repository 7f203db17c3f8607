package gpu

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
)

func h100(t *testing.T) *target.GPU {
	g, err := target.LookupGPU("h100")
	require.NoError(t, err)
	return g
}

// The launches of a script are taken with no GPU: configs of an autotuned kernel, evenly spread, their grids, and how often a loop iterations whose
// bounds are loaded from a tensor. Kept ones are modelled again without Python.
func TestCapture(t *testing.T) {
	k := open(t)
	kept := filepath.Join(t.TempDir(), "h100")
	c, err := k.Capture(t.Context(), "testdata/script.py", h100(t), CaptureOptions{Configs: 3, Folder: kept})
	require.NoError(t, err)
	require.Equal(t, []any{"script.py", "3.9.0", 90}, []any{c.Script, c.Triton, c.Capability})
	require.Len(t, c.Launches, 6)
	for i, want := range []struct {
		group, warps int
		grid         [3]int
	}{{0, 1, [3]int{3, 8, 1}}, {0, 4, [3]int{3, 8, 1}}, {0, 8, [3]int{3, 2, 1}}, {3, 1, [3]int{3, 1, 1}}, {3, 4, [3]int{3, 1, 1}}, {3, 8, [3]int{3, 1, 1}}} {
		l := c.Launches[i]
		require.Equal(t, []any{"sums", want.group, want.warps, want.grid}, []any{l.Kernel, l.Group, l.Warps, l.Grid})
		require.Equal(t, 60, *l.Trips, "of the longest of three rows")
		require.EqualValues(t, 100*256*4+4*8+3*256*4, l.Bytes)
		require.Equal(t, []int{3, 5}, []int{l.Sampled, l.Configs})
		require.Contains(t, l.Config, "num_warps")
		require.NotEmpty(t, l.SASS)
	}
	list, err := c.Model(h100(t), nil)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for i, m := range list {
		for _, l := range c.Launches[3*i : 3*i+3] {
			one, err := model(l.Launch, h100(t), 60, l.Bytes)
			require.NoError(t, err)
			require.LessOrEqual(t, m.Cost.Time, one.Cost.Time, "the fastest config counts")
		}
	}
	again, err := ReadCapture(kept)
	require.NoError(t, err)
	require.True(t, IsCapture(kept))
	require.Equal(t, c, again)
	more, err := again.Model(h100(t), map[string]int{"sums": 600})
	require.NoError(t, err)
	require.Greater(t, Time(more), 5*Time(list))
}

// An error says what a script or its kernels lack.
func TestCaptureRefuses(t *testing.T) {
	k := open(t)
	g := h100(t)
	capture := func(launch, script string, o CaptureOptions) (*Capture, error) {
		t.Setenv("LAUNCH", launch)
		o.Configs = 1
		return k.Capture(t.Context(), script, g, o)
	}
	c, err := capture("halve", "testdata/script.py", CaptureOptions{})
	require.NoError(t, err)
	_, err = c.Model(g, nil)
	require.ErrorContains(t, err, "kernel halve: how often its loop turns does not follow from its arguments: say it by --trips halve=N")
	list, err := c.Model(g, map[string]int{"halve": 6})
	require.NoError(t, err)
	require.Equal(t, 6, list[0].Trips)
	_, err = c.Model(g, map[string]int{"half": 6})
	require.ErrorContains(t, err, "--trips half: the script launches no such kernel")
	// A loop from the last to the first turns as often as one from the first to the last.
	back, err := capture("backwards", "testdata/script.py", CaptureOptions{})
	require.NoError(t, err)
	require.Equal(t, 100, *back.Launches[0].Trips)
	b200, err := target.LookupGPU("b200")
	require.NoError(t, err)
	_, err = c.Model(b200, nil)
	require.ErrorContains(t, err, "compiled for sm_90, and b200 is sm_100")
	_, err = capture("import", "testdata/script.py", CaptureOptions{})
	require.ErrorContains(t, err, "testdata/script.py imports no_such_package, which the pinned Python with Triton lacks: name one that has it and triton by --python")
	_, err = capture("none", "testdata/none.py", CaptureOptions{})
	require.ErrorContains(t, err, "no such file")
	_, err = capture("none", "testdata/script.py", CaptureOptions{Folder: "testdata"})
	require.ErrorContains(t, err, "testdata is not empty")
	c, err = capture("none", "testdata/script.py", CaptureOptions{})
	require.NoError(t, err)
	_, err = c.Model(g, nil)
	require.ErrorContains(t, err, "the script launches no Triton kernel")
}
