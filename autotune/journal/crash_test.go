package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/tests/crash"
)

// fill writes a journal on a disk, which may fail, and notes each record that is promised. It gives the first fault.
func fill(d *crash.Disk, t *testing.T, scores ...int64) (fault error) {
	d.Under(func() {
		j, _, err := Open(d.Root)
		if err != nil {
			fault = err
			return
		}
		defer j.Close()
		if fault = j.Append(KindHeader, header); fault != nil {
			return
		}
		d.Ack()
		for _, s := range scores {
			if fault = j.AppendTimed(KindCandidate, ranked(t, j.State(), s), Times{Wall: map[string]float64{"build": .5}}); fault != nil {
				return
			}
			d.Ack()
		}
	})
	return fault
}

// requireGoesOn reads what a loss of power left, holds it to what was promised, and goes on.
func requireGoesOn(t *testing.T, dir string, promised, most int, what string) {
	t.Helper()
	records := 0
	_, _, err := Read(dir, func(Record) error { records++; return nil })
	if err != nil {
		require.Zero(t, promised, "%s: %v", what, err)
		require.NotErrorAs(t, err, new(*CorruptError), what)
	}
	require.GreaterOrEqual(t, records, promised, what)
	require.LessOrEqual(t, records, most, what)
	j, _, err := Open(dir)
	require.NoError(t, err, what)
	if records == 0 {
		require.NoError(t, j.Append(KindHeader, header), what)
		records++
	}
	require.NoError(t, j.Append(KindCandidate, ranked(t, j.State(), 10)), what)
	require.NoError(t, j.Close())
	s, warnings, err := Read(dir, nil)
	require.NoError(t, err, what)
	require.Empty(t, warnings, what)
	require.Equal(t, records, s.Len(), what)
}

// Wherever the power goes, what was promised is there, at most one further record, and the journal goes on.
func TestPowerLoss(t *testing.T) {
	d := crash.New(filepath.Join(t.TempDir(), "run"))
	require.NoError(t, fill(d, t, 100, 90, 80, 70))
	d.Losses(t, d.All(), crash.Few(8, 400), func(dir string, n int, what string) { requireGoesOn(t, dir, d.Acked(n), d.Acked(n)+1, what) })
}

// Each change fails in turn, once or from there on, and then the power goes: nothing that was promised is lost.
func TestDiskFaults(t *testing.T) {
	count := 0
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT} {
		for _, times := range []int{1, 2, 1 << 20} {
			for at := 1; ; at++ {
				d := crash.New(filepath.Join(t.TempDir(), "run"))
				d.FailAt, d.For, d.Err = at, times, fault
				err := fill(d, t, 100, 90, 80)
				if d.Ops() < at {
					require.NoError(t, err)
					break
				}
				require.True(t, errors.Is(err, fault), "%s: %v", d.Name(at), err)
				what := fmt.Sprintf("%v at %s, change %d", fault, d.Name(at), at)
				for seed := range crash.Few(2, 20) {
					image := t.TempDir()
					d.Image(t, d.Ops(), rand.New(rand.NewPCG(uint64(at), uint64(seed))), image)
					requireGoesOn(t, image, d.Acked(d.Ops()), d.Acked(d.Ops())+1, what)
					count++
				}
				requireGoesOn(t, d.Root, d.Acked(d.Ops()), d.Acked(d.Ops())+1, what)
				count++
			}
		}
	}
	t.Logf("%d faults", count)
}

// Every flip of a bit is seen.
func TestFlips(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 100, 90, 80, 70, 60)
	crash.Flips(t, filepath.Join(dir, FileName), func() error { _, _, err := Read(dir, nil); return err })
}
