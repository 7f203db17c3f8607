package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
)

// Protocol says how a workload is measured. The zero value is not valid; see DefaultProtocol.
type Protocol struct {
	Warmup     int           `json:"warmup"`              // executions before the timed ones of a trial
	Iterations int           `json:"iterations"`          // most timed executions of a trial; 0: outputs are judged, and nothing is timed
	Trials     int           `json:"trials"`              // each with inputs of its own
	Measure    time.Duration `json:"measure"`             // ends a trial after this time, but not before pjrt.LeastIterations executions; 0: never
	Cold       bool          `json:"cold"`                // the caches are overwritten before each execution
	InPlace    bool          `json:"in_place"`            // final states overwrite the copies of the initial states
	Statistic  string        `json:"statistic,omitempty"` // of the executions of a trial: mean, the default, or median
	Server     string        `json:"server,omitempty"`    // fib:URL of a server that measures by its own protocol
}

// The values of Protocol.Statistic.
const (
	mean   = "mean"
	median = "median"
)

// DefaultProtocol is FlashInfer-Bench's protocol, with a limit on the iterations of slow programs. One difference:
// there a program writes into memory of the caller, whose allocation is not timed; here states are written to copies.
var DefaultProtocol = Protocol{Warmup: 10, Iterations: 50, Trials: 3, Measure: time.Second, Cold: true, InPlace: true}

// Timed reports whether executions are timed. If not, outputs are only judged.
func (p Protocol) Timed() bool { return p.Server != "" || p.Iterations > 0 }

// String returns the protocol as flags of gdngen contest bench.
func (p Protocol) String() string {
	if p.Server != "" {
		return "--on " + p.Server
	}
	text := fmt.Sprintf("--warmup %d --iterations %d --trials %d --trial-time %v", p.Warmup, p.Iterations, p.Trials, p.Measure)
	if !p.Cold {
		text += " --warm"
	}
	if !p.InPlace {
		text += " --separate"
	}
	if p.Statistic == median {
		text += " --statistic " + median
	}
	return text
}

// Check returns an error for negative counts or times, fewer than one trial, or an unknown statistic.
func (p Protocol) Check() error {
	if p.Statistic != "" && p.Statistic != mean && p.Statistic != median {
		return fmt.Errorf("statistic %q: want %s or %s", p.Statistic, mean, median)
	}
	if p.Warmup < 0 || p.Iterations < 0 || p.Trials < 1 || p.Measure < 0 {
		return fmt.Errorf("warm-up %d, iterations %d and measuring time %v must not be negative, trials %d at least 1", p.Warmup, p.Iterations, p.Measure, p.Trials)
	}
	return nil
}

// Job asks for one evaluation. A job without a definition only asks for the environment.
type Job struct {
	Plugin     string                 `json:"plugin"` // path of the PJRT plugin
	Definition *flashinfer.Definition `json:"definition"`
	Workload   *flashinfer.Workload   `json:"workload"`
	Root       string                 `json:"root"` // folder that paths of the workload are relative to
	Variant    string                 `json:"variant"`
	Protocol   Protocol               `json:"protocol"`
}

// Outcome is the result of a Job. Latencies are in milliseconds.
type Outcome struct {
	Status      flashinfer.Status      `json:"status,omitempty"`
	Log         string                 `json:"log,omitempty"`
	Correctness *Errors                `json:"correctness,omitempty"`
	Latency     float64                `json:"latency_ms,omitempty"`
	Reference   float64                `json:"reference_latency_ms,omitempty"`
	Extra       map[string]any         `json:"extra,omitempty"`
	Environment flashinfer.Environment `json:"environment"`
	Target      string                 `json:"target,omitempty"` // the generation of the device; empty: no TPU

	// Fault says why the evaluation could not be made. It is not a verdict on the variant.
	Fault string `json:"fault,omitempty"`
}

