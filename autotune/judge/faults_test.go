package judge_test

import (
	"context"
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

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// faulty is a real evaluator of which a test changes what a gate does.
type faulty struct {
	*judge.Lab
	before func(gate string, w *judge.Work) error
}

func (f *faulty) Gates() []judge.Gate {
	gates := f.Lab.Gates()
	for i, g := range gates {
		gates[i].Run = func(ctx context.Context, w *judge.Work) (*judge.Refusal, error) {
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
	l := judge.OpenLab(t, judge.LabOptions{Workers: 1})
	var stopped []int
	done := map[int]bool{}
	f := &faulty{Lab: l, before: func(gate string, w *judge.Work) error {
		if gate != "compile" {
			return nil
		}
		once := !done[w.Record.ID]
		done[w.Record.ID] = true
		switch w.Record.ID {
		case 3:
			l.SetTimeout(time.Minute)
			w.SetPrograms(measure.Foreign("test", crashing))
		case 2: // hangs once: a second worker is given more time
			stopped = children()
			for _, pid := range stopped {
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
			l.SetTimeout(4 * time.Second)
		case 4: // nothing compiles in this time
			l.SetTimeout(time.Millisecond)
		case 5: // killed by something else
			l.SetTimeout(time.Minute)
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
	c := autotune.Config{Spec: judge.ParseSpec(t, "b=1,t=64,hk=1,hv=2,k=64,v=64,dtype=bf16"), Targets: []string{"v6e"}, Dir: t.TempDir(), Strategy: "exhaustive", Evaluator: f, Workers: 1, Lookahead: 1,
		Seeds: []string{"merge-packed,prec=bf16x1", "ladder,prec=bf16x1", "block,prec=bf16x1", "uw,prec=bf16x1", "split,prec=bf16x1"}, Candidates: 5, Generator: "test", Backoff: time.Millisecond}
	sum, err := autotune.Search(t.Context(), c)
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
	log, err := autotune.Object(c.Dir, all[2].Objects["log/v6e"])
	require.NoError(t, err)
	require.Contains(t, string(log), "crashed")
	require.NotEmpty(t, stopped)
	require.True(t, all[1].Verdict.Ranked(), all[1].Reason)
	require.Equal(t, journal.Timeout, all[3].Verdict, all[3].Reason)
	require.NotEmpty(t, all[4].Costs, all[4].Reason)
	require.Equal(t, 1, sum.Infra, "the killed worker")
	require.Empty(t, l.DumpFolders())
	requireVerified(t, c.Dir)

	small := judge.OpenLab(t, judge.LabOptions{Workers: 1, Memory: 32 << 20})
	c.Dir, c.Evaluator, c.Candidates = t.TempDir(), small, 1
	_, err = autotune.Search(t.Context(), c)
	require.NoError(t, err)
	s, _, err = journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.Equal(t, journal.Crash, s.Now().Candidate(1).Verdict)
	require.Contains(t, s.Now().Candidate(1).Reason, "needs more than 32 MiB")
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
	l, err := judge.NewLab(context.Background(), judge.LabOptions{CPU: plugins.Options{Offline: true}, TPU: plugins.Options{Offline: true}})
	if err != nil {
		panic(err)
	}
	at, _ := strconv.Atoi(os.Getenv(killedEnv))
	hangs, _ := strconv.Atoi(os.Getenv(interruptedEnv))
	f := &faulty{Lab: l, before: func(gate string, w *judge.Work) error {
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
				for len(l.DumpFolders()) == 0 {
					time.Sleep(time.Millisecond)
				}
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}()
		}
		return nil
	}}
	drive := autotune.Search
	if _, _, err := journal.Read(dir, nil); err == nil {
		drive = autotune.Resume
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := drive(ctx, autotune.Config{Spec: s, Dir: dir, Targets: []string{"v6e"}, Seeds: []string{"merge-packed,prec=bf16x1", "neumann,prec=bf16x1"}, Candidates: 5, Workers: 1, Generator: "test",
		Evaluator: f}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := l.Close(); err != nil {
		panic(err)
	}
}

// A real search that is killed in the middle of a compile and resumed makes the decisions of one that is not, and leaves no scratch
// folders.
func TestKillReal(t *testing.T) {
	judge.OpenLab(t, judge.LabOptions{Workers: 1}) // or skip
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
