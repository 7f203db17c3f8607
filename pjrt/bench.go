//go:build cgo

package pjrt

import (
	"context"
	"fmt"
	"time"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Flush overwrites its own buffer, so that caches up to half its size hold nothing else. Only one measurement at a time may use it.
type Flush struct {
	program *Program
	buffer  *Buffer
}

// NewFlush makes a Flush of the given size in bytes. It lives as long as the engine.
func (e *Engine) NewFlush(bytes int) (*Flush, error) {
	p, err := e.Compile(flushModule(bytes))
	if err != nil {
		return nil, fmt.Errorf("pjrt: flush: %w", err)
	}
	b, err := e.Put(array.New(ir.F32, max(1, bytes/4)))
	if err != nil {
		return nil, err
	}
	return &Flush{p, b}, nil
}

// run needs the engine's lock, at least for reading.
func (f *Flush) run() error {
	out, err := f.program.call([]*Buffer{f.buffer})
	if err == nil {
		f.buffer = out[0]
	}
	return err
}

// Bench measures the program as opts says. ctx is checked between executions; if it ends, Bench returns its error.
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
func (p *Program) once(ctx context.Context, flush *Flush, args []*array.Array) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	inputs, err := p.upload(args)
	defer destroy(inputs)
	if err != nil {
		return 0, err
	}
	if flush != nil {
		if err := flush.run(); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	outputs, err := p.execute(inputs)
	took := time.Since(start)
	destroy(outputs)
	return took, err
}