// Figures that gdngen adds to a trace.
const (
	minLatency   = "min_latency_ms" // of the fastest execution
	minReference = "min_reference_latency_ms"
	ofLargest    = "max_error_of_largest" // largest error over the largest expected value
	protocolOf   = "protocol"
)

// Errors are the largest errors of all trials, as text: JSON has no number for infinity.
type Errors struct {
	Relative, Absolute, OfLargest string
}

func errorsOf(v flashinfer.Verdict) *Errors {
	if v.Correctness == nil {
		return nil
	}
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	return &Errors{text(v.Correctness.MaxRelative), text(v.Correctness.MaxAbsolute), text(v.OfLargest)}
}

func number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// bencher is a device with the programs compiled last.
type bencher struct {
	plugin      string
	engine      *pjrt.Engine
	target      *target.Target // nil: no TPU
	flush       *pjrt.Flush
	environment flashinfer.Environment

	key            string // spec and variant of the programs
	solution, loop *pjrt.Program
	compiled       string // how long that took, for the log
}

// open starts the plugin and its device.
func (b *bencher) open(plugin string) error {
	if b.engine != nil && b.plugin == plugin {
		return nil
	}
	b.close()
	e, err := pjrt.Open(plugin)
	if err != nil {
		return err
	}
	b.engine, b.plugin = e, plugin
	kind, err := e.Kind()
	if err != nil {
		return err
	}
	info := device.Info{Platform: e.Platform(), Kind: kind}
	if b.target, err = info.Match(plugin, nil, false); err != nil {
		return err
	}
	b.environment = flashinfer.Environment{Hardware: hardware(info), Libs: map[string]string{
		"plugin": filepath.Base(plugin), "pjrt": e.Version(), "go": runtime.Version()}}
	b.flush, err = e.NewFlush(2 * cacheBytes(e))
	return err
}

func (b *bencher) close() {
	if b.engine != nil {
		b.engine.Close()
	}
	*b = bencher{}
}

// hardware names the device.
func hardware(i device.Info) string {
	if i.Platform != "cpu" {
		return i.Kind
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return fmt.Sprintf("%s, %d processors", strings.TrimSpace(model), runtime.NumCPU())
			}
		}
	}
	return fmt.Sprintf("%s CPU, %d processors", runtime.GOARCH, runtime.NumCPU())
}

// defaultCache is the assumed cache size in bytes of a device that does not report one.
const defaultCache = 128 << 20

func cacheBytes(e *pjrt.Engine) int {
	if e.Platform() != "cpu" {
		return defaultCache
	}
	largest := 0
	sizes, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*/size")
	for _, path := range sizes {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var n int
		var unit string
		if _, err := fmt.Sscanf(string(text), "%d%s", &n, &unit); err == nil && unit == "K" {
			largest = max(largest, n<<10)
		}
	}
	if largest == 0 {
		return defaultCache
	}
	return min(largest, defaultCache)
}

// prepare compiles the programs of a spec unless the last ones fit: the solution, and for timing also the token loop.
// refused tells an error of the variant from an error of the reference.
func (b *bencher) prepare(s gdn.Spec, variant string, timed bool) (refused bool, err error) {
	key := fmt.Sprintf("%s by %s, timed: %v", s, variant, timed)
	if b.key == key {
		return false, nil
	}
	if b.solution != nil {
		b.solution.Close()
	}
	if b.loop != nil {
		b.loop.Close()
	}
	b.key, b.solution, b.loop = "", nil, nil
	start := time.Now()
	a, by, err := b.emit(s, variant)
	if err != nil {
		return true, err
	}
	solution, err := b.engine.Compile(a.Text)
	if err != nil {
		return true, err
	}
	took := time.Since(start)
	if !timed {
		b.key, b.solution = key, solution
		b.compiled = by + fmt.Sprintf("compiled in %.2f s", took.Seconds())
		return false, nil
	}
	m, err := TokenLoop(s)
	if err != nil {
		return false, err
	}
	route, err := route.Lookup("stablehlo")
	if err != nil {
		return false, err
	}
	start = time.Now()
	if a, err = route.Emit(m, nil); err != nil {
		return false, err
	}
	loop, err := b.engine.Compile(a.Text)
	if err != nil {
		return false, err
	}
	b.key, b.solution, b.loop = key, solution, loop
	b.compiled = by + fmt.Sprintf("compiled in %.2f s, the reference in %.2f s", took.Seconds(), time.Since(start).Seconds())
	return false, nil
}

