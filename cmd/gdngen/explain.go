package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// explanation is the static cost of a module on one target.
type explanation struct {
	Target   string          `json:"target"`
	Compiler string          `json:"compiler"`
	Variant  string          `json:"variant,omitempty"`               // in full
	Auto     string          `json:"auto,omitempty"`                  // what auto stands for on the target, and why
	PerToken float64         `json:"cycles_per_token_head,omitempty"` // absent where tokens and heads are not known
	Bounds   []measure.Bound `json:"bounds"`
	Stages   []llo.Location  `json:"stages"` // cycles by stage of the algorithm, or by source file of a foreign kernel
	Report   *llo.Report     `json:"report"`
	Against  *explanation    `json:"against,omitempty"` // of the module that --diff names
	Diff     *comparison     `json:"diff,omitempty"`

	module *module
	work   float64 // tokens x value heads; 0 where not known
	target *codegen.Target
}

// explainResult is a module on some targets, alone or against another.
type explainResult struct {
	Module  *module        `json:"module"`
	Against *module        `json:"against,omitempty"`
	Note    string         `json:"note"`
	Targets []*explanation `json:"targets"`
}

// pageColumns is the most columns of the picture of a schedule.
const pageColumns = 600

// explainFlags are the flags of explain.
type explainFlags struct {
	origin
	target, dump, diff, html string
	tokens, heads, top       int
	scalars                  []string
	fresh                    bool
}

func (a *app) explainCmd() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain (FILE | --spec SPEC)",
		Short: "Say what a module costs on a TPU, and where",
		Long: `explain compiles a module for TPUs that are not attached and reads the schedule: static cycles by op and by stage of the algorithm, use of
the slots, spills, VMEM, and how far the whole is from what main memory and the matrix and vector units allow. Stages add up to the whole;
in brackets stand ops whose cycles the compiler gives no stage. A file may hold any StableHLO module in text form, such as one that JAX
lowered, so other kernels are costed by the same ruler. --diff sets a second variant or file beside it, the largest changes first. --html
writes one page with a picture of the slots over the schedule of the hottest part. What was measured once comes from the cache.
The status is 4 if a target rejects a module, and 9 if it compiles but its cost is unknown.

` + strings.ToUpper(measure.StaticNote[:1]) + measure.StaticNote[1:] + `
` + measure.WallNote + `
A spec with packed sequences is costed for sequences of equal length, unless --scalars says otherwise.`,
		Example: `  gdngen explain --spec bench --variant bf16 --target v5e,v6e,tpu7x
  gdngen explain --spec bench --variant bf16 --diff auto --html best.html
  gdngen explain kernel.stablehlo.mlir --target v6e --tokens 4096 --heads 8
  gdngen explain varlen.mlir --target v6e --scalars 0=0,100,300 -o json`,
		GroupID: "work",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.explainAll(&f, cmd, args) },
	}
	f.flags(c)
	targetFlag(c, &f.target)
	c.Flags().StringVar(&f.diff, "diff", "", "compare with this variant of the spec, or with the module in this file")
	c.Flags().StringVar(&f.html, "html", "", "write a page with tables and pictures to this file too")
	c.Flags().IntVar(&f.tokens, "tokens", 0, "tokens that a module from a file computes, over the whole batch")
	c.Flags().IntVar(&f.heads, "heads", 0, "value heads of a module from a file")
	c.Flags().IntVar(&f.top, "top", 8, "rows of each list in the text form")
	c.Flags().StringArrayVar(&f.scalars, "scalars", nil, "values of a scalar operand that steers control flow: OPERAND=V,V,... or OP/OPERAND=V,V,...")
	c.Flags().StringVar(&f.dump, "dump", "", "keep the schedules in a folder for each target below this one")
	freshFlag(c, &f.fresh)
	return c
}

