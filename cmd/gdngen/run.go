package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/interrupt"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// What became of a case.
const (
	casePass        = "pass"
	caseFail        = "FAIL"
	caseComputed    = "computed" // the file holds inputs alone: there is nothing to compare with
	caseUnsupported = "unsupported"
	caseError       = "error"
)

// caseResult is one case of a run.
type caseResult struct {
	Name    string              `json:"name"`
	Class   string              `json:"class"`
	Status  string              `json:"status"`
	Reason  string              `json:"reason,omitempty"`
	Spec    string              `json:"spec,omitempty"`
	Seconds float64             `json:"seconds"`
	File    string              `json:"file,omitempty"` // what was written
	Tensors []gdn.TensorVerdict `json:"tensors,omitempty"`

	err error
}

// runResult is a whole run.
type runResult struct {
	Cases     string         `json:"cases_dir"`
	Engine    string         `json:"engine"`
	Variant   string         `json:"variant,omitempty"`
	Target    string         `json:"target,omitempty"`
	Level     string         `json:"level,omitempty"`     // of the interpreter: tensor or kernel
	Precision string         `json:"precision,omitempty"` // whose tolerances are used; that of each case by auto
	Results   []caseResult   `json:"cases"`
	Counts    map[string]int `json:"counts"`
}

func (a *app) runCmd() *cobra.Command {
	var r struct{ cases, out, engine, variant, target, level, only, plugin string }
	c := &cobra.Command{
		Use:   "run --cases DIR --out OUT",
		Short: "Compute stored cases and compare them with what is expected",
		Long: `run reads a folder of cases (manifest.json and safetensors files), computes each supported case from its inputs alone, writes
OUT/<case>.safetensors with the names and shapes of the expected tensors, and compares by the manifest's tolerance for the precision of the
variant. A file that holds inputs alone is computed and written without a comparison. What is not supported is listed with the reason.

Engines: ` + engineHelp() + `.

The status is 3 if a case is outside its tolerance, and 1 if a case can not be computed.`,
		Example: `  gdngen run --cases tests/fixtures --out out
  gdngen run --cases tests/fixtures --out out --engine interp --variant solve=ladder,leaf=16 -o json
  gdngen run --cases tests/fixtures --out out --only s08,s09 --variant bf16x3
  gdngen run --cases tests/fixtures --out out --only s07 --target v5e --engine module`,
		GroupID: "work",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if r.cases == "" || r.out == "" {
				return usage(errors.New("run needs --cases DIR and --out OUT"))
			}
			p, err := newPlan(r.variant, r.target, r.level, r.engine)
			if err != nil {
				return err
			}
			p.tell = a.tellPromoted
			if same, err := sameFolder(r.cases, r.out); err != nil {
				return err
			} else if same {
				return usage(fmt.Errorf("--out %s is the folder of the cases, whose files would be overwritten", r.out))
			}
			cases, err := gdn.ReadCases(r.cases)
			if err != nil {
				return err
			}
			if cases, err = choose(cases, r.only); err != nil {
				return err
			}
			result := runResult{Cases: r.cases, Engine: r.engine, Variant: p.text, Target: p.targetName(), Level: p.level, Counts: map[string]int{}}
			if !p.auto() {
				v, err := parseVariant(p.text)
				if err != nil {
					return err
				}
				result.Variant, result.Precision = v.String(), v.Precision().String()
			}
			if r.engine == "reference" {
				result.Variant, result.Precision = "", "f32"
			}
			if err := a.attach(&p, r.engine, r.plugin, r.target); err != nil {
				return err
			}
			f, l, err := a.findEngine(r.engine, p)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(r.out, 0o755); err != nil {
				return err
			}
			return a.runCases(&result, p, cases, f, l, r.out)
		},
	}
	c.Flags().StringVar(&r.cases, "cases", "", "folder of the cases")
	c.Flags().StringVar(&r.out, "out", "", "folder that the outputs are written to; made where it is missing")
	c.Flags().StringVar(&r.engine, "engine", "interp", strings.Join(engineNames(), ", "))
	variantFlag(c, &r.variant)
	c.Flags().StringVar(&r.target, "target", "", "compute what is made for this TPU generation")
	c.Flags().StringVar(&r.plugin, "plugin", "", "with --engine device: "+pluginUse)
	c.Flags().StringVar(&r.level, "level", "", "of the interpreter: tensor, or kernel after the lowering of grids (default: kernel with --target, else tensor)")
	complete(c, "target", codegen.TargetNames())
	complete(c, "level", []string{"tensor", "kernel"})
	c.Flags().StringVar(&r.only, "only", "", "only cases whose name holds one of these texts, separated by commas")
	complete(c, "engine", engineNames())
	return c
}

// sameFolder tells whether two names mean one folder; the second may not exist yet.
func sameFolder(x, y string) (bool, error) {
	dx, err := os.Stat(x)
	if err != nil {
		return false, err
	}
	dy, err := os.Stat(y)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(dx, dy), err
}