// emit makes the program of a variant: kernels on a TPU, plain ops elsewhere. by names the kernels.
func (b *bencher) emit(s gdn.Spec, variant string) (a *codegen.Artifact, by string, err error) {
	form, err := route.Resolve(s, variant, b.target, nil)
	if err != nil {
		return nil, "", err
	}
	if b.target != nil {
		by = fmt.Sprintf("kernels for %s by %s, ", b.target.Name, form.Variant)
	}
	m, err := form.Build()
	if err != nil {
		return nil, "", err
	}
	a, err = route.On(m, b.target)
	return a, by, err
}

// evaluate does one job. It returns no error: failures are part of the outcome.
func (b *bencher) evaluate(ctx context.Context, j *Job) *Outcome {
	if err := b.open(j.Plugin); err != nil {
		return &Outcome{Fault: err.Error()}
	}
	o := &Outcome{Environment: b.environment}
	if b.target != nil {
		o.Target = b.target.Name
	}
	if j.Definition == nil {
		return o
	}
	if err := b.judge(ctx, j, o); err != nil {
		return &Outcome{Fault: err.Error()}
	}
	return o
}

// judge fills in the status, errors and times of a solution. A returned error is not the solution's fault.
func (b *bencher) judge(ctx context.Context, j *Job, o *Outcome) error {
	p, err := flashinfer.NewProblem(j.Definition)
	if err != nil {
		return err
	}
	s, err := p.Spec(j.Workload)
	if err != nil {
		return err
	}
	s.InPlace = j.Protocol.InPlace && s.Init && s.Final
	refused, err := b.prepare(s, j.Variant, j.Protocol.Timed())
	switch {
	case refused:
		o.Status, o.Log = flashinfer.CompileError, err.Error()
		return nil
	case err != nil:
		return err
	}
	t, err := b.tryAll(ctx, j, p, s)
	switch {
	case err != nil:
		return err
	case t.failed != nil:
		o.Status, o.Log = flashinfer.RuntimeError, t.failed.Error()
		return nil
	}
	log := append([]string{b.compiled}, t.log...)
	if t.verdict.Note != "" {
		log = append(log, t.verdict.Note)
	}
	o.Status, o.Correctness = t.verdict.Status, errorsOf(t.verdict)
	if !j.Protocol.Timed() {
		o.Extra = map[string]any{protocolOf: j.Protocol.String()}
	} else if o.Status == flashinfer.Passed {
		if err := b.time(ctx, j.Protocol, t.args, o); err != nil {
			o.Status, o.Correctness, log = flashinfer.RuntimeError, nil, append(log, err.Error())
		}
	}
	o.Log = strings.Join(log, "\n")
	return nil
}

// trials is the result of a solution on the inputs of all trials.
type trials struct {
	verdict flashinfer.Verdict // the worst
	failed  error              // it could not be run
	args    [][]*array.Array   // of each trial, if they are to be timed
	log     []string
}

