package kernels

import (
	"errors"
	"io"

	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// protocolFlags are flags of bench that a preset also sets: a given flag overrides the preset.
var protocolFlags = map[string]func(p, given *bench.Preset){
	"warmup":     func(p, given *bench.Preset) { p.Warmup = given.Warmup },
	"iterations": func(p, given *bench.Preset) { p.Iterations = given.Iterations },
	"trials":     func(p, given *bench.Preset) { p.Trials = given.Trials },
	"trial-time": func(p, given *bench.Preset) { p.Measure = given.Measure },
	"statistic":  func(p, given *bench.Preset) { p.Statistic = given.Statistic },
	"warm":       func(p, given *bench.Preset) { p.Cold = given.Cold },
	"separate":   func(p, given *bench.Preset) { p.InPlace = given.InPlace },
	"limit":      func(p, given *bench.Preset) { p.Limit = given.Limit },
}

// protocol takes the preset, and overrides it by given flags.
func (a CLI) protocol(b *benchFlags, flags *pflag.FlagSet) error {
	if b.protocol == "" {
		return nil
	}
	p, err := bench.ReadPreset(b.protocol, a.ReadInput)
	if err != nil {
		return app.Usage(err)
	}
	given := bench.Preset{Protocol: b.config.Protocol, Limit: b.config.Limit}
	flags.Visit(func(f *pflag.Flag) {
		if set := protocolFlags[f.Name]; set != nil {
			set(&p, &given)
		}
	})
	b.config.Protocol, b.config.Limit = p.Protocol, p.Limit
	return nil
}

// benchOn has a FlashInfer-Bench server evaluate a packed solution.
func (a CLI) benchOn(b *benchFlags) error {
	if b.solution == "" {
		return app.Usage(errors.New("--on needs --solution FILE: see gdngen contest pack"))
	}
	server, err := contest.Dial(b.on)
	if err != nil {
		return app.Usage(err)
	}
	sol, err := a.readSolution(b.solution)
	if err != nil {
		return err
	}
	store, err := bench.OpenStore(b.dir, bench.Protocol{Server: b.on})
	if app.IsA[*bench.SettingsError](err) {
		return app.Usage(err)
	}
	if err != nil {
		return err
	}
	defer store.Close()
	store.Author = sol.Author
	for _, w := range store.Warnings {
		a.Warn("%s", w)
	}
	bar := terminal.NewBar(a.Stderr)
	x := contest.Sweep{Server: server, Solution: sol, Only: b.only, Retry: b.config.Retry, Progress: func(p bench.Progress) { p.Draw(bar) }}
	it, err := x.Run(a.Ctx, store)
	bar.End()
	if err != nil {
		return err
	}
	r := &bench.Report{Run: b.dir, Protocol: bench.Protocol{Server: b.on}}
	var missed int
	missed, r.Hardware = bench.Failed([]bench.Item{*it}, store)
	r.Rows = bench.Summary([]bench.Item{*it}, store)
	if err := app.Emit(a.App, r, r.Lines(), func(w io.Writer) { r.Write(w) }); err != nil {
		return err
	}
	if missed > 0 {
		return failedWorkloads(missed)
	}
	return nil
}

func (a CLI) benchReportCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "report --run DIR",
		Short:   "Score the solutions of a folder as the contest does",
		Long:    "report prints the arithmetic mean of the speed-ups of each solution over the reference, and of the best solution for each workload.",
		Example: "  gdngen contest bench report --run runs/contest",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return app.Usage(errors.New("the report of what? give --run DIR"))
			}
			rows, err := bench.Scores(dir)
			if err != nil {
				return err
			}
			return app.Emit(a.App, rows, rows, func(w io.Writer) { bench.WriteScores(w, rows) })
		},
	}
	c.Flags().StringVar(&dir, "run", "", "folder of the run")
	return c
}
