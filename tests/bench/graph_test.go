package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/layer/irgraph"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// graphWork is what the graph benchmarks compute: float32, 4 heads, K = V = 128.
const graphWork = "b=1,hk=4,hv=4,k=128,v=128,t="

// graphJob is one measurement, made in a process of its own so that its peak of memory is its own.
type graphJob struct {
	Backend string
	Spec    string
	How     string // generated: with the generated gradient; autodiff: GoMLX's own; forward: no gradient; product: see productWork
	Variant string // empty: the backend's default
	Runs    int
}

type graphResult struct {
	Median, Compile float64 // seconds
	CPU             float64 // processor seconds of a run: unlike the median they hardly change where other programs run too
	Peak            float64 // MiB, the largest resident size while it ran
	Check           float64 // sum of the absolute gradient of k, to see that both compute the same
}

const graphJobEnv = "GDNGEN_GRAPH_JOB"

// BenchmarkGraph reports time and memory of the rule in GoMLX graph code, forward and backward, with the generated gradient
// and with GoMLX's own of the same forward pass, taken in turns.
func BenchmarkGraph(b *testing.B) {
	pjrttest.Alone(b)
	for _, work := range []struct {
		backend, tokens string
		runs            int
	}{{device.XLA, "2048", 5}, {device.Go, "512", 3}} {
		b.Run(fmt.Sprintf("%s/t=%s", work.backend, work.tokens), func(b *testing.B) {
			job := graphJob{Backend: work.backend, Spec: graphWork + work.tokens, Runs: work.runs}
			measure := func(how, variant string) graphResult {
				job.How, job.Variant = how, variant
				return runGraphJob(b, job)
			}
			for b.Loop() {
				auto := measure("autodiff", "chunk=64,flow=split,form=uw")
				ours := measure("generated", "")
				forward := measure("forward", "")
				product := measure("product", "")
				require.InEpsilon(b, auto.Check, ours.Check, 1e-4)
				b.ReportMetric(auto.Median/ours.Median, "x-faster")
				b.ReportMetric(auto.CPU/ours.CPU, "x-less-cpu")
				b.ReportMetric(auto.CPU/product.CPU, "x-less-cpu-if-all-were-products")
				tokens, err := strconv.ParseFloat(work.tokens, 64)
				require.NoError(b, err)
				b.ReportMetric(tokens/ours.Median, "tokens/s")
				b.ReportMetric(tokens/auto.Median, "autodiff-tokens/s")
				b.ReportMetric(ours.CPU*1e3, "train-cpu-ms")
				b.ReportMetric(auto.CPU*1e3, "autodiff-cpu-ms")
				b.ReportMetric(product.CPU*1e3, "product-cpu-ms")
				b.ReportMetric(auto.Peak/ours.Peak, "x-less-memory")
				b.ReportMetric(ours.Median*1e3, "train-ms")
				b.ReportMetric(forward.Median*1e3, "forward-ms")
				b.ReportMetric(auto.Median*1e3, "autodiff-ms")
				b.ReportMetric(ours.Peak, "train-MiB")
				b.ReportMetric(auto.Peak, "autodiff-MiB")
			}
		})
	}
}

// runGraphJob measures in a child process.
func runGraphJob(b *testing.B, job graphJob) graphResult {
	b.Helper()
	text, err := json.Marshal(job)
	require.NoError(b, err)
	self, err := os.Executable()
	require.NoError(b, err)
	c := exec.Command(self, "-test.run=^TestGraphJob$", "-test.v")
	c.Env = append(os.Environ(), graphJobEnv+"="+string(text))
	out, err := c.CombinedOutput()
	require.NoError(b, err, "%s", out)
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "result "); ok {
			var r graphResult
			require.NoError(b, json.Unmarshal([]byte(rest), &r))
			return r
		}
	}
	if strings.Contains(string(out), "SKIP") && os.Getenv("CI") != "true" {
		b.Skip(string(out))
	}
	b.Fatalf("no result in %s", out)
	return graphResult{}
}