// tryAll compares a solution's outputs with the reference on the inputs of each trial. The first trial also runs the checks that need no particular
// inputs.
func (b *bencher) tryAll(ctx context.Context, j *Job, p *flashinfer.Problem, s gdn.Spec) (t trials, err error) {
	for trial := range j.Protocol.Trials {
		inputs, err := p.MakeInputs(s, j.Workload, j.Root, trial)
		if err != nil {
			return t, err
		}
		if trial == 0 {
			unknown, err := p.CheckConstraints(j.Workload, inputs)
			if err != nil {
				return t, err
			}
			for _, u := range unknown {
				t.log = append(t.log, "not checked: "+u)
			}
		}
		var args []*array.Array
		for _, x := range s.Inputs() {
			args = append(args, inputs[x.Name])
		}
		if j.Protocol.Timed() {
			t.args = append(t.args, args)
		}
		want, err := truth.Reference(s, inputs)
		if err != nil {
			return t, err
		}
		got, err := b.solution.Run(args...)
		if err != nil {
			t.failed = err
			return t, nil
		}
		if v := flashinfer.Judge(s, got, want); trial == 0 {
			t.verdict = v
		} else {
			t.verdict = t.verdict.Worse(v)
		}
		if trial == 0 && t.verdict.Status == flashinfer.Passed {
			if err := b.tryLoop(s, args, want); err != nil {
				return t, err
			}
		}
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
	}
	return t, nil
}

// tryLoop checks the outputs of the token loop that times are compared with, if there is one.
func (b *bencher) tryLoop(s gdn.Spec, args []*array.Array, want map[string]*array.Array) error {
	if b.loop == nil {
		return nil
	}
	got, err := b.loop.Run(args...)
	if err != nil {
		return fmt.Errorf("the reference can not be run: %w", err)
	}
	if v := flashinfer.Judge(s, got, want); v.Status != flashinfer.Passed {
		return fmt.Errorf("the token loop disagrees with float64: %s %s", v.Status, v.Note)
	}
	return nil
}

// time measures the solution and the reference alternately on the inputs of all trials.
func (b *bencher) time(ctx context.Context, p Protocol, trials [][]*array.Array, o *Outcome) error {
	opts := pjrt.BenchOptions{Warmup: p.Warmup, Iterations: p.Iterations, Limit: p.Measure}
	if p.Cold {
		opts.Flush = b.flush
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	least, iterations := [2]float64{math.Inf(1), math.Inf(1)}, [2]int{}
	for _, args := range trials {
		for i, program := range []*pjrt.Program{b.solution, b.loop} {
			t, err := program.Bench(ctx, opts, args...)
			if err != nil {
				return err
			}
			took := t.Mean()
			if p.Statistic == median {
				took = t.Median
			}
			if i == 0 {
				o.Latency += ms(took) / float64(len(trials))
			} else {
				o.Reference += ms(took) / float64(len(trials))
			}
			least[i] = min(least[i], ms(t.Min))
			iterations[i] += len(t.All)
		}
	}
	o.Extra = map[string]any{minLatency: least[0], minReference: least[1],
		"iterations": iterations[0], "reference_iterations": iterations[1], protocolOf: p.String()}
	return nil
}

// Trace returns the outcome as a line of the trace set. It errs on an outcome with a Fault.
func (o *Outcome) Trace(definition, solution string, w *flashinfer.Workload, now time.Time) (*flashinfer.Trace, error) {
	if o.Fault != "" {
		return nil, errors.New(o.Fault)
	}
	e := &flashinfer.Evaluation{Status: o.Status, Environment: o.Environment, Timestamp: now.UTC().Format(time.RFC3339), Log: o.Log}
	if c := o.Correctness; c != nil {
		e.Correctness = &flashinfer.Correctness{MaxRelative: number(c.Relative), MaxAbsolute: number(c.Absolute), Extra: map[string]any{}}
		if x := number(c.OfLargest); !math.IsInf(x, 0) && !math.IsNaN(x) {
			e.Correctness.Extra[ofLargest] = x
		}
		for name, x := range o.Extra {
			e.Correctness.Extra[name] = x
		}
	}
	if o.Status == flashinfer.Passed {
		e.Performance = &flashinfer.Performance{} // zeros if nothing was timed
		if o.Latency > 0 {
			*e.Performance = flashinfer.Performance{LatencyMS: o.Latency, ReferenceLatencyMS: o.Reference, Speedup: o.Reference / o.Latency}
		}
	}
	return &flashinfer.Trace{Definition: definition, Workload: w, Solution: solution, Evaluation: e}, e.Check()
}