func (a *app) explainAll(f *explainFlags, cmd *cobra.Command, args []string) error {
	targets, err := parseTargets(f.target)
	if err != nil {
		return err
	}
	options, err := parseScalars(f.scalars)
	if err != nil {
		return err
	}
	if f.html != "" {
		options.Columns = pageColumns
	}
	if (f.tokens > 0) != (f.heads > 0) {
		return usage(errors.New("--tokens and --heads go together and are at least 1"))
	}
	if f.html != "" {
		if err := store.Writable(f.html); err != nil {
			return err
		}
	}
	modules, err := f.modules(a, cmd, args, targets)
	if err != nil {
		return err
	}
	if f.tokens > 0 && modules[0].program.Spec != nil {
		return usage(errors.New("--tokens and --heads are for a file: the spec has its own"))
	}
	r := &explainResult{Module: modules[0], Note: measure.StaticNote + " " + measure.WallNote}
	var others []*module
	if f.diff != "" {
		if others, err = f.others(a, f.diff, targets); err != nil {
			return err
		}
		r.Against = others[0]
	}
	if len(modules[0].Scalars) > 0 {
		a.note("%s", measure.EqualLengths)
		r.Note += " " + strings.ToUpper(measure.EqualLengths[:1]) + measure.EqualLengths[1:] + "."
	}
	work := float64(f.tokens) * float64(f.heads)
	if s := modules[0].program.Spec; s != nil {
		work = float64(s.Batch) * float64(s.Tokens) * float64(s.HeadsV)
	}
	x, err := a.instrument(f.fresh)
	if err != nil {
		return err
	}
	options.Dump = f.dump
	one := func(m *module, t *codegen.Target) (*explanation, error) {
		e := &explanation{Target: t.Name, Compiler: versionOf(a.tpu), Variant: m.Variant, Auto: m.auto, module: m, work: work, target: t}
		return e, a.explain(e, x, options)
	}
	var refused error
	for i, t := range targets {
		e, err := one(modules[i], t)
		if err == nil && others != nil {
			if e.Against, err = one(others[i], t); err == nil {
				e.Diff = compare(e, e.Against)
			}
		}
		if err != nil && len(targets) == 1 || a.ctx.Err() != nil {
			return err
		}
		if err != nil {
			a.warn("%s: %v", t.Name, err)
			if refused == nil {
				refused = failed(exitCode(err), "%s: %w", t.Name, err)
			}
			continue
		}
		r.Targets = append(r.Targets, e)
	}
	if f.html != "" {
		if err := r.writePage(f.html); err != nil {
			return err
		}
	}
	if err := emit(a, r, r.Targets, func(w io.Writer) { r.write(a, w, f.top) }); err != nil {
		return err
	}
	return refused
}

// parseScalars reads values of scalar operands.
func parseScalars(entries []string) (measure.Options, error) {
	var o measure.Options
	for _, entry := range entries {
		key, list, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return o, usage(fmt.Errorf("--scalars %q: want OPERAND=V,V,..., such as 0=0,100,300", entry))
		}
		for text := range strings.SplitSeq(list, ",") {
			v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return o, usage(fmt.Errorf("--scalars %q: %q is not an integer", entry, text))
			}
			if o.Scalars == nil {
				o.Scalars = map[string][]int64{}
			}
			o.Scalars[key] = append(o.Scalars[key], v)
		}
	}
	return o, nil
}

// explain measures the module and fills the explanation.
func (a *app) explain(e *explanation, x *measure.Instrument, o measure.Options) error {
	c, err := x.Static(a.ctx, e.module.program, e.target, o)
	if err != nil {
		return err
	}
	e.Report = c.Report
	if o.Scalars != nil && len(c.Unread) > 0 {
		a.warn("%s: no kernel reads the operands that --scalars %s names", e.target.Name, strings.Join(c.Unread, ", "))
	}
	if e.work > 0 {
		e.PerToken = float64(e.Report.Cycles) / e.work
	}
	e.Bounds = e.module.program.Bounds(e.Report, e.target)
	e.Stages = e.module.program.Stages(e.Report)
	return nil
}

// Changed lists the axes in which two variants of a spec differ, as A -> B; empty where one is no variant.
func (r *explainResult) Changed() string {
	if r.Against == nil || r.Module.program.Spec == nil || r.Against.program.Spec == nil {
		return ""
	}
	var list []string
	for _, x := range gdn.Axes {
		if from, to := x.Get(&r.Module.program.Variant), x.Get(&r.Against.program.Variant); from != to {
			list = append(list, fmt.Sprintf("%s %s -> %s", x.Name, from, to))
		}
	}
	return strings.Join(list, ", ")
}

func (r *explainResult) write(a *app, w io.Writer, top int) {
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
			e.Diff.write(a, w, e, top)
		} else {
			e.write(a, w, top)
		}
	}
	if len(r.Targets) > 0 {
		fmt.Fprintf(w, "\n%s\n", r.Note)
	}
}

