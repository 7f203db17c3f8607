//go:build linux && (amd64 || arm64)

package aot

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// orphanVariable makes the test program a parent that starts a worker and then does nothing.
const orphanVariable = "GDNGEN_AOT_TEST_ORPHAN"

func TestMain(m *testing.M) {
	RunWorkerIfAsked()
	if lib := os.Getenv(orphanVariable); lib != "" {
		c := New(Options{Libtpu: lib})
		if _, err := c.Compile(context.Background(), Request{Topology: "v5e:2x2", Module: addModule(8)}); err != nil {
			panic(err)
		}
		os.Stdout.WriteString(strconv.Itoa(c.child.Pid()) + "\n" + c.tmp + "\n")
		select {}
	}
	os.Exit(m.Run())
}

// pluginPath returns the plugin's path. Without it the test is skipped, but fails where CI is set.
func pluginPath(t *testing.T) string {
	t.Helper()
	p, err := plugins.TPU(t.Context(), plugins.Options{})
	if err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err)
		}
		t.Skip(err)
	}
	return p.Path
}

// compiler returns a Compiler that is closed with the test.
func compiler(t *testing.T, o Options) *Compiler {
	t.Helper()
	o.Libtpu = pluginPath(t)
	t.Setenv("TMPDIR", t.TempDir())
	c := New(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// compiles checks that a request after a failure succeeds.
func compiles(t *testing.T, c *Compiler) {
	t.Helper()
	_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: addModule(1024)})
	require.NoError(t, err)
}

// dumps reads the files of a dump that match a suffix, by name without the leading time stamp.
func dumps(t *testing.T, dir, suffix string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	require.NoError(t, err)
	texts := map[string]string{}
	for _, f := range files {
		_, name, _ := strings.Cut(filepath.Base(f), "-")
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NotContains(t, texts, name)
		texts[name] = string(text)
	}
	return texts
}

func TestEveryGeneration(t *testing.T) {
	c := compiler(t, Options{})
	for _, top := range target.All() {
		t.Run(top.Name, func(t *testing.T) {
			plain, err := c.Compile(t.Context(), Request{Topology: top.Topology, Module: addModule(1024), WantHLO: true})
			require.NoError(t, err)
			require.Contains(t, plain.OptimizedHLO, "f32[1024]")
			require.Equal(t, int64(2*4096), plain.Memory.Arguments)
			require.Equal(t, int64(4096), plain.Memory.Outputs)
			require.NotEmpty(t, plain.Cost)

			dir := t.TempDir()
			kernel, err := c.Compile(t.Context(), Request{Topology: top.Topology, Module: kernelModule(8), DumpDir: dir})
			require.NoError(t, err)
			require.Positive(t, kernel.CodeBytes)
			require.Equal(t, int64((32+8)*128*4), kernel.Memory.Arguments)
			require.Regexp(t, "^[0-9a-f]{32,}$", kernel.Fingerprint)
			require.NotEqual(t, plain.Fingerprint, kernel.Fingerprint)
			require.Empty(t, kernel.OptimizedHLO)
			schedule := ""
			for name, text := range dumps(t, dir, "-final_bundles.txt") {
				if strings.HasPrefix(name, "add") {
					schedule = text
				}
			}
			require.Regexp(t, `vadd\.f32 [^;]*loc\("sum":3:7\)`, schedule, "the location of an op reaches the schedule")
			require.Len(t, dumps(t, dir, "vmem_report.html"), 1)
		})
	}
}

func TestSameDumpTwice(t *testing.T) {
	c := compiler(t, Options{})
	var got [3]map[string]string
	for i := range got {
		if i == 2 { // also from another process
			c.drop()
		}
		dir := t.TempDir()
		_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: kernelModule(8), DumpDir: dir})
		require.NoError(t, err)
		got[i] = dumps(t, dir, "bundles.txt")
		before := dumps(t, dir, "")
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, before, dumps(t, dir, ""), "a dump changed after the answer")
	}
	require.NotEmpty(t, got[0])
	require.Equal(t, got[0], got[1])
	require.Equal(t, got[0], got[2])
}

