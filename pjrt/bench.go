//go:build cgo

package pjrt

import (
	"context"
	"time"

	"github.com/gdngen/gdngen/ir/array"
)

// Bench measures the program as opts says. A context that ends stops it between two executions.
func (p *Program) Bench(ctx context.Context, opts BenchOptions, args ...*array.Array) (Timing, error) {
	if err := opts.check(); err != nil {
		return Timing{}, err
	}
	p.engine.mu.RLock()
	defer p.engine.mu.RUnlock()
	begin := time.Now()
	past := func(limit time.Duration) bool { return opts.Limit > 0 && time.Since(begin) > limit }
	for i := 0; i < opts.Warmup && !(i > 0 && past(opts.Limit/2)); i++ {
		if _, err := p.once(ctx, opts.Flush, args); err != nil {
			return Timing{}, err
		}
	}
	begin = time.Now()
	var all []time.Duration
	for len(all) < opts.Iterations && !(len(all) >= LeastIterations && past(opts.Limit)) {
		took, err := p.once(ctx, opts.Flush, args)
		if err != nil {
			return Timing{}, err
		}
		all = append(all, took)
	}
	return summarize(all), nil
}

// once copies the arguments, flushes, and times one execution.
func (p *Program) once(ctx context.Context, flush *Program, args []*array.Array) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	inputs, err := p.upload(args)
	defer destroy(inputs)
	if err != nil {
		return 0, err
	}
	if flush != nil {
		if flush.exec == nil {
			return 0, errClosed
		}
		written, err := flush.execute(nil)
		destroy(written)
		if err != nil {
			return 0, err
		}
	}
	start := time.Now()
	outputs, err := p.execute(inputs)
	took := time.Since(start)
	destroy(outputs)
	return took, err
}
