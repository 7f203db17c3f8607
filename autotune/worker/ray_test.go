//go:build ray

package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
)

// realRayEnv is the address of a running Ray cluster, such as auto; without it the test starts one of two nodes. GDNGEN_RAY_PYTHON must have Ray.
const realRayEnv = "GDNGEN_TEST_RAY"

// cluster is a Ray cluster of two nodes on this machine.
type cluster struct {
	Address string `json:"address"`
	Raylets []int  `json:"raylets"`
}

// startCluster starts one, whose workers take their time, so that there is time to kill them.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	if address := os.Getenv(realRayEnv); address != "" {
		return &cluster{Address: address}
	}
	cmd := exec.Command(cmp.Or(os.Getenv(RayPythonEnv), "python3"), "testdata/raycluster.py")
	cmd.Env = append(os.Environ(), modeEnv+"=tired", "RAY_USAGE_STATS_ENABLED=0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err, "the cluster does not start")
	c := &cluster{}
	require.NoError(t, json.Unmarshal(line, c))
	require.Len(t, c.Raylets, 2)
	return c
}

// workers lists the processes of workers on the nodes.
func (c *cluster) workers(t *testing.T) (pids []int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		words := strings.Split(string(text), "\x00")
		if err == nil && len(words) > 1 && strings.HasSuffix(words[0], "/gdngen") && words[1] == "worker" {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			require.NoError(t, err)
			if slot := parent(pid); c.Raylets == nil || slices.Contains(c.Raylets, parent(slot)) { // not another cluster's
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// parent is the process that started another; 0 where that has ended.
func parent(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	n, _ := strconv.Atoi(fields[1])
	return n
}

// On a real cluster a journal is as here, also where a worker, its slot, the proxy of a slot, a whole node or the driver is killed on the way.
func TestRealRay(t *testing.T) {
	c := startCluster(t)
	want := local(t)
	e, err := ParseEngine("ray:" + c.Address + "*2")
	require.NoError(t, err)
	for _, victim := range []string{"nobody", "worker", "slot", "proxy", "raylet"} {
		if victim == "raylet" && c.Raylets == nil {
			continue
		}
		t.Run(victim, func(t *testing.T) {
			p, err := New(t.Context(), []*Engine{e}, PoolOptions{Generator: testGenerator, Warn: func(text string) { t.Log(text) }})
			require.NoError(t, err)
			defer p.Close()
			k := quick(t, p)
			killed := victim == "nobody"
			k.Progress = func(x autotune.Progress) {
				if x.Candidate.ID < 5 || killed {
					return
				}
				killed = true
				if victim == "proxy" {
					p.slots[0].running().Kill()
					return
				}
				worker := c.workers(t)[0]
				pid := worker
				if victim != "worker" {
					pid = parent(pid)
				}
				if victim == "raylet" {
					pid = parent(pid)
					require.Contains(t, c.Raylets, pid)
				}
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
				require.Eventually(t, func() bool { return syscall.Kill(worker, 0) != nil }, time.Minute, 50*time.Millisecond, "the worker outlives its node")
			}
			_, err = autotune.Search(t.Context(), k)
			require.NoError(t, err)
			require.True(t, killed)
			got, losses := outcome(t, k.Dir)
			require.Equal(t, want, got)
			t.Logf("%d losses: %v", len(losses), losses)
			if victim != "nobody" {
				require.NotEmpty(t, losses, "a loss is an event")
			}
		})
	}
	t.Run("driver", func(t *testing.T) { killDriver(t, c, e, want) })
}

// killDriver kills a driver on the way: its slots and workers end, and another driver goes on with the same journal.
func killDriver(t *testing.T, c *cluster, e *Engine, want []string) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runEnv+"="+dir, engineEnv+"="+e.Text+"*2")
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	candidates := func() int {
		s, _, err := journal.Read(dir, nil)
		if err != nil {
			return 0
		}
		return s.Len()
	}
	require.Eventually(t, func() bool { return candidates() > 4 }, 2*time.Minute, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Less(t, candidates(), judged)
	require.Eventually(t, func() bool { return len(c.workers(t)) == 0 }, 30*time.Second, 100*time.Millisecond, "workers go on")

	p, err := New(context.Background(), []*Engine{e}, PoolOptions{Generator: testGenerator})
	require.NoError(t, err)
	defer p.Close()
	k := quick(t, p)
	k.Dir = dir
	_, err = autotune.Resume(t.Context(), k)
	require.NoError(t, err)
	got, _ := outcome(t, dir)
	require.True(t, slices.Equal(want, got), "another journal than the local one")
}
