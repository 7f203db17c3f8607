package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// checkRow is the error of one output on one class of inputs.
type checkRow struct {
	Class  string         `json:"class"`
	Output string         `json:"output"`
	Error  journal.Figure `json:"error"` // largest error over the largest magnitude of the reference
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
	Seed      uint64     `json:"seed"`
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
		Long: `check computes a spec by a variant on random inputs of several classes, and compares each output with the float64 reference. The error is
the largest one over the largest magnitude of the reference, of gradients the root mean square over that of the reference; the limit depends
on the class and on the precision of the variant, and nothing on the command line loosens it. --field holds gradients to the limits of
flash-linear-attention on every class, adversarial ones included. The status is 3 if a limit is missed.

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
			classes, err := pickClasses(s, k.classes)
			if err != nil {
				return err
			}
			f, _, err := a.findEngine(k.engine, p)
			if err != nil {
				return err
			}
			r := &checkResult{Spec: s.String(), Variant: v.String(), Engine: k.engine, Target: p.targetName(), Level: p.level, Precision: v.Precision().String(), Seed: k.seed, Field: k.field, Unsafe: v.Unsafe(s)}
			return a.check(r, s, f, classes)
		},
	}
	specFlag(c, &k.spec, "tiny")
	variantFlag(c, &k.variant)
	c.Flags().StringVar(&k.target, "target", "", "check what is made for this TPU generation (default for auto by the interpreter: "+defaultTarget+")")
	complete(c, "target", targetNames())
	c.Flags().StringVar(&k.engine, "engine", "interp", strings.Join(engineNames()[1:], ", "))
	c.Flags().StringVar(&k.plugin, "plugin", "", "with --engine device: "+pluginUse)
	c.Flags().StringVar(&k.level, "level", "", "of the interpreter: tensor, or kernel after the lowering of grids (default: kernel with --target, else tensor)")
	complete(c, "level", []string{"tensor", "kernel"})
	c.Flags().StringSliceVar(&k.classes, "classes", nil, "classes of inputs, separated by commas (default: all that the spec can have)")
	c.Flags().Uint64Var(&k.seed, "seed", 1, "seed of the inputs")
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
	missed := 0
	for i, c := range classes {
		rows, err := await(a, func() ([]checkRow, error) { return checkClass(r, s, f, c) })
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !row.Pass {
				missed++
			}
		}
		a.note("[%d/%d] %s", i+1, len(classes), c.Name)
		r.Rows = append(r.Rows, rows...)
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

func checkClass(r *checkResult, s gdn.Spec, f compute, c gdn.Class) ([]checkRow, error) {
	inputs, err := c.Generate(s, r.Seed)
	if err != nil {
		return nil, err
	}
	want, err := gdn.Reference(s, inputs)
	if err != nil {
		return nil, err
	}
	got, err := f(s, inputs)
	if err != nil {
		return nil, err
	}
	var rows []checkRow
	for _, p := range s.Outputs() {
		off, limit, err := c.Error(s, r.Precision, p, got, want)
		if err != nil {
			return nil, err
		}
		if gradient := p.Name != "o" && p.Name != "final_state"; r.Field && gradient {
			limit = min(limit, gdn.FieldLimit(p))
		}
		rows = append(rows, checkRow{Class: c.Name, Output: p.Name, Error: journal.Figure(off), Limit: journal.Figure(limit), Pass: off <= limit})
	}
	return rows, nil
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
	return fmt.Sprintf("spec %s\nvariant %s\n%s, seed %d\n", r.Spec, r.Variant, by, r.Seed)
}

func (r *checkResult) write(a *app, w io.Writer) {
	fmt.Fprintln(w, r.head())
	t := newTable("CLASS", "OUTPUT", ">ERROR", ">LIMIT", "STATUS")
	for _, row := range r.Rows {
		status := casePass
		if !row.Pass {
			status = caseFail
		}
		t.add(row.Class, row.Output, fmt.Sprintf("%.2e", float64(row.Error)), fmt.Sprintf("%.2g", float64(row.Limit)), status)
	}
	t.write(a, w)
}
