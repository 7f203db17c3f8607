package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/gomlx/backends"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// app is one run of the program: its streams, the global flags, and what commands open on the way.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	output    format
	libtpu    string
	cpuPlugin string
	offline   bool
	timeout   time.Duration

	ctx      context.Context // of the command
	cancel   context.CancelFunc
	engine   *pjrt.Engine
	runner   *device.Runner   // of --engine device
	backend  backends.Backend // of GoMLX
	compiler *aot.Compiler
	tpu      plugins.Plugin
	told     []string // what was said of the user's champions

	config      configuration
	configFault error  // of a file that can not be read, for commands that go on
	libtpuBy    string // the file that names the libtpu; empty where none does
}

// root makes the command tree.
func (a *app) root() *cobra.Command {
	var short bool
	root := &cobra.Command{
		Use:   "gdngen",
		Short: "Generate, check, cost and search kernels of the gated delta rule",
		Long: `gdngen generates kernels of the gated delta rule (Gated DeltaNet), checks their numbers against a float64 reference, says what
they cost on five TPU generations with no TPU attached, and searches structural variants for the cheapest correct one.

A cost is in static cycles, counted in the schedule that libtpu compiles: a lower bound of compute time, never a measurement.

` + exitHelp,
		Example: `  gdngen tour                                          the first ten minutes, played
  gdngen tune config.json --out kernels                the best kernels for a model
  gdngen gen --spec bench --target v6e --out k.mlir    write the best known kernel for v6e
  gdngen explain --spec bench --target v5e,v6e         what it costs, and where
  gdngen search run --target v6e --budget 3m --run runs/first       rank structural variants`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := negative(cmd); err != nil {
				return err
			}
			if short {
				a.output = "json"
			}
			a.ctx, a.cancel = cmd.Context(), func() {}
			if err := a.configure(cmd); err != nil {
				return err
			}
			if a.timeout > 0 {
				a.ctx, a.cancel = context.WithTimeout(cmd.Context(), a.timeout)
			}
			return nil
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	a.output = "text"
	f := root.PersistentFlags()
	f.VarP(&a.output, "output", "o", "form of the data on standard output")
	f.BoolVar(&short, "json", false, "the same as --output json")
	f.StringVar(&a.libtpu, "libtpu", "", "libtpu.so to compile with, in place of the pinned one")
	f.StringVar(&a.cpuPlugin, "cpu-plugin", "", "PJRT plugin to run on the CPU with, in place of the pinned one")
	f.BoolVar(&a.offline, "offline", false, "download nothing")
	f.DurationVar(&a.timeout, "timeout", 0, "give up after this time, with status 124; 0: never")
	root.Version, _ = version()
	root.SetVersionTemplate("gdngen {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(&cobra.Group{ID: "work", Title: "Kernels:"}, &cobra.Group{ID: "away", Title: "Other machines:"}, &cobra.Group{ID: "know", Title: "What there is:"}, &cobra.Group{ID: "self", Title: "This installation:"})
	root.SetHelpCommand(helpCmd(root))
	root.AddCommand(a.tourCmd(), a.tuneCmd(), a.genCmd(), a.checkCmd(), a.runCmd(), a.compileCmd(), a.explainCmd(), a.searchCmd(), a.ladderCmd(), a.journalCmd(), a.reportCmd(), a.resultsCmd(), a.mfuCmd(), a.benchCmd(),
		a.packCmd(), a.unpackCmd(), a.loopCmd(), a.handoverCmd(), a.remoteCmd(), a.workerCmd(), a.traceCmd(), a.profileCmd(), a.splitCmd(), a.variantsCmd(), a.targetsCmd(), a.backendsCmd(),
		&cobra.Command{Use: "spec", Short: "What a spec is: presets and fields", Long: gdn.SpecHelp(),
			Example: "  gdngen gen --spec bench,t=1024,init\n  gdngen gen --spec t=100,hk=2,hv=4,k=64,v=32,gates=fused,l2norm"},
		&cobra.Command{Use: "variant", Short: "What a variant is: axes and their values", Long: gdn.VariantHelp(),
			Example: "  gdngen check --variant solve=ladder,leaf=16\n  gdngen check --variant merge-packed,chunk=32"}, directiveTopic(), configTopic(),
		a.setupCmd(), a.doctorCmd(), a.selftestCmd(), a.calibrateCmd(), a.cacheCmd(), a.completionCmd(), a.manCmd(), a.versionCmd())
	return root
}

// close frees what commands opened. A program that is still running is left to the end of the process.
func (a *app) close() {
	if a.compiler != nil {
		a.compiler.Close()
	}
	if a.runner != nil {
		a.runner.Close()
	}
	if a.backend != nil && a.ctx.Err() == nil {
		a.backend.Finalize()
	}
	if a.engine != nil && a.ctx.Err() == nil {
		a.engine.Close()
	}
	if a.cancel != nil {
		a.cancel()
	}
}

// negative refuses counts and durations below zero: no flag has a use for one.
func negative(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if kind := f.Value.Type(); (kind == "int" || kind == "duration") && strings.HasPrefix(f.Value.String(), "-") && err == nil {
			err = usage(fmt.Errorf("--%s %s is negative", f.Name, f.Value))
		}
	})
	return err
}

