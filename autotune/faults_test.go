package autotune

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
)

// fullEnv bounds the files that a scripted run may write, in bytes: what a full disk does to a process.
const fullEnv = "GDNGEN_TEST_FULL"

// limitFiles makes writes beyond the bound of fullEnv fail.
func limitFiles() {
	n, err := strconv.ParseUint(os.Getenv(fullEnv), 10, 64)
	if err != nil {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		panic(err)
	}
}

// When nothing more can be written, the run stops, with all that was recorded intact, and goes on when there is room.
func TestFullDisk(t *testing.T) {
	whole := quick(t, scriptedCandidates())
	_, err := Search(t.Context(), whole)
	require.NoError(t, err)
	want := decisions(t, whole.Dir)
	dir := t.TempDir()
	had := 0
	for i := range 3 {
		room := (1 + i) * 20_001 * scriptedCandidates() / 100
		cmd := exec.Command(os.Args[0])
		var said bytes.Buffer
		cmd.Env = append(os.Environ(), scriptedRun(dir), fmt.Sprintf("%s=%d", fullEnv, room))
		cmd.Stderr = &said
		err := cmd.Run()
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit), "%v", err)
		require.Equal(t, 1, exit.ExitCode(), said.String())
		require.Contains(t, said.String(), "the run pauses")
		require.Contains(t, said.String(), "file too large")
		info, err := os.Stat(filepath.Join(dir, journal.FileName))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(room))
		_, warnings, err := journal.Read(dir, nil)
		require.NoError(t, err)
		require.Empty(t, warnings, "no torn line is left")
		got := decisions(t, dir)
		require.Greater(t, len(got), had)
		require.Equal(t, want[:len(got)], got)
		had = len(got)
	}
	require.Less(t, had, len(want))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), scriptedRun(dir))
	require.NoError(t, cmd.Run())
	require.Equal(t, want, decisions(t, dir))
	requireVerified(t, dir)
}

// What was changed after it was written is found: in the journal nothing goes on, in an object Verify tells.
func TestWrongHash(t *testing.T) {
	c := quick(t, 10)
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	path := filepath.Join(c.Dir, journal.FileName)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(good, []byte(`"score":`)) + len(`"score":`)
	bad := bytes.Clone(good)
	bad[at] = '1' + (bad[at]-'0')%9
	require.NoError(t, os.WriteFile(path, bad, 0o644))
	var corrupt *journal.CorruptError
	_, err = Resume(t.Context(), Config{Dir: c.Dir, Candidates: 20, Evaluator: &fake{}, Generator: "test"})
	require.ErrorAs(t, err, &corrupt)
	require.Contains(t, corrupt.Why, "checksum does not match")
	_, err = Verify(c.Dir, nil)
	require.ErrorAs(t, err, &corrupt)
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, bad, now, "nothing was written to it")
	require.NoError(t, os.WriteFile(path, good, 0o644))
	requireVerified(t, c.Dir)

	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	key := s.Now().Candidate(3).Objects["ir"]
	object := filepath.Join(objectsDir(c.Dir), key[:2], key[2:]+".gz")
	other := s.Now().Candidate(4).Objects["ir"]
	text, err := os.ReadFile(filepath.Join(objectsDir(c.Dir), other[:2], other[2:]+".gz"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(object, text, 0o644), "a whole object, under the key of another")
	v, err := Verify(c.Dir, nil)
	require.NoError(t, err)
	require.Len(t, v.Faults, 1)
	require.Contains(t, v.Faults[0], "candidate 3: object ir: store: object "+key+" is damaged: its content is another")
	_, err = Object(c.Dir, key)
	require.ErrorContains(t, err, "damaged")
}