func TestBadRequests(t *testing.T) {
	c := New(Options{Libtpu: "/nonexistent/libtpu.so"}) // refused before the library matters
	defer c.Close()
	good := Request{Topology: "v6e:2x2", Module: addModule(8)}
	for name, change := range map[string]func(*Request){
		"Topology: \"\"":        func(r *Request) { r.Topology = "" },
		"Topology: \"v7x:2x2":   func(r *Request) { r.Topology = "v7x:2x2" },
		"Topology: \"v6e\"":     func(r *Request) { r.Topology = "v6e" },
		"Topology: \"v5e:0x0\"": func(r *Request) { r.Topology = "v5e:0x0" },
		"Topology: \"v6e:2x2 ":  func(r *Request) { r.Topology = "v6e:2x2 " },
		"Module: is empty":      func(r *Request) { r.Module = " \n" },
		"Flags: \"--x\"":        func(r *Request) { r.Flags = map[string]string{"--x": "1"} },
		"Passes: \"a b\"":       func(r *Request) { r.Passes = "a b" },
		"Passes: error parsing": func(r *Request) { r.Passes = "(" },
	} {
		r := good
		change(&r)
		_, err := c.Compile(t.Context(), r)
		var bad *RequestError
		require.ErrorAs(t, err, &bad, name)
		require.ErrorContains(t, err, name)
	}
	_, err := c.Compile(t.Context(), good)
	var infra *InfraError
	require.ErrorAs(t, err, &infra)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTopologyRefusedByTheCompiler(t *testing.T) {
	c := compiler(t, Options{})
	_, err := c.Compile(t.Context(), Request{Topology: "v5e:3x3", Module: addModule(8)})
	var bad *RequestError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "Topology", bad.Field)
}

func TestRejection(t *testing.T) {
	c := compiler(t, Options{})
	for _, module := range []string{
		"garbage",
		strings.Replace(addModule(8), "stablehlo.add", "stablehlo.nothing", 1),
		`module { func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
			%0 = stablehlo.custom_call @tpu_custom_call(%a) {backend_config = "{\22custom_call_config\22: {\22body\22: \22QUJD\22}}"} : (tensor<8xf32>) -> tensor<8xf32>
			return %0 : tensor<8xf32> } }`,
	} {
		_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: module})
		var reject *RejectError
		require.ErrorAs(t, err, &reject)
		require.NotZero(t, reject.Code)
		require.NotEmpty(t, reject.Msg)
	}
	require.Equal(t, 3, c.child.served, "a refusal costs no child")
	compiles(t, c)
}

func TestOutOfVMEM(t *testing.T) {
	c := compiler(t, Options{})
	const rowsPerMiB = 1 << 20 / (128 * 4)
	request := Request{Topology: "v6e:2x2", Module: kernelModule(40 * rowsPerMiB)}
	_, err := c.Compile(t.Context(), request)
	var vmem *VMEMError
	require.ErrorAs(t, err, &vmem)
	require.InDelta(t, 40<<20, vmem.Size, 64<<10)
	require.Equal(t, int64(32<<20), vmem.Limit)

	request.Flags = map[string]string{"xla_tpu_scoped_vmem_limit_kib": "65536"}
	_, err = c.Compile(t.Context(), request)
	require.NoError(t, err, "the flag raises the limit")
	request.Flags = nil
	_, err = c.Compile(t.Context(), request)
	require.ErrorAs(t, err, &vmem, "the flag is of one compile")

	request.Module = kernelModule(200 * rowsPerMiB)
	_, err = c.Compile(t.Context(), request)
	require.ErrorAs(t, err, &vmem, "more than the memory has")
	require.Equal(t, [2]int64{200 << 20, 128 << 20}, [2]int64{vmem.Size, vmem.Limit})
}

