package flashinfer

import (
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// Tolerance of the benchmark: an element is wrong if its error exceeds both bounds, ATol and RTol times its magnitude.
// One wrong element fails the workload.
const (
	ATol = 1e-2
	RTol = 1e-2
)

// relEps keeps the relative error of a zero finite.
const relEps = 1e-8

// Verdict is the result of one trial.
type Verdict struct {
	Status      Status // Passed or one of the INCORRECT ones
	Correctness *Correctness
	OfLargest   float64 // largest error over the largest magnitude of the expected tensor: stricter than the benchmark's figures
	Note        string  // where and why it failed
}

// Judge compares the outputs of s, in the order of s.Outputs, with the reference's outputs, by name.
func Judge(s gdn.Spec, got []*array.Array, want map[string]*array.Array) Verdict {
	v := Verdict{Status: Passed, Correctness: &Correctness{}}
	fail := func(status Status, format string, args ...any) Verdict {
		v.Status, v.Correctness, v.Note = status, nil, fmt.Sprintf(format, args...)
		return v
	}
	outputs := s.Outputs()
	if len(got) != len(outputs) {
		return fail(RuntimeError, "there are %d outputs, want %d", len(got), len(outputs))
	}
	for i, p := range outputs {
		switch g := got[i]; {
		case !slices.Equal(g.Shape, p.Type.Shape):
			return fail(IncorrectShape, "%s is %v, want the shape %v", p.Name, g, p.Type.Shape)
		case g.Type != p.Type.DType:
			return fail(IncorrectDType, "%s is %v, want the element type %v", p.Name, g, p.Type.DType)
		}
	}
	wrong := 0
	for i, p := range outputs {
		g, w := got[i].Float32s(), want[p.Name].Float64s()
		var worst, largest float64
		for j, x := range g {
			x, y := float64(x), w[j]
			if math.IsNaN(x) || math.IsInf(x, 0) {
				v.Status, v.OfLargest = IncorrectNumerical, math.Inf(1)
				v.Correctness = &Correctness{MaxRelative: math.Abs(x), MaxAbsolute: math.Abs(x)}
				v.Note = fmt.Sprintf("%s has the element %v", p.Name, x)
				return v
			}
			off := math.Abs(x - y)
			rel := off / (math.Abs(y) + relEps)
			worst, largest = max(worst, off), max(largest, math.Abs(y))
			v.Correctness.MaxAbsolute = max(v.Correctness.MaxAbsolute, off)
			v.Correctness.MaxRelative = max(v.Correctness.MaxRelative, rel)
			if off > ATol && rel > RTol {
				if wrong == 0 {
					v.Note = fmt.Sprintf("%s[%d] is %v, want %v", p.Name, j, x, y)
				}
				wrong++
			}
		}
		if largest > 0 {
			v.OfLargest = max(v.OfLargest, worst/largest)
		}
	}
	if wrong > 0 {
		v.Status = IncorrectNumerical
		v.Note = fmt.Sprintf("%d elements are off by more than %g and by more than %g of themselves, the first: %s", wrong, ATol, RTol, v.Note)
	}
	return v
}

// Worse combines the verdicts of two trials: the first failure, with the largest errors of both.
func (v Verdict) Worse(o Verdict) Verdict {
	switch {
	case v.Correctness == nil:
		return v
	case o.Correctness == nil:
		return o
	case v.Status == Passed && o.Status != Passed:
		v, o = o, v
	}
	v.Correctness = &Correctness{MaxRelative: max(v.Correctness.MaxRelative, o.Correctness.MaxRelative),
		MaxAbsolute: max(v.Correctness.MaxAbsolute, o.Correctness.MaxAbsolute)}
	v.OfLargest = max(v.OfLargest, o.OfLargest)
	return v
}
