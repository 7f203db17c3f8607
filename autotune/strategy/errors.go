package strategy

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// errorModel predicts the largest error of a variant over the limit of a class of accuracy: its
// logarithm is that of what products in so many passes round, and a Gaussian process over the axes,
// of which those of numerics decide. So one refusal tells of its neighbours in form and schedule,
// and leaves open what another choice of numerics does.
//
// Example: a variant at 1.6 times the limit leaves its neighbours by a schedule likely beyond it,
// those by refine or fold perhaps within, and that of three passes throughout surely so.
type errorModel struct {
	points []point
	values []float64 // logarithms, beside what passes explain
	gauss  *gaussian
}

// rounded is the logarithm of what the products of a variant round, a third for each of their
// precisions.
func rounded(v gdn.Variant) float64 {
	of := map[ir.Precision]float64{ir.PrecBF16x1: 1, ir.PrecBF16x3: 1e-2}
	sum := 0.
	for _, p := range []ir.Precision{v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState} {
		sum += max(of[p], 1e-4) / 3
	}
	return math.Log(sum)
}

// What is held likely before any error is known, as standard deviations of logarithms.
const (
	errorLevel  = 1.  // of all
	errorSpread = 1.  // of a value of an axis of numerics
	errorOther  = .1  // of one of another axis
	errorLocal  = .3  // of what a few axes do together
	errorNoise  = .05 // of what was measured
)

// errorOf is the logarithm of the largest error of a candidate over its limit, where those of a
// class were measured.
func errorOf(c *journal.Candidate) (e float64, ok bool) {
	e = math.Inf(-1)
	for _, x := range c.Errors {
		if x.Engine == journal.EngineAccuracy && x.Limit > 0 {
			e, ok = max(e, math.Log(max(float64(x.Error/x.Limit), 1e-6))), true
		}
	}
	return e, ok
}

// missed says whether a candidate has all costs and no rank, since a class of accuracy allows
// smaller errors.
func missed(c *journal.Candidate) bool {
	e, ok := errorOf(c)
	return ok && e > 0 && c.Verdict == journal.Numerics && len(c.Costs) > 0
}

// add takes what is known of a fitted variant.
func (m *errorModel) add(p point, v gdn.Variant, e float64) {
	m.points, m.values = append(m.points, p), append(m.values, e-rounded(v))
}

// learn conditions the process on what is known.
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
	noise := slices.Repeat([]float64{errorNoise * errorNoise}, len(m.points))
	m.gauss, _ = newGaussian(&prior{errorLevel * errorLevel, spreads, errorLocal * errorLocal}, m.points, noise, m.values)
}

// beyond is how likely the error of a fitted variant is beyond the limit; 0 where no errors are
// known.
func (m *errorModel) beyond(p point, v gdn.Variant) float64 {
	if len(m.points) == 0 || m.gauss == nil {
		return 0
	}
	means, variance := m.gauss.at(p)
	return distuv.UnitNormal.CDF((rounded(v) + means[0]) / math.Sqrt(variance+errorNoise*errorNoise))
}

// mostMisses is from how many misses moves are weighed; farMiss is the error over the limit beyond
// which no single move helps.
const (
	mostMisses = 2
	farMiss    = 8
)

// missesOf are the cheapest candidates that their errors alone keep from being better than the
// best, far apart as elites are.
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
			all, behind[c] = append(all, c), d+e // as dear as it is wrong
		}
	}
	slices.SortStableFunc(all, func(x, y *journal.Candidate) int { return cmp.Compare(behind[x], behind[y]) })
	return farApart(all, mostMisses)
}
