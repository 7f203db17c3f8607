// Package explain shows where a module's cost on a TPU comes from: static cycles by op and by stage of the algorithm, the use of
// the slots, memory, and the distance of the whole from the limits of HBM and of the matrix and vector units; alone, or compared
// with another module. Package measure computes the costs; this package combines them, as text or as a page with pictures.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
	"github.com/gdngen/gdngen/pjrt/llo/hlo"
)

// Explanation is the static cost of a module on one target.
type Explanation struct {
	Target   string          `json:"target"`
	Compiler string          `json:"compiler"`
	Variant  string          `json:"variant,omitempty"`               // in full
	Auto     string          `json:"auto,omitempty"`                  // the variant that auto chose on the target, and why
	Ruler    ruler.Ruler     `json:"ruler"`                           // unit of the ranking on the target; issue cycles if in-order cycles are unknown
	PerToken float64         `json:"cycles_per_token_head,omitempty"` // cycles by the ruler; absent if tokens and heads are unknown
	Issued   float64         `json:"issue_per_token_head,omitempty"`
	Parts    []llo.Part      `json:"parts,omitempty"` // in-order cycles beyond the issue cycles, by cause
	Bounds   []measure.Bound `json:"bounds"`
	Advice   []Advice        `json:"advice,omitempty"` // possible savings, largest first
	Stages   []llo.Location  `json:"stages"`           // cycles by stage of the algorithm, or by source file of a foreign kernel
	Report   *llo.Report     `json:"report"`
	Dropped  []string        `json:"dropped,omitempty"` // compiler options of the target that this libtpu lacks
	Plain    *Plain          `json:"plain,omitempty"`   // cost without the target's compiler options, if asked for
	Against  *Explanation    `json:"against,omitempty"` // the module that --diff names
	Diff     *Comparison     `json:"diff,omitempty"`
	Unread   []string        `json:"-"` // operands that the caller gave values for, and no kernel reads

	module *Module
	work   float64 // tokens x value heads; 0: unknown
	target *target.Target
}

// Result is a module on some targets, alone or against another.
type Result struct {
	Module  *Module        `json:"module"`
	Against *Module        `json:"against,omitempty"`
	Note    string         `json:"note"`
	Targets []*Explanation `json:"targets"`
}

// Module is a program to compile, and its origin.
type Module struct {
	Name    string             `json:"name"` // file
	Spec    string             `json:"spec,omitempty"`
	Variant string             `json:"variant,omitempty"`
	Backend string             `json:"backend,omitempty"`
	Scalars map[string][]int64 `json:"scalars,omitempty"` // values of scalar tables that steer the kernels: for sequences of equal length

	Program *measure.Program `json:"-"`
	Auto    string           `json:"-"` // the variant that auto chose, and why
}

// NewModule describes a program.
func NewModule(p *measure.Program) *Module {
	m := &Module{Name: p.Name, Backend: p.Backend(), Scalars: p.Scalars, Program: p}
	if p.Spec != nil {
		m.Spec, m.Variant = p.Spec.String(), p.Variant.String()
	}
	return m
}

func (m *Module) String() string { return m.Program.String() }

// Explain measures the module on a target. work is tokens times value heads; 0: unknown.
func (m *Module) Explain(ctx context.Context, x *measure.Instrument, compiler string, t *target.Target, work float64, o measure.Options) (*Explanation, error) {
	c, err := x.Static(ctx, m.Program, t, o)
	if err != nil {
		return nil, err
	}
	if m.Program.IsStored() {
		compiler = cmp.Or(m.Program.Origin.Compiler, "a compiler that is not named")
	}
	e := &Explanation{Target: t.Name, Compiler: compiler, Variant: m.Variant, Auto: m.Auto, Report: c.Report, Dropped: c.Result.Dropped, module: m, work: work, target: t}
	if o.Scalars != nil {
		e.Unread = c.Unread
	}
	e.Ruler, e.Parts = ruler.InOrder.On(t.Name), e.Report.Parts()
	if e.Report.Wall.Unknown != "" {
		e.Ruler = ruler.Issue
	}
	if work > 0 {
		e.PerToken, e.Issued = float64(e.Took())/work, float64(e.Report.Cycles)/work
	}
	e.Bounds = m.Program.Bounds(e.Report, t)
	e.Stages = m.Program.Stages(e.Report)
	e.Advice = e.advise()
	return e, nil
}

