package llo

import (
	"math"

	"github.com/gdngen/gdngen/ir/target"
)

// A channel is main memory as one clock sees it: reads and writes share its bandwidth in the order in which they start.
//
//	done = max(start + fixed part, channel free) + bytes / bandwidth
//
// Transfers complete on flags, of which a program waits for as many granules as it started.
type channel struct {
	timing   *target.Timing
	granule  int64
	num, den int64 // cycles for a byte; den 0: every transfer is done when it starts
	free     int64 // when the last transfer is through
	busy     int64 // cycles of bytes
	flags    map[value][]transfer
}

type transfer struct {
	start    int64
	granules int64 // -1: told by the wait
	done     int64
	kind     waitKind
	passes   int64 // of main memory
}

// instant is the bandwidth of main memory that answers at once.
const instant = 0

// newChannel has some percent of the peak bandwidth of a target.
func newChannel(t *target.Target, tm *target.Timing, percent int64) *channel {
	return &channel{
		timing: tm, granule: int64(t.Granule), num: int64(math.Round(t.Clock/1e6)) * 100, den: int64(math.Round(t.HBM/1e6)) * percent,
		flags: map[value][]transfer{},
	}
}

// cycles that bytes take, rounded up.
func (c *channel) cycles(bytes int64) int64 { return (bytes*c.num + c.den - 1) / c.den }

// begin starts a transfer that passes main memory some times: -1 granules for a size that the wait will tell.
func (c *channel) begin(now int64, flag value, granules int64, kind waitKind, passes int) {
	t := transfer{start: now, granules: granules, kind: kind, passes: int64(passes)}
	if granules >= 0 {
		c.settle(&t)
	}
	c.flags[flag] = append(c.flags[flag], t)
}

// settle finds when a transfer of known size is done.
func (c *channel) settle(t *transfer) {
	if t.done = t.start; c.den == 0 {
		return
	}
	switch t.kind {
	case waitRead:
		t.done += c.timing.Read
	case waitWrite:
		t.done += c.timing.Write
	default:
		t.done += c.timing.Local
	}
	if t.passes > 0 {
		work := c.cycles(t.passes * t.granules * c.granule)
		t.done = max(t.done, c.free) + work
		c.free, c.busy = t.done, c.busy+work
	}
}

// until is when the first granules on a flag have arrived.
func (c *channel) until(flag value, granules int64) (done int64, kind waitKind) {
	list := c.flags[flag]
	for len(list) > 0 && granules > 0 {
		t := &list[0]
		if t.granules < 0 {
			t.granules = granules
			c.settle(t)
		}
		if t.done >= done {
			done, kind = t.done, t.kind
		}
		if t.granules > granules {
			t.granules -= granules
			break
		}
		granules -= t.granules
		list = list[1:]
	}
	if len(list) == 0 {
		delete(c.flags, flag)
	} else {
		c.flags[flag] = list
	}
	return done, kind
}

// yield lets an op that takes some cycles, for busy of which it needs main memory, pass from now on, before the transfers under way: what
// they have left is done as far as the op leaves main memory idle. The op takes no longer for them.
//
// Example: 1000 cycles of a copy are left when an op of 800 starts that uses main memory for 200. In its 800 cycles the copy gets 600
// done; 400 are left when it ends, at 1200 from its start.
func (c *channel) yield(now, cycles, busy int64) {
	busy = min(busy, cycles)
	for flag, list := range c.flags {
		for i := range list {
			t := &list[i]
			if left := t.done - now; t.granules >= 0 && t.passes > 0 && left > 0 {
				t.done = now + c.during(left, cycles, busy)
			}
		}
		c.flags[flag] = list
	}
	if left := c.free - now; left > 0 {
		c.free = now + c.during(left, cycles, busy)
	}
}

// during is how long work of main memory takes next to an op.
func (c *channel) during(left, cycles, busy int64) int64 {
	if idle := cycles - busy; left > idle {
		return left + busy
	} else if idle > 0 {
		return left * cycles / idle
	}
	return left
}
