package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/tests/crash"
)

func traceOf(id int) *flashinfer.Trace {
	return &flashinfer.Trace{Definition: "d", Solution: "s", Workload: &flashinfer.Workload{UUID: fmt.Sprint(id), Axes: map[string]int{}, Inputs: map[string]flashinfer.Input{}},
		Evaluation: &flashinfer.Evaluation{Status: flashinfer.Timeout, Environment: flashinfer.Environment{Hardware: "h"}, Timestamp: "t"}}
}

var some = &flashinfer.Definition{Name: "d", OpType: "gdn"}

// sweep writes traces to a folder, and gives the first fault.
func sweep(dir string, from, to int, promised func()) error {
	s, err := OpenStore(dir, Protocol{Iterations: 1, Trials: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	for i := from; i < to; i++ {
		if err := s.Append(some, traceOf(i)); err != nil {
			return err
		}
		promised()
	}
	return nil
}

// requireTraces holds a folder to the traces that were promised, and goes on.
func requireTraces(t *testing.T, dir string, promised int, what string) {
	t.Helper()
	s, err := OpenStore(dir, Protocol{Iterations: 1, Trials: 1})
	require.NoError(t, err, what)
	for i := range promised {
		require.NotNil(t, s.Done("d", "s", fmt.Sprint(i)), what)
	}
	require.LessOrEqual(t, len(s.done), promised+1, what)
	require.NoError(t, s.Close())
	require.NoError(t, sweep(dir, 7, 9, func() {}), what)
	require.NoError(t, sweep(dir, 9, 9, func() {}), what)
}

func TestPowerLoss(t *testing.T) {
	d := crash.New(filepath.Join(t.TempDir(), "run"))
	d.Under(func() { require.NoError(t, sweep(d.Root, 0, 3, d.Ack)) })
	d.Losses(t, d.All(), crash.Few(2, 100), func(dir string, n int, what string) { requireTraces(t, dir, d.Acked(n), what) })
}

func TestDiskFaults(t *testing.T) {
	for at := 1; ; at++ {
		d := crash.New(filepath.Join(t.TempDir(), "run"))
		d.FailAt = at
		var err error
		d.Under(func() { err = sweep(d.Root, 0, 3, d.Ack) })
		if d.Ops() < at {
			require.NoError(t, err)
			break
		}
		require.Error(t, err, d.Name(at))
		requireTraces(t, d.Root, d.Acked(d.Ops()), fmt.Sprintf("%s, change %d", d.Name(at), at))
	}
}

func TestFlips(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, sweep(dir, 0, 5, func() {}))
	path := filepath.Join(dir, "traces", Author, "gdn", "d.jsonl")
	read := func() error {
		s, err := OpenStore(dir, Protocol{Iterations: 1, Trials: 1})
		if err == nil {
			err = s.Close()
		}
		_, bad := Scores(dir)
		if (err == nil) != (bad == nil) {
			return nil
		}
		return err
	}
	crash.Flips(t, path, read)
	crash.Flips(t, sumsOf(path), read)
	require.NoError(t, os.Remove(sumsOf(path)), "an earlier release has none")
	require.NoError(t, read())
	require.NoError(t, sweep(dir, 5, 6, func() {}))
	crash.Flips(t, path, read)
}
