package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	config                 bench.Config
	definitions            []string
	workloads, root, only  string
	variant                string
	dir, plugin            string
	warm, separate, noWait bool
	staticOnly             bool
	targets, staticVariant string

	target *codegen.Target // of the device of --plugin; nil: no TPU
}

func (a *app) benchCmd() *cobra.Command {
	b := benchFlags{config: bench.Config{Protocol: bench.DefaultProtocol}}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Evaluate variants on the workloads of FlashInfer-Bench, and keep the traces",
		Long: `bench evaluates a variant on workloads in the manner of FlashInfer-Bench: each trial has inputs of its own; an element is wrong if it is off by
more than 1e-2 and by more than 1e-2 of itself, and one wrong element fails the workload; what passes is timed on fresh copies of its arguments,
out of the caches. Outputs are compared with the float64 reference; speed-ups are over a loop over tokens in the same runtime.

Without flags it sweeps the contest's two definitions, ` + flashinfer.ContestDecode + ` (54 workloads) and
` + flashinfer.ContestPrefill + ` (100), on this machine's CPU. Definitions are names of the form
` + flashinfer.Family + `,
or files. The folder of the run is a trace set of FlashInfer-Bench: definitions, workloads, solutions, traces. A sweep that was stopped or
killed goes on by the same command.

With --target the kernels are also compiled for TPUs that are absent, and their cost is printed in a table of its own. That cost is static:
cycles of the schedule, and as modelled time the larger of these and of the main memory traffic; nothing runs on a TPU.

The status is 3 if a workload did not pass.`,
		Example: `  gdngen bench --run runs/contest                                     all 154 workloads; the same command goes on
  gdngen bench --run runs/decode --definition ` + flashinfer.ContestDecode + ` --only batch_size=64
  gdngen bench --run runs/contest --target v5e,v6e,tpu7x --static-only   static cost alone
  gdngen bench --run runs/mine --definition my.json --workloads my.jsonl --root dataset --variant cpu`,
		GroupID: "work",
		Args:    args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.bench(&b) },
	}
	f, p := c.Flags(), &b.config.Protocol
	f.StringVar(&b.dir, "run", "", "folder of the run; made where it is missing")
	f.StringSliceVar(&b.definitions, "definition", nil, "definitions, by name or file, separated by commas (default: those that --workloads names, or the contest's two)")
	f.StringVar(&b.workloads, "workloads", "", "JSON lines file of workloads (default: those of the contest)")
	f.StringVar(&b.root, "root", ".", "folder that the paths of workloads start from")
	f.StringVar(&b.only, "only", "", "only workloads with these values of axes, such as batch_size=64,batch_size=1, or with this start of their UUID")
	f.StringVar(&b.variant, "variant", "", "how it is computed (default: auto, the best known for the spec on the device; see gdngen help variant)")
	f.IntVar(&p.Warmup, "warmup", p.Warmup, "executions before the timed ones of a trial")
	f.IntVar(&p.Iterations, "iterations", p.Iterations, "timed executions of a trial, at most")
	f.IntVar(&p.Trials, "trials", p.Trials, "trials, each with inputs of its own")
	f.DurationVar(&p.Measure, "measure", p.Measure, fmt.Sprintf("end the iterations of a trial after this time, though not before %d; 0: never", pjrt.LeastIterations))
	f.BoolVar(&b.warm, "warm", false, "leave the caches as they are between executions")
	f.BoolVar(&b.separate, "separate", false, "final states get memory of their own, in place of that of the copies of the initial ones")
	f.DurationVar(&b.config.Limit, "limit", 5*time.Minute, "time of one workload, after which its status is TIMEOUT; 0: none")
	f.BoolVar(&b.config.Retry, "retry", false, "do workloads again that did not pass")
	noWaitFlag(c, &b.noWait)
	f.StringVar(&b.plugin, "plugin", "", "PJRT plugin of the device to run on; on a TPU the programs are kernels, as a search ranks them (default: the CPU's)")
	f.StringVar(&b.targets, "target", "", "also give the static cost on these TPU generations, separated by commas, or all")
	f.StringVar(&b.staticVariant, "static-variant", "", "variant that is costed for TPUs (default: auto, the best known for spec and target)")
	f.BoolVar(&b.staticOnly, "static-only", false, "run nothing: static cost alone")
	complete(c, "variant", variantNames())
	complete(c, "static-variant", variantNames())
	complete(c, "target", append(codegen.TargetNames(), "all"))
	return c
}

