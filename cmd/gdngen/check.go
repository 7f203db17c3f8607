package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/internal/interrupt"
	"github.com/gdngen/gdngen/internal/terminal"
)

// checkRow is the error of one output on one class of inputs, of one kind: the worst of all value heads and seeds.
type checkRow struct {
	Class  string         `json:"class"`
	Output string         `json:"output"`
	Kind   string         `json:"kind,omitempty"` // rms, max or bias
	Error  journal.Figure `json:"error"`
	Limit  journal.Figure `json:"limit"`
	Pass   bool           `json:"pass"`
}

// checkResult is a whole check.
type checkResult struct {
	Spec      string     `json:"spec"`
	Variant   string     `json:"variant"`
	Engine    string     `json:"engine"`
	Target    string     `json:"target,omitempty"`
	Level     string     `json:"level,omitempty"` // of the interpreter: tensor or kernel
	Precision string     `json:"precision"`
	Seed      uint64     `json:"seed"` // the first
	Seeds     []uint64   `json:"seeds,omitempty"`
	Field     bool       `json:"field,omitempty"` // gradients are held to the limits of flash-linear-attention on every class
	Unsafe    string     `json:"unsafe,omitempty"`
	Rows      []checkRow `json:"checks"`
	Pass      bool       `json:"pass"`
}

func (a *app) checkCmd() *cobra.Command {
	var k struct {
		spec, variant, target, engine, level string
		plugin                               string
		classes                              []string
		seed                                 uint64
		seeds                                int
		field                                bool
	}
	var docs strings.Builder
	var names []string
	for _, c := range gdn.Classes {
		names = append(names, c.Name)
		fmt.Fprintf(&docs, "\n  %-12s %s", c.Name, c.Doc)
	}
	c := &cobra.Command{
		Use:   "check",
		Short: "Compare a variant with float64 on classes of inputs",
		Long: `check computes a spec by a variant on random inputs of several classes, and compares each output with the float64 reference. Each value head
has a class of its own; the worst of all heads and seeds is shown.

Three kinds of errors have limits: rms is the root mean square of the error over that of the reference, as flash-linear-attention has it; max the
largest error over the largest value; bias the error projected on the reference, on what earlier chunks bring to it and on its derivative by
the decay, over the length of the reference: what rounding does vanishes there, a state that leaks or a scale that is off does not. Of
a training step gradients have rms alone, and the outputs max. Limits follow from the class and the precision of the variant, and nothing on
the command line loosens them; --field holds gradients to the limits of flash-linear-attention on every class. The status is 3 if one is missed.

Engines: ` + engineHelp() + `.
With --target the kernels that are made for it are checked, by the interpreter or, with --engine module, from the emitted text, which shows
faults of the emitter too. With --engine device the target is the device's generation; a device of another one is refused.

Classes:` + docs.String(),
		Example: `  gdngen check --variant ladder16
  gdngen check --variant neumann                       rejected: see cos.9 and identical
  gdngen check --spec bench,t=512 --variant bf16 --engine cpu --classes random,cos.99
  gdngen check --spec bench,t=512 --target v5e --engine module
  gdngen check --spec bench,t=512 --engine device --target v6e
  gdngen check --spec train,t=512 --variant tpu-train-x3 --field`,
		GroupID: "work",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := parseSpec(k.spec)
			if err != nil {
				return err
			}
			if _, auto := gdn.ParseAuto(k.variant); auto && k.engine == "interp" && k.target == "" {
				k.target = defaultTarget
			}
			p, err := newPlan(k.variant, k.target, k.level, k.engine)
			if err != nil {
				return err
			}
			if err := a.attach(&p, k.engine, k.plugin, k.target); err != nil {
				return err
			}
			form, err := p.form(s)
			if err != nil {
				return err
			}
			a.say(form)
			v := form.Variant
			if k.engine == "reference" {
				return usage(errors.New("--engine reference is what a check compares with: give interp, module or cpu"))
			}
			if k.seeds < 1 {
				return usage(fmt.Errorf("--seeds %d: at least one is needed", k.seeds))
			}
			classes, err := pickClasses(s, k.classes)
			if err != nil {
				return err
			}
			f, _, err := a.findEngine(k.engine, p)
			if err != nil {
				return err
			}
			r := &checkResult{Spec: s.String(), Variant: v.String(), Engine: k.engine, Target: p.targetName(), Level: p.level, Precision: v.Precision().String(), Seed: k.seed, Field: k.field, Unsafe: v.Unsafe(s)}
			for i := range k.seeds {
				r.Seeds = append(r.Seeds, k.seed+uint64(i))
			}
			return a.check(r, s, f, classes)
		},
	}
	specFlag(c, &k.spec, "tiny")
	variantFlag(c, &k.variant)
	c.Flags().StringVar(&k.target, "target", "", "check what is made for this TPU generation (default for auto by the interpreter: "+defaultTarget+")")
	complete(c, "target", codegen.TargetNames())
	c.Flags().StringVar(&k.engine, "engine", "interp", strings.Join(engineNames()[1:], ", "))
	c.Flags().StringVar(&k.plugin, "plugin", "", "with --engine device: "+pluginUse)
	c.Flags().StringVar(&k.level, "level", "", "of the interpreter: tensor, or kernel after the lowering of grids (default: kernel with --target, else tensor)")
	complete(c, "level", []string{"tensor", "kernel"})
	c.Flags().StringSliceVar(&k.classes, "classes", nil, "classes of inputs, separated by commas (default: all that the spec can have)")
	c.Flags().Uint64Var(&k.seed, "seed", 1, "first seed of the inputs")
	c.Flags().IntVar(&k.seeds, "seeds", 3, "number of seeds")
	c.Flags().BoolVar(&k.field, "field", false, "hold gradients to the limits of flash-linear-attention on every class")
	complete(c, "engine", engineNames()[1:])
	complete(c, "classes", names)
	return c
}