// helpCmd explains a command or a topic; an unknown one is wrong usage.
func helpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		GroupID: "self",
		Example: "  gdngen help search run\n  gdngen help spec",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				var names []string
				for _, b := range c.Commands() {
					names = append(names, b.Name())
				}
				at := c.CommandPath()
				if len(names) == 0 {
					return usage(fmt.Errorf("%s has no commands below it; see gdngen help %s", at, strings.TrimPrefix(at, "gdngen ")))
				}
				return usage(fmt.Errorf("%s has no command or topic %q%s (known: %s)", at, rest[0], near(rest[0], names, ""), strings.Join(names, " ")))
			}
			return c.Help()
		},
	}
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --([\w-]+)`)

// flagError is a usage error, with the flag that a mistyped one is nearest to.
func flagError(cmd *cobra.Command, err error) error {
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if cmd.Name() == "resume" {
			begin, _, bad := cmd.Parent().Find([]string{"run"})
			if bad == nil && begin.Flags().Lookup(m[1]) != nil {
				return usage(fmt.Errorf("%w: a run keeps its --%s as it was begun; %s begins another", err, m[1], begin.CommandPath()))
			}
		}
		return usage(fmt.Errorf("%w%s; see %s --help", err, near(m[1], names, "--"), cmd.CommandPath()))
	}
	text := err.Error()
	for _, r := range valueErrors {
		text = r.pattern.ReplaceAllString(text, r.words)
	}
	return usage(fmt.Errorf("%s; see %s --help", text, cmd.CommandPath()))
}

// valueErrors say in words what Go's parsers of flags object to.
var valueErrors = []struct {
	pattern *regexp.Regexp
	words   string
}{
	{regexp.MustCompile(`strconv\.Parse(Int|Uint): parsing "[^"]*": value out of range`), "the number is too large"},
	{regexp.MustCompile(`strconv\.Parse(Int|Uint): .*`), "want a whole number"},
	{regexp.MustCompile(`strconv\.ParseFloat: .*`), "want a number"},
	{regexp.MustCompile(`strconv\.ParseBool: .*`), "want true or false"},
	{regexp.MustCompile(`time: .*`), "want a duration such as 90s, 10m or 2h"},
}

// near gives `, did you mean "x"?` for the known name that a mistyped one is nearest to, or nothing.
func near(got string, known []string, prefix string) string {
	c := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range known {
		c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	found := c.SuggestionsFor(got)
	if len(found) == 0 {
		return ""
	}
	best := found[0]
	if i := slices.IndexFunc(found, func(name string) bool { return strings.HasPrefix(name, got) }); i >= 0 {
		best = found[i]
	}
	return fmt.Sprintf(", did you mean %q?", prefix+best)
}

// args makes the fault of a validator of arguments one of usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			has := func(flag string) bool { return len(args) > 0 && cmd.Flags().Lookup(flag) != nil }
			return usage(fmt.Errorf("%w%s; see %s --help", err, meant(strings.Join(args, " "), has("spec"), has("variant")), cmd.CommandPath()))
		}
		return nil
	}
}

