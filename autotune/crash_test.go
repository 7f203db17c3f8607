package autotune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/tests/crash"
)

// crashed is a search of a few candidates on a disk, and what it decides on a sound one.
func crashed(t *testing.T, d *crash.Disk) (c Config, err error) {
	c = quick(t, 6)
	c.Dir = d.Root
	d.Under(func() { _, err = Search(t.Context(), c) })
	return c, err
}

// requireSame goes on with a run, and holds its decisions to those of the unbroken run.
func requireSame(t *testing.T, c Config, want []string, what string) {
	t.Helper()
	go2 := Resume
	if _, _, err := journal.Read(c.Dir, nil); err == nil {
		had := decisions(t, c.Dir)
		require.Equal(t, want[:len(had)], had, what)
	} else {
		require.NotErrorAs(t, err, new(*journal.CorruptError), what)
		go2 = Search
	}
	_, err := go2(t.Context(), c)
	require.NoError(t, err, what)
	require.Equal(t, want, decisions(t, c.Dir), what)
	requireVerified(t, c.Dir)
}

// Each change that a search makes to its disk fails, alone or with all that follow: it pauses, and goes on to the same decisions.
func TestSearchDiskFaults(t *testing.T) {
	sound := crash.New(filepath.Join(t.TempDir(), "run"))
	c, err := crashed(t, sound)
	require.NoError(t, err)
	want := decisions(t, c.Dir)
	pauses, borne := 0, 0
	for _, at := range sound.Points(crash.Few(5, 1<<20)) {
		d := crash.New(filepath.Join(t.TempDir(), "run"))
		d.FailAt, d.For, d.Err = at, 1+at%2<<20, []error{syscall.ENOSPC, syscall.EIO}[at/2%2]
		c, err := crashed(t, d)
		what := fmt.Sprintf("change %d of %d fails", at, sound.Ops())
		if at > 0 && at <= d.Ops() {
			what = d.Name(at) + ", " + what
		}
		if err == nil {
			borne++ // by another try
		} else if pauses++; !errors.As(err, new(*PauseError)) {
			require.NoError(t, err, what)
		}
		requireSame(t, c, want, what)
		require.NoError(t, os.RemoveAll(d.Root))
	}
	t.Logf("%d faults ended in a pause, %d were borne, of %d changes", pauses, borne, sound.Ops())
}

// Wherever the power goes, the search goes on from what is left to the same decisions.
func TestSearchPowerLoss(t *testing.T) {
	d := crash.New(filepath.Join(t.TempDir(), "run"))
	c, err := crashed(t, d)
	require.NoError(t, err)
	want := decisions(t, c.Dir)
	d.Losses(t, d.Points(crash.Few(5, 1<<20)), crash.Few(1, 3), func(dir string, _ int, what string) {
		c := quick(t, 6)
		c.Dir = dir
		requireSame(t, c, want, what)
	})
}
