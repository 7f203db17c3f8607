package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/spf13/cobra"
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
	protocol, on, solution string

	target *target.Target // of the device; nil: no TPU
}

func (a CLI) BenchCmd() *cobra.Command {
	b := benchFlags{config: bench.Config{Protocol: bench.DefaultProtocol}}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Evaluate variants on the workloads of FlashInfer-Bench, and keep the traces",
		Long: `bench evaluates a variant on workloads in the manner of FlashInfer-Bench: each trial has inputs of its own; an element is wrong if it is off by
more than 1e-2 and by more than 1e-2 of itself, and one wrong element fails the workload. A workload that passes is
timed on fresh copies of its arguments, which are not in the caches. Outputs are compared with the float64 reference;
speed-ups are over a loop over tokens in the same runtime.

--protocol sets warm-up, iterations and trials at once, and tolerances never: ` + bench.PresetHelp() + `; or a file of JSON.
--on fib:URL has a server of FlashInfer-Bench evaluate --solution instead, on its own hardware and by its own protocol.

Without flags it sweeps the contest's two definitions, ` + flashinfer.ContestDecode + ` (54 workloads) and
` + flashinfer.ContestPrefill + ` (100), on this machine's CPU. Definitions are names of the form
` + flashinfer.Family + `,
or files. The folder of the run is a trace set of FlashInfer-Bench: definitions, workloads, solutions, traces. A sweep
that was stopped or killed goes on by the same command.

With --target the kernels are also compiled for TPUs that are not attached, and a second table has their static cost:
cycles of the schedule, and as modelled time the larger of these and of the HBM traffic. Nothing runs on a TPU.

The status is 3 if a workload did not pass.`,
		Example: `  gdngen contest bench --run runs/contest                                     all 154 workloads; the same command goes on
  gdngen contest bench --run runs/decode --definition ` + flashinfer.ContestDecode + ` --where batch_size=64
  gdngen contest bench --run runs/contest --target v5e,v6e,tpu7x --static-only   static cost alone
  gdngen contest bench --run runs/gpu --on fib:http://gpu:8000 --solution solution.json
  gdngen contest bench --run runs/mine --definition my.json --workloads my.jsonl --root dataset --variant cpu`,
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
	}
	c.RunE = func(*cobra.Command, []string) error {
		if b.dir == "" {
			return app.Usage(errors.New("bench needs --run DIR"))
		}
		if b.on != "" {
			return a.benchOn(&b)
		}
		b.config.Protocol.Cold, b.config.Protocol.InPlace = !b.warm, !b.separate
		if err := a.protocol(&b, c.Flags()); err != nil {
			return err
		}
		return a.bench(&b)
	}
	c.AddCommand(a.benchReportCmd())
	f, p := c.Flags(), &b.config.Protocol
	f.StringVar(&b.dir, "run", "", "folder of the run; made where it is missing")
	f.StringSliceVar(&b.definitions, "definition", nil, "definitions, by name or file, separated by commas (default: those that --workloads names, or the contest's two)")
	f.StringVar(&b.workloads, "workloads", "", "JSON lines file of workloads (default: those of the contest)")
	rootFlag(c, &b.root)
	f.StringVar(&b.protocol, "protocol", "", "how workloads are measured, by name or file (default: default)")
	f.StringVar(&p.Statistic, "statistic", "", "how the executions of a trial are summed up: mean (the default) or median")
	f.StringVar(&b.on, "on", "", "server of FlashInfer-Bench that evaluates --solution: fib:URL")
	f.StringVar(&b.solution, "solution", "", "packed solution for --on; see gdngen contest pack")
	f.StringVar(&b.only, "where", "", "only workloads with these values of axes, such as batch_size=64,batch_size=1, or with this start of their UUID")
	f.StringVar(&b.variant, "variant", "", "how it is computed (default: auto, the best known for the spec on the device; see gdngen help variant)")
	f.IntVar(&p.Warmup, "warmup", p.Warmup, "executions before the timed ones of a trial")
	f.IntVar(&p.Iterations, "iterations", p.Iterations, "timed executions of a trial, at most; 0: outputs are judged, and nothing is timed")
	f.IntVar(&p.Trials, "trials", p.Trials, "trials, each with inputs of its own")
	f.DurationVar(&p.Measure, "trial-time", p.Measure, fmt.Sprintf("end the iterations of a trial after this time, though not before %d; 0: never", pjrt.LeastIterations))
	a.Formerly(c, "measure", "trial-time")
	a.Formerly(c, "only", "where")
	f.BoolVar(&b.warm, "warm", false, "leave the caches as they are between executions")
	f.BoolVar(&b.separate, "separate", false, "final give final states memory of their own; without it they overwrite the copies of the initial states")
	f.DurationVar(&b.config.Limit, "limit", 5*time.Minute, "time of one workload, after which its status is TIMEOUT; 0: none")
	f.BoolVar(&b.config.Retry, "retry", false, "do workloads again that did not pass")
	app.NoWaitFlag(c, &b.noWait)
	f.StringVar(&b.plugin, "plugin", "", "PJRT plugin of the device to run on; on a TPU the programs are kernels, as a search ranks them (default: the CPU's)")
	f.StringVar(&b.targets, "target", "", "also give the static cost on these TPU generations, separated by commas, or all")
	f.StringVar(&b.staticVariant, "static-variant", "", "variant that is costed for TPUs (default: auto, the best known for spec and target)")
	f.BoolVar(&b.staticOnly, "static-only", false, "run nothing: static cost alone")
	app.CompleteChoices(c, "variant", app.VariantOffers, app.VariantChoices)
	app.CompleteChoices(c, "static-variant", app.VariantOffers, app.VariantChoices)
	app.CompleteList(c, "target", append(target.Names(), "all"))
	return c
}

