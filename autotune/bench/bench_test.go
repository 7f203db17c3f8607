package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device/devicetest"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// sweepVariable names the folder that a process of this test program sweeps into, until it is killed.
const sweepVariable = "GDNGEN_TEST_SWEEP"

func TestMain(m *testing.M) {
	RunWorkerIfAsked()
	if dir := os.Getenv(sweepVariable); dir != "" {
		os.Exit(sweepUntilKilled(dir))
	}
	os.Exit(m.Run())
}

// The token loop agrees with float64 on all forms of the rule that a definition may have, and others.
func TestTokenLoop(t *testing.T) {
	for _, text := range []string{
		"b=1,t=9,hk=2,hv=4,k=8,v=4,dtype=bf16,gates=fused,gatedtype=bf16,seqs=4,init,state=vk,empty=zero,packed",
		"b=1,t=9,hk=2,hv=4,k=8,v=4,dtype=f32,seqs=4,init",
		"b=3,t=1,hk=1,hv=2,k=4,v=8,dtype=bf16,out=f32,gates=fused,init,state=vk,scale=2",
		"b=2,t=5,hk=2,hv=2,k=8,v=8,dtype=f32,l2norm,negeig,gates=fused,state=vk",
		"b=1,t=4,hk=1,hv=1,k=4,v=4,dtype=f32,final=false,packed",
		"b=2,t=3,hk=1,hv=2,k=4,v=4,dtype=f32,init,statedtype=bf16",
	} {
		s, err := gdn.Parse(text)
		require.NoError(t, err)
		m, err := TokenLoop(s)
		require.NoError(t, err)
		for _, name := range []string{"random", "resets"} {
			class, err := truth.LookupClass(name)
			require.NoError(t, err)
			inputs, err := class.Generate(s, 1)
			require.NoError(t, err)
			want, err := truth.Reference(s, inputs)
			require.NoError(t, err)
			got, err := interp.Run(m, inputs, interp.Options{})
			require.NoError(t, err)
			for _, p := range s.Outputs() {
				limit, err := class.Limit(s, "f32", p.Type.DType)
				require.NoError(t, err)
				require.Less(t, array.Compare(got[p.Name], want[p.Name]).RelMax, limit, "%s %s %s", text, name, p.Name)
			}
		}
	}
	_, err := TokenLoop(gdn.Spec{})
	require.Error(t, err)
	pool, err := gdn.LookupPreset("decode-pool")
	require.NoError(t, err)
	_, err = TokenLoop(pool)
	require.ErrorContains(t, err, "pool")
}

var quick = Protocol{Warmup: 1, Iterations: 3, Trials: 2, Measure: 50 * time.Millisecond}

// item is a small definition with workloads of its own.
func item(t testing.TB, name, variant string, axes ...map[string]int) Item {
	d, err := flashinfer.Named(name)
	require.NoError(t, err)
	it := Item{Definition: d}
	for i, a := range axes {
		w := &flashinfer.Workload{UUID: fmt.Sprintf("w%d", i), Axes: a, Inputs: map[string]flashinfer.Input{}}
		for _, x := range d.Inputs {
			w.Inputs[x.Name] = flashinfer.Input{Type: flashinfer.Random}
		}
		it.Workloads = append(it.Workloads, w)
	}
	it.Variant, err = gdn.ParseVariant(variant)
	require.NoError(t, err)
	p, err := flashinfer.NewProblem(d)
	require.NoError(t, err)
	s, err := p.Spec(it.Workloads[0])
	require.NoError(t, err)
	it.Solution, err = p.ProgramSolution(name+"_test", Author, s, it.Variant.String(), nil)
	require.NoError(t, err)
	return it
}

