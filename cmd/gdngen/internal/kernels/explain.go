package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/explain"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/spf13/cobra"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	origin
	target, dump, diff string
	html, picture      string
	trace              string
	tokens, heads, top int
	scalars, trips     []string
	load               string
	configs            int
	plain              bool
	fresh, stored      bool
}

func (a CLI) ExplainCmd() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain (FILE | FOLDER | SCRIPT | --spec SPEC)",
		Short: "Say what a module costs on a TPU, and where",
		Long: `explain compiles a module for TPUs that are not attached and reads the schedule: static cycles by op and by stage of the algorithm, use of
the slots, spills, VMEM, and the distance from the bounds of HBM and of the matrix and vector units. Stages add up to
the whole; rows in brackets are ops without a stage. A file may hold any StableHLO module in text form, such as one
that JAX lowered, so kernels of others are costed in the same way. A folder of schedules that --dump kept is costed
without a compiler, on any machine. --diff compares it with a second variant, file or folder, the largest changes first.
--html writes one page with a picture of the slots over the schedule of the hottest part, and follows each stage of a
generated kernel from the builder through the passes to bundles and cycles. --picture writes a small picture by stage,
--trace the bundles of the hottest part as a trace for Perfetto (ui.perfetto.dev), units as threads. Costs that were measured before come from the
cache. The status is 4 if a target rejects a module, and 9 if it compiles but its cost is unknown.

` + strings.ToUpper(measure.StaticNote[:1]) + measure.StaticNote[1:] + `
With a GPU as the target (h100, b200) the kernels of the triton backend are compiled for it, and their times modelled
from the machine code. A file, or --backend stablehlo, is compiled by XLA, and its launches, loops and traffic are
counted. A Python script is run without a GPU by --python, and all Triton kernels that it launches are modelled; a
folder of launches that --dump kept is modelled without Python. On an H100 prefills took 1.2 to 1.5 times as long as
modelled (docs/gpu.md).
A spec with packed sequences is costed for sequences of equal length, unless --scalars says otherwise.`,
		Example: `  gdngen explain --spec bench --target v5e,v6e,tpu7x
  gdngen explain --spec bench --diff bf16 --html best.html
  gdngen explain kernel.stablehlo.mlir --target v6e --tokens 4096 --heads 8
  gdngen explain varlen.mlir --target v6e --scalars 0=0,100,300 -o json
  gdngen explain --spec contest-decode --target h100                  Triton kernels, modelled
  gdngen explain --spec contest-decode --target h100 --backend stablehlo   what XLA would run
  gdngen explain peer.py --target h100 --python venv/bin/python       Triton kernels of others, modelled
  gdngen explain dumps/v6e-123456                     schedules kept by gdngen explain --dump dumps`,
		GroupID: "work",
		Args:    app.Args(cobra.MaximumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.explainAll(&f, cmd, args) },
	}
	f.flags(a.App, c)
	app.TargetFlag(c, &f.target)
	c.Flags().StringVar(&f.diff, "diff", "", "compare with this variant of the spec, or with the module in this file")
	c.Flags().StringVar(&f.html, "html", "", "write a page with tables and pictures to this file too")
	c.Flags().StringVar(&f.picture, "picture", "", "draw the hottest loop of the first target's module, by stage, as an SVG file")
	c.Flags().StringVar(&f.trace, "trace", "", "write the hottest parts as trace events (JSON, for Perfetto): units are threads, a microsecond is a bundle")
	c.Flags().IntVar(&f.tokens, "tokens", 0, "tokens that a module from a file computes, over the whole batch")
	c.Flags().IntVar(&f.heads, "heads", 0, "value heads of a module from a file")
	c.Flags().IntVar(&f.top, "top", 8, "rows of each list in the text form")
	c.Flags().StringArrayVar(&f.scalars, "scalars", nil, "values of a scalar operand that steers control flow, integers or true and false: OPERAND=V,V,..., OP/OPERAND=V,V,... or KERNEL/OPERAND=V,V,...")
	c.Flags().StringVar(&f.load, "load", "", "lengths of packed sequences, in place of equal ones: 8x1+128+256 are eight decodes and two prompts of a mixed batch")
	c.Flags().StringVar(&f.dump, "dump", "", "keep the schedules, or the launches of a script, in a folder for each target below this one")
	c.Flags().BoolVar(&f.plain, "without-option", false, "on v4, v5e and v5p, also give the cost without the compiler option for these kernels: one more compile, a minute for long kernels")
	a.Formerly(c, "plain", "without-option")
	c.Flags().StringArrayVar(&f.trips, "trips", nil, "KERNEL=N: how often the loop of a script's kernel turns, in place of what follows from its arguments")
	c.Flags().IntVar(&f.configs, "configs", 8, "configs of an autotuned kernel of a script that are compiled; the fastest counts")
	app.FreshFlag(c, &f.fresh)
	c.Flags().BoolVar(&f.stored, "stored", false, "take costs from the cache only, and compile nothing: a cost that is missing there is an error")
	return c
}

// under sets the modules' scalars to a load's sequence lengths, or notes that lengths are equal.
func (f *explainFlags) under(a *app.App, modules []*explain.Module) error {
	if f.load == "" {
		if len(modules[0].Scalars) > 0 {
			a.Note("%s", measure.EqualLengths)
		}
		return nil
	}
	lengths, err := measure.ParseLoad(f.load)
	for _, m := range modules {
		if err == nil {
			err = m.Program.Under(lengths)
			m.Scalars = m.Program.Scalars
		}
	}
	if err != nil {
		return app.Usage(fmt.Errorf("--load %w", err))
	}
	return nil
}

