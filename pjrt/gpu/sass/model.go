package sass

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// Launch has the facts of a launch that the code's listing does not show.
type Launch struct {
	Programs int   // of the grid
	Warps    int   // of a program
	Shared   int   // bytes of shared memory per program
	Trips    int   // of the longest loop, in the longest-running program
	Bytes    int64 // main-memory traffic of all programs, in bytes
}

// Cost is the modelled time of a launch, and its parts. Times are in microseconds.
type Cost struct {
	Time         float64 `json:"modelled_us"` // the larger of Issue and DRAM
	Issue        float64 `json:"issue_us"`    // time on the multiprocessors
	DRAM         float64 `json:"dram_us"`     // HBM time, at a copy's rate
	Cycles       float64 `json:"cycles"`      // per wave
	Turn         float64 `json:"turn_cycles"` // per iteration of the longest loop; 0: no loop
	Resident     int     `json:"resident"`    // programs per multiprocessor
	Limit        int     `json:"resident_limit"`
	Waves        float64 `json:"waves"`
	Registers    int     `json:"registers"`
	Stack        int     `json:"stack_bytes"`
	Instructions int     `json:"instructions"`
	// Busy is the number of cycles that each unit of a scheduler is busy: per iteration of the longest loop, or in all code without a loop.
	Busy map[string]float64 `json:"busy_cycles"`
}

// Model returns the modelled time of a launch on a GPU; it errs if the GPU's latencies are unknown.
func (c *Code) Model(l Launch, g *target.GPU) (*Cost, error) {
	if g.Timing == nil {
		return nil, fmt.Errorf("no times are modelled for %s: its latencies are not known", g.Name)
	}
	limit, err := c.resident(l, g)
	if err != nil {
		return nil, err
	}
	resident := min(limit, max(1, (l.Programs+g.SMs-1)/g.SMs))
	r := &Cost{Resident: resident, Limit: limit, Registers: c.Registers, Stack: c.Stack}
	code, at := c.steps(g)
	r.Instructions = len(code)
	s := scheduler{timing: g.Timing, warps: max(1, l.Warps*resident/g.Schedulers), group: max(1, l.Warps/g.Schedulers)}
	if at == nil {
		r.Cycles, r.Busy = s.run(code)
	} else {
		// a loop iteration is half the difference between runs with four and with two iterations
		before, body, after := code[:at.first], code[at.first:at.last], code[at.last:]
		turns := func(n int) float64 {
			all := append([]step(nil), before...)
			for range n {
				all = append(all, body...)
			}
			cycles, _ := s.run(append(all, after...))
			return cycles
		}
		two := turns(2)
		r.Turn = (turns(4) - two) / 2
		r.Cycles = two + r.Turn*float64(l.Trips-2)
		_, r.Busy = s.run(body)
	}
	r.Waves = float64(l.Programs) / float64(resident*g.SMs)
	whole := r.Waves
	if whole < 4 {
		whole = max(1, math.Ceil(whole))
	}
	r.Issue = r.Cycles * whole / g.Clock * 1e6
	r.DRAM = float64(l.Bytes) / g.Copy * 1e6
	r.Time = max(r.Issue, r.DRAM)
	return r, nil
}

// resident returns the number of programs that a multiprocessor holds at a time.
func (c *Code) resident(l Launch, g *target.GPU) (int, error) {
	if l.Programs < 1 || l.Warps < 1 {
		return 0, fmt.Errorf("sass: a launch of %d programs of %d warps", l.Programs, l.Warps)
	}
	registers := (max(c.Registers, 16) + 7) / 8 * 8 // a warp gets registers in units of eight
	// the reserve is per program, so one with the most shared memory fits exactly once
	n := min(g.Registers/(registers*32*l.Warps), g.Shared/(l.Shared+g.SharedReserved), g.Threads/(32*l.Warps), g.Programs)
	return max(n, 1), nil
}

// step is an instruction of a trace, as the scheduler sees it.
type step struct {
	use
	stall              float64
	sets, frees, waits int
	kind               kind
	keep               int  // number of copy groups that may be outstanding, for waitCopies
	commits            bool // closes a group of products
}

// kind is an instruction's special effect on a warp.
type kind int

const (
	plain kind = iota
	barrier
	waitProducts // WARPGROUP.DEPBAR
	waitCopies   // DEPBAR: waits for groups of copies into shared memory
	copyShared   // LDGSTS
	closeCopies  // LDGDEPBAR
	product      // of a warp group, asynchronous
)

var copiesLeft = regexp.MustCompile(`SB0, (0x[0-9a-f]+|\d+)`)