// On a TPU the solution is the kernel that a search ranks, while the reference stays a loop of plain ops.
// The stub runs in place of the kernel what plain ops make of the same work.
func TestTPU(t *testing.T) {
	plugin := devicetest.Stub(t)
	t.Setenv(devicetest.Platform, "tpu")
	t.Setenv(devicetest.Kind, "TPU v5 lite")
	it := item(t, "gdn_decode_qk4_v8_d128_k_last", "decode", batches(2)...)
	p, err := flashinfer.NewProblem(it.Definition)
	require.NoError(t, err)
	s, err := p.Spec(it.Workloads[0])
	require.NoError(t, err)
	v, err := gdn.LookupVariant("cpu-decode")
	require.NoError(t, err)
	a, err := route.Program(s, v, "stablehlo", nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "program.mlir")
	require.NoError(t, os.WriteFile(file, []byte(a.Text), 0o644))
	it.Name = "decode"
	sweep := func() *flashinfer.Trace {
		store, err := OpenStore(t.TempDir(), Protocol{Iterations: 1, Trials: 1})
		require.NoError(t, err)
		defer store.Close()
		require.NoError(t, Sweep(t.Context(), Config{Plugin: plugin, Items: []Item{it}, Protocol: Protocol{Iterations: 1, Trials: 1}}, store))
		return store.Done(it.Definition.Name, it.Solution.Name, it.Workloads[0].UUID)
	}
	x := sweep()
	require.Equal(t, flashinfer.CompileError, x.Evaluation.Status)
	require.Contains(t, x.Evaluation.Log, "tpu_custom_call", "the CPU behind the stub takes no kernel")
	t.Setenv(devicetest.Program, file)
	x = sweep()
	require.Equal(t, flashinfer.Passed, x.Evaluation.Status, x.Evaluation.Log)
	require.Equal(t, "TPU v5 lite", x.Evaluation.Environment.Hardware)
	require.Contains(t, x.Evaluation.Log, "kernels for v5e by algo=token")
}

func batches(n ...int) []map[string]int {
	var l []map[string]int
	for _, b := range n {
		l = append(l, map[string]int{"batch_size": b})
	}
	return l
}

func prefill(tokens, seqs int) map[string]int {
	return map[string]int{"total_seq_len": tokens, "num_seqs": seqs, "len_cu_seqlens": seqs + 1}
}

func TestEvaluate(t *testing.T) {
	path := pjrttest.CPUPlugin(t)
	var b bencher
	defer b.close()
	job := func(it Item, i int) *Job {
		return &Job{Plugin: path, Definition: it.Definition, Workload: it.Workloads[i], Variant: it.Variant.String(), Protocol: quick}
	}
	decode := item(t, "gdn_decode_qk1_v2_d16_v_last", "token", batches(1, 3)...)
	packed := item(t, "gdn_prefill_qk2_v4_d16_k_last", "token,chunk=8", prefill(40, 3), prefill(40, 3))
	for i, j := range []*Job{job(decode, 0), job(packed, 0)} {
		j.Protocol.InPlace, j.Protocol.Cold = i == 0, i == 0
		o := b.evaluate(context.Background(), j)
		require.Empty(t, o.Fault)
		require.Equal(t, flashinfer.Passed, o.Status, o.Log)
		require.Positive(t, o.Latency)
		require.Positive(t, o.Reference)
		require.Positive(t, number(o.Correctness.Absolute))
		require.Less(t, number(o.Correctness.OfLargest), 4e-3)
		require.GreaterOrEqual(t, o.Extra["iterations"], 2*pjrt.LeastIterations)
		require.NotEmpty(t, o.Environment.Hardware)
		x, err := o.Trace("d", "s", j.Workload, time.Now())
		require.NoError(t, err)
		require.InEpsilon(t, o.Reference/o.Latency, x.Evaluation.Performance.Speedup, 1e-9)
	}
	judged := job(decode, 1) // and nothing is timed
	judged.Protocol.Iterations = 0
	o := b.evaluate(context.Background(), judged)
	require.Equal(t, flashinfer.Passed, o.Status, o.Log)
	require.Nil(t, b.loop)
	x, err := o.Trace("d", "s", judged.Workload, time.Now())
	require.NoError(t, err)
	require.Zero(t, *x.Evaluation.Performance)
	require.Contains(t, TraceLine(x), "not timed")
	row := sum("d", "", []*flashinfer.Trace{x})
	require.Equal(t, 1, row.Passed)
	require.Zero(t, row.Speedup)

	require.Equal(t, flashinfer.Passed, b.evaluate(context.Background(), job(packed, 0)).Status)
	solution := b.solution
	require.Equal(t, flashinfer.Passed, b.evaluate(context.Background(), job(packed, 1)).Status)
	require.Same(t, solution, b.solution, "one program for one shape")

	// A power series over a chunk does not hold on one key for all tokens.
	wrong := item(t, "gdn_prefill_qk1_v1_d8_k_last", "neumann", prefill(64, 1))
	keys := make([]float64, 64*8)
	for i := range keys {
		keys[i] = 1 / math.Sqrt(8)
	}
	raw := func(x float64) *array.Array {
		return array.FromFloat64s(ir.BF16, []int{64, 1}, slices.Repeat([]float64{x}, 64))
	}
	root := t.TempDir()
	require.NoError(t, array.WriteSafetensors(filepath.Join(root, "x.safetensors"), &array.File{Tensors: map[string]*array.Array{
		"k": array.FromFloat64s(ir.BF16, []int{64, 1, 8}, keys), "a": raw(-30), "b": raw(30)}}))
	for _, name := range []string{"k", "a", "b"} {
		wrong.Workloads[0].Inputs[name] = flashinfer.Input{Type: flashinfer.Safetensors, Path: "x.safetensors", Key: name}
	}
	j := job(wrong, 0)
	j.Root = root
	o = b.evaluate(context.Background(), j)
	require.Equal(t, flashinfer.IncorrectNumerical, o.Status, o.Fault)
	require.NotNil(t, o.Correctness)
	require.Zero(t, o.Latency)
	x, err = o.Trace("d", "s", wrong.Workloads[0], time.Now())
	require.NoError(t, err)
	require.Nil(t, x.Evaluation.Performance)

	bad := job(decode, 0)
	bad.Variant = "solve=nothing"
	require.Equal(t, flashinfer.CompileError, b.evaluate(context.Background(), bad).Status)
	bad = job(decode, 0)
	bad.Plugin = "none.so"
	require.Contains(t, b.evaluate(context.Background(), bad).Fault, "none.so")
}

