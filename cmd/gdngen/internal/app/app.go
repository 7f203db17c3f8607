// Package app is what all commands of gdngen share: one run of the program with its streams and global flags, what commands open on the way,
// how specs, variants and targets are read, offered and completed, and how results and errors are told.
package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// App is one run of the program: its streams, the global flags, and what commands open on the way.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Output    format
	Libtpu    string
	CPUPlugin string
	Offline   bool
	Timeout   time.Duration

	Ctx         context.Context // of the command
	Cancel      context.CancelFunc
	engine      *pjrt.Engine
	closeEngine func() error
	Runner      *device.Runner  // of --engine device
	Backend     compute.Backend // of GoMLX
	Compiler    *aot.Compiler
	TPU         plugins.Plugin
	told        []string // what was said of the user's champions

	config      configuration
	configFault error  // of a file that can not be read, for commands that go on
	libtpuBy    string // the file that names the libtpu; empty where none does
}

// Close frees what commands opened. A program that is still running is left to the end of the process.
func (a *App) Close() {
	if a.Compiler != nil {
		a.Compiler.Close()
	}
	if a.Runner != nil {
		a.Runner.Close()
	}
	if a.Backend != nil && a.Ctx.Err() == nil {
		a.Backend.Finalize()
	}
	if a.engine != nil && a.Ctx.Err() == nil {
		a.closeEngine()
	}
	if a.Cancel != nil {
		a.Cancel()
	}
}

// Near gives `, did you mean "x"?` for the known name that a mistyped one is nearest to, or nothing.
func Near(got string, known []string, prefix string) string {
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

// Args makes the fault of a validator of arguments one of usage.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			has := func(flag string) bool { return len(args) > 0 && cmd.Flags().Lookup(flag) != nil }
			return Usage(fmt.Errorf("%w%s; see %s --help", err, Meant(strings.Join(args, " "), has("spec"), has("variant")), cmd.CommandPath()))
		}
		return nil
	}
}

// Meant gives `, did you mean "--spec bench"?` for a word that is a spec or a variant where the command has a flag for one.
func Meant(word string, spec, variant bool) string {
	if _, err := gdn.Parse(word); err == nil && spec {
		return fmt.Sprintf(", did you mean %q?", "--spec "+word)
	}
	if _, err := gdn.ParseVariant(word); err == nil && variant {
		return fmt.Sprintf(", did you mean %q?", "--variant "+word)
	}
	return ""
}

// Group makes a command that only has others below it: alone it prints its help.
func Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.AddCommand(below...)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, b := range cmd.Commands() {
			names = append(names, b.Name())
		}
		if len(args) > 0 {
			return Usage(fmt.Errorf("unknown command %q for %q%s (known: %s)", args[0], cmd.CommandPath(), Near(args[0], names, ""), strings.Join(names, " ")))
		}
		return cmd.Help()
	}
	return c
}

// CPU opens the engine that runs on the CPU, fetching its plugin where it is missing.
func (a *App) CPU() (*pjrt.Engine, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	if !pjrt.HasCgo {
		_, err := pjrt.Open("")
		return nil, &codeError{ExitNoEngine, err}
	}
	p, err := plugins.CPU(a.Ctx, plugins.Options{Path: a.CPUPlugin, Progress: a.Stderr, Offline: a.Offline})
	if err != nil {
		return nil, err
	}
	if a.engine, a.closeEngine, err = p.Open(a.Ctx); err != nil {
		return nil, Failed(ExitNoEngine, "the CPU engine can not be opened: %w; --engine interp needs none", err)
	}
	return a.engine, nil
}

// CompileLimit bounds one compile.
const CompileLimit = 10 * time.Minute

// AOT gives the compiler for absent TPUs, fetching libtpu where it is missing.
func (a *App) AOT() (*aot.Compiler, error) {
	if a.Compiler != nil {
		return a.Compiler, nil
	}
	var err error
	a.TPU, err = plugins.TPU(a.Ctx, plugins.Options{Path: a.Libtpu, Progress: a.Stderr, Offline: a.Offline})
	if err != nil {
		return nil, err
	}
	if a.libtpuBy != "" {
		a.Note("libtpu is %s, by %s", a.TPU.Path, a.libtpuBy)
	}
	lock, err := plugins.Machine(a.Waiting)
	if err != nil {
		return nil, err
	}
	a.Compiler = aot.New(aot.Options{Libtpu: a.TPU.Path, Timeout: CompileLimit, Machine: lock, Sound: a.TPU.Damaged})
	return a.Compiler, nil
}

// Waiting tells whom the command waits for.
func (a *App) Waiting(holders []machine.Holder) { a.Note("%s", machine.Waiting(holders)) }

// NoWaitFlag adds --no-wait.
func NoWaitFlag(cmd *cobra.Command, at *bool) {
	cmd.Flags().BoolVar(at, "no-wait", false, "do not wait for the machine: end with status 7 if another process measures, or, if this command measures, computes")
}

// Machine gives the lock of the machine. With noWait it is refused where a use can not begin at once.
func (a *App) Machine(use machine.Use, noWait bool, tell func([]machine.Holder)) (*machine.Lock, error) {
	lock, err := plugins.Machine(tell)
	if err == nil && noWait {
		err = lock.Free(use)
	}
	return lock, err
}

// Instrument gives what costs are measured by. Notes of its progress go to standard error.
func (a *App) Instrument(fresh bool) (*measure.Instrument, error) {
	compiler, err := a.AOT()
	if err != nil {
		return nil, err
	}
	build, err := a.TPU.Identity()
	if err != nil {
		return nil, err
	}
	cache, err := measure.OpenCache()
	if err != nil {
		return nil, err
	}
	cache.Fresh = fresh
	return &measure.Instrument{Compiler: compiler, Libtpu: a.TPU.Name + " " + build, Cache: cache, Note: a.Note}, nil
}

// RulerFlag is by what programs are ranked.
func RulerFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "ruler", string(measure.Wall), "what programs are ranked by: wall (where the target has it) or throughput")
	Complete(c, "ruler", []string{string(measure.Wall), string(measure.Throughput)})
}

// FreshFlag adds --fresh.
func FreshFlag(c *cobra.Command, at *bool) {
	c.Flags().BoolVar(at, "fresh", false, "measure anew, and take nothing from the cache")
}

// ReadInput reads a file, or standard input where the name is "-".
func (a *App) ReadInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.Stdin)
	}
	return os.ReadFile(name)
}