// pickClasses finds classes by name, or all that the spec can have.
func pickClasses(s gdn.Spec, names []string) ([]gdn.Class, error) {
	var list []gdn.Class
	if len(names) == 0 {
		for _, c := range gdn.Classes {
			if c.Supports(s) == nil {
				list = append(list, c)
			}
		}
	}
	for _, name := range names {
		c, err := gdn.LookupClass(name)
		if err == nil {
			err = c.Supports(s)
		}
		if err != nil {
			return nil, usage(err)
		}
		list = append(list, c)
	}
	return list, nil
}

// check fills the rows, prints them and fails where a limit is missed.
func (a *app) check(r *checkResult, s gdn.Spec, f compute, classes []gdn.Class) error {
	var marks []exam.Mark
	deals := exam.Deal(s, classes)
	for i, seed := range r.Seeds {
		for j, deal := range deals {
			l, err := interrupt.Await(a.ctx, func() ([]exam.Mark, error) { return checkSheet(r, s, f, deal, seed) })
			if err != nil {
				return err
			}
			marks = append(marks, l...)
			a.note("[%d/%d] seed %d", i*len(deals)+j+1, len(deals)*len(r.Seeds), seed)
		}
	}
	r.Rows = checkRows(marks, classes)
	missed := 0
	for _, row := range r.Rows {
		if !row.Pass {
			missed++
		}
	}
	r.Pass = missed == 0
	if err := emit(a, r, r.Rows, func(w io.Writer) { r.write(a, w) }); err != nil {
		return err
	}
	if !r.Pass {
		return failed(exitNumerics, "%d of %d limits are missed", missed, len(r.Rows))
	}
	return nil
}

// checkSheet computes and judges one sheet.
func checkSheet(r *checkResult, s gdn.Spec, f compute, classes []gdn.Class, seed uint64) ([]exam.Mark, error) {
	x, err := exam.Draw(s, classes, seed)
	if err != nil {
		return nil, err
	}
	got, err := f(s, x.Inputs)
	if err != nil {
		return nil, err
	}
	marks, err := x.Judge(r.Precision, got)
	if err != nil {
		return nil, err
	}
	for i, m := range marks {
		if p := (gdn.Param{Name: m.Output}); r.Field && m.Output != "o" && m.Output != "final_state" {
			marks[i].Limit = min(m.Limit, gdn.FieldLimit(p))
		}
	}
	return marks, nil
}

// checkRows are the worst marks of each class, output and kind, in the order of the classes.
func checkRows(marks []exam.Mark, classes []gdn.Class) []checkRow {
	type group struct{ class, output, kind string }
	worst := exam.Worst(marks, func(m exam.Mark) group { return group{m.Class, m.Output, m.Family()} })
	var rows []checkRow
	for _, c := range classes {
		for _, m := range worst {
			if m.Class == c.Name {
				rows = append(rows, checkRow{Class: m.Class, Output: m.Output, Kind: m.Family(), Error: journal.Figure(m.Error), Limit: journal.Figure(m.Limit), Pass: m.Pass()})
			}
		}
	}
	return rows
}

// head says what is checked.
func (r *checkResult) head() string {
	by := "by " + r.Engine
	if r.Level != "" {
		by += " at the " + r.Level + " level"
	}
	if r.Target != "" {
		by += " for " + r.Target
	}
	seeds := fmt.Sprintf("seed %d", r.Seed)
	if n := len(r.Seeds); n > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", r.Seed, r.Seeds[n-1])
	}
	return fmt.Sprintf("spec %s\nvariant %s\n%s, precision %s, %s\n", r.Spec, r.Variant, by, r.Precision, seeds)
}

// write shows the errors of an output side by side.
func (r *checkResult) write(a *app, w io.Writer) {
	fmt.Fprintln(w, r.head())
	t := terminal.NewTable("CLASS", "OUTPUT", ">RMS", ">LIMIT", ">MAX", ">LIMIT", ">BIAS", ">LIMIT", "STATUS")
	for rows := r.Rows; len(rows) > 0; {
		n := 1
		for n < len(rows) && rows[n].Class == rows[0].Class && rows[n].Output == rows[0].Output {
			n++
		}
		line, status := []any{rows[0].Class, rows[0].Output}, casePass
		for _, kind := range []string{exam.RMS, exam.Max, exam.Bias} {
			figure, limit := "-", "-"
			for _, row := range rows[:n] {
				if row.Kind == kind {
					figure, limit = fmt.Sprintf("%.2e", float64(row.Error)), fmt.Sprintf("%.1e", float64(row.Limit))
				}
				if !row.Pass {
					status = caseFail
				}
			}
			line = append(line, figure, limit)
		}
		t.Add(append(line, status)...)
		rows = rows[n:]
	}
	t.Write(w)
}
