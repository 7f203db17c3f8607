package results

import (
	"context"
	"fmt"
	"math"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// judgement is raised when the way of computing or judging numbers changes, so that cached errors are not used. The
// table of limits has its own version (exam.Version).
const judgement = "4"

// examTokens is the largest number of tokens in accuracy tests: several chunks and a part of one.
const examTokens = 576

// The default seeds of gdngen check.
const (
	firstSeed = 1
	examSeeds = 3
)

// exam returns the spec of the accuracy tests: all heads, since each has its own class of inputs; few tokens; two batch
// rows, since one can hide faults between rows; and gradients with an initial state.
func (t *trial) exam() gdn.Spec {
	s := t.Form.Spec
	s.Tokens = min(s.Tokens, examTokens)
	s.Batch = min(s.Batch, max(2, t.Form.Variant.Fit(s).Mapping.Batch))
	s.Init = s.Init || s.Direction != gdn.Forward
	return s
}

// errors returns the rows of gdngen check for the lowered kernel, computed by the interpreter: on every class of inputs that the spec
// supports, for each output and kind the worst over heads and seeds. With field, gradients have flash-linear-attention's limits.
func (t *trial) errors(ctx context.Context, cache *measure.Cache, field bool) ([]check.Row, error) {
	s := t.exam()
	if err := t.Form.Variant.Check(s); err != nil {
		return nil, fmt.Errorf("%s at %d tokens: %w", t.Name, s.Tokens, err)
	}
	form := route.NewForm(s, t.Form.Variant)
	if _, err := form.Kernels(); err != nil {
		return nil, fmt.Errorf("%s at %d tokens: %w", t.Name, s.Tokens, err)
	}
	rows, err := OfKernels(ctx, cache, form, exam.Supported(s))
	if err == nil && field {
		check.HoldToField(s, rows)
	}
	return rows, err
}

// OfKernels returns the rows of gdngen check for a form's lowered kernels, computed by the interpreter: on each class
// of inputs, for each output and kind the worst over heads and seeds. Results are cached.
func OfKernels(ctx context.Context, cache *measure.Cache, form *route.Form, classes []truth.Class) ([]check.Row, error) {
	m, err := form.Kernels()
	if err != nil {
		return nil, err
	}
	r := check.Result{Precision: form.Variant.Precision().String(), Seeds: check.Seeds(firstSeed, examSeeds)}
	key := []string{"checks", judgement, exam.Version(), form.Spec.String(), r.Precision, m.String()}
	for _, c := range classes {
		key = append(key, c.Name)
	}
	return measure.Kept(cache, func() ([]check.Row, error) {
		compute := func(_ gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
			return interp.Run(m, inputs, interp.Options{})
		}
		err := r.Run(ctx, form.Spec, compute, classes, func(string, ...any) {})
		return r.Rows, err
	}, key...)
}

// share returns the error as a share of its limit; infinity for NaN, so that shares can be compared.
func share(row check.Row) float64 {
	if x := float64(row.Error / row.Limit); !math.IsNaN(x) {
		return x
	}
	return math.Inf(1)
}

// refused names the error farthest beyond its limit; empty if all are within.
func refused(rows []check.Row) string {
	var worst *check.Row
	for i := range rows {
		row := &rows[i]
		if !row.Pass && (worst == nil || share(*row) > share(*worst)) {
			worst = row
		}
	}
	if worst == nil {
		return ""
	}
	off := fmt.Sprintf("off by %.2e", float64(worst.Error))
	if math.IsNaN(float64(worst.Error)) {
		off = "no number"
	}
	return fmt.Sprintf("%s is %s (%s) on %s, %.2g is allowed", worst.Output, off, worst.Kind, worst.Class, float64(worst.Limit))
}

// rmsOf returns the relative root mean square error on a class, of the output nearest to its limit. Of a training step
// only gradients are judged so. ok is false if the spec does not support the class.
func rmsOf(rows []check.Row, class string) (off float64, ok bool) {
	use := -1.0
	for _, row := range rows {
		if x := share(row); row.Class == class && row.Kind == exam.RMS && x > use {
			use, off, ok = x, float64(row.Error), true
		}
	}
	return off, ok
}

// worstRMS returns the largest rmsOf of some classes; infinite if one is NaN.
func worstRMS(rows []check.Row, classes []string) (worst journal.Figure) {
	for _, class := range classes {
		switch off, _ := rmsOf(rows, class); {
		case math.IsNaN(off):
			return journal.Figure(math.Inf(1))
		default:
			worst = max(worst, journal.Figure(off))
		}
	}
	return worst
}
