package strategy

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// errorModel predicts the probability that the errors of a variant are within a class of accuracy. For each class of
// inputs it models the logarithm of error over limit: a term for the rounding of products in so many passes, and a
// Gaussian process over the axes, mostly those of numerics. So one refusal predicts variants that differ in form and
// schedule, and leaves other choices of numerics open. Axes that only order or place work change no number: variants
// that differ only there are one point with a known error. (The tests of a class of accuracy use one sequence: the
// packing of sequences has no effect on them.)
//
// Classes of inputs are separate, each with the worse error of output and state. Each shows other roundings, and in the
// maximum over classes one class hides the effect of a choice on the others. Example, shares of the limits:
//
//	                 cos.9  faint  u01  largest
//	none of these    2.5    1.6    1.2  2.5
//	refine           .9     1.6    1.2  1.6
//	error_feedback   2.5    1.6    .9   2.5, as if it were good for nothing
//	tail_decay=v     2.5    .8     1.2  2.5, likewise
//	all three        .9     .8     .9   .9
type errorModel struct {
	classes []string // of the first point; all others have them too
	points  []point
	values  []map[string]float64 // by point and class: logarithms, less the term for passes
	gauss   *gaussian            // of the classes, in order
}

// rounded returns the logarithm of the rounding of a variant's products, a third for each of their precisions.
func rounded(v gdn.Variant) float64 {
	of := map[ir.Precision]float64{ir.PrecBF16x1: 1, ir.PrecBF16x3: 1e-2}
	sum := 0.
	for _, p := range []ir.Precision{v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState} {
		sum += max(of[p], 1e-4) / 3
	}
	return math.Log(sum)
}

// Priors of the model, as standard deviations of logarithms.
const (
	errorLevel  = 1.  // of the common level
	errorSpread = 1.  // of a value of a numerics axis
	errorOther  = .1  // of a value of another axis
	errorLocal  = .3  // of the interaction of a few axes
	errorNoise  = .02 // of measurements
)

// counted marks the axes that may change numbers: those of form, inverse, numerics and layout.
var counted = func() []bool {
	l := make([]bool, len(gdn.Axes))
	for i, a := range gdn.Axes {
		l[i] = a.Concerns(gdn.GroupForm, gdn.GroupInverse, gdn.GroupNumerics, gdn.GroupLayout)
	}
	return l
}()

// ofNumbers returns p with all axes that change no number at one value.
func (p point) ofNumbers() point {
	q := make(point, len(p))
	for i, x := range p {
		if counted[i] {
			q[i] = x
		}
	}
	return q
}

// errorsOf returns the logarithms of a candidate's errors over their limits, by class of inputs, if the tests of a
// class of accuracy were run.
func errorsOf(c *journal.Candidate) map[string]float64 {
	l := map[string]float64{}
	for _, x := range c.Errors {
		if x.Engine == journal.EngineAccuracy && x.Limit > 0 {
			e := math.Log(1e6) // for NaN
			if r := float64(x.Error / x.Limit); r < 1e6 {
				e = math.Log(max(r, 1e-6))
			}
			if had, ok := l[x.Class]; ok {
				e = max(e, had)
			}
			l[x.Class] = e
		}
	}
	return l
}

// errorOf returns the largest of errorsOf.
func errorOf(c *journal.Candidate) (e float64, ok bool) {
	l := errorsOf(c)
	if len(l) == 0 {
		return 0, false
	}
	return slices.Max(slices.Collect(maps.Values(l))), true
}

// missed reports whether a candidate has all costs but no rank, because its errors exceed a class of accuracy.
func missed(c *journal.Candidate) bool {
	e, ok := errorOf(c)
	return ok && e > 0 && c.Verdict == journal.Numerics && len(c.Costs) > 0
}

// add adds the errors of a fitted variant, unless it lacks a class that others have.
func (m *errorModel) add(p point, v gdn.Variant, errors map[string]float64) {
	of := map[string]float64{}
	for class, e := range errors {
		of[class] = e - rounded(v)
	}
	if m.points == nil {
		m.classes = slices.Sorted(maps.Keys(of))
	}
	if slices.ContainsFunc(m.classes, func(class string) bool { _, ok := of[class]; return !ok }) {
		return // its accuracy test ended early
	}
	m.points, m.values = append(m.points, p.ofNumbers()), append(m.values, of)
}

// learn conditions the process on the points added.
func (m *errorModel) learn() {
	spreads := make([]float64, len(gdn.Axes))
	for i, a := range gdn.Axes {
		if d := errorOther; a.Sets == nil {
			if a.Concerns(gdn.GroupNumerics) {
				d = errorSpread
			}
			spreads[i] = d * d
		}
	}
	var values [][]float64
	for _, class := range m.classes {
		var l []float64
		for _, of := range m.values {
			l = append(l, of[class])
		}
		values = append(values, l)
	}
	noise := slices.Repeat([]float64{errorNoise * errorNoise}, len(m.points))
	m.gauss, _ = newGaussian(&prior{errorLevel * errorLevel, spreads, errorLocal * errorLocal}, m.points, noise, values...)
}

// beyond returns the probability that the errors of a fitted variant exceed their limits: the largest over the classes
// of inputs; 0 if no errors are known.
func (m *errorModel) beyond(p point, v gdn.Variant) (most float64) {
	if len(m.points) == 0 || m.gauss == nil {
		return 0
	}
	means, variance := m.gauss.at(p.ofNumbers())
	for _, mean := range means {
		most = max(most, distuv.UnitNormal.CDF((rounded(v)+mean)/math.Sqrt(variance+errorNoise*errorNoise)))
	}
	return most
}

// mostMisses is the number of misses from which moves are weighed; farMiss is the error over the limit beyond which no
// single move helps.
const (
	mostMisses = 2
	farMiss    = 8
)

// missesOf returns the cheapest candidates that would be better than the best if their errors were within the limits,
// distant from each other like elites.
func missesOf(judged journal.View, best *journal.Candidate) []*journal.Candidate {
	targets := judged.Header().Targets
	var all []*journal.Candidate
	behind := map[*journal.Candidate]float64{}
	for _, c := range judged.Candidates() {
		e, _ := errorOf(c)
		if !missed(c) || c.Variant == "" || e > math.Log(farMiss) {
			continue
		}
		if d, ok := loss(targets, c, best); ok && d < 0 {
			all, behind[c] = append(all, c), d+e // the error counts like a cost
		}
	}
	slices.SortStableFunc(all, func(x, y *journal.Candidate) int { return cmp.Compare(behind[x], behind[y]) })
	return diverse(all, mostMisses)
}
