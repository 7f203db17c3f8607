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

// judgement changes when numbers are computed or judged otherwise than before, so that what is kept of errors no longer holds. The table
// of limits has a name of its own (exam.Version).
const judgement = "4"

// examTokens is the most tokens that numbers are judged on: several chunks and a part of one.
const examTokens = 576

// examSeeds are those of check.
const (
	firstSeed = 1
	examSeeds = 3
)

// exam is the spec that numbers are judged on: all heads, since each has a class of inputs of its own; few tokens; two batch rows, since
// one hides a fault of the others; and gradients with an initial state.
func (t *trial) exam() gdn.Spec {
	s := t.Form.Spec
	s.Tokens = min(s.Tokens, examTokens)
	s.Batch = min(s.Batch, max(2, t.Form.Variant.Fit(s).Mapping.Batch))
	s.Init = s.Init || s.Direction != gdn.Forward
	return s
}

// errors are those that gdngen check finds of the lowered kernel, as the interpreter computes it: on every class of inputs that the spec
// can have, of each output and kind the worst of all heads and seeds. Gradients may be held to the limits of the field.
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

// OfKernels are the errors that gdngen check finds of a form's lowered kernels, as the interpreter computes them: on each class of inputs, of
// each output and kind the worst of all heads and seeds. They are kept in the cache.
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

// share is the part of its limit that an error takes. What is no number takes all there is, which compares where NaN does not.
func share(row check.Row) float64 {
	if x := float64(row.Error / row.Limit); !math.IsNaN(x) {
		return x
	}
	return math.Inf(1)
}

// refused says why numbers will not do, by the error that is farthest beyond its limit; empty where all are within.
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

// rmsOf is the root mean square error on a class over that of the reference, of the output that is nearest to its limit: of a training
// step of a gradient, which alone is judged so. There is none where the spec can not have the class.
func rmsOf(rows []check.Row, class string) (off float64, ok bool) {
	use := -1.0
	for _, row := range rows {
		if x := share(row); row.Class == class && row.Kind == exam.RMS && x > use {
			use, off, ok = x, float64(row.Error), true
		}
	}
	return off, ok
}

// worstRMS is the largest rmsOf of some classes; infinite where one is no number.
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
