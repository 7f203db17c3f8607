//go:build linux

package loop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/tests/crash"
)

var kills = flag.Int("kills", 4, "how often TestRandomKills kills a loop")

// decided lists a loop's decisions: the verdicts and figures of its finished iterations, and the commits of its branch.
func decided(t *testing.T, c Config) (l []string) {
	for _, r := range ends(must(ReadRecords(c.Dir))) {
		if r.Verdict != Interrupted && r.Verdict != Blocked {
			l = append(l, fmt.Sprintf("%s %g %g", r.Verdict, r.Figures.Before, r.Figures.After))
		}
	}
	return append(l, sh(t, c.Repo, "for c in $(git rev-list --reverse main..gdngen-loop); do git show $c:cost; done"))
}

// steady is an agent whose change follows from the tree alone.
const steady = plan + `n=$(($(cat cost) - 10)); echo $n > cost`

// Killed at random moments and begun anew, a loop decides the same, and nothing is lost.
func TestRandomKills(t *testing.T) {
	begin := func() Config {
		c := bed(t, steady)
		c.Iterations = 3
		require.NoError(t, os.MkdirAll(c.Dir, 0o755))
		require.NoError(t, c.save())
		return c
	}
	whole := begin()
	begun := time.Now()
	require.NoError(t, Run(t.Context(), whole))
	took := time.Since(begun)
	want := decided(t, whole)
	require.Len(t, want, 4)
	r := rotate.Rand(66)
	killed, ended := 0, 0
	for killed < rotate.Short(*kills) {
		c := begin()
		was := user(t, c.Repo)
		had := 0
		for {
			x := exec.Command(must(os.Executable()))
			x.Env = append(os.Environ(), killedVariable+"="+filepath.Join(c.Dir, configName)+" never")
			require.NoError(t, x.Start())
			stop := time.AfterFunc(time.Duration(r.Int64N(int64(took))), func() { x.Process.Kill() })
			err := x.Wait()
			if stop.Stop() || err == nil {
				require.NoError(t, err)
				break
			}
			require.Equal(t, syscall.SIGKILL, x.ProcessState.Sys().(syscall.WaitStatus).Signal())
			killed++
			if records, err := ReadRecords(c.Dir); err == nil || !errors.Is(err, os.ErrNotExist) {
				require.NoError(t, err)
				require.GreaterOrEqual(t, len(records), had, "records are lost")
				had = len(records)
			}
		}
		ended++
		require.Equal(t, want, decided(t, c))
		require.Equal(t, was, user(t, c.Repo))
		require.Empty(t, must(Lint(t.Context(), c)))
	}
	t.Logf("%d kills of %d loops", killed, ended)
}

// Each change that the loop makes to its own files fails: the loop pauses, and the same command goes on to the same decisions.
func TestLoopDiskFaults(t *testing.T) {
	run := func(at int) (c Config, d *crash.Disk, err error) {
		c = bed(t, steady)
		c.Iterations = 2
		d = crash.New(c.Dir)
		d.FailAt, d.Err = at, []error{syscall.ENOSPC, syscall.EIO}[at%2]
		d.Under(func() { err = Run(t.Context(), c) })
		return c, d, err
	}
	c, sound, err := run(0)
	require.NoError(t, err)
	want := decided(t, c)
	pauses := 0
	for _, at := range sound.Points(crash.Few(3, 1<<20)) {
		if at == 0 {
			continue
		}
		c, d, err := run(at)
		what := fmt.Sprintf("%s, change %d of %d", d.Name(at), at, sound.Ops())
		require.ErrorAs(t, err, new(*PauseError), what)
		pauses++
		require.NoError(t, Run(t.Context(), c), what)
		require.Equal(t, want, decided(t, c), what)
		require.Empty(t, must(Lint(t.Context(), c)), what)
	}
	t.Logf("%d faults, each a pause, of %d changes", pauses, sound.Ops())
}

// Wherever the power goes, the journal of a loop has all that was promised, and at most one record more.
func TestLoopPowerLoss(t *testing.T) {
	d := crash.New(filepath.Join(t.TempDir(), "run"))
	d.Under(func() {
		require.NoError(t, os.MkdirAll(d.Root, 0o755))
		b := must(openBook(d.Root))
		for i := range 5 {
			require.NoError(t, b.add(Record{Kind: KindEnd, Iteration: i, Verdict: Keep, Reason: strings.Repeat("x", 700)}))
			d.Ack()
		}
	})
	d.Losses(t, d.All(), crash.Few(4, 200), func(dir string, n int, what string) {
		require.NoError(t, os.MkdirAll(dir, 0o755)) // as a loop does first
		b, err := openBook(dir)
		require.NoError(t, err, what)
		require.GreaterOrEqual(t, len(b.records), d.Acked(n), what)
		require.LessOrEqual(t, len(b.records), d.Acked(n)+1, what)
		require.NoError(t, b.add(Record{Kind: KindEnd, Iteration: 9}))
		require.Len(t, must(ReadRecords(dir)), len(b.records), what)
	})
}

// What stops a loop is its context, or a pause.
func TestPause(t *testing.T) {
	require.NoError(t, pause(nil))
	require.ErrorAs(t, pause(errors.New("x")), new(*PauseError))
	for _, err := range []error{context.Canceled, &ConfigError{errors.New("x")}, &LockedError{"x"}, &FailuresError{3}} {
		require.NotErrorAs(t, pause(err), new(*PauseError))
	}
}
