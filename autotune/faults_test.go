package autotune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// faulty is a real evaluator of which a test changes what a gate does.
type faulty struct {
	*Lab
	before func(gate string, w *Work) error
}

func (f *faulty) Gates() []Gate {
	gates := f.Lab.Gates()
	for i, g := range gates {
		gates[i].Run = func(ctx context.Context, w *Work) (*Refusal, error) {
			if err := f.before(g.Name, w); err != nil {
				return nil, err
			}
			return g.Run(ctx, w)
		}
	}
	return gates
}

// crashing is a module on which libtpu kills its process.
const crashing = `module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
	%0 = func.call @main(%a) : (tensor<2xf32>) -> tensor<2xf32>
	return %0 : tensor<2xf32> } }`

// children lists the processes that this one started.
func children() (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range found {
		stat, _ := os.ReadFile(path)
		_, after, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(after); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// A compile worker that crashes, hangs or takes too much memory is a verdict on its candidate alone; one that something else stops
// or kills is none: the compile is done again. The candidates after it are judged as ever.
func TestWorkerFaults(t *testing.T) {
	l := lab(t, LabOptions{Workers: 1})
	var stopped []int
	done := map[int]bool{}
	f := &faulty{Lab: l, before: func(gate string, w *Work) error {
		if gate != "compile" {
			return nil
		}
		once := !done[w.Record.ID]
		done[w.Record.ID] = true
		switch w.Record.ID {
		case 3:
			l.limits.fixed = time.Minute
			w.artifacts().programs = []*measure.Program{measure.Foreign("test", crashing)}
		case 2: // hangs once: a second worker is given more time
			stopped = children()
			for _, pid := range stopped {
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
			l.limits.fixed = 4 * time.Second
		case 4: // nothing compiles in this time
			l.limits.fixed = time.Millisecond
		case 5: // killed by something else
			l.limits.fixed = time.Minute
			if once {
				go func() {
					time.Sleep(100 * time.Millisecond)
					for _, pid := range children() {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}()
			}
		}
		return nil
	}}
	c := Config{Spec: spec(t, "b=1,t=64,hk=1,hv=2,k=64,v=64,dtype=bf16"), Targets: []string{"v6e"}, Dir: t.TempDir(), Strategy: "exhaustive", Evaluator: f, Workers: 1, Lookahead: 1,
		Seeds: []string{"merge-packed,prec=bf16x1", "ladder,prec=bf16x1", "block,prec=bf16x1", "uw,prec=bf16x1", "split,prec=bf16x1"}, Candidates: 5, Generator: "test", Backoff: time.Millisecond}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	all := s.Now().Candidates()
	require.Len(t, all, 5)
	for _, k := range all {
		t.Log(k.ID, k.Verdict, k.Reason)
	}
	require.True(t, all[0].Verdict.Ranked(), all[0].Reason)
	require.Equal(t, journal.Crash, all[2].Verdict)
	require.Equal(t, journal.CauseUnstable, all[2].Cause)
	log, err := Object(c.Dir, all[2].Objects["log/v6e"])
	require.NoError(t, err)
	require.Contains(t, string(log), "crashed")
	require.NotEmpty(t, stopped)
	require.True(t, all[1].Verdict.Ranked(), all[1].Reason)
	require.Equal(t, journal.Timeout, all[3].Verdict, all[3].Reason)
	require.NotEmpty(t, all[4].Costs, all[4].Reason)
	require.Equal(t, 1, sum.Infra, "the killed worker")
	require.Empty(t, l.dumpFolders())
	requireVerified(t, c.Dir)

	small := lab(t, LabOptions{Workers: 1, Memory: 32 << 20})
	c.Dir, c.Evaluator, c.Candidates = t.TempDir(), small, 1
	_, err = Search(t.Context(), c)
	require.NoError(t, err)
	s, _, err = journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.Equal(t, journal.Crash, s.Now().Candidate(1).Verdict)
	require.Contains(t, s.Now().Candidate(1).Reason, "needs more than 32 MiB")
}

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
	whole := quick(t, scriptedCandidates)
	_, err := Search(t.Context(), whole)
	require.NoError(t, err)
	want := decisions(t, whole.Dir)
	dir := t.TempDir()
	had := 0
	for _, room := range []int{20_000, 40_001, 60_002} {
		cmd := exec.Command(os.Args[0])
		var said bytes.Buffer
		cmd.Env = append(os.Environ(), scriptedEnv+"="+dir, fmt.Sprintf("%s=%d", fullEnv, room))
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
	cmd.Env = append(os.Environ(), scriptedEnv+"="+dir)
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
	_, err = Verify(c.Dir)
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
	v, err := Verify(c.Dir)
	require.NoError(t, err)
	require.Len(t, v.Faults, 1)
	require.Contains(t, v.Faults[0], "candidate 3: object ir: store: object "+key+" is damaged: its content is another")
	_, err = Object(c.Dir, key)
	require.ErrorContains(t, err, "damaged")
}

// dumpFolders lists the folders of schedules that are there now.
func (l *Lab) dumpFolders() []string {
	dirs, _ := filepath.Glob(filepath.Join(l.scratch.Dir, "gdngen-dump-*"))
	return dirs
}

// realEnv makes the test binary a driver of a real search in a folder; killedEnv names the candidate in whose compile it kills itself,
// interruptedEnv the one in whose compile, which hangs, it is interrupted.
const (
	realEnv        = "GDNGEN_TEST_REAL"
	killedEnv      = "GDNGEN_TEST_KILLED"
	interruptedEnv = "GDNGEN_TEST_INTERRUPTED"
)

const realSpec = "b=1,t=64,hk=1,hv=2,k=64,v=64,dtype=bf16"

// real is a search with the real evaluator.
func real(dir string) {
	s, err := gdn.Parse(realSpec)
	if err != nil {
		panic(err)
	}
	l, err := NewLab(context.Background(), LabOptions{CPU: plugins.Options{Offline: true}, TPU: plugins.Options{Offline: true}})
	if err != nil {
		panic(err)
	}
	at, _ := strconv.Atoi(os.Getenv(killedEnv))
	hangs, _ := strconv.Atoi(os.Getenv(interruptedEnv))
	f := &faulty{Lab: l, before: func(gate string, w *Work) error {
		if gate == "compile" && w.Record.ID == hangs {
			for _, pid := range children() {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			go func() {
				time.Sleep(200 * time.Millisecond) // the compile waits for its worker
				fmt.Println(time.Now().UnixMilli())
				syscall.Kill(os.Getpid(), syscall.SIGINT)
			}()
		}
		if gate == "compile" && w.Record.ID == at {
			go func() {
				for len(l.dumpFolders()) == 0 {
					time.Sleep(time.Millisecond)
				}
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}()
		}
		return nil
	}}
	begin(Config{Spec: s, Dir: dir, Targets: []string{"v6e"}, Seeds: []string{"merge-packed,prec=bf16x1", "neumann,prec=bf16x1"}, Candidates: 5, Workers: 1, Generator: "test",
		Evaluator: f})
	if err := l.Close(); err != nil {
		panic(err)
	}
}

// A real search that is killed in the middle of a compile and resumed makes the decisions of one that is not, and leaves no scratch
// folders.
func TestKillReal(t *testing.T) {
	lab(t, LabOptions{Workers: 1}) // or skip
	t.Setenv("TMPDIR", t.TempDir())
	whole, cut := t.TempDir(), t.TempDir()
	run := func(dir string, killed int) error {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), realEnv+"="+dir, fmt.Sprintf("%s=%d", killedEnv, killed))
		cmd.Stderr = os.Stderr
		return cmd.Run()
	}
	require.NoError(t, run(whole, 0))
	want := decisions(t, whole)
	require.Len(t, want, 6)

	// An interrupt while a compile hangs ends the process within seconds, with nothing of that candidate recorded.
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), realEnv+"="+cut, interruptedEnv+"=3")
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	ended := time.Now()
	require.NoError(t, err)
	ms, err := strconv.ParseInt(strings.TrimSpace(string(said)), 10, 64)
	require.NoError(t, err, "it was interrupted in a compile: %q", said)
	require.Less(t, ended.Sub(time.UnixMilli(ms)), 5*time.Second)
	require.Equal(t, want[:3], decisions(t, cut), "the header and two candidates")

	for _, killed := range []int{4, 5} {
		require.ErrorContains(t, run(cut, killed), "signal: killed")
		left, _ := filepath.Glob(filepath.Join(os.TempDir(), "gdngen-held-*", "gdngen-dump-*"))
		require.NotEmpty(t, left, "a compile was under way")
		got := decisions(t, cut)
		require.Equal(t, want[:len(got)], got)
		require.Less(t, len(got), len(want))
	}
	require.NoError(t, run(cut, 0))
	require.Equal(t, want, decisions(t, cut))
	require.Equal(t, requireVerified(t, whole), requireVerified(t, cut))
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "gdngen-*"))
	require.Empty(t, left, "the next start removes what the killed ones left")
}