// bench sweeps, and prints the summary of what the run holds.
func (a *app) bench(b *benchFlags) error {
	if b.dir == "" {
		return usage(errors.New("bench needs --run DIR"))
	}
	b.config.Protocol.Cold, b.config.Protocol.InPlace = !b.warm, !b.separate
	if err := b.config.Protocol.Check(); err != nil {
		return usage(err)
	}
	switch {
	case b.targets == "" && (b.staticOnly || b.staticVariant != ""):
		return usage(errors.New("--static-only and --static-variant need --target"))
	case b.targets != "":
		if _, err := parseTargets(b.targets); err != nil {
			return err
		}
		if err := checkText(cmp.Or(b.staticVariant, gdn.Auto)); err != nil {
			return err
		}
	}
	if b.plugin != "" && !b.staticOnly { // what is computed depends on what the device is
		d, err := a.probe(&deviceFlags{plugin: b.plugin})
		if err != nil {
			return err
		}
		b.target = d
	}
	if err := a.benchItems(b); err != nil {
		return err
	}
	r := &bench.Report{Run: b.dir, Protocol: b.config.Protocol}
	failed := 0
	if !b.staticOnly {
		var err error
		if failed, err = a.sweep(b, r); err != nil {
			return err
		}
	}
	if b.targets != "" {
		if err := a.staticCosts(b, r); err != nil {
			return err
		}
	}
	if err := emit(a, r, r.Lines(), func(w io.Writer) { r.Write(w) }); err != nil {
		return err
	}
	if failed > 0 {
		return failedWorkloads(failed)
	}
	return nil
}

func failedWorkloads(n int) error {
	return failed(exitNumerics, "%d workloads did not pass: see the traces, field evaluation.log", n)
}

// benchItems reads definitions and workloads.
func (a *app) benchItems(b *benchFlags) error {
	var given []*flashinfer.Trace
	if b.workloads != "" {
		data, err := a.readInput(b.workloads)
		if err != nil {
			return err
		}
		if given, err = flashinfer.ReadLines(b.workloads, data); err != nil {
			return usage(err)
		}
	}
	if len(b.definitions) == 0 {
		for _, t := range given {
			if !slices.Contains(b.definitions, t.Definition) {
				b.definitions = append(b.definitions, t.Definition)
			}
		}
	}
	if len(b.definitions) == 0 {
		b.definitions = []string{flashinfer.ContestDecode, flashinfer.ContestPrefill}
	}
	for _, name := range b.definitions {
		d, err := a.readDefinition(name)
		if err != nil {
			return err
		}
		it := bench.Item{Definition: d, Root: b.root}
		if b.workloads == "" {
			if it.Workloads, err = flashinfer.ContestWorkloads(d); err != nil {
				return usage(err)
			}
		}
		for _, t := range given {
			if t.Definition == d.Name {
				it.Workloads = append(it.Workloads, t.Workload)
			}
		}
		if it.Workloads, err = chooseWorkloads(it.Workloads, b.only); err != nil {
			return err
		}
		if len(it.Workloads) == 0 {
			a.warn("%s: no workload", d.Name)
			continue
		}
		p, err := flashinfer.NewProblem(d)
		if err != nil {
			return usage(err)
		}
		s, err := p.Spec(it.Workloads[0])
		if err != nil {
			return usage(fmt.Errorf("%s, workload %s: %w", d.Name, it.Workloads[0].UUID, err))
		}
		name := cmp.Or(b.variant, gdn.Auto)
		f, err := measure.Suit(s, name, lower.Route{Kernels: b.target != nil}, b.target) // figures that others compare with: no user's champions
		if err != nil {
			return usage(err)
		}
		it.Variant = f.Variant
		if b.target != nil { // auto is chosen for each shape
			it.Name = name
		}
		text := cmp.Or(it.Name, it.Variant.String())
		sum := sha256.Sum256([]byte(text))
		if it.Solution, err = p.ProgramSolution(fmt.Sprintf("%s_gdngen_%x", d.Name, sum[:4]), bench.Author, s, text, b.target); err != nil {
			return err
		}
		b.config.Items = append(b.config.Items, it)
	}
	if len(b.config.Items) == 0 {
		return usage(errors.New("there is no workload to do"))
	}
	return usage(b.config.Check())
}

// readDefinition finds a definition by name or reads it from a file.
func (a *app) readDefinition(name string) (*flashinfer.Definition, error) {
	if !strings.HasSuffix(name, ".json") && name != "-" {
		d, err := flashinfer.Named(name)
		return d, usage(err)
	}
	data, err := a.readInput(name)
	if err != nil {
		return nil, err
	}
	d, err := flashinfer.ParseDefinition(data)
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", name, err))
	}
	return d, nil
}

// chooseWorkloads keeps the workloads that one of the texts fits: axis=value, or the start of a UUID.
func chooseWorkloads(list []*flashinfer.Workload, only string) ([]*flashinfer.Workload, error) {
	if only == "" {
		return list, nil
	}
	var kept []*flashinfer.Workload
	for _, w := range list {
		for text := range strings.SplitSeq(only, ",") {
			axis, value, isAxis := strings.Cut(text, "=")
			n, has := w.Axes[axis]
			if isAxis && has && fmt.Sprint(n) == value || !isAxis && text != "" && strings.HasPrefix(w.UUID, text) {
				kept = append(kept, w)
				break
			}
		}
	}
	return kept, nil
}