// TestGraphJob is the child: it does nothing unless it is one.
func TestGraphJob(t *testing.T) {
	text := os.Getenv(graphJobEnv)
	if text == "" {
		return
	}
	var job graphJob
	require.NoError(t, json.Unmarshal([]byte(text), &job))
	backend, err := device.Open(context.Background(), job.Backend, device.Options{})
	if missing := (*plugins.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	r, err := measureGraph(backend, job)
	require.NoError(t, err)
	line, err := json.Marshal(r)
	require.NoError(t, err)
	fmt.Printf("result %s\n", line)
}

func measureGraph(b compute.Backend, job graphJob) (r graphResult, err error) {
	s, err := gdn.Parse(job.Spec)
	if err != nil {
		return r, err
	}
	v, err := layer.DefaultVariant(b, s)
	if job.Variant != "" {
		v, err = gdn.ParseVariant(job.Variant)
	}
	if err != nil {
		return r, err
	}
	var run *Exec
	var args []any
	if job.How == "product" {
		run, args, err = productWork(b, s)
	} else {
		run, args, err = graphWorkOf(b, job.How, s, v)
	}
	if err != nil {
		return r, err
	}
	start := time.Now()
	if _, err = run.Call(args...); err != nil {
		return r, err
	}
	r.Compile = time.Since(start).Seconds()
	resetPeak()
	var times []time.Duration
	var out []*tensors.Tensor
	before := processor()
	for range job.Runs {
		start := time.Now()
		if out, err = run.Call(args...); err != nil {
			return r, err
		}
		for _, t := range out {
			t.MustConstFlatData(func(any) {})
		}
		times = append(times, time.Since(start))
	}
	r.Median, r.Peak, r.CPU = median(times).Seconds(), peak(), (processor()-before)/float64(job.Runs)
	if len(out) > 2 {
		for _, x := range tensors.MustCopyFlatData[float32](out[2]) {
			r.Check += max(float64(x), -float64(x))
		}
	}
	return r, nil
}

// productWork is one product of square matrices with as many operations as the products of a training step in chunks of 32, to which the rule
// comes on a CPU: what a training step would take if it were nothing but products at their best.
func productWork(b compute.Backend, s gdn.Spec) (*Exec, []any, error) {
	s.Direction = gdn.Train
	n := int(math.Cbrt(s.Flops(32) / 2))
	x := make([]float32, n*n)
	for i := range x {
		x[i] = float32(i%1021)/1021 - .5
	}
	t := tensors.FromFlatDataAndDimensions(x, n, n)
	run, err := NewExec(b, func(x, y *Node) *Node { return DotGeneral(x, []int{1}, nil, y, []int{0}, nil) })
	return run, []any{t, t}, err
}

// graphWorkOf is the rule with the gradients of all inputs, or without.
func graphWorkOf(b compute.Backend, how string, s gdn.Spec, v gdn.Variant) (*Exec, []any, error) {
	class, err := truth.LookupClass("random")
	if err != nil {
		return nil, nil, err
	}
	drawn, err := class.Generate(s, 1)
	if err != nil {
		return nil, nil, err
	}
	var args []any
	for _, p := range s.Inputs() {
		t, err := device.Tensor(drawn[p.Name])
		if err != nil {
			return nil, nil, err
		}
		args = append(args, t)
	}
	m, err := build.Module(s, v)
	if err != nil {
		return nil, nil, err
	}
	if m, err = irgraph.Prepare(m); err != nil {
		return nil, nil, err
	}
	run, err := NewExec(b, func(in []*Node) []*Node {
		named := map[string]*Node{}
		for i, p := range s.Inputs() {
			named[p.Name] = in[i]
		}
		var o, final *Node
		if how == "autodiff" {
			out := irgraph.BuildUnrolled(in[0].Graph(), m, named)
			o, final = out[0], out[1]
		} else {
			out, err := layer.Apply(s, v, named)
			if err != nil {
				panic(err)
			}
			o, final = out["o"], out["final_state"]
		}
		if how == "forward" {
			return []*Node{o, final}
		}
		loss := Add(ReduceAllSum(Square(o)), ReduceAllSum(Square(final)))
		return append([]*Node{o}, Gradient(loss, in...)...)
	})
	return run, args, err
}

// processor is the time that this process had of processors, in seconds.
func processor() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// resetPeak forgets the largest resident size so far.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o644) }

// peak is the largest resident size in MiB; 0 where the system does not say.
func peak() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib / 1024
		}
	}
	return 0
}
