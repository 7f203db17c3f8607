package thunk

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
)

// Report has the launches, bytes and modelled time of a program on a GPU, over all iterations of its loops.
type Report struct {
	Kernels  int     `json:"kernels"`  // launch sites in the text: a kernel launched at two places counts twice
	Launches int64   `json:"launches"` // of kernels and copies, over all iterations
	Graphs   int64   `json:"graphs"`   // CUDA graphs started, over all iterations; most launches are nodes of one
	Read     int64   `json:"read_bytes"`
	Written  int64   `json:"written_bytes"`
	Loops    []Loop  `json:"loops"`
	Rows     []Row   `json:"rows"` // in program order
	DRAM     float64 `json:"dram_us"`
	// Modelled is the time in microseconds, if the GPU's shortest kernel time is known: launches one after another, each the larger of
	// that and its bytes' time.
	Modelled float64 `json:"modelled_us,omitempty"`
	Unknown  string  `json:"unknown,omitempty"` // why iterations are unknown; the counts above then have one iteration of such loops
}

// Loop is a loop of the program.
type Loop struct {
	Line     int   `json:"line"`  // of the StableHLO
	Depth    int   `json:"depth"` // number of loops around it
	Turns    int64 `json:"turns"` // in total, over all its starts; -1: unknown
	Launches int   `json:"launches"`
	Bytes    int64 `json:"bytes"` // per iteration, without inner loops
}

// Row is a launch at one place of the program.
type Row struct {
	*Thunk
	Turns    int64   `json:"turns"`
	DRAM     float64 `json:"dram_us"` // of all iterations
	Modelled float64 `json:"modelled_us,omitempty"`
}

// counter adds up thunks.
type counter struct {
	*Report
	g     *target.GPU
	turns map[int]int64
	loops map[int]int // number of loops by line
}

// Count returns the report of a program on g. turns has the total iterations of loops by their line in the program;
// XLA's own counts have priority.
func (p *Program) Count(turns map[int]int64, g *target.GPU) *Report {
	c := &counter{Report: &Report{}, g: g, turns: turns, loops: map[int]int{}}
	p.Walk(func(t *Thunk) {
		if t.Loop() {
			c.loops[t.Line]++
		}
	})
	c.add(p.Thunks, 1, 0, nil)
	slices.SortStableFunc(c.Loops, func(a, b Loop) int { return cmp.Compare(a.Line, b.Line) })
	return c.Report
}

// add counts thunks that run a number of times, also in the loop around them.
func (c *counter) add(list []*Thunk, times int64, depth int, in *Loop) {
	for _, t := range list {
		switch {
		case t.Loop():
			c.loop(t, times, depth)
		case t.Launches():
			r := Row{Thunk: t, Turns: times, DRAM: float64(t.Read+t.Written) * float64(times) / c.g.DRAM * 1e6}
			c.Kernels++
			c.Launches += times
			c.Read += times * t.Read
			c.Written += times * t.Written
			c.DRAM += r.DRAM
			if c.g.Timing != nil {
				r.Modelled = float64(times) * max(c.g.Timing.Launch, float64(t.Read+t.Written)/c.g.Copy*1e6)
				c.Modelled += r.Modelled
			}
			if in != nil {
				in.Launches++
				in.Bytes += t.Read + t.Written
			}
			c.Rows = append(c.Rows, r)
		default:
			if t.Graph() {
				c.Graphs += times
			}
			c.add(t.Body, times, depth, in)
		}
	}
}

func (c *counter) loop(t *Thunk, times int64, depth int) {
	total, known := c.turns[t.Line]
	switch {
	case t.Trips >= 0:
		total = times * t.Trips
	case !known || c.loops[t.Line] != 1:
		total = -1
		if c.Unknown == "" {
			c.Unknown = fmt.Sprintf("the turns of the loop at line %d of the StableHLO depend on values that are not known", t.Line)
		}
	}
	l := Loop{Line: t.Line, Depth: depth, Turns: total}
	turns := total
	if total < 0 {
		turns = times
	}
	c.add(t.Test, turns+times, depth+1, &l)
	c.add(t.Body, turns, depth+1, &l)
	c.Loops = append(c.Loops, l)
}

// Write prints the sum, the loops, and the top most expensive launches.
func (r *Report) Write(w io.Writer, top int) {
	fmt.Fprintf(w, "launches  %d, at %d places of the program; %d CUDA graphs started\n", r.Launches, r.Kernels, r.Graphs)
	fmt.Fprintf(w, "traffic   %s read, %s written: %.1f us of HBM\n", terminal.Size(r.Read), terminal.Size(r.Written), r.DRAM)
	if r.Modelled > 0 {
		fmt.Fprintf(w, "modelled  %.1f us: launches and traffic alone\n", r.Modelled)
	} else {
		fmt.Fprintln(w, "modelled  not for this GPU")
	}
	if len(r.Loops) > 0 {
		fmt.Fprintln(w)
		t := terminal.NewTable("LOOP AT LINE", ">TURNS", ">LAUNCHES A TURN", ">TRAFFIC A TURN")
		for _, l := range r.Loops {
			turns := any(l.Turns)
			if l.Turns < 0 {
				turns = "?"
			}
			t.Add(strings.Repeat("  ", l.Depth)+fmt.Sprint(l.Line), turns, l.Launches, terminal.Size(l.Bytes))
		}
		t.Write(w)
	}
	rows := slices.Clone(r.Rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Modelled, a.Modelled), cmp.Compare(b.DRAM, a.DRAM))
	})
	fmt.Fprintln(w)
	t := terminal.NewTable("LAUNCH", ">GRID", ">THREADS", ">SHARED", ">TURNS", ">READ", ">WRITTEN", ">DRAM US", ">MODELLED US")
	for _, x := range rows[:min(top, len(rows))] {
		modelled := ""
		if x.Modelled > 0 {
			modelled = fmt.Sprintf("%.1f", x.Modelled)
		}
		name := x.Name
		if strings.HasPrefix(name, "custom-call") {
			name = x.Kernel
		}
		t.Add(name, product(x.Grid), product(x.Block), x.Shared, x.Turns, terminal.Size(x.Read), terminal.Size(x.Written), fmt.Sprintf("%.1f", x.DRAM), modelled)
	}
	t.Write(w)
	if more := len(rows) - top; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}

// product returns the number of blocks or threads; "" for a copy.
func product(n [3]int) any {
	if p := n[0] * n[1] * n[2]; p > 0 {
		return p
	}
	return ""
}

// Names returns the kernels that are launched, sorted, each once.
func (r *Report) Names() []string {
	names := map[string]bool{}
	for _, x := range r.Rows {
		if x.Kernel != "" {
			names[x.Kernel] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