// bench sweeps, and prints the summary of what the run holds.
func (a CLI) bench(b *benchFlags) error {
	if err := b.config.Protocol.Check(); err != nil {
		return app.Usage(err)
	}
	switch {
	case b.targets == "" && (b.staticOnly || b.staticVariant != ""):
		return app.Usage(errors.New("--static-only and --static-variant need --target"))
	case b.targets != "":
		if _, err := app.ParseTargets(b.targets); err != nil {
			return err
		}
		if err := app.CheckText(cmp.Or(b.staticVariant, gdn.Auto)); err != nil {
			return err
		}
	}
	if b.plugin != "" && !b.staticOnly { // the workloads' programs depend on the device
		d, err := a.probe(&app.DeviceFlags{Plugin: b.plugin})
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
	if err := app.Emit(a.App, r, r.Lines(), func(w io.Writer) { r.Write(w) }); err != nil {
		return err
	}
	if failed > 0 {
		return failedWorkloads(failed)
	}
	return nil
}

func failedWorkloads(n int) error {
	return app.Failed(app.ExitNumerics, "%d workloads did not pass: see the traces, field evaluation.log", n)
}

// benchItems reads definitions and workloads.
func (a CLI) benchItems(b *benchFlags) (err error) {
	sources := bench.Sources{Definitions: b.definitions, Workloads: b.workloads, Root: b.root, Only: b.only, Variant: cmp.Or(b.variant, gdn.Auto), Target: b.target,
		Read: a.ReadInput, Warn: func(text string) { a.Warn("%s", text) }}
	if b.config.Items, err = sources.Items(); app.IsA[*fs.PathError](err) {
		return err
	} else if err != nil {
		return app.Usage(err)
	}
	return app.Usage(b.config.Check())
}

// sweep evaluates the workloads that the folder lacks, and fills the rows of the report.
func (a CLI) sweep(b *benchFlags, r *bench.Report) (failed int, err error) {
	bar := terminal.NewBar(a.Stderr)
	tell := func(h []machine.Holder) { bar.End(); a.Waiting(h) }
	use := machine.Measures
	if !b.config.Protocol.Timed() {
		use = machine.Computes
	}
	if b.config.Machine, err = a.Machine(use, b.noWait, tell); err != nil {
		return 0, err
	}
	if b.config.Plugin, err = a.PluginPath(cmp.Or(b.plugin, "cpu")); err != nil {
		return 0, err
	}
	store, err := bench.OpenStore(b.dir, b.config.Protocol)
	if err != nil {
		if e := (*bench.SettingsError)(nil); errors.As(err, &e) {
			return 0, app.Usage(err)
		}
		return 0, err
	}
	defer store.Close()
	for _, w := range store.Warnings {
		a.Warn("%s", w)
	}
	b.config.Progress = func(p bench.Progress) { p.Draw(bar) }
	err = bench.Sweep(a.Ctx, b.config, store)
	bar.End()
	if err != nil {
		if a.Ctx.Err() != nil {
			a.Note("what was measured is kept: the same command goes on")
			return 0, a.Ctx.Err()
		}
		return 0, err
	}
	failed, r.Hardware = bench.Failed(b.config.Items, store)
	r.Rows = bench.Summary(b.config.Items, store)
	return failed, nil
}

// staticCosts models the shapes of the workloads on the targets.
func (a CLI) staticCosts(b *benchFlags, r *bench.Report) error {
	targets, err := app.ParseTargets(b.targets)
	if err != nil {
		return err
	}
	meter, err := a.Instrument(false)
	if err != nil {
		return err
	}
	meter.Note = nil // a bar shows the progress
	r.Compiler = a.TPU.Release()
	bar := terminal.NewBar(a.Stderr)
	defer bar.End()
	static := bench.Static{Instrument: meter, Targets: targets, Variant: cmp.Or(b.staticVariant, gdn.Auto), InPlace: b.config.Protocol.InPlace, File: filepath.Join(b.dir, bench.StaticFile)}
	static.Progress = func(done, total int, row *bench.StaticRow, left time.Duration) {
		bar.Draw(done, total, fmt.Sprintf("static, %s: %s", row.Target, row.Spec), left, row.Refused != "")
	}
	r.Static, err = static.Cost(a.Ctx, b.config.Items)
	if app.IsA[*bench.VariantError](err) {
		return app.Usage(err)
	}
	return err
}

// probe opens a device and returns its generation; nil if it is no TPU.
func (a CLI) probe(f *app.DeviceFlags) (*target.Target, error) {
	o, err := a.DeviceOptions(f)
	if err != nil {
		return nil, err
	}
	d, err := device.Open(a.Ctx, o)
	if err != nil {
		return nil, err
	}
	return d.Target(), d.Close()
}
