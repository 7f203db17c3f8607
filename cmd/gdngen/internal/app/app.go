// Package app has the parts that all commands of gdngen share: one run of the program with its streams and global flags, resources
// that commands open, the reading and completion of specs, variants and targets, and the output of results and errors.
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
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// App is one run of the program: its streams, the global flags, and the resources that commands open.
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
	told        []string // notes about the user's champions made so far

	config      configuration
	configFault error  // of an unreadable configuration file, for commands that go on
	libtpuBy    string // the file that names the libtpu; empty if none does
}

// Close frees the resources that commands opened. A program that is still running is left to the end of the process.
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

// Near returns `, did you mean "x"?` for the known name nearest to a mistyped one, or "".
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

// Args wraps a validator of arguments so that its errors are usage errors.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			has := func(flag string) bool { return len(args) > 0 && cmd.Flags().Lookup(flag) != nil }
			return Usage(fmt.Errorf("%w%s; see %s --help", err, Meant(strings.Join(args, " "), has("spec"), has("variant")), cmd.CommandPath()))
		}
		return nil
	}
}

// Meant returns `, did you mean "--spec bench"?` for a word that is a spec or a variant, if the command has that flag; else "".
func Meant(word string, spec, variant bool) string {
	if _, err := gdn.Parse(word); err == nil && spec {
		return fmt.Sprintf(", did you mean %q?", "--spec "+word)
	}
	if _, err := gdn.ParseVariant(word); err == nil && variant {
		return fmt.Sprintf(", did you mean %q?", "--variant "+word)
	}
	return ""
}

// Group adds commands below c; c alone prints its help.
func Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.AddCommand(below...)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, b := range cmd.Commands() {
			names = append(names, b.Name())
		}
		if len(args) > 0 {
			if _, err := os.Stat(args[0]); err == nil {
				return Usage(fmt.Errorf("%s is a file or folder: name a command before it, %s COMMAND %[1]s (known: %s)", args[0], cmd.CommandPath(), strings.Join(names, " ")))
			}
			return Usage(fmt.Errorf("unknown command %q for %q%s (known: %s)", args[0], cmd.CommandPath(), Near(args[0], names, ""), strings.Join(names, " ")))
		}
		return cmd.Help()
	}
	return c
}

// CPU opens the CPU engine once, and fetches its plugin if missing.
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

// CompileLimit is the time limit of one compile.
const CompileLimit = 10 * time.Minute

// AOT returns the compiler for absent TPUs, and fetches libtpu if missing.
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

// Waiting prints a note that names the processes for which the command waits.
func (a *App) Waiting(holders []machine.Holder) { a.Note("%s", machine.Waiting(holders)) }

// NoWaitFlag adds --no-wait.
func NoWaitFlag(cmd *cobra.Command, at *bool) {
	cmd.Flags().BoolVar(at, "no-wait", false, "do not wait for the machine: end with status 7 if another process measures, or, if this command measures, computes")
}

// Machine returns the lock of the machine. With noWait it errs if the use can not begin at once.
func (a *App) Machine(use machine.Use, noWait bool, tell func([]machine.Holder)) (*machine.Lock, error) {
	lock, err := plugins.Machine(tell)
	if err == nil && noWait {
		err = lock.Free(use)
	}
	return lock, err
}

// Instrument returns the instrument for costs; fresh ignores its cache. Progress goes to standard error.
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

// RulerFlag adds --ruler.
func RulerFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "ruler", string(ruler.InOrder), "cycles that programs are ranked by: in-order (where the target has them) or issue")
	Complete(c, "ruler", []string{string(ruler.InOrder), string(ruler.Issue)})
}

// FreshFlag adds --fresh.
func FreshFlag(c *cobra.Command, at *bool) {
	c.Flags().BoolVar(at, "fresh", false, "measure anew, and take nothing from the cache")
}

// ReadInput reads a file, or standard input for the name "-".
func (a *App) ReadInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.Stdin)
	}
	return os.ReadFile(name)
}
