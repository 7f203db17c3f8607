package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Runner runs programs on a device. After a crash or a timeout it opens the device again on the next use.
type Runner struct {
	o    Options
	open *Device // nil after a crash
	of   any     // the source of p: a module or a text
	p    *Program
}

// Device returns the open device; nil after a crash, until Ready or Run opens it again.
func (r *Runner) Device() *Device { return r.open }

// NewRunner opens a device; the errors are Open's.
func NewRunner(ctx context.Context, o Options) (*Runner, error) {
	r := &Runner{o: o}
	return r, r.Ready(ctx)
}

// Ready opens the device if it is not open.
func (r *Runner) Ready(ctx context.Context) (err error) {
	if r.open == nil {
		r.open, err = Open(ctx, r.o)
	}
	return err
}

// Close ends the process of the device.
func (r *Runner) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open, r.of, r.p = nil, nil, nil
	return err
}

// Run computes a module from inputs by name. It compiles the module if the last program was another.
func (r *Runner) Run(ctx context.Context, m *ir.Module, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	args := make([]*array.Array, len(m.Params()))
	for i, p := range m.Params() {
		args[i] = inputs[p.Name]
	}
	results, err := r.run(ctx, m, func(d *Device) (*Program, error) { return d.Load(ctx, m) }, args)
	if err != nil {
		return nil, err
	}
	if len(results) != len(m.Results) {
		return nil, fmt.Errorf("the device gives %d results, the program %d", len(results), len(m.Results))
	}
	outputs := map[string]*array.Array{}
	for i, name := range m.Results {
		outputs[name] = results[i]
	}
	return outputs, nil
}

// RunText computes a StableHLO program. It compiles the text if the last program was another.
func (r *Runner) RunText(ctx context.Context, text string, args ...*array.Array) ([]*array.Array, error) {
	return r.run(ctx, text, func(d *Device) (*Program, error) { return d.Compile(ctx, text) }, args)
}

// run computes a program; load compiles it if the last program was another.
func (r *Runner) run(ctx context.Context, of any, load func(*Device) (*Program, error), args []*array.Array) ([]*array.Array, error) {
	results, err := r.try(ctx, of, load, args)
	crash, late := (*CrashError)(nil), (*TimeoutError)(nil)
	if errors.As(err, &crash) || errors.As(err, &late) {
		return nil, errors.Join(err, r.Close())
	}
	return results, err
}

func (r *Runner) try(ctx context.Context, of any, load func(*Device) (*Program, error), args []*array.Array) ([]*array.Array, error) {
	if err := r.Ready(ctx); err != nil {
		return nil, err
	}
	if r.of != of {
		if r.p != nil {
			if err := r.p.Close(); err != nil {
				return nil, err
			}
		}
		var err error
		r.of, r.p = nil, nil
		if r.p, err = load(r.open); err != nil {
			return nil, err
		}
		r.of = of
	}
	return r.p.Run(ctx, args...)
}
