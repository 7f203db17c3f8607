package llo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir/target"
)

// A Wall is how long a module or an op takes in order: issue, interlocks, and transfers of main memory. Its numbers are models, no
// measurements. Not in it: launches, bank conflicts and store queues of vector memory, and what code costs to load but for Cold.
type Wall struct {
	Latency int64  `json:"latency"`           // cycles with interlocks, where main memory answers at once
	Cycles  int64  `json:"cycles"`            // and with transfers, at peak bandwidth
	At85    int64  `json:"at_85"`             // the same at 85 % of it
	Unknown string `json:"unknown,omitempty"` // why there are no figures: they are -1
	Waits   []Wait `json:"waits,omitempty"`   // that Cycles has beside what issues, most first
	Own     int64  `json:"own"`               // of Cycles, without those of ops that it calls
	Edges   int64  `json:"edges"`             // of Waits, those for transfers before the first product and after the last
	Inner   int64  `json:"inner"`             // and those between
}

// A Part is some of what the wall has beside the throughput.
type Part struct {
	Name    string `json:"name"`
	Cycles  int64  `json:"cycles"`
	Meaning string `json:"meaning"`
}

// unitsPart is what is no transfer.
const unitsPart = "units"

// Parts says what the difference between throughput and wall is made of; nil where the wall is not known. They add up to it.
func (r *Report) Parts() []Part {
	if r.Wall.Unknown != "" {
		return nil
	}
	units := Part{Name: unitsPart, Meaning: "waits for registers, units and their results"}
	edges := Part{Name: "edges", Meaning: "first fetch and last store of each op, with nothing to hide behind"}
	inner := Part{Name: "steps", Meaning: "waits for main memory within ops"}
	around := Part{Name: "copies", Meaning: "waits for copies that XLA makes around ops"}
	units.Cycles, around.Cycles = r.Wall.Cycles-r.Cycles, r.Wall.Edges+r.Wall.Inner
	for _, op := range r.Ops {
		edges.Cycles += op.Calls * op.Wall.Edges
		inner.Cycles += op.Calls * op.Wall.Inner
	}
	units.Cycles -= edges.Cycles + inner.Cycles + around.Cycles
	return []Part{units, edges, inner, around}
}

// A Wait is what an interlock cost.
type Wait struct {
	Kind   string `json:"kind"`
	Cycles int64  `json:"cycles"`
}

// An Event is one op or one wait for a copy of the top-level program, by the clock at peak bandwidth.
type Event struct {
	Name  string `json:"name"`  // of the op; empty for a wait
	Start int64  `json:"start"` // cycles from the start of the module
	End   int64  `json:"end"`
}

// Code is the size of the program in bundles, one copy of each op for each place that calls it.
type Code struct {
	Bundles int    `json:"bundles"`
	Cold    int64  `json:"cold"`           // cycles that its load takes at peak bandwidth; -1 where there are no timings
	Note    string `json:"note,omitempty"` // where it does not fit a regular overlay
}

// Transfers is what the wall waits for transfers, at peak bandwidth.
func (r *Report) Transfers() (cycles int64) {
	for _, p := range r.Parts() {
		if p.Name != unitsPart {
			cycles += p.Cycles
		}
	}
	return cycles
}

// clocksOf makes the clocks of one execution: without main memory, and with 100 and 85 % of its bandwidth.
func clocksOf(t *target.Target, bundles int) []*clock {
	tm := t.Timing
	if tm == nil {
		return nil
	}
	var list []*clock
	for _, percent := range [3]int64{instant, 100, 85} {
		list = append(list, newClock(tm, bundles, newChannel(t, tm, percent)))
	}
	return list
}

// A called op is what its callers need of its clocks: the cycles of each, and those that it needs main memory for.
type called struct{ cycles, busy []int64 }

func (c *called) read(clocks []*clock) {
	for _, k := range clocks {
		c.cycles, c.busy = append(c.cycles, k.now), append(c.busy, k.channel.busy)
	}
}

// follow lets the clocks of a program pass an op that it calls.
func (c *called) follow(clocks []*clock, op, unknown string) {
	for i, k := range clocks {
		if unknown != "" {
			k.refuse("%s: %s", op, unknown)
		}
		k.channel.yield(k.now, c.cycles[i], c.busy[i])
		k.channel.busy += c.busy[i]
		k.now += c.cycles[i]
		k.inside += c.cycles[i]
	}
}

// wallOf reads the clocks after an execution.
func wallOf(t *target.Target, p *program, clocks []*clock) Wall {
	unknown := Wall{Latency: -1, Cycles: -1, At85: -1, Own: -1}
	if len(clocks) == 0 {
		unknown.Unknown = fmt.Sprintf("the latencies of %s are not known: its cycles are throughput alone", t.Name)
		return unknown
	}
	unknown.Unknown = p.odd
	for _, k := range clocks {
		unknown.Unknown = cmp.Or(unknown.Unknown, k.fault, k.leftovers())
	}
	if unknown.Unknown != "" {
		return unknown
	}
	k := clocks[1]
	w := Wall{Latency: clocks[0].now, Cycles: k.now, At85: clocks[2].now, Own: k.now - k.inside, Edges: k.edges + k.pending, Inner: k.inner}
	for kind, cycles := range k.waits {
		if cycles > 0 {
			w.Waits = append(w.Waits, Wait{waitNames[kind], cycles})
		}
	}
	sortWaits(w.Waits)
	return w
}

// addWaits adds those of an op to the waits of the module.
func (w *Wall) addWaits(calls int64, op *Wall) {
	for _, x := range op.Waits {
		i := slices.IndexFunc(w.Waits, func(y Wait) bool { return x.Kind == y.Kind })
		if i < 0 {
			i, w.Waits = len(w.Waits), append(w.Waits, Wait{Kind: x.Kind})
		}
		w.Waits[i].Cycles += calls * x.Cycles
	}
	sortWaits(w.Waits)
}

// codeOf sums the bundles of the program: those of the top level and of each place that calls an op.
func (a *analysis) codeOf() Code {
	var size func(name string) int
	size = func(name string) int {
		n := a.ops[name].Static
		for callee, sites := range a.ops[name].sites {
			n += sites * size(callee)
		}
		return n
	}
	c := Code{Bundles: size(topLevel), Cold: -1}
	tm := a.target.Timing
	if tm == nil {
		return c
	}
	c.Cold = tm.Read + newChannel(a.target, tm, 100).cycles(int64(c.Bundles)*target.BundleBytes)
	for name, op := range a.ops {
		if name != topLevel && op.Static > tm.JumboOverlay {
			c.Note = fmt.Sprintf("%s has more than the %d bundles of an overlay: a loop over it would load code at each step", name, tm.JumboOverlay)
			return c
		}
	}
	if c.Bundles > tm.Overlay {
		c.Note = fmt.Sprintf("more than the %d bundles of a regular overlay: the next code is not fetched while this runs", tm.Overlay)
	}
	return c
}

func sortWaits(list []Wait) {
	slices.SortFunc(list, func(x, y Wait) int { return cmp.Or(cmp.Compare(y.Cycles, x.Cycles), cmp.Compare(x.Kind, y.Kind)) })
}
