package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// KindError says that a device is not of a wanted generation.
type KindError struct {
	Plugin, Kind string
	Wanted       []*target.Target // none: any known one
}

func (e *KindError) Error() string {
	if len(e.Wanted) == 0 {
		_, err := target.OfKind(e.Kind)
		return fmt.Sprintf("the device of %s: %v", e.Plugin, err)
	}
	names := make([]string, len(e.Wanted))
	for i, t := range e.Wanted {
		names[i] = fmt.Sprintf("%s (%s)", t.Name, t.Kind)
	}
	is := fmt.Sprintf("of kind %q", e.Kind)
	if t, err := target.OfKind(e.Kind); err == nil {
		is = fmt.Sprintf("a %s (%s)", t.Name, t.Kind)
	}
	return fmt.Sprintf("the device of %s is %s, and programs are wanted for %s: name the device's own generation, or another plugin", e.Plugin, is, strings.Join(names, ", "))
}

// Target returns the generation of the device; nil if it is not a TPU.
func (d *Device) Target() *target.Target { return d.target }

// Match returns the TPU generation of the device, nil for other devices. It errs with a *KindError if a TPU is not among the wanted ones
// (none: any known one), or if only is set and the device is not a TPU.
func (i Info) Match(plugin string, wanted []*target.Target, only bool) (*target.Target, error) {
	refused := &KindError{plugin, i.Kind, wanted}
	if !i.TPU() {
		if only {
			return nil, refused
		}
		return nil, nil
	}
	t, err := target.OfKind(i.Kind)
	if err != nil || len(wanted) > 0 && !slices.Contains(wanted, t) {
		return nil, refused
	}
	return t, nil
}

// FlagsVariable is the variable with libtpu's flags, which libtpu reads once, when it is loaded.
const FlagsVariable = "LIBTPU_INIT_ARGS"

// Environment returns this process's environment with the compile options of a target added, since a client takes them only from there.
func Environment(t *target.Target) []string {
	environment := os.Environ()
	if t == nil || len(t.Flags) == 0 {
		return environment
	}
	words := strings.Fields(os.Getenv(FlagsVariable))
	for _, name := range slices.Sorted(maps.Keys(t.Flags)) {
		words = append(words, "--"+name+"="+t.Flags[name])
	}
	return append(environment, FlagsVariable+"="+strings.Join(words, " "))
}

// Open starts a process that opens the plugin. The error is an *OpenError, a *KindError, a *CrashError, a *TimeoutError, or ctx's. If
// the device's generation needs compile options, which is known only once it is open, it is opened again with them.
func Open(ctx context.Context, o Options) (*Device, error) {
	o.Start, o.Compile, o.Limit = cmp.Or(o.Start, defaultStart), cmp.Or(o.Compile, defaultCompile), cmp.Or(o.Limit, defaultLimit)
	d, err := open(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	t, err := d.info.Match(o.Plugin, o.Targets, o.Only)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if t != nil && len(t.Flags) > 0 {
		if err := d.Close(); err != nil {
			return nil, err
		}
		if d, err = open(ctx, o, t); err != nil {
			return nil, err
		}
	}
	d.target, d.emit = t, o.Emit
	return d, nil
}

// Load writes a module for the device by Options.Emit, and compiles it there. The error is Emit's, or a *pjrt.CompileError of the
// device's compiler.
func (d *Device) Load(ctx context.Context, m *ir.Module) (*Program, error) {
	if d.emit == nil {
		return nil, errors.New("the device was opened without Options.Emit, by which modules are written for it: codegen/route.Text is one")
	}
	text, err := d.emit(m, d.target)
	if err != nil {
		return nil, err
	}
	return d.Compile(ctx, text)
}