func (e *explanation) write(a *app, w io.Writer, top int) {
	r := e.Report
	perToken := func(cycles int64) string {
		if e.work == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", float64(cycles)/e.work)
	}
	fmt.Fprintf(w, "target    %s, by %s\ncycles    %d static, whole module", e.Target, e.Compiler, r.Cycles)
	if e.work > 0 {
		fmt.Fprintf(w, ": %.2f per token and value head", e.PerToken)
	}
	if s := e.module.program.Spec; s != nil && s.Direction == gdn.Train {
		kept := e.module.program.Variant.KeptBytes(*s)
		fmt.Fprintf(w, "\nkept      %s from the forward to the backward pass: %.0f bytes per token and value head", terminal.Size(kept), float64(kept)/e.work)
	}
	e.writeWall(w, perToken)
	fmt.Fprintf(w, "\nmemory    %s through HBM, %s of %s VMEM\nschedule  %s\n\n", trafficText(r), terminal.Size(r.VMEM), terminal.Size(int64(e.target.VMEM)), r.Schedule)

	t := terminal.NewTable("BOUND", ">CYCLES", ">PER TOKEN", ">SCHEDULE IS", "MEANING")
	for _, b := range e.Bounds {
		t.Add(b.Name, b.Cycles, perToken(b.Cycles), fmt.Sprintf("%.2f x", b.Ratio), b.Meaning)
	}
	t.Write(w)

	fmt.Fprintln(w)
	t = terminal.NewTable("OP", ">CALLS", ">CYCLES", ">SHARE", ">PER TOKEN", ">WALL", ">STALL", ">MXU BUSY", ">SPILLS", ">FILLS", ">VMEM")
	for i, op := range r.Ops {
		if i == top {
			t.Add(fmt.Sprintf("(%d more)", len(r.Ops)-top))
			break
		}
		all := op.Calls * op.Cycles
		t.Add(op.Name, op.Calls, all, terminal.Percent(all, r.Cycles), perToken(all), cyclesText(op.Calls*op.Wall.Cycles), terminal.Percent(op.Stall, op.Cycles), terminal.Percent(op.MXUBusy, op.Cycles),
			op.Calls*op.Spills, op.Calls*op.Fills, terminal.Size(op.VMEM))
	}
	t.Add("(top level)", 1, r.TopLevel, terminal.Percent(r.TopLevel, r.Cycles), perToken(r.TopLevel))
	t.Write(w)
	if len(r.Ops) == 0 {
		return
	}
	hot := r.Ops[0]
	fmt.Fprintf(w, "\nslots of %s:", hot.Name)
	for _, s := range hot.Slots {
		fmt.Fprintf(w, "  %s %s", s.Name, terminal.Percent(s.Used, s.Capacity))
	}
	fmt.Fprint(w, "\n\n")
	t = terminal.NewTable("STAGE", ">CYCLES", ">SHARE", ">PER TOKEN", ">WAITS", ">INSTRUCTIONS")
	for i, s := range e.Stages {
		if i == top {
			break
		}
		t.Add(s.File, s.Cycles, terminal.Percent(s.Cycles, r.Cycles), perToken(s.Cycles), s.Wait, s.Instructions)
	}
	if len(e.Stages) > 0 {
		t.Write(w)
	}
	e.writeLines(a, w, &hot, top, perToken)
}

// writeWall says how long the module takes in order, and what for.
func (e *explanation) writeWall(w io.Writer, perToken func(int64) string) {
	wall, code := e.Report.Wall, e.Report.Code
	if wall.Unknown != "" {
		fmt.Fprintf(w, "\nwall      not known: %s", wall.Unknown)
		return
	}
	fmt.Fprintf(w, "\nwall      %d cycles", wall.Cycles)
	if e.work > 0 {
		fmt.Fprintf(w, ": %s per token and value head", perToken(wall.Cycles))
	}
	fmt.Fprintf(w, "; %d at 85 %% of the bandwidth, %d without main memory", wall.At85, wall.Latency)
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

// mostWaits is how many kinds of waits the text names.
const mostWaits = 6

// trafficText is the traffic of main memory, or why it is not known.
func trafficText(r *llo.Report) string {
	if r.HBMBytes < 0 {
		return "? (" + r.HBMUnknown + ")"
	}
	return terminal.Size(r.HBMBytes)
}

// cyclesText is a question mark for what is not known.
func cyclesText(n int64) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprint(n)
}

// writeLines lists the hottest places of an op, where locations are finer than stages.
func (e *explanation) writeLines(a *app, w io.Writer, op *llo.OpReport, top int, perToken func(int64) string) {
	t := terminal.NewTable("LOCATION", ">CYCLES", ">SHARE", ">PER TOKEN")
	finer := false
	for i, l := range op.Locations {
		if i == top {
			break
		}
		finer = finer || l.Line > 1 && l.File != "-"
		if l.File != "" && l.File != "-" {
			t.Add(fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column), op.Calls*l.Cycles, terminal.Percent(l.Cycles, op.Cycles), perToken(op.Calls*l.Cycles))
		}
	}
	if finer {
		fmt.Fprintln(w)
		t.Write(w)
	}
}
