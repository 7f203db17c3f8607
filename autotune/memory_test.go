//go:build linux && !race

package autotune

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/internal/rotate"
)

// The race detector takes memory of its own, and has no such limit.

// memoryEnv is how many bytes a scripted run gets beside those that it has at its start; each candidate takes some of them.
const memoryEnv = "GDNGEN_TEST_MEMORY"

var hoarded [][]byte

func init() {
	n, err := strconv.ParseUint(os.Getenv(memoryEnv), 10, 64)
	if err != nil {
		return
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, text, _ := strings.Cut(string(status), "VmData:")
	var has uint64
	if _, err := fmt.Sscanf(text, "%d kB", &has); err != nil {
		panic(err)
	}
	most := has<<10 + n
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		panic(err)
	}
	hoard = func(gate string, _ *judge.Work) error {
		if gate == "build" {
			hoarded = append(hoarded, make([]byte, 1<<20))
		}
		return nil
	}
}

// Wherever memory is refused, the process ends; what it recorded is whole, and the same command goes on to the same decisions.
func TestNoMemory(t *testing.T) {
	whole := quick(t, scriptedCandidates())
	_, err := Search(t.Context(), whole)
	require.NoError(t, err)
	want := decisions(t, whole.Dir)
	dir := t.TempDir()
	most := 3
	if rotate.All() {
		most = 20
	}
	r := rand.New(rand.NewPCG(2, uint64(most)))
	had, cut, refused := 0, 0, 0
	for room := int64(32 << 20); refused < most || cut == 0 && refused < 40; {
		cmd := exec.Command(os.Args[0])
		var said bytes.Buffer
		cmd.Env = append(os.Environ(), scriptedRun(dir), fmt.Sprintf("%s=%d", memoryEnv, room+r.Int64N(16<<20)))
		cmd.Stderr = &said
		if cmd.Run() == nil {
			break // it had enough to come to its end
		}
		require.Regexp(t, "out of memory|cannot allocate memory|failed to create new OS thread|pthread_create failed", said.String())
		refused++
		room += 4 << 20
		if _, _, err := journal.Read(dir, nil); err != nil {
			require.Zero(t, had, "ended before the header, or %v", err)
			continue
		}
		got := decisions(t, dir)
		if len(got) > had {
			room -= 4 << 20
		}
		require.GreaterOrEqual(t, len(got), had, "records are lost")
		require.Equal(t, want[:len(got)], got)
		if len(got) > 1 && len(got) < len(want) {
			cut++
		}
		had = len(got)
	}
	require.NotZero(t, cut, "memory was refused in no run")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), scriptedRun(dir))
	require.NoError(t, cmd.Run())
	require.Equal(t, want, decisions(t, dir))
	require.Equal(t, requireVerified(t, whole.Dir), requireVerified(t, dir))
	t.Logf("%d faults: memory was refused, %d times within the run", refused, cut)
}