// meant gives `, did you mean "--spec bench"?` for a word that is a spec or a variant where the command has a flag for one.
func meant(word string, spec, variant bool) string {
	if _, err := gdn.Parse(word); err == nil && spec {
		return fmt.Sprintf(", did you mean %q?", "--spec "+word)
	}
	if _, err := gdn.ParseVariant(word); err == nil && variant {
		return fmt.Sprintf(", did you mean %q?", "--variant "+word)
	}
	return ""
}

// group makes a command that only has others below it: alone it prints its help.
func group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.AddCommand(below...)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, b := range cmd.Commands() {
			names = append(names, b.Name())
		}
		if len(args) > 0 {
			return usage(fmt.Errorf("unknown command %q for %q%s (known: %s)", args[0], cmd.CommandPath(), near(args[0], names, ""), strings.Join(names, " ")))
		}
		return cmd.Help()
	}
	return c
}

// cpu opens the engine that runs on the CPU, fetching its plugin where it is missing.
func (a *app) cpu() (*pjrt.Engine, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	if !pjrt.HasCgo {
		_, err := pjrt.Open("")
		return nil, &codeError{exitNoEngine, err}
	}
	p, err := plugins.CPU(a.ctx, plugins.Options{Path: a.cpuPlugin, Progress: a.stderr, Offline: a.offline})
	if err != nil {
		return nil, err
	}
	if a.engine, err = pjrt.Open(p.Path); err != nil {
		return nil, failed(exitNoEngine, "the CPU engine can not be opened: %w; --engine interp needs none", err)
	}
	return a.engine, nil
}

// compileLimit bounds one compile.
const compileLimit = 10 * time.Minute

// aot gives the compiler for absent TPUs, fetching libtpu where it is missing.
func (a *app) aot() (*aot.Compiler, error) {
	if a.compiler != nil {
		return a.compiler, nil
	}
	var err error
	a.tpu, err = plugins.TPU(a.ctx, plugins.Options{Path: a.libtpu, Progress: a.stderr, Offline: a.offline})
	if err != nil {
		return nil, err
	}
	if a.libtpuBy != "" {
		a.note("libtpu is %s, by %s", a.tpu.Path, a.libtpuBy)
	}
	lock, err := plugins.Machine(a.waiting)
	if err != nil {
		return nil, err
	}
	a.compiler = aot.New(aot.Options{Libtpu: a.tpu.Path, Timeout: compileLimit, Machine: lock})
	return a.compiler, nil
}

// waiting tells whom the command waits for.
func (a *app) waiting(holders []machine.Holder) { a.note("%s", machine.Waiting(holders)) }

// noWaitFlag adds --no-wait.
func noWaitFlag(cmd *cobra.Command, at *bool) {
	cmd.Flags().BoolVar(at, "no-wait", false, "end with status 7 where another process measures or, if this one measures, computes")
}

// machine gives the lock of the machine. With noWait it is refused where a use can not begin at once.
func (a *app) machine(use machine.Use, noWait bool, tell func([]machine.Holder)) (*machine.Lock, error) {
	lock, err := plugins.Machine(tell)
	if err == nil && noWait {
		err = lock.Free(use)
	}
	return lock, err
}

// instrument gives what costs are measured by. Notes of its progress go to standard error.
func (a *app) instrument(fresh bool) (*measure.Instrument, error) {
	compiler, err := a.aot()
	if err != nil {
		return nil, err
	}
	build, err := a.tpu.Identity()
	if err != nil {
		return nil, err
	}
	cache, err := measure.OpenCache()
	if err != nil {
		return nil, err
	}
	cache.Fresh = fresh
	return &measure.Instrument{Compiler: compiler, Libtpu: a.tpu.Name + " " + build, Cache: cache, Note: a.note}, nil
}

// rulerFlag is by what programs are ranked.
func rulerFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "ruler", string(measure.Wall), "what programs are ranked by: wall (where the target has it) or throughput")
	complete(c, "ruler", []string{string(measure.Wall), string(measure.Throughput)})
}

// freshFlag adds --fresh.
func freshFlag(c *cobra.Command, at *bool) {
	c.Flags().BoolVar(at, "fresh", false, "measure anew, and take nothing from the cache")
}

// readInput reads a file, or standard input where the name is "-".
func (a *app) readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.stdin)
	}
	return os.ReadFile(name)
}
