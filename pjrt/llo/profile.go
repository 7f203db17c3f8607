package llo

import (
	"math"
	"slices"
)

// A Profile is how an op uses its slots over the schedule of its hottest part: the bundles around the hottest region, as far as they
// execute at least half as often. Its columns are runs of bundles in schedule order, so a column is a place in the program, not a
// moment of time.
type Profile struct {
	First   int64    `json:"first"`   // address of the first bundle
	Last    int64    `json:"last"`    // of the last
	Bundles int      `json:"bundles"` // in the schedule
	Runs    int64    `json:"runs"`    // executions of the hottest region
	Cycles  int64    `json:"cycles"`  // over all runs, of the op's cycles
	Slots   []string `json:"slots"`   // as in OpReport
	Columns []Column `json:"columns"` // in the order of the schedule, none empty
}

// A Column is a few bundles in a row. Use is weighted by how often each bundle executes.
type Column struct {
	First   int64            `json:"first"`   // address of the first bundle
	Bundles int              `json:"bundles"` // in the schedule
	Cycles  int64            `json:"cycles"`  // over all runs
	Runs    int64            `json:"runs"`    // executions of its bundles together
	Use     []float64        `json:"use"`     // filled part of the capacity of each slot of the profile, 0 to 1, four digits
	Stall   float64          `json:"stall"`   // part of the cycles that wait for a matrix unit
	Spills  int64            `json:"spills"`  // register spills executed
	Fills   int64            `json:"fills"`   // register fills executed
	Files   map[string]int64 `json:"files"`   // instructions executed, by file of the location; empty: without one
}

// profile sums up the hottest part in at most n columns.
func profile(p *program, bundles []bundle, tr *trace, use *utilization, n int) *Profile {
	lo, hi := hotSpan(p, tr)
	if lo == hi || n < 1 {
		return nil
	}
	f := &Profile{First: p.code[lo].addr, Last: p.code[hi-1].addr, Bundles: hi - lo, Runs: slices.Max(tr.counts[lo:hi]), Slots: use.slots}
	n = min(n, hi-lo)
	for k := range n {
		from, to := lo+k*(hi-lo)/n, lo+(k+1)*(hi-lo)/n
		c := Column{First: p.code[from].addr, Bundles: to - from, Use: make([]float64, len(use.slots)), Files: map[string]int64{}}
		var waits int64
		for i := from; i < to; i++ {
			c.Runs += tr.counts[i]
			waits += tr.waits[i]
			c.Cycles += tr.cyclesAt(p, i)
			for s, used := range use.rows[i] {
				c.Use[s] += float64(used * tr.counts[i])
				switch use.slots[s] {
				case slotSpill:
					c.Spills += used * tr.counts[i]
				case slotFill:
					c.Fills += used * tr.counts[i]
				}
			}
			for _, in := range bundles[i].ins {
				if in.op != "sphi" && in.op != "int_to_ptr" {
					c.Files[parseLocation(in.loc).File] += tr.counts[i]
				}
			}
		}
		for s := range c.Use {
			c.Use[s] = part(c.Use[s], float64(use.capacity[s]*c.Runs))
		}
		c.Stall = part(float64(waits), float64(c.Cycles))
		f.Cycles += c.Cycles
		f.Columns = append(f.Columns, c)
	}
	return f
}

// Merged is the profile in at most n columns: neighbours are one, each weighted by how often it runs.
func (f *Profile) Merged(n int) *Profile {
	if n < 1 || n >= len(f.Columns) {
		return f
	}
	m := *f
	m.Columns = nil
	for k := range n {
		l := f.Columns[k*len(f.Columns)/n : (k+1)*len(f.Columns)/n]
		c := Column{First: l[0].First, Use: make([]float64, len(f.Slots)), Files: map[string]int64{}}
		var waits float64
		for _, x := range l {
			c.Bundles, c.Cycles, c.Runs, c.Spills, c.Fills = c.Bundles+x.Bundles, c.Cycles+x.Cycles, c.Runs+x.Runs, c.Spills+x.Spills, c.Fills+x.Fills
			waits += x.Stall * float64(x.Cycles)
			for s := range c.Use {
				c.Use[s] += x.Use[s] * float64(x.Runs)
			}
			for file, count := range x.Files {
				c.Files[file] += count
			}
		}
		for s := range c.Use {
			c.Use[s] = part(c.Use[s], float64(c.Runs))
		}
		c.Stall = part(waits, float64(c.Cycles))
		m.Columns = append(m.Columns, c)
	}
	return &m
}

// part is x of whole in four digits; 0 where there is no whole.
func part(x, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(1e4*x/whole) / 1e4
}

// hotSpan finds the bundles [lo, hi) around the hottest region that execute at least half as often as it does.
func hotSpan(p *program, tr *trace) (lo, hi int) {
	regions := hotRegions(p, tr)
	if len(regions) == 0 {
		return 0, 0
	}
	hot := regions[0]
	lo = slices.IndexFunc(p.code, func(c code) bool { return c.addr == hot.First })
	hi = lo + 1
	for lo > 0 && 2*tr.counts[lo-1] >= hot.Runs {
		lo--
	}
	for hi < len(p.code) && 2*tr.counts[hi] >= hot.Runs {
		hi++
	}
	return lo, hi
}