// Plain is a module compiled without the target's compiler options for kernels.
type Plain struct {
	Options map[string]string `json:"options"` // the options left out
	Cycles  int64             `json:"cycles"`  // issue cycles
	Wall    int64             `json:"wall,omitempty"`
	Refused string            `json:"refused,omitempty"` // why there are no cycles
}

// plain measures the module without the options of the target.
func (e *Explanation) plain(ctx context.Context, x *measure.Instrument, o measure.Options) error {
	o.Plain, o.Dump, o.Columns = true, "", 0
	e.Plain = &Plain{Options: e.target.Flags}
	c, err := x.Static(ctx, e.module.Program, e.target, o)
	if refusal := (*measure.Refusal)(nil); errors.As(err, &refusal) {
		e.Plain.Refused = refusal.Error()
		return nil
	}
	if err == nil {
		e.Plain.Cycles, e.Plain.Wall = c.Report.Cycles, max(0, c.Report.Wall.Cycles)
	}
	return err
}

// writeOptions prints the target's compiler options, and the cost without them if asked for.
func (e *Explanation) writeOptions(w io.Writer) {
	var names []string
	for _, n := range slices.Sorted(maps.Keys(e.target.Flags)) {
		names = append(names, n+"="+e.target.Flags[n])
	}
	fmt.Fprintf(w, "\noptions   %s: give it to the compiler (in JAX, compiler_options of the outermost jit)", strings.Join(names, ","))
	p := e.Plain
	switch {
	case len(e.Dropped) > 0:
		fmt.Fprintf(w, "; %s does not have %s, and compiled without", e.Compiler, strings.Join(e.Dropped, ","))
	case p == nil:
		fmt.Fprint(w, "; --without-option counts without")
	case p.Refused != "":
		first, _, _ := strings.Cut(p.Refused, "\n")
		fmt.Fprintf(w, "; without, refused: %s", first)
	default:
		took := p.Cycles
		if e.Ruler == ruler.InOrder {
			took = p.Wall
		}
		fmt.Fprintf(w, "; without, %d %s cycles (%.2f x)", took, e.Ruler, float64(took)/float64(e.Took()))
	}
}

// Took returns the cycles of the module, by its ruler.
func (e *Explanation) Took() int64 {
	if e.Ruler == ruler.InOrder {
		return e.Report.Wall.Cycles
	}
	return e.Report.Cycles
}

// Own returns the part of Took spent in the module's top level, outside of the ops that it calls, in cycles.
func (e *Explanation) Own() int64 {
	if e.Ruler == ruler.InOrder {
		return e.Report.Wall.Own
	}
	return e.Report.TopLevel
}

// Changed lists the axes in which two variants of a spec differ, as "axis A -> B"; "" if one of the two modules has no
// variant.
func (r *Result) Changed() string {
	if r.Against == nil || r.Module.Program.Spec == nil || r.Against.Program.Spec == nil {
		return ""
	}
	var list []string
	for _, x := range gdn.Axes {
		if from, to := x.Get(&r.Module.Program.Variant), x.Get(&r.Against.Program.Variant); from != to {
			list = append(list, fmt.Sprintf("%s %s -> %s", x.Name, from, to))
		}
	}
	return strings.Join(list, ", ")
}

// Write prints the explanation, with at most top rows of each list.
func (r *Result) Write(w io.Writer, top int) {
	if r.Against == nil {
		fmt.Fprintf(w, "module    %s\n", r.Module)
	} else {
		fmt.Fprintf(w, "module A  %s\nmodule B  %s\n", r.Module, r.Against)
		if changed := r.Changed(); changed != "" {
			fmt.Fprintf(w, "changed   %s\n", changed)
		}
	}
	for _, e := range r.Targets {
		fmt.Fprintln(w)
		if e.Variant != r.Module.Variant {
			fmt.Fprintf(w, "variant   %s\n", e.Variant)
		}
		if e.Auto != "" {
			fmt.Fprintf(w, "auto      %s\n", e.Auto)
		}
		if e.Diff != nil {
			e.Diff.write(w, e, top)
		} else {
			e.write(w, top)
		}
	}
	if len(r.Targets) > 0 {
		fmt.Fprintf(w, "\n%s\n", r.Note)
	}
}

