package autotune

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
)

var kills = flag.Int("kills", 0, "how often TestKill kills the driver; 0: 8 times, or 20 where all tests are asked for")

// scriptedEnv makes the test binary a driver of the run in a folder.
const scriptedEnv = "GDNGEN_TEST_RUN"

// scriptedCandidates is how many it judges. Its process is told by a number before the folder.
func scriptedCandidates() int { return max(40, rotate.Short(100)) }

func scriptedRun(dir string) string {
	return fmt.Sprintf("%s=%d %s", scriptedEnv, scriptedCandidates(), dir)
}

// hoard is what a scripted run does at each gate; nil: nothing.
var hoard func(gate string, w *judge.Work) error

// scripted is a run that only its end or a signal stops.
func scripted(text string) {
	var n int
	dir := ""
	if _, err := fmt.Sscanf(text, "%d %s", &n, &dir); err != nil {
		panic(err)
	}
	s, err := gdn.Parse(quickSpec)
	if err != nil {
		panic(err)
	}
	begin(Config{Dir: dir, Spec: s, Candidates: n, Strategy: "elites", Evaluator: &fake{delay: time.Millisecond, fail: hoard}, Generator: "test"})
}

// begin begins or resumes a run, and ends the process where it fails.
func begin(c Config) {
	drive := Search
	if _, _, err := journal.Read(c.Dir, nil); err == nil {
		drive = Resume
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := drive(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Killed at random moments and resumed, a run makes the same decisions, and nothing that was recorded is lost.
func TestKill(t *testing.T) {
	n := scriptedCandidates()
	whole := quick(t, n)
	_, err := Search(t.Context(), whole)
	require.NoError(t, err)
	want := decisions(t, whole.Dir)

	dir := t.TempDir()
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), scriptedRun(dir))
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		return cmd
	}
	most := *kills
	switch {
	case most > 0:
	case rotate.All():
		most = 20
	default:
		most = max(3, rotate.Short(8))
	}
	r := rand.New(rand.NewPCG(1, uint64(most)))
	path := filepath.Join(dir, journal.FileName)
	lines := func() int {
		data, _ := os.ReadFile(path)
		return bytes.Count(data, []byte("\n"))
	}
	had, cut := 0, 0
	for killed := 0; killed < most; killed++ {
		before := lines()
		cmd := start()
		// A random moment: while it starts, or some records later.
		if grow := r.IntN(2 + 2*n/most); grow > 0 {
			for end := time.Now().Add(20 * time.Second); lines() < before+grow && time.Now().Before(end) && syscall.Kill(cmd.Process.Pid, 0) == nil; {
				time.Sleep(200 * time.Microsecond)
			}
		}
		time.Sleep(time.Duration(r.Int64N(int64(5 * time.Millisecond))))
		require.NoError(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			break // it had come to its end
		}
		require.Equal(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		if _, _, err := journal.Read(dir, nil); err != nil {
			require.Zero(t, had, "killed before the header, or %v", err)
			continue
		}
		got := decisions(t, dir)
		require.GreaterOrEqual(t, len(got), had, "records are lost")
		require.Equal(t, want[:len(got)], got)
		if len(got) > 1 && len(got) < len(want) {
			cut++
		}
		had = len(got)
	}
	require.NoError(t, start().Wait())
	require.Equal(t, want, decisions(t, dir))
	require.Equal(t, requireVerified(t, whole.Dir), requireVerified(t, dir))
	require.NotZero(t, cut, "no kill fell into the run")
	t.Logf("%d kills within the run", cut)
}