// What can not be evaluated ends the sweep, before any work where it can be seen.
func TestCheck(t *testing.T) {
	it := item(t, "gdn_decode_qk1_v2_d16_v_last", "token", batches(1, 3)...)
	require.NoError(t, (&Config{Items: []Item{it}, Protocol: quick}).Check())
	require.Error(t, (&Config{Items: []Item{it}}).Check())
	require.ErrorContains(t, (&Config{Items: []Item{it, it}, Protocol: quick}).Check(), "given twice")
	it.Workloads[1].UUID = "w0"
	require.ErrorContains(t, (&Config{Items: []Item{it}, Protocol: quick}).Check(), "another workload has it")
	it.Workloads[1] = &flashinfer.Workload{UUID: "x", Axes: map[string]int{}, Inputs: it.Workloads[0].Inputs}
	require.ErrorContains(t, (&Config{Items: []Item{it}, Protocol: quick}).Check(), "workload 2 (x): workload.axes.batch_size: is missing")
}

// A worker is stopped at its limit or when its user gives up, and may die, without harm to the next job.
func TestWorker(t *testing.T) {
	path := pjrttest.CPUPlugin(t)
	var w Worker
	defer w.Close()
	it := item(t, "gdn_decode_qk1_v2_d16_v_last", "token", batches(1)...)
	j := &Job{Plugin: path, Definition: it.Definition, Workload: it.Workloads[0], Variant: it.Variant.String(), Protocol: quick}
	_, err := w.Evaluate(context.Background(), j, time.Millisecond)
	require.ErrorAs(t, err, new(*TimeoutError))

	o, err := w.Evaluate(context.Background(), &Job{Plugin: path}, 0)
	require.NoError(t, err)
	require.NotEmpty(t, o.Environment.Hardware)

	pid := w.child.Pid()
	time.AfterFunc(20*time.Millisecond, func() { syscall.Kill(pid, syscall.SIGSEGV) })
	long := *j
	long.Protocol = Protocol{Iterations: 1 << 30, Trials: 1}
	_, err = w.Evaluate(context.Background(), &long, 0)
	crash := (*CrashError)(nil)
	require.ErrorAs(t, err, &crash)
	require.NotEmpty(t, crash.Error())

	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = w.Evaluate(ctx, &long, 0)
	require.ErrorIs(t, err, context.Canceled)

	o, err = w.Evaluate(context.Background(), j, 0)
	require.NoError(t, err)
	require.Equal(t, flashinfer.Passed, o.Status)
}

// sweepItems are few enough to sweep in a test, and take long enough to be killed within.
func sweepItems(t testing.TB) []Item {
	return []Item{
		item(t, "gdn_decode_qk1_v2_d16_v_last", "token", batches(1, 2, 1, 2, 1)...),
		item(t, "gdn_prefill_qk2_v4_d16_k_last", "token,chunk=8", prefill(40, 3), prefill(20, 1), prefill(40, 3)),
	}
}

