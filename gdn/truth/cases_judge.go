package truth

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir/array"
)

// toleranceKeys maps a precision to its key in the manifest.
var toleranceKeys = map[string]string{
	"f32":        "f32_ratio",
	"f32-strict": "f32_ratio_strict",
	"bf16x6":     "f32_ratio",
	"bf16x3":     "bf16x3_ratio",
	"bf16x1":     "bf16x1_ratio",
	"lowp":       "lowp_ratio",
}

// TensorVerdict is the result of one rule on one tensor. Ratio and MaxAbs are NaN (JSON: null) if the tensor cannot be compared.
type TensorVerdict struct {
	Name   string  `json:"name"`
	Rule   string  `json:"rule"`
	Ratio  float64 `json:"ratio"`  // rms(error) / rms(expected)
	Limit  float64 `json:"limit"`  // limit of Ratio, or of Failed for the contest's rule
	MaxAbs float64 `json:"maxabs"` // largest error
	Failed int     `json:"failed"` // elements that break the contest's rule
	Pass   bool    `json:"pass"`
	Note   string  `json:"note,omitempty"` // why the tensor can not be compared, or where it is worst
}

// MarshalJSON writes NaN and infinities as null.
func (v TensorVerdict) MarshalJSON() ([]byte, error) {
	type plain TensorVerdict
	number := func(x float64) *float64 {
		if notFinite(x) {
			return nil
		}
		return &x
	}
	return json.Marshal(struct {
		plain
		Ratio  *float64 `json:"ratio"`
		MaxAbs *float64 `json:"maxabs"`
	}{plain(v), number(v.Ratio), number(v.MaxAbs)})
}

// Judge compares outputs with the expected values of Load; both use the names of the case's file. The manifest has a limit on the ratio for each precision
// (f32, f32-strict, bf16x6, bf16x3, bf16x1, lowp). A contest case uses the contest's rule instead; at float32 it also uses the manifest's ratios for tensors
// stored unrounded. NaN, infinities, a missing output and a wrong shape fail. It returns an error if there are no expected values or no limit.
func (c *Case) Judge(expected, outputs map[string]*array.Array, precision string) ([]TensorVerdict, error) {
	key, ok := toleranceKeys[precision]
	if !ok {
		return nil, fmt.Errorf("case %s: unknown precision %q (known: %s)", c.Name, precision, strings.Join(slices.Sorted(maps.Keys(toleranceKeys)), " "))
	}
	var verdicts []TensorVerdict
	for _, o := range c.Outputs {
		want := expected[o.Name]
		if want == nil {
			return nil, fmt.Errorf("case %s: there is no expected %s to judge by: the file holds inputs alone", c.Name, o.Name)
		}
		limit, limited := c.Tolerance.Ratio[o.Name][key]
		if !limited && strings.HasPrefix(key, "bf16") { // for gradients the manifest has one key for all low precisions
			limit, limited = c.Tolerance.Ratio[o.Name]["lowp_ratio"]
		}
		if c.Tolerance.Contest != nil {
			verdicts = append(verdicts, c.Tolerance.Contest.judge(o.Name, outputs[o.Name], want))
		} else if !limited {
			return nil, fmt.Errorf("case %s: the manifest has no tolerance.%s.%s", c.Name, o.Name, key)
		}
		if limited {
			verdicts = append(verdicts, judgeRatio(o.Name, key, limit, outputs[o.Name], want))
		}
	}
	return verdicts, nil
}

// compare starts a verdict. If done is true, the tensor cannot be compared and the verdict is a failure.
func compare(name, rule string, got, want *array.Array) (v TensorVerdict, worst int, done bool) {
	v = TensorVerdict{Name: name, Rule: rule, Ratio: math.NaN(), MaxAbs: math.NaN()}
	if got == nil {
		v.Note = "the output is missing"
		return v, -1, true
	}
	if err := got.Check(); err != nil {
		v.Note = err.Error()
		return v, -1, true
	}
	if !slices.Equal(got.Shape, want.Shape) {
		v.Note = fmt.Sprintf("shape %v, want %v", got.Shape, want.Shape)
		return v, -1, true
	}
	if i, x, bad := firstNotFinite(got); bad {
		v.Note = fmt.Sprintf("%v at %v", x, unflatten(i, got.Shape))
		return v, i, true
	}
	s := array.Compare(got, want)
	v.Ratio, v.MaxAbs = s.Ratio, s.MaxAbs
	return v, s.WorstIndex, s.NaN
}

func judgeRatio(name, key string, limit float64, got, want *array.Array) TensorVerdict {
	v, worst, done := compare(name, key, got, want)
	v.Limit = limit
	if !done {
		v.Pass = v.Ratio <= limit
		v.Note = worstNote(v, worst, want.Shape)
	}
	return v
}

func (r ContestRule) judge(name string, got, want *array.Array) TensorVerdict {
	v, worst, done := compare(name, fmt.Sprintf("contest: no element off by more than %g and by more than %g of itself", r.ATol, r.RTol), got, want)
	if done {
		return v
	}
	g, w := got.Float64s(), want.Float64s()
	for i := range w {
		if d := math.Abs(g[i] - w[i]); d > r.ATol && d > r.RTol*math.Abs(w[i]) {
			v.Failed++
		}
	}
	v.Pass = v.Failed == 0
	v.Note = worstNote(v, worst, want.Shape)
	return v
}

func worstNote(v TensorVerdict, worst int, shape []int) string {
	if v.Pass || worst < 0 {
		return ""
	}
	return fmt.Sprintf("worst at %v", unflatten(worst, shape))
}