// choose keeps the cases whose name holds one of the texts.
func choose(cases []gdn.Case, only string) ([]gdn.Case, error) {
	if only == "" {
		return cases, nil
	}
	var names []string
	var kept []gdn.Case
	for _, c := range cases {
		names = append(names, c.Name)
		if slices.ContainsFunc(strings.Split(only, ","), func(text string) bool { return text != "" && strings.Contains(c.Name, text) }) {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return nil, usage(fmt.Errorf("no case has %q in its name (cases: %s)", only, strings.Join(names, " ")))
	}
	return kept, nil
}

// runCases computes, writes and judges the cases, and prints the result.
func (a *app) runCases(r *runResult, p plan, cases []gdn.Case, f compute, l computeLayer, out string) error {
	for i, c := range cases {
		start := time.Now()
		result := caseResult{Name: c.Name, Class: c.Class}
		switch {
		case c.Supported:
			result.Spec = c.Spec.String()
			precision := r.Precision
			if precision == "" {
				var err error
				if precision, err = p.precision(c.Spec); err != nil {
					return fmt.Errorf("case %s: %w", c.Name, err)
				}
			}
			a.runCase(&result, &c, func(in map[string]*array.Array) (map[string]*array.Array, error) { return f(c.Spec, in) }, precision, out)
		case c.Layer != nil && l != nil:
			a.runCase(&result, &c, func(in map[string]*array.Array) (map[string]*array.Array, error) { return l(*c.Layer, in) }, cmp.Or(r.Precision, ir.PrecF32.String()), out)
		default:
			result.Status, result.Reason = caseUnsupported, c.Reason
		}
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		result.Seconds = time.Since(start).Seconds()
		a.note("[%d/%d] %s: %s, %.2f s", i+1, len(cases), c.Name, result.Status, result.Seconds)
		r.Results = append(r.Results, result)
		r.Counts[result.Status]++
	}
	if err := emit(a, r, r.Results, func(w io.Writer) { r.write(a, w) }); err != nil {
		return err
	}
	for _, s := range []string{casePass, caseFail, caseComputed, caseUnsupported, caseError} {
		if n := r.Counts[s]; n > 0 {
			a.note("%d %s", n, s)
		}
	}
	switch {
	case r.Counts[caseFail] > 0:
		return failed(exitNumerics, "%d of %d cases are outside their tolerance", r.Counts[caseFail], len(cases))
	case r.Counts[caseError] > 0:
		i := slices.IndexFunc(r.Results, func(c caseResult) bool { return c.Status == caseError })
		return fmt.Errorf("%d of %d cases could not be computed, the first because: %w", r.Counts[caseError], len(cases), r.Results[i].err)
	}
	return nil
}

// runCase computes one case and fills its result.
func (a *app) runCase(r *caseResult, c *gdn.Case, f func(map[string]*array.Array) (map[string]*array.Array, error), precision, out string) {
	fail := func(err error) { r.Status, r.Reason, r.err = caseError, err.Error(), err }
	if filepath.Base(c.Name) != c.Name || !filepath.IsLocal(c.Name) {
		fail(fmt.Errorf("case %q: the name can not be that of a file", c.Name))
		return
	}
	inputs, expected, err := c.Load()
	if err != nil {
		fail(err)
		return
	}
	outputs, err := interrupt.Await(a.ctx, func() (map[string]*array.Array, error) { return f(inputs) })
	if err != nil {
		fail(err)
		return
	}
	file, err := c.FileOutputs(outputs)
	if err != nil {
		fail(err)
		return
	}
	r.File = filepath.Join(out, c.Name+".safetensors")
	if err := array.WriteSafetensors(r.File, file); err != nil {
		r.File = ""
		fail(err)
		return
	}
	if len(expected) == 0 {
		r.Status, r.Reason = caseComputed, "the file holds inputs alone"
		return
	}
	if r.Tensors, err = c.Judge(expected, file.Tensors, precision); err != nil {
		fail(err)
		return
	}
	r.Status = casePass
	if slices.ContainsFunc(r.Tensors, func(v gdn.TensorVerdict) bool { return !v.Pass }) {
		r.Status = caseFail
	}
}

func (r *runResult) write(a *app, w io.Writer) {
	t := terminal.NewTable("CASE", "STATUS", "TENSOR", ">ERROR", ">LIMIT", ">MAX ABS", "RULE")
	for _, c := range r.Results {
		if len(c.Tensors) == 0 {
			t.Add(c.Name, c.Status, "", "", "", "", c.Reason)
		}
		for _, v := range c.Tensors {
			status := casePass
			if !v.Pass {
				status = caseFail
			}
			t.Add(c.Name, status, v.Name, fmt.Sprintf("%.2e", v.Ratio), fmt.Sprintf("%.2g", v.Limit), fmt.Sprintf("%.2e", v.MaxAbs), strings.TrimSpace(v.Rule+" "+v.Note))
		}
	}
	t.Write(w)
}