// sweep runs what the folder lacks, and fills the rows of the result.
func (a *app) sweep(b *benchFlags, r *bench.Report) (failed int, err error) {
	bar := a.newBar()
	tell := func(h []machine.Holder) { bar.end(); a.waiting(h) }
	if b.config.Machine, err = a.machine(machine.Measures, b.noWait, tell); err != nil {
		return 0, err
	}
	if b.config.Plugin, err = a.pluginPath(cmp.Or(b.plugin, "cpu")); err != nil {
		return 0, err
	}
	store, err := bench.OpenStore(b.dir, b.config.Protocol)
	if err != nil {
		if e := (*bench.SettingsError)(nil); errors.As(err, &e) {
			return 0, usage(err)
		}
		return 0, err
	}
	defer store.Close()
	for _, w := range store.Warnings {
		a.warn("%s", w)
	}
	b.config.Progress = func(p bench.Progress) { bar.show(p) }
	err = bench.Sweep(a.ctx, b.config, store)
	bar.end()
	if err != nil {
		if a.ctx.Err() != nil {
			a.note("what was measured is kept: the same command goes on")
			return 0, a.ctx.Err()
		}
		return 0, err
	}
	for _, it := range b.config.Items {
		for _, w := range it.Workloads {
			e := store.Done(it.Definition.Name, it.Solution.Name, w.UUID).Evaluation
			if r.Hardware = e.Environment.Hardware; e.Status != flashinfer.Passed {
				failed++
			}
		}
	}
	r.Rows = bench.Summary(b.config.Items, store)
	return failed, nil
}

// staticCosts costs the shapes of the workloads on the targets.
func (a *app) staticCosts(b *benchFlags, r *bench.Report) error {
	targets, err := parseTargets(b.targets)
	if err != nil {
		return err
	}
	meter, err := a.instrument(false)
	if err != nil {
		return err
	}
	meter.Note = nil // a bar tells of the progress
	r.Compiler = versionOf(a.tpu)
	bar := a.newBar()
	defer bar.end()
	static := bench.Static{Instrument: meter, Targets: targets, Variant: cmp.Or(b.staticVariant, gdn.Auto), InPlace: b.config.Protocol.InPlace, File: filepath.Join(b.dir, bench.StaticFile)}
	static.Progress = func(done, total int, row *bench.StaticRow, left time.Duration) {
		bar.draw(done, total, fmt.Sprintf("static, %s: %s", row.Target, row.Spec), left, row.Refused != "")
	}
	r.Static, err = static.Cost(a.ctx, b.config.Items)
	if isA[*bench.VariantError](err) {
		return usage(err)
	}
	return err
}

// probe opens a device and tells its generation; nil where it is no TPU.
func (a *app) probe(f *deviceFlags) (*codegen.Target, error) {
	o, err := a.deviceOptions(f)
	if err != nil {
		return nil, err
	}
	d, err := device.Open(a.ctx, o)
	if err != nil {
		return nil, err
	}
	return d.Target(), d.Close()
}

// bar shows the progress of a sweep: on a terminal one line that is overwritten, elsewhere a line for each workload.
type bar struct {
	a        *app
	terminal bool
	wide     int // characters of the line on the terminal
}

func (a *app) newBar() *bar {
	f, ok := a.stderr.(*os.File)
	return &bar{a: a, terminal: ok && terminal.Is(f)}
}

const barWidth = 24

// show tells of a workload.
func (b *bar) show(p bench.Progress) {
	switch {
	case p.Trace != nil:
		b.draw(p.Done, p.Total, bench.TraceLine(p.Trace), p.Left, p.Trace.Evaluation.Status != flashinfer.Passed)
	case p.Done > 0:
		b.draw(p.Done, p.Total, fmt.Sprintf("%d were done before", p.Done), 0, false)
	default:
		b.draw(p.Done, p.Total, "", 0, false)
	}
}

// draw shows how much is done and the last piece of it; on a terminal a line that is to stay is not overwritten.
func (b *bar) draw(done, total int, text string, left time.Duration, stay bool) {
	filled := barWidth * done / max(1, total)
	line := fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), done, total)
	if left > 0 {
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	line += "  " + text
	if !b.terminal {
		b.a.note("%s", strings.TrimRight(line, " "))
		return
	}
	if columns := terminal.Width(b.a.stderr); columns > 1 && len(line) >= columns {
		line = line[:columns-1] // a line that wraps can not be overwritten
	}
	fmt.Fprintf(b.a.stderr, "\r%-*s", b.wide, line)
	b.wide = len(line)
	if stay {
		fmt.Fprintln(b.a.stderr)
		b.wide = 0
	}
}

func (b *bar) end() {
	if b.terminal && b.wide > 0 {
		fmt.Fprintln(b.a.stderr)
	}
}