func (e *Explanation) write(w io.Writer, top int) {
	r := e.Report
	perToken := func(cycles int64) string {
		if e.work == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", float64(cycles)/e.work)
	}
	fmt.Fprintf(w, "target    %s, by %s", e.Target, e.Compiler)
	e.writeWall(w, perToken)
	fmt.Fprintf(w, "\nissue     %d cycles, whole module", r.Cycles)
	if e.work > 0 {
		fmt.Fprintf(w, ": %.2f per token and value head", e.Issued)
	}
	if len(e.target.Flags) > 0 {
		e.writeOptions(w)
	}
	if s := e.module.Program.Spec; s != nil && s.Direction == gdn.Train {
		kept := build.KeptBytes(*s, e.module.Program.Variant)
		fmt.Fprintf(w, "\nkept      %s from the forward to the backward pass: %.0f bytes per token and value head", terminal.Size(kept), float64(kept)/e.work)
	}
	for _, c := range r.Conditionals {
		fmt.Fprintf(w, "\nwarning   %s", counted(c))
	}
	fmt.Fprintf(w, "\nmemory    %s through HBM, %s of %s VMEM\nschedule  %s\n\n", trafficText(r), terminal.Size(r.VMEM), terminal.Size(int64(e.target.VMEM)), r.Schedule)

	e.writeParts(w, perToken)
	t := terminal.NewTable("BOUND", ">CYCLES", ">?PER TOKEN", ">SCHEDULE IS", "MEANING")
	for _, b := range e.Bounds {
		t.Add(b.Name, b.Cycles, perToken(b.Cycles), fmt.Sprintf("%.2f x", b.Ratio), b.Meaning)
	}
	t.Write(w)

	fmt.Fprintln(w)
	e.writeAdvice(w)
	t = terminal.NewTable("OP", ">CALLS", ">"+e.heading(), ">SHARE", ">?PER TOKEN", ">ISSUED", ">STALL", ">MXU BUSY", ">SPILLS", ">FILLS", ">VMEM")
	whole := e.Took()
	for i, op := range r.Ops {
		if i == top {
			t.Add(fmt.Sprintf("(%d more)", len(r.Ops)-top))
			break
		}
		all := measure.OpBy(e.Ruler, r, &op)
		t.Add(opName(&op), op.Calls, all, terminal.Percent(all, whole), perToken(all), op.Calls*op.Cycles, terminal.Percent(op.Stall, op.Cycles), terminal.Percent(op.MXUBusy, op.Cycles),
			op.Calls*op.Spills, op.Calls*op.Fills, terminal.Size(op.VMEM))
	}
	own := e.Own()
	t.Add("(top level)", 1, own, terminal.Percent(own, whole), perToken(own), r.TopLevel)
	t.Write(w)
	if len(r.Ops) == 0 {
		return
	}
	hot := r.Ops[0]
	fmt.Fprintf(w, "\nslots of %s:", opName(&hot))
	for _, s := range hot.Slots {
		fmt.Fprintf(w, "  %s %s", s.Name, terminal.Percent(s.Used, s.Capacity))
	}
	fmt.Fprint(w, "\n\n")
	t = terminal.NewTable("STAGE", ">"+e.heading(), ">SHARE", ">?PER TOKEN", ">WAITS", ">INSTRUCTIONS")
	for i, s := range e.Stages {
		if i == top {
			break
		}
		cycles := measure.StageBy(e.Ruler, r, s)
		t.Add(s.File, cycles, terminal.Percent(cycles, whole), perToken(cycles), s.Wait, s.Instructions)
	}
	if len(e.Stages) > 0 {
		t.Write(w)
	}
	e.writeLines(w, &hot, top, perToken)
}

// counted notes that the figures include all branches of a conditional.
func counted(c hlo.Conditional) string {
	return fmt.Sprintf("all %d branches of %s (%s) are counted, and a run takes one: explain each alone", c.Branches, c.Name, cmp.Or(c.Op, "conditional"))
}

