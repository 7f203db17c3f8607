package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
)

// Advice names a part of the cycles that a better program could save.
type Advice struct {
	Name string   `json:"name"`
	Most int64    `json:"most"`           // upper bound on the saving, in cycles of the whole module
	Text string   `json:"text"`           // what takes the cycles
	Axes []string `json:"axes,omitempty"` // axes that influence it; none for a program that is no variant
}

// adviceShare is the least share of the whole that is worth a line.
const adviceShare = .01

// rules find the advice. Each returns the cycles that its subject takes at most (0: none), and describes it.
var rules = []struct {
	name string
	axes []string
	find func(e *Explanation) (int64, string)
}{
	{"gaps", []string{"chunks", "heads", "phases_before", "head_group"}, func(e *Explanation) (int64, string) {
		packed, slot := measure.FullestSlot(e.Report)
		return e.Report.Cycles - int64(packed), fmt.Sprintf("%s, the fullest slot, is %s full over all that is issued: instructions wait for results of others. More independent work side by side fills the gaps",
			slot, terminal.Percent(int64(packed), e.Report.Cycles))
	}},
	{"spills", []string{"chunks", "heads", "chunk", "kq"}, func(e *Explanation) (int64, string) {
		with, slot := measure.FullestSlot(e.Report)
		without, _ := measure.WithoutSpills(e.Report)
		return int64(with - without), fmt.Sprintf("spills and fills of registers make %s the fullest slot. Fewer values alive at a time need none", slot)
	}},
	{"edges", []string{"chunks", "steps", "prefetch"}, part("edges", "each op waits for its first blocks and ends with its last: smaller blocks there, fewer ops, or more tokens in a call")},
	{"copies", []string{"hbm", "prefetch"}, part("copies", "XLA moves whole arrays between HBM and vector memory around ops: arrays that stay in HBM are copied by the kernel, beside its work")},
	{"steps", []string{"prefetch", "chunks"}, part("steps", "HBM is late within ops: fetch blocks a step earlier (Pallas: pl.Buffered), or do more work on each (larger blocks)")},
	{"units", []string{"state_delay", "prologue_end", "head_group"}, part("units", "results of units are waited for in order: put other work between an instruction and the use of its result")},
	{"MXU", []string{"head_group", "mergepairs", "prec"}, func(e *Explanation) (cycles int64, text string) {
		for _, op := range e.Report.Ops {
			cycles += op.Calls * op.Stall
		}
		return cycles, "bundles wait until an MXU is free: products come in bursts. Spread them, or take fewer passes"
	}},
	{"xla", []string{"fuse", "layout", "flow"}, func(e *Explanation) (cycles int64, text string) {
		p := e.module.Program
		if len(p.Kernels()) > 0 {
			cycles = e.Took() - p.InKernels(e.Report, e.Ruler)
		}
		return cycles, "ops of XLA around the kernels, and what passes between ops: let the kernel take arrays as they are" + e.arrays(cycles)
	}},
}

// movedShare: if ops around the kernels take a larger share of the whole, another layout of the arrays is advised.
const movedShare = .2

// arrays advises a layout of a spec's arrays if ops around the kernels take more than movedShare of the whole; otherwise it returns "".
func (e *Explanation) arrays(outside int64) string {
	s := e.module.Program.Spec
	if s == nil || float64(outside) <= movedShare*float64(e.Took()) {
		return ""
	}
	registers := s.K%target.Lanes == 0 && s.V%target.Lanes == 0
	switch {
	case s.Rows == gdn.RowsHeads && registers && !s.Tiled():
		return fmt.Sprintf(". %d and %d heads fill no tiles of rows, so XLA lays out q, k, v and o anew: give them as projections do, [B, T, heads x width] (--spec ...,rows=flat)", s.HeadsK, s.HeadsV)
	case !registers:
		return fmt.Sprintf(". Widths of %d and %d fill no registers of %d lanes, and XLA pads or turns what has them: keep q, k, v and states padded to whole ones", s.K, s.V, target.Lanes)
	case s.Rows != gdn.RowsHeads && s.Seqs > 0:
		return ". Packed sequences are read with heads as an axis: leave out rows where heads are 8, 16 and so on"
	}
	return ""
}

// part returns a rule that takes its cycles from the named part of the in-order cycles.
func part(name, text string) func(*Explanation) (int64, string) {
	return func(e *Explanation) (int64, string) {
		for _, p := range e.Parts {
			if p.Name == name {
				return p.Cycles, text
			}
		}
		return 0, text
	}
}

// advise lists the possible savings, largest first.
func (e *Explanation) advise() []Advice {
	var list []Advice
	for _, r := range rules {
		most, text := r.find(e)
		if float64(most) < adviceShare*float64(e.Took()) {
			continue
		}
		a := Advice{Name: r.name, Most: most, Text: text}
		if e.module.Program.Spec != nil {
			a.Axes = r.axes
		}
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(x, y Advice) int { return cmp.Compare(y.Most, x.Most) })
	return list
}

func (e *Explanation) writeAdvice(w io.Writer) {
	if len(e.Advice) == 0 {
		return
	}
	t := terminal.NewTable("TO WIN", ">AT MOST", ">SHARE", "WHAT TAKES IT")
	for _, a := range e.Advice {
		t.Add(a.Name, a.Most, terminal.Percent(a.Most, e.Took()), a.String())
	}
	t.Write(w)
	fmt.Fprintln(w)
}

// String returns the text followed by the axes that influence it.
func (a Advice) String() string {
	if len(a.Axes) == 0 {
		return a.Text
	}
	return a.Text + " (" + strings.Join(a.Axes, ", ") + ")"
}

// Next returns a command that tries the first target's first advice: it compares the module with another value of the
// advised axis. It is empty without advice, or if no such variant exists.
func (r *Result) Next() string {
	if len(r.Targets) == 0 || r.Module.Program.Spec == nil {
		return ""
	}
	e, s := r.Targets[0], *r.Module.Program.Spec
	v := r.Module.Program.Variant
	base, given := gdn.Auto, ""
	if e.Auto == "" {
		base = v.Short()
		given = " --variant " + base
	}
	for _, a := range e.Advice {
		for _, name := range a.Axes {
			x, err := gdn.LookupAxis(name)
			if err != nil {
				continue
			}
			for _, value := range neighbors(x.Values, x.Get(&v)) {
				if w, err := v.With(name, value); err == nil && w.Check(s) == nil && w.Canon() != v.Canon() {
					return fmt.Sprintf("gdngen explain --spec %s%s --target %s --diff %s,%s=%s, or gdngen search run --spec %s --target %s --run DIR", s, given, e.Target, base, name, value, s, e.Target)
				}
			}
		}
	}
	return ""
}

// neighbors returns the values just before and after one.
func neighbors(values []string, one string) (list []string) {
	i := slices.Index(values, one)
	if i > 0 {
		list = append(list, values[i-1])
	}
	if i >= 0 && i+1 < len(values) {
		list = append(list, values[i+1])
	}
	return list
}
