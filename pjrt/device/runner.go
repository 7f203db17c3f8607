package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Runner computes on a device. After a crash or a hang it opens the device again.
type Runner struct {
	o    Options
	open *Device    // nil after a crash
	m    *ir.Module // that program is of
	p    *Program
}

// Device is the open device; nil after a crash, until Ready or Run opens it again.
func (r *Runner) Device() *Device { return r.open }

// NewRunner opens a device.
func NewRunner(ctx context.Context, o Options) (*Runner, error) {
	r := &Runner{o: o}
	return r, r.Ready(ctx)
}

// Ready opens the device where it is not open.
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
	r.open, r.m, r.p = nil, nil, nil
	return err
}

// Run computes a module, which is compiled where the last one was another.
func (r *Runner) Run(ctx context.Context, m *ir.Module, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	outputs, err := r.try(ctx, m, inputs)
	crash, late := (*CrashError)(nil), (*TimeoutError)(nil)
	if errors.As(err, &crash) || errors.As(err, &late) {
		return nil, errors.Join(err, r.Close())
	}
	return outputs, err
}

func (r *Runner) try(ctx context.Context, m *ir.Module, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	if err := r.Ready(ctx); err != nil {
		return nil, err
	}
	if r.m != m {
		if r.p != nil {
			if err := r.p.Close(); err != nil {
				return nil, err
			}
		}
		var err error
		r.m, r.p = nil, nil
		if r.p, err = r.open.Load(ctx, m); err != nil {
			return nil, err
		}
		r.m = m
	}
	args := make([]*array.Array, len(m.Params()))
	for i, p := range m.Params() {
		args[i] = inputs[p.Name]
	}
	results, err := r.p.Run(ctx, args...)
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
