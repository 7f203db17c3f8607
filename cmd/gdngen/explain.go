package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// explanation is the static cost of a module on one target.
type explanation struct {
	Target   string         `json:"target"`
	Compiler string         `json:"compiler"`
	PerToken float64        `json:"cycles_per_token_head,omitempty"` // absent where tokens and heads are not known
	Bounds   []bound        `json:"bounds"`
	Stages   []llo.Location `json:"stages"` // cycles by stage of the algorithm, or by source file of a foreign kernel
	Report   *llo.Report    `json:"report"`

	work   float64 // tokens x value heads; 0 where not known
	target *codegen.Target
}

// explainResult is a module on some targets.
type explainResult struct {
	Module  *module        `json:"module"`
	Note    string         `json:"note"`
	Targets []*explanation `json:"targets"`
}

const staticNote = "static cycles are counted in the compiler's schedule: a lower bound of compute time. Waits for DMA and main memory are not in them; nothing ran on a TPU."

func (a *app) explainCmd() *cobra.Command {
	var o origin
	var target, dump string
	var tokens, heads, top int
	var scalars []string
	c := &cobra.Command{
		Use:   "explain (FILE | --spec SPEC)",
		Short: "Say what a module costs on a TPU, and where",
		Long: `explain compiles a module for TPUs that are not attached and reads the schedule: static cycles by op and by stage of the algorithm, use of
the slots, spills, VMEM, and how far the whole is from what main memory and the matrix units allow. A file may hold any StableHLO module
in text form, such as one that JAX lowered, so other kernels are costed by the same ruler. The status is 4 if a target rejects it.

` + strings.ToUpper(staticNote[:1]) + staticNote[1:],
		Example: `  gdngen explain --spec bench --variant bf16 --target v5e,v6e,tpu7x
  gdngen explain kernel.stablehlo.mlir --target v6e --tokens 4096 --heads 8
  gdngen explain varlen.mlir --target v6e --scalars 0=0,100,300 -o json`,
		GroupID: "work",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := parseTargets(target)
			if err != nil {
				return err
			}
			options, err := parseScalars(scalars)
			if err != nil {
				return err
			}
			if tokens < 0 || heads < 0 || (tokens > 0) != (heads > 0) {
				return usage(errors.New("--tokens and --heads go together and are at least 1"))
			}
			modules, err := o.modules(a, cmd, args, targets)
			if err != nil {
				return err
			}
			if tokens > 0 && modules[0].spec != nil {
				return usage(errors.New("--tokens and --heads are for a file: the spec has its own"))
			}
			compiler, err := a.aot()
			if err != nil {
				return err
			}
			r := &explainResult{Module: modules[0], Note: staticNote}
			var refused error
			for i, t := range targets {
				e := &explanation{Target: t.Name, Compiler: versionOf(a.tpu), work: float64(tokens) * float64(heads), target: t}
				err := a.explain(e, compiler, modules[i], options, dump)
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
			if err := emit(a, r, r.Targets, func(w io.Writer) { r.write(a, w, top) }); err != nil {
				return err
			}
			return refused
		},
	}
	o.flags(c)
	targetFlag(c, &target)
	c.Flags().IntVar(&tokens, "tokens", 0, "tokens that a module from a file computes, over the whole batch")
	c.Flags().IntVar(&heads, "heads", 0, "value heads of a module from a file")
	c.Flags().IntVar(&top, "top", 8, "rows of each list in the text form")
	c.Flags().StringArrayVar(&scalars, "scalars", nil, "values of a scalar operand that steers control flow: OPERAND=V,V,... or OP/OPERAND=V,V,...")
	c.Flags().StringVar(&dump, "dump", "", "keep the schedules in a folder for each target below this one")
	return c
}

// parseScalars reads values of scalar operands.
func parseScalars(entries []string) (llo.Options, error) {
	o := llo.Options{Scalars: map[string][]int64{}}
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
			o.Scalars[key] = append(o.Scalars[key], v)
		}
	}
	return o, nil
}

// explain compiles the module and fills the explanation.
func (a *app) explain(e *explanation, compiler *aot.Compiler, m *module, options llo.Options, dump string) error {
	dir, done, err := dumpFolder(dump, e.target)
	if err != nil {
		return err
	}
	defer done()
	if _, err := compiler.Compile(a.ctx, aot.Request{Topology: e.target.Topology, Module: m.text, DumpDir: dir}); err != nil {
		return err
	}
	if e.Report, err = options.Analyze(dir, e.target); err != nil {
		return err
	}
	if s := m.spec; s != nil {
		e.work = float64(s.Batch) * float64(s.Tokens) * float64(s.HeadsV)
	}
	if e.work > 0 {
		e.PerToken = float64(e.Report.Cycles) / e.work
	}
	e.Bounds = bounds(e.Report, m, e.target)
	e.Stages = e.Report.Stages()
	if m.spec != nil {
		e.Stages = wholeStages(e.Stages)
	}
	return nil
}

