package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/interrupt"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// The statuses of a case.
const (
	Pass        = "pass"
	Fail        = "FAIL"
	Computed    = "computed" // the file holds only inputs: there is nothing to compare with
	Unsupported = "unsupported"
	Error       = "error"
)

// Case is the result of one stored case.
type Case struct {
	Name    string                `json:"name"`
	Class   string                `json:"class"`
	Status  string                `json:"status"`
	Reason  string                `json:"reason,omitempty"`
	Spec    string                `json:"spec,omitempty"`
	Seconds float64               `json:"seconds"`
	File    string                `json:"file,omitempty"` // file written with its outputs
	Tensors []truth.TensorVerdict `json:"tensors,omitempty"`

	err error
}

// Cases is the result of a run over stored cases.
type Cases struct {
	Cases     string         `json:"cases_dir"`
	Engine    string         `json:"engine"`
	Variant   string         `json:"variant,omitempty"`
	Target    string         `json:"target,omitempty"`
	Level     string         `json:"level,omitempty"`     // of the interpreter: tensor or kernel
	Precision string         `json:"precision,omitempty"` // whose tolerances are used; auto: each case's own
	Results   []Case         `json:"cases"`
	Counts    map[string]int `json:"counts"`
}

// Choose keeps the cases whose name contains one of the texts in only, separated by commas; empty: all. It errs if a text matches no case.
func Choose(cases []truth.Case, only string) ([]truth.Case, error) {
	if only == "" {
		return cases, nil
	}
	var names []string
	var kept []truth.Case
	for _, c := range cases {
		names = append(names, c.Name)
		if slices.ContainsFunc(strings.Split(only, ","), func(text string) bool { return text != "" && strings.Contains(c.Name, text) }) {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("no case has %q in its name (cases: %s)", only, strings.Join(names, " "))
	}
	return kept, nil
}

// Engine computes the outputs of cases by one plan.
type Engine struct {
	Plan    engine.Plan
	Compute engine.Compute
	Layer   engine.ComputeLayer // nil if whole layers can not be computed
}

// Run computes and judges the cases, and writes their outputs to the folder out, if given. It stops when ctx is done.
func (r *Cases) Run(ctx context.Context, e Engine, cases []truth.Case, out string, note func(format string, args ...any)) error {
	for i, c := range cases {
		start := time.Now()
		result := Case{Name: c.Name, Class: c.Class}
		switch {
		case c.Supported:
			result.Spec = c.Spec.String()
			precision, compute := r.Precision, e.Compute
			var err error
			if nothing(c.Spec) {
				precision, compute = cmp.Or(precision, ir.PrecF32.String()), func(s gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) {
					return ofNothing(s, in), nil
				}
			} else if precision == "" {
				precision, err = e.Plan.Precision(c.Spec)
			}
			if err != nil {
				result.fail(err)
				break
			}
			result.run(ctx, &c, func(in map[string]*array.Array) (map[string]*array.Array, error) { return compute(c.Spec, in) }, precision, out)
		case c.Layer != nil && e.Layer != nil:
			result.run(ctx, &c, func(in map[string]*array.Array) (map[string]*array.Array, error) { return e.Layer(*c.Layer, in) }, cmp.Or(r.Precision, ir.PrecF32.String()), out)
		default:
			result.Status, result.Reason = Unsupported, c.Reason
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		result.Seconds = time.Since(start).Seconds()
		note("[%d/%d] %s: %s, %.2f s", i+1, len(cases), c.Name, result.Status, result.Seconds)
		r.Results = append(r.Results, result)
		r.Counts[result.Status]++
	}
	return nil
}

// Err returns the error of the first case that could not be computed, or nil.
func (r *Cases) Err() error {
	for _, c := range r.Results {
		if c.Status == Error {
			return c.err
		}
	}
	return nil
}

// Statuses lists the possible statuses of a case.
var Statuses = []string{Pass, Fail, Computed, Unsupported, Error}

// fail records why a case is not computed: unsupported if no variant computes it, an error otherwise.
func (r *Case) fail(err error) {
	r.Status, r.Reason, r.err = Error, err.Error(), err
	if bad := (*gdn.UnsupportedError)(nil); errors.As(err, &bad) {
		r.Status, r.Reason, r.err = Unsupported, bad.Reason, nil
	}
}

func (r *Case) run(ctx context.Context, c *truth.Case, f func(map[string]*array.Array) (map[string]*array.Array, error), precision, out string) {
	fail := r.fail
	if filepath.Base(c.Name) != c.Name || !filepath.IsLocal(c.Name) {
		fail(fmt.Errorf("case %q: the name can not be that of a file", c.Name))
		return
	}
	inputs, expected, err := c.Load()
	if err != nil {
		fail(err)
		return
	}
	outputs, err := interrupt.Await(ctx, func() (map[string]*array.Array, error) { return f(inputs) })
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
		r.Status, r.Reason = Computed, "the file holds inputs alone"
		return
	}
	if r.Tensors, err = c.Judge(expected, file.Tensors, precision); err != nil {
		fail(err)
		return
	}
	r.Status = Pass
	if slices.ContainsFunc(r.Tensors, func(v truth.TensorVerdict) bool { return !v.Pass }) {
		r.Status = Fail
	}
}

// Write prints a row for each tensor.
func (r *Cases) Write(w io.Writer) {
	t := terminal.NewTable("CASE", "STATUS", "TENSOR", ">ERROR", ">LIMIT", ">MAX ABS", "RULE")
	for _, c := range r.Results {
		if len(c.Tensors) == 0 {
			t.Add(c.Name, c.Status, "", "", "", "", c.Reason)
		}
		for _, v := range c.Tensors {
			status := Pass
			if !v.Pass {
				status = Fail
			}
			limit, note := "-", v.Note // the contest's rule counts elements, not the largest ratio
			if v.Limit > 0 {
				limit = fmt.Sprintf("%.2g", v.Limit)
			}
			if v.Failed > 0 {
				note = fmt.Sprintf("(%d are) %s", v.Failed, note)
			}
			t.Add(c.Name, status, v.Name, fmt.Sprintf("%.2e", v.Ratio), limit, fmt.Sprintf("%.2e", v.MaxAbs), strings.TrimSpace(v.Rule+" "+note))
		}
	}
	t.Write(w)
}