func newStep(i instr, g *target.GPU) step {
	s := step{use: useOf(i, g), stall: float64(max(i.stall, 1)), sets: i.sets, frees: i.frees, waits: i.waits}
	switch {
	case begins(i.op, "BAR.SYNC"):
		s.kind = barrier
	case begins(i.op, "WARPGROUP.DEPBAR"):
		s.kind = waitProducts
	case begins(i.op, "DEPBAR"):
		s.kind = waitCopies
		if m := copiesLeft.FindStringSubmatch(i.text); m != nil {
			n, _ := strconv.ParseInt(m[1], 0, 32)
			s.keep = int(n)
		}
	case begins(i.op, "LDGSTS"):
		s.kind = copyShared
	case i.op == "LDGDEPBAR":
		s.kind = closeCopies
	case s.unit == tensor && s.latency == 0:
		s.kind, s.commits = product, strings.Contains(i.text, "gsb0")
	}
	return s
}

// steps returns the code up to its end as one trace, and the longest loop in it. Inner loops and other loops run once.
func (c *Code) steps(g *target.GPU) ([]step, *loop) {
	end := len(c.instrs) - 1
	for n, i := range c.instrs {
		if i.op == "EXIT" && i.always {
			end = n
			break
		}
	}
	var longest *loop
	for _, l := range c.loops() {
		end = max(end, l.last)
		if longest == nil || l.last-l.first > longest.last-longest.first {
			longest = &l
		}
	}
	var list []step
	at := loop{}
	for n, i := range c.instrs[:end+1] {
		if longest != nil && n == longest.first {
			at.first = len(list)
		}
		if i.op != "NOP" {
			list = append(list, newStep(i, g))
		}
		if longest != nil && n == longest.last {
			at.last = len(list)
		}
	}
	if longest == nil {
		return list, nil
	}
	return list, &at
}

// scheduler is one scheduler of a multiprocessor: it issues one instruction per cycle, from any of its warps.
type scheduler struct {
	timing *target.GPUTiming
	warps  int // number of its warps
	group  int // warps of a program on it, which meet at a barrier
}

// warp is the state of a warp.
type warp struct {
	at       int
	ready    float64    // earliest issue of its next step
	board    [6]float64 // when scoreboards are released
	products float64    // when its products are done
	copies   []float64  // when each group of its copies is done
	opened   float64    // when the last copy is done
}

// never is later than all times.
const never = 1e17

// earliest returns when a warp can issue its next step.
func (w *warp) earliest(s *step, issue, unit float64) float64 {
	t := max(w.ready, issue, unit)
	for b := range w.board {
		if s.waits>>b&1 == 1 {
			t = max(t, w.board[b])
		}
	}
	switch {
	case s.kind == waitProducts:
		t = max(t, w.products)
	case s.kind == waitCopies && len(w.copies) > s.keep:
		t = max(t, w.copies[len(w.copies)-s.keep-1])
	}
	return t
}

// issue updates a warp for a step that is issued.
func (w *warp) issue(s *step, at float64, t *target.GPUTiming) {
	switch s.kind {
	case product: // products run in order
		w.products = max(w.products, at) + s.busy
		if s.commits {
			w.products += 32
		}
	case copyShared:
		w.opened = at + t.DRAM
	case closeCopies:
		w.copies = append(w.copies, w.opened)
	}
	if s.sets < len(w.board) {
		w.board[s.sets] = max(w.board[s.sets], at+s.latency+s.busy)
	}
	if s.frees < len(w.board) {
		w.board[s.frees] = max(w.board[s.frees], at+s.busy+t.Release)
	}
	w.ready = at + s.stall
	w.at++
}

// run returns the cycles until all warps have run a trace, and the busy cycles of each unit. The warp that issued last has priority.
func (x scheduler) run(trace []step) (cycles float64, busy map[string]float64) {
	warps := make([]warp, x.warps)
	units, held := map[string]float64{}, map[string]float64{}
	waiting := map[[2]int][]int{} // warps at a barrier, by program and position
	free, last := 0.0, 0
	for done := 0; done < x.warps; {
		best, at := -1, 10*never
		for k := range x.warps {
			n := (last + k) % x.warps
			w := &warps[n]
			if w.at == len(trace) {
				continue
			}
			s := &trace[w.at]
			if t := w.earliest(s, free, units[s.unit]); t < at {
				best, at = n, t
			}
		}
		last = best
		w := &warps[best]
		s := &trace[w.at]
		free = at + 1
		units[s.unit] = at + s.busy
		held[s.unit] += s.busy
		w.issue(s, at, x.timing)
		if s.kind == barrier {
			key := [2]int{best / x.group, w.at}
			waiting[key] = append(waiting[key], best)
			w.ready = never
			if len(waiting[key]) == x.group {
				for _, n := range waiting[key] {
					warps[n].ready = at + x.timing.Barrier
				}
			}
		}
		if w.at == len(trace) {
			done++
			cycles = max(cycles, at)
		}
	}
	return cycles, maps.Clone(held)
}