// wholeStages sums the places stage.chunk.head of a generated kernel by stage. What the compiler made of ops without a
// location it places in the file "-", the whole of a short grid included.
func wholeStages(places []llo.Location) []llo.Location {
	var list []llo.Location
	at := map[string]int{}
	for _, p := range places {
		p.File, _, _ = strings.Cut(p.File, ".")
		if p.File == "-" {
			p.File = ""
		}
		i, ok := at[p.File]
		if !ok {
			at[p.File] = len(list)
			list = append(list, p)
			continue
		}
		list[i].Cycles += p.Cycles
		list[i].Instructions += p.Instructions
	}
	slices.SortStableFunc(list, func(x, y llo.Location) int { return cmp.Compare(y.Cycles, x.Cycles) })
	return list
}

func (r *explainResult) write(a *app, w io.Writer, top int) {
	fmt.Fprintf(w, "module    %s\n", r.Module)
	for _, e := range r.Targets {
		fmt.Fprintln(w)
		e.write(a, w, top)
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
	fmt.Fprintf(w, "\nmemory    %s through HBM, %s of %s VMEM\nschedule  %s\n\n", sizeText(r.HBMBytes), sizeText(r.VMEM), sizeText(int64(e.target.VMEM)), r.Schedule)

	t := newTable("BOUND", ">CYCLES", ">PER TOKEN", ">SCHEDULE IS", "MEANING")
	for _, b := range e.Bounds {
		t.add(b.Name, b.Cycles, perToken(b.Cycles), fmt.Sprintf("%.2f x", b.Ratio), b.Meaning)
	}
	t.write(a, w)

	fmt.Fprintln(w)
	t = newTable("OP", ">CALLS", ">CYCLES", ">SHARE", ">PER TOKEN", ">STALL", ">MXU BUSY", ">SPILLS", ">FILLS", ">VMEM")
	for i, op := range r.Ops {
		if i == top {
			t.add(fmt.Sprintf("(%d more)", len(r.Ops)-top))
			break
		}
		all := op.Calls * op.Cycles
		t.add(op.Name, op.Calls, all, percent(all, r.Cycles), perToken(all), percent(op.Stall, op.Cycles), percent(op.MXUBusy, op.Cycles),
			op.Calls*op.Spills, op.Calls*op.Fills, sizeText(op.VMEM))
	}
	t.add("(top level)", 1, r.TopLevel, percent(r.TopLevel, r.Cycles), perToken(r.TopLevel))
	t.write(a, w)
	if len(r.Ops) == 0 {
		return
	}
	hot := r.Ops[0]
	fmt.Fprintf(w, "\nslots of %s:", hot.Name)
	for _, s := range hot.Slots {
		fmt.Fprintf(w, "  %s %s", s.Name, percent(s.Used, s.Capacity))
	}
	fmt.Fprint(w, "\n\n")
	t = newTable("STAGE", ">CYCLES", ">SHARE", ">PER TOKEN", ">INSTRUCTIONS")
	for i, s := range e.Stages {
		if i == top {
			break
		}
		name := s.File
		if name == "" {
			name = "(no location)"
		}
		t.add(name, s.Cycles, percent(s.Cycles, r.Cycles), perToken(s.Cycles), s.Instructions)
	}
	if len(e.Stages) > 0 {
		t.write(a, w)
	}
	e.writeLines(a, w, &hot, top, perToken)
}

// writeLines lists the hottest places of an op, where locations are finer than stages.
func (e *explanation) writeLines(a *app, w io.Writer, op *llo.OpReport, top int, perToken func(int64) string) {
	t := newTable("LOCATION", ">CYCLES", ">SHARE", ">PER TOKEN")
	finer := false
	for i, l := range op.Locations {
		if i == top {
			break
		}
		finer = finer || l.Line > 1 && l.File != "-"
		if l.File != "" && l.File != "-" {
			t.add(fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column), op.Calls*l.Cycles, percent(l.Cycles, op.Cycles), perToken(op.Calls*l.Cycles))
		}
	}
	if finer {
		fmt.Fprintln(w)
		t.write(a, w)
	}
}