func TestUnknownFlags(t *testing.T) {
	c := compiler(t, Options{})
	for name, value := range map[string]string{"xla_no_such_flag": "1", "xla_tpu_scoped_vmem_limit_kib": "many"} {
		_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: addModule(8), Flags: map[string]string{name: value}})
		var bad *RequestError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "Flags", bad.Field)
		require.ErrorContains(t, err, name)
	}
	flags := map[string]string{"xla_no_such_flag": "1", "xla_tpu_scoped_vmem_limit_kib": "16384"}
	r, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: addModule(8), Flags: flags, DropUnknown: true})
	require.NoError(t, err)
	require.Equal(t, []string{"xla_no_such_flag"}, r.Dropped)
	require.Len(t, flags, 2, "the caller's map stays")
}

func TestRefusalMessages(t *testing.T) {
	err := refusal(8, "E1001: CompileTimeScopedVmemOom: Scoped allocation with size 16.36M and limit 16.00M exceeded scoped vmem limit by 372.0K")
	var vmem *VMEMError
	require.ErrorAs(t, err, &vmem)
	require.Equal(t, [2]int64{17154703, 16 << 20}, [2]int64{vmem.Size, vmem.Limit})
	var reject *RejectError
	require.ErrorAs(t, refusal(8, "Ran out of memory in memory space hbm. Used 40.00G of 31.25G hbm"), &reject)
}

func TestCrash(t *testing.T) {
	c := compiler(t, Options{})
	_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: recursiveModule})
	var first, again *CrashError
	require.ErrorAs(t, err, &first)
	require.Equal(t, "signal: segmentation fault", first.Exit)
	require.Contains(t, first.Stderr, "STACK OVERFLOW")
	require.NotContains(t, first.Stderr, "goroutine")

	compiles(t, c) // so that the crash has to be confirmed on a fresh child
	_, err = c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: recursiveModule})
	require.ErrorAs(t, err, &again)
	compiles(t, c)

	c.opts.Sound = func() error { return errors.New("libtpu has another SHA-256") }
	_, err = c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: recursiveModule})
	require.ErrorContains(t, err, "can not compile: libtpu has another SHA-256")
}

func TestTopologyOfNoChips(t *testing.T) {
	c := compiler(t, Options{})
	_, err := c.compile(t.Context(), Request{Topology: "v5e:0x0", Module: addModule(8)})
	var crash *CrashError
	var bad *RequestError
	require.True(t, errors.As(err, &crash) || errors.As(err, &bad), "libtpu dies of it, older ones refuse it: %v", err)
	compiles(t, c)
}

func TestTimeoutAndCancel(t *testing.T) {
	c := compiler(t, Options{Timeout: 8 * time.Second})
	huge := Request{Topology: "v6e:1000x1000", Module: addModule(8)} // a million devices take libtpu half a minute
	compiles(t, c)
	pid := c.child.Pid()
	_, err := c.compile(t.Context(), huge)
	var late *TimeoutError
	require.ErrorAs(t, err, &late)
	require.Equal(t, 8*time.Second, late.Limit)
	requireGone(t, pid)
	compiles(t, c)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.compile(ctx, huge)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, errors.As(err, &late))
	compiles(t, c)
}

func TestRecycle(t *testing.T) {
	c := compiler(t, Options{RecycleAfter: 2})
	var pids []int
	for range 5 {
		compiles(t, c)
		pids = append(pids, c.child.Pid())
	}
	require.Equal(t, pids[0], pids[1])
	require.NotEqual(t, pids[1], pids[2])
	require.Equal(t, pids[2], pids[3])
	require.NotEqual(t, pids[3], pids[4])

	c = compiler(t, Options{MemoryLimit: 1 << 20})
	compiles(t, c)
	require.Greater(t, c.child.rss, int64(50<<20))
	first := c.child.Pid()
	compiles(t, c)
	require.NotEqual(t, first, c.child.Pid())
}