// sweepUntilKilled is what a child of TestKilled does.
func sweepUntilKilled(dir string) int {
	t := &childTest{}
	c := Config{Plugin: os.Getenv("GDNGEN_TEST_PLUGIN"), Items: sweepItems(t), Protocol: quick, Limit: time.Minute}
	c.Progress = func(p Progress) {
		fmt.Println("done", p.Done)
		os.Stdin.Read(make([]byte, 1)) // go on when the parent says so
	}
	store, err := OpenStore(dir, quick)
	if err == nil {
		err = Sweep(context.Background(), c, store)
	}
	if err != nil || t.failed {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

// childTest lets helpers of tests serve in a child process.
type childTest struct {
	testing.TB
	failed bool
}

func (c *childTest) Errorf(format string, args ...any) { c.failed = true; fmt.Printf(format, args...) }
func (c *childTest) FailNow()                          { os.Exit(1) }
func (c *childTest) Helper()                           {}

// traces reads all lines of a sweep's traces.
func traces(t *testing.T, dir string) []*flashinfer.Trace {
	files, err := filepath.Glob(filepath.Join(dir, "traces", Author, "gdn", "*.jsonl"))
	require.NoError(t, err)
	var all []*flashinfer.Trace
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		list, err := flashinfer.ReadLines(f, data)
		require.NoError(t, err)
		all = append(all, list...)
	}
	return all
}

// A sweep that is killed again and again loses nothing and does nothing twice.
func TestKilled(t *testing.T) {
	dir, path := t.TempDir(), pjrttest.CPUPlugin(t)
	kills := 0
	for done := false; !done; {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), sweepVariable+"="+dir, "GDNGEN_TEST_PLUGIN="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		goOn, err := cmd.StdinPipe()
		require.NoError(t, err)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		killed := false
		lines := bufio.NewScanner(out)
		for n := 1; lines.Scan(); n++ { // the first line is before any work
			if n == 4 && kills < 2 {
				require.NoError(t, cmd.Process.Kill())
				kills, killed = kills+1, true
				break
			}
			goOn.Write([]byte{'\n'})
		}
		io.Copy(io.Discard, out)
		err = cmd.Wait()
		done = err == nil
		if !done {
			require.True(t, killed, "%v: %s", err, lines.Text())
		}
		if killed && kills == 1 { // and the power fails while a line is written
			files, err := filepath.Glob(filepath.Join(dir, "traces", Author, "gdn", "*.jsonl"))
			require.NoError(t, err)
			f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(`{"definition":"gdn_decode`)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	require.Equal(t, 2, kills)
	list := traces(t, dir)
	require.Len(t, list, 8)
	seen := map[string]bool{}
	for _, x := range list {
		require.Equal(t, flashinfer.Passed, x.Evaluation.Status)
		seen[x.Definition+x.Workload.UUID] = true
	}
	require.Len(t, seen, 8)

	store, err := OpenStore(dir, quick)
	require.NoError(t, err)
	require.Empty(t, store.Warnings)
	rows := Summary(sweepItems(t), store)
	require.Len(t, rows, 4)
	require.Equal(t, "batch 1", rows[0].Shapes)
	require.Equal(t, 3, rows[0].Passed)
	require.Equal(t, 5, rows[2].Passed)
	require.Positive(t, rows[2].LeastMS)
	require.LessOrEqual(t, rows[2].LeastMS, rows[2].LatencyMS)
	require.Positive(t, rows[2].LeastUp)
	require.Empty(t, rows[2].Shapes)
	require.Equal(t, "64 tokens or fewer", rows[3].Shapes)
	require.Equal(t, 3, rows[3].Workloads)
	require.NoError(t, store.Close())

	// The folder is a trace set: every file reads.
	for pattern, parse := range map[string]func([]byte) error{
		"definitions/gdn/*.json":        func(b []byte) error { _, err := flashinfer.ParseDefinition(b); return err },
		"solutions/gdngen/gdn/*/*.json": func(b []byte) error { _, err := flashinfer.ParseSolution(b); return err },
		"workloads/gdn/*.jsonl":         func(b []byte) error { _, err := flashinfer.ReadLines("", b); return err },
	} {
		files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		require.Len(t, files, 2, pattern)
		for _, f := range files {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NoError(t, parse(data))
		}
	}
}

// Workloads of equal shapes follow each other; a limit ends in TIMEOUT, and --retry does only those again.
func TestSweepLimitAndRetry(t *testing.T) {
	dir, path := t.TempDir(), pjrttest.CPUPlugin(t)
	store, err := OpenStore(dir, quick)
	require.NoError(t, err)
	defer store.Close()
	items := sweepItems(t)[:1]
	c := Config{Plugin: path, Items: items, Protocol: quick, Limit: time.Millisecond}
	require.NoError(t, Sweep(context.Background(), c, store))
	list := traces(t, dir)
	require.Len(t, list, 5)
	var order []string
	for _, x := range list {
		require.Equal(t, flashinfer.Timeout, x.Evaluation.Status)
		require.Nil(t, x.Evaluation.Performance)
		require.Nil(t, x.Evaluation.Correctness)
		require.Contains(t, x.Evaluation.Log, "not done within 1ms")
		order = append(order, x.Workload.UUID)
	}
	require.Equal(t, []string{"w0", "w2", "w4", "w1", "w3"}, order)
	row := Summary(items, store)[2]
	require.Equal(t, map[string]int{"TIMEOUT": 5}, row.Failed)
	require.Zero(t, row.Speedup)

	c.Limit = 0
	require.NoError(t, Sweep(context.Background(), c, store))
	require.Len(t, traces(t, dir), 5, "what has a trace is done")
	c.Retry = true
	require.NoError(t, Sweep(context.Background(), c, store))
	require.Len(t, traces(t, dir), 10)
	require.Equal(t, 5, Summary(items, store)[2].Passed, "the last trace holds")
	require.NoError(t, Sweep(context.Background(), c, store))
	require.Len(t, traces(t, dir), 10)
}

// What times nothing shares the machine with others that compute; what times waits for them.
func TestJudgedAloneSharesTheMachine(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "machine")
	_, free, err := machine.New(folder, nil).Compute(t.Context())
	require.NoError(t, err)
	defer free()
	judged := quick
	judged.Iterations = 0
	for _, p := range []Protocol{judged, quick} {
		store, err := OpenStore(t.TempDir(), p)
		require.NoError(t, err)
		defer store.Close()
		ctx, cancel := context.WithCancel(t.Context())
		if p.Timed() {
			ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		}
		err = Sweep(ctx, Config{Plugin: pjrttest.CPUPlugin(t), Items: sweepItems(t)[:1], Protocol: p, Machine: machine.New(folder, nil)}, store)
		cancel()
		if p.Timed() {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		} else {
			require.NoError(t, err)
		}
	}
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	store, err := OpenStore(dir, quick)
	require.NoError(t, err)
	_, err = OpenStore(dir, quick)
	require.ErrorAs(t, err, new(*LockedError))
	require.NoError(t, store.Close())
	other := quick
	other.Trials++
	_, err = OpenStore(dir, other)
	require.ErrorAs(t, err, new(*SettingsError))
	require.ErrorContains(t, err, "another protocol")
	require.ErrorContains(t, err, fmt.Sprintf("--trials %d", other.Trials))

	store, err = OpenStore(dir, quick)
	require.NoError(t, err)
	it := item(t, "gdn_decode_qk1_v2_d16_v_last", "token", batches(1, 3)...)
	for _, n := range []int{1, 2, 1} { // a sweep of a part does not forget the rest
		require.NoError(t, store.Describe(it.Definition, it.Workloads[2-n:], it.Solution))
	}
	data, err := os.ReadFile(filepath.Join(dir, "workloads", "gdn", it.Definition.Name+".jsonl"))
	require.NoError(t, err)
	list, err := flashinfer.ReadLines("", data)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.NoError(t, store.Close())

	path := filepath.Join(dir, "traces", Author, "gdn", "d.jsonl")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	good, err := json.Marshal(&flashinfer.Trace{Definition: "d", Solution: "s", Workload: &flashinfer.Workload{UUID: "u", Axes: map[string]int{}, Inputs: map[string]flashinfer.Input{}},
		Evaluation: &flashinfer.Evaluation{Status: flashinfer.Timeout, Environment: flashinfer.Environment{Hardware: "h"}, Timestamp: "t"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(append(good, '\n'), good[:20]...), 0o644))
	store, err = OpenStore(dir, quick)
	require.NoError(t, err)
	require.Len(t, store.Warnings, 1)
	require.Contains(t, store.Warnings[0], "20 bytes are dropped")
	require.Equal(t, flashinfer.Timeout, store.Done("d", "s", "u").Evaluation.Status)
	require.Nil(t, store.Done("d", "s", "v"))
	require.NoError(t, store.Close())
	require.NoError(t, os.WriteFile(path, append([]byte("{}\n"), append(good, '\n')...), 0o644))
	_, err = OpenStore(dir, quick)
	require.ErrorContains(t, err, "d.jsonl:1: trace.definition: is missing")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bench.json"), []byte("{"), 0o644))
	_, err = OpenStore(dir, quick)
	require.ErrorContains(t, err, "bench.json")
	require.False(t, errors.As(err, new(*SettingsError)))
}
