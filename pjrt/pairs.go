//go:build cgo

package pjrt

import (
	"errors"
	"time"

	"github.com/gdngen/gdngen/ir/array"
	xla "github.com/gomlx/go-xla/pjrt"
)

// Interleave times two programs of one engine on the same arguments alternately, so that disturbances affect both: pair i has one run of
// each program, and the one that runs first alternates. Arguments stay on the device; results are freed outside the timed part.
func Interleave(opts TimeOptions, a, b *Program, args ...*array.Array) (pairs [][2]time.Duration, err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return nil, err
	}
	if a.engine != b.engine {
		return nil, errors.New("pjrt: two programs of different engines can not be timed in turn")
	}
	a.engine.mu.RLock()
	defer a.engine.mu.RUnlock()
	both := [2]*Program{a, b}
	var inputs [2][]*xla.Buffer
	for i, p := range both {
		held, err := p.upload(args)
		defer destroy(held)
		if err != nil {
			return nil, err
		}
		inputs[i] = held
	}
	for n := range opts.Warmup + opts.Trials {
		var pair [2]time.Duration
		for k := range 2 {
			i := (n + k) % 2
			start := time.Now()
			outputs, err := both[i].execute(inputs[i])
			pair[i] = time.Since(start)
			if err == nil {
				for _, r := range both[i].reused { // a result that reuses an argument's memory is that argument of the next run
					inputs[i][r.argument], outputs[r.result] = outputs[r.result], inputs[i][r.argument]
				}
			}
			destroy(outputs)
			if err != nil {
				return nil, err
			}
		}
		if n >= opts.Warmup {
			pairs = append(pairs, pair)
		}
	}
	return pairs, nil
}