func TestExtraPasses(t *testing.T) {
	c := compiler(t, Options{})
	for _, passes := range []string{"", "post-rematerialize-allocations"} {
		dir := t.TempDir()
		_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: kernelModule(8), DumpDir: dir, Passes: passes})
		require.NoError(t, err)
		require.Equal(t, passes != "", len(dumps(t, dir, "post-rematerialize-allocations.txt")) > 0)
	}
}

func TestConcurrentCompiles(t *testing.T) {
	c := compiler(t, Options{})
	sizes := []int{256, 512, 1024, 2048, 4096, 8192, 16384, 32768}
	results := make([]*Result, len(sizes))
	failures := make([]error, len(sizes))
	var wg sync.WaitGroup
	for i, n := range sizes {
		wg.Go(func() {
			results[i], failures[i] = c.Compile(context.Background(),
				Request{Topology: "v5e:2x2", Module: addModule(n), DumpDir: filepath.Join(os.TempDir(), strconv.Itoa(n))})
		})
	}
	wg.Wait()
	for i, n := range sizes {
		require.NoError(t, failures[i])
		require.Equal(t, int64(4*n), results[i].Memory.Outputs)
		for _, hlo := range dumps(t, filepath.Join(os.TempDir(), strconv.Itoa(n)), "TLP-hlo.txt") {
			require.Contains(t, hlo, "f32["+strconv.Itoa(n)+"]", "each dump is in its own directory")
		}
	}
	require.Equal(t, len(sizes), c.child.served)
}

// deep calls f under n more stack frames.
//
//go:noinline
func deep(n int, f func() error) error {
	var frame [32]byte
	if n > 0 {
		frame[n%len(frame)] = byte(n)
		err := deep(n-1, f)
		runtime.KeepAlive(&frame)
		return err
	}
	return f()
}

// TestCollector runs the garbage collector against the calls into libtpu, which happen in this process for once.
func TestCollector(t *testing.T) {
	if os.Getenv("GDNGEN_AOT_TEST_COLLECTOR") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCollector$", "-test.v")
		cmd.Env = append(os.Environ(), tpuEnvironment...)
		cmd.Env = append(cmd.Env, "GDNGEN_AOT_TEST_COLLECTOR="+pluginPath(t), "GODEBUG=clobberfree=1", "GOGC=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: TestCollector")
		return
	}
	p, err := openPlugin(os.Getenv("GDNGEN_AOT_TEST_COLLECTOR"))
	require.NoError(t, err)
	done := make(chan struct{})
	var churn sync.WaitGroup
	churn.Go(func() {
		var kept [64][]byte
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				kept[i%len(kept)] = bytes.Repeat([]byte{0xAA}, 64+i%4096)
				if i%64 == 0 {
					runtime.GC()
				}
			}
		}
	})
	top, err := p.newTopology("v6e:2x2", nil)
	require.NoError(t, err)
	fingerprint := ""
	for range 10 {
		e, err := top.compile(addModule(1024), compileOptions(map[string]string{"xla_tpu_scoped_vmem_limit_kib": "16384"}))
		require.NoError(t, err)
		for depth := range 200 { // some depth leaves so little stack that the call has to grow it
			var r *Result
			fresh := make(chan error)
			go func() { fresh <- deep(depth, func() (err error) { r, err = e.describe(); return err }) }()
			require.NoError(t, <-fresh)
			require.Equal(t, [2]int64{8192, 4096}, [2]int64{r.Memory.Arguments, r.Memory.Outputs})
			if fingerprint == "" {
				fingerprint = r.Fingerprint
			}
			require.Equal(t, fingerprint, r.Fingerprint)
		}
		require.NoError(t, e.destroy())
		_, err = top.compile("garbage", compileOptions(nil))
		require.ErrorContains(t, err, "'garbage' is unknown")
	}
	close(done)
	churn.Wait()
}

func TestUnwritableDump(t *testing.T) {
	c := compiler(t, Options{})
	compiles(t, c)
	var infra *InfraError
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: addModule(8), DumpDir: filepath.Join(file, "below")})
	require.ErrorAs(t, err, &infra)
	require.ErrorContains(t, err, "create the dump directory")

	// No file can be created in /proc, not even by root: libtpu dies of that as it does of a full disk.
	_, err = c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: addModule(8), DumpDir: "/proc"})
	require.ErrorAs(t, err, &infra)
	require.ErrorContains(t, err, "write the dump to /proc")
	compiles(t, c)
}