// writeWall prints the in-order cycles of the module, and their parts.
func (e *Explanation) writeWall(w io.Writer, perToken func(int64) string) {
	wall, code := e.Report.Wall, e.Report.Code
	if wall.Unknown != "" {
		fmt.Fprintf(w, "\nin order  not known: %s", wall.Unknown)
		return
	}
	fmt.Fprintf(w, "\nin order  %d cycles, whole module", wall.Cycles)
	if e.work > 0 {
		fmt.Fprintf(w, ": %s per token and value head", perToken(wall.Cycles))
	}
	fmt.Fprintf(w, "; %d at 85 %% of the bandwidth, %d without HBM", wall.At85, wall.Latency)
	for i, x := range wall.Waits {
		if i == mostWaits {
			break
		}
		fmt.Fprintf(w, "%s%s %d", []string{"\nwaits     ", ", "}[min(i, 1)], x.Kind, x.Cycles)
	}
	fmt.Fprintf(w, "\ncode      %d bundles, %d cycles to load", code.Bundles, code.Cold)
	if code.Note != "" {
		fmt.Fprintf(w, "; %s", code.Note)
	}
}

func (e *Explanation) heading() string { return strings.ToUpper(string(e.Ruler)) }

// writeParts prints the in-order cycles beyond the issue cycles, by cause.
func (e *Explanation) writeParts(w io.Writer, perToken func(int64) string) {
	if e.Parts == nil {
		return
	}
	t := terminal.NewTable("IN ORDER", ">CYCLES", ">SHARE", ">?PER TOKEN", "MEANING")
	wall := e.Report.Wall.Cycles
	for _, p := range append([]llo.Part{{Name: "issue", Cycles: e.Report.Cycles, Meaning: "what the schedule issues, and waits for MXUs"}}, e.Parts...) {
		t.Add(p.Name, p.Cycles, terminal.Percent(p.Cycles, wall), perToken(p.Cycles), p.Meaning)
	}
	t.Write(w)
	fmt.Fprintln(w)
}

// mostWaits is the number of kinds of waits that the text lists.
const mostWaits = 6

// trafficText returns the HBM traffic, or why it is unknown.
func trafficText(r *llo.Report) string {
	if r.HBMBytes < 0 {
		return "? (" + r.HBMUnknown + ")"
	}
	return terminal.Size(r.HBMBytes)
}

// writeLines lists the hottest source lines of an op, if locations are finer than stages, with their text if the file is at hand.
func (e *Explanation) writeLines(w io.Writer, op *llo.OpReport, top int, perToken func(int64) string) {
	t := terminal.NewTable("LOCATION", ">ISSUED", ">OF THE OP", ">?PER TOKEN", "?SOURCE")
	finer := false
	var files sources
	for i, l := range op.Locations {
		if i == top {
			break
		}
		finer = finer || l.Line > 1 && l.File != "-"
		if l.File != "" && l.File != "-" {
			t.Add(fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column), op.Calls*l.Cycles, terminal.Percent(l.Cycles, op.Cycles), perToken(op.Calls*l.Cycles), files.line(l.File, l.Line))
		}
	}
	switch {
	case finer:
		fmt.Fprintln(w)
		t.Write(w)
	case e.module.Program.IsForeign():
		fmt.Fprintln(w, "\n"+e.noLines())
	}
}

// sourceLine is a location in a file, as MLIR writes it.
var sourceLine = regexp.MustCompile(`loc\("[^"]+":[0-9]+:[0-9]+`)

// noLines says why an op has no source lines: its module names none, or the compiler made the op (a fusion, for example).
func (e *Explanation) noLines() string {
	if text, err := e.module.Program.Text(nil); err == nil && sourceLine.MatchString(text) {
		return "no source lines: the module names some, and the compiler keeps them for kernels alone, not for its own fusions"
	}
	return "no source lines: the module names none. JAX writes them with as_text(debug_info=True)"
}

// opName returns an op's name, with its kernel's name if JAX renamed it.
func opName(op *llo.OpReport) string {
	if op.Kernel == "" {
		return op.Name
	}
	return op.Name + " (" + op.Kernel + ")"
}