func (a CLI) explainAll(f *explainFlags, cmd *cobra.Command, args []string) error {
	if f.backend == triton.Name && !cmd.Flags().Changed("target") {
		f.target = "h100"
	}
	forGPU := f.backend == triton.Name || target.AreGPUs(f.target)
	if len(args) == 1 && f.spec == "" && (forGPU && strings.HasSuffix(args[0], ".py") || gpu.IsCapture(args[0])) {
		return a.explainLaunches(f, args[0], cmd.Flags().Changed("target"))
	}
	for _, flag := range []string{"trips", "configs"} {
		if cmd.Flags().Changed(flag) {
			return app.Usage(fmt.Errorf("--%s is for Triton kernels of a Python script, or of a folder of its launches: gdngen explain SCRIPT.py --target h100", flag))
		}
	}
	if forGPU {
		if len(args) > 0 || cmd.Flags().Changed("backend") && f.backend != triton.Name {
			return a.explainPlain(f, cmd, args)
		}
		return a.explainTriton(f, args)
	}
	if err := f.storedTarget(cmd, args); err != nil {
		return err
	}
	targets, err := app.ParseTargets(f.target)
	if err != nil {
		return err
	}
	options := measure.Options{}
	if options.Scalars, err = measure.ParseScalars(f.scalars); err != nil {
		return app.Usage(fmt.Errorf("--scalars %w", err))
	}
	switch {
	case f.trace != "":
		options.Columns = explain.TraceColumns
	case f.html != "":
		options.Columns = explain.PageColumns
	case f.picture != "":
		options.Columns = explain.PictureColumns
	}
	if (f.tokens > 0) != (f.heads > 0) {
		return app.Usage(errors.New("--tokens and --heads go together and are at least 1"))
	}
	for _, file := range []string{f.html, f.picture, f.trace} {
		if file == "" {
			continue
		}
		if err := store.Writable(file); err != nil {
			return err
		}
	}
	modules, err := f.modules(a.App, cmd, args, targets)
	if err != nil {
		return err
	}
	if f.tokens > 0 && modules[0].Program.Spec != nil {
		return app.Usage(errors.New("--tokens and --heads are for a file: the spec has its own"))
	}
	j := explain.Job{Targets: targets, Modules: modules, Tokens: f.tokens, Heads: f.heads, Options: options, Plain: f.plain, Warn: func(text string) { a.Warn("%s", text) }}
	if f.diff != "" {
		if j.Others, err = f.others(a.App, f.diff, targets); err != nil {
			return err
		}
	}
	if err := f.under(a.App, modules); err != nil {
		return err
	}
	x, err := a.explainer(&j, f)
	if err != nil {
		return err
	}
	r, refused, err := j.Run(a.Ctx, x)
	if err != nil {
		return err
	}
	if err := f.draw(r); err != nil {
		return err
	}
	if err := app.Emit(a.App, r, r.Targets, func(w io.Writer) { r.Write(w, f.top) }); err != nil {
		return err
	}
	if next := r.Next(); next != "" && f.diff == "" && a.Output == "text" {
		a.Note("next: %s", next)
	}
	return refused
}

// draw writes the page, picture and trace that the flags name.
func (f *explainFlags) draw(r *explain.Result) error {
	for _, x := range []struct {
		file  string
		write func(string) error
	}{{f.html, r.WritePage}, {f.picture, r.WritePicture}, {f.trace, r.WriteTrace}} {
		if x.file == "" {
			continue
		}
		if err := x.write(x.file); err != nil {
			return err
		}
	}
	return nil
}

// storedTarget takes the target from a folder of stored schedules if no flag names one. The default target would give a wrong cost.
func (f *explainFlags) storedTarget(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || cmd.Flags().Changed("target") {
		return nil
	}
	if at, err := os.Stat(args[0]); err != nil || !at.IsDir() {
		return nil
	}
	p, err := measure.Stored(args[0])
	if err != nil {
		return err
	}
	if p.Origin.Target == "" {
		return app.Usage(fmt.Errorf("%s does not say which target its schedules are for: name it by --target", args[0]))
	}
	f.target = p.Origin.Target
	return nil
}

// notStored replaces the compiler when nothing may be compiled.
type notStored struct{}

func (notStored) Compile(context.Context, aot.Request) (*aot.Result, error) {
	return nil, app.Usage(errors.New("its cost is not in the cache: leave --stored out, and it is compiled"))
}

// explainer returns the instrument for modules. Stored schedules need no compiler.
func (a CLI) explainer(j *explain.Job, f *explainFlags) (*measure.Instrument, error) {
	compiled := func(m *explain.Module) bool { return !m.Program.IsStored() }
	if slices.ContainsFunc(slices.Concat(j.Modules, j.Others), compiled) {
		x, err := a.Instrument(f.fresh)
		if err == nil {
			j.Compiler, j.Options.Dump = a.TPU.Release(), f.dump
			if f.stored {
				x.Compiler = notStored{}
			}
		}
		return x, err
	}
	if f.dump != "" {
		return nil, app.Usage(fmt.Errorf("--dump keeps the schedules of a compile, and those of %s are stored already", j.Modules[0].Name))
	}
	return &measure.Instrument{Note: a.Note}, nil
}