func TestWorkerThatDoesNotServe(t *testing.T) {
	c := compiler(t, Options{})
	c.machine.path = filepath.Join(t.TempDir(), "libtpu.so")
	require.NoError(t, os.WriteFile(c.machine.path, []byte("no library"), 0o644))
	_, err := c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: addModule(8)})
	var infra *InfraError
	require.ErrorAs(t, err, &infra)
	require.ErrorContains(t, err, "load libtpu")
}

func TestClose(t *testing.T) {
	c := compiler(t, Options{})
	compiles(t, c)
	pid, tmp := c.child.Pid(), c.tmp
	require.DirExists(t, tmp)
	scratch, err := os.ReadDir(c.scratch())
	require.NoError(t, err)
	require.Empty(t, scratch, "a dump nobody asked for is removed")

	running := make(chan error, 1)
	go func() {
		_, err := c.compile(context.Background(), Request{Topology: "v6e:1000x1000", Module: addModule(8)})
		running <- err
	}()
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, c.Close())
	var infra *InfraError
	require.ErrorAs(t, <-running, &infra)
	requireGone(t, pid)
	require.NoDirExists(t, tmp)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = c.Compile(t.Context(), Request{Topology: "v6e:2x2", Module: addModule(8)})
	require.ErrorAs(t, err, &infra)
	require.NoError(t, c.Close())
}

func TestWorkerDiesWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanVariable+"="+pluginPath(t), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	require.NoError(t, err)
	first := regexp.MustCompile(`^\d+`).FindString(string(buf[:n]))
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "the worker lives")
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	requireGone(t, pid)
}

// requireGone waits until no process has the id.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // a zombie whose new parent has not reaped it yet
	}, 5*time.Second, 5*time.Millisecond)
}

// A worker beyond its memory is stopped, one that is killed from outside is the machine's fault, and the next request finds a
// fresh one.
func TestMemoryAndKill(t *testing.T) {
	c := compiler(t, Options{MemoryMax: 1 << 20})
	r := Request{Topology: "v6e:2x2", Module: addModule(1024)}
	_, err := c.Compile(t.Context(), r)
	var large *MemoryError
	require.ErrorAs(t, err, &large)
	require.EqualValues(t, 1<<20, large.Limit)
	require.Nil(t, c.child)

	c = compiler(t, Options{MemoryMax: 64 << 30})
	compiles(t, c)
	require.NoError(t, syscall.Kill(c.child.Pid(), syscall.SIGSTOP))
	go func() {
		time.Sleep(200 * time.Millisecond)
		c.child.Kill()
	}()
	_, err = c.Compile(t.Context(), r)
	var infra *InfraError
	require.ErrorAs(t, err, &infra)
	require.ErrorContains(t, err, "killed from outside")
	compiles(t, c)

	require.NoError(t, syscall.Kill(c.child.Pid(), syscall.SIGSTOP))
	r.Timeout = 300 * time.Millisecond
	_, err = c.Compile(t.Context(), r)
	var late *TimeoutError
	require.ErrorAs(t, err, &late)
	require.Equal(t, r.Timeout, late.Limit)
	compiles(t, c)
}

// A compile waits for those that measure, and a done context ends the waiting; a context that holds the machine does not wait.
func TestSharesMachine(t *testing.T) {
	lock := machine.New(t.TempDir(), nil)
	held, free, err := lock.Measure(t.Context())
	require.NoError(t, err)
	defer free()
	c := New(Options{Libtpu: "/does/not/exist.so", Machine: lock})
	defer c.Close()
	request := Request{Topology: "v6e:2x2", Module: "module {}"}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Compile(ctx, request)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.Compile(held, request)
	require.ErrorContains(t, err, "not a readable libtpu.so")
}
