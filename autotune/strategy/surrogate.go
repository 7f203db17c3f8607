package strategy

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// surrogate predicts what a variant costs, from what was judged and from estimates: the logarithm
// of the cycles of the kernels, and of those of the XLA ops around them, is what the estimate says of
// each plus a Gaussian process. So a change of one axis tells what it is worth in cells where
// it was not tried, less the more these differ. Another process predicts which candidates get no
// rank, and where a class of accuracy is asked for, one more how large their errors are
// (errors.go).
//
// Logarithms, since choices multiply: a solver that saves a fifth does so of any kernel. Kernels
// and XLA ops separately, since a choice of layout moves work from one to the other, and a model of the sum
// would learn that layouts cost nothing.
type surrogate struct {
	space   Space
	targets []targetModel
	faults  *gaussian
	errors  errorModel
	told    map[gdn.Variant]told // by fitted variant: moves from many candidates lead to the same ones
}

// targetModel is the part of a surrogate for one target.
type targetModel struct {
	costs *gaussian // of residuals: kernels, XLA ops
	mean  [2]float64
	least float64 // logarithm of the best score
}

// What a surrogate holds likely before it has seen anything, as standard deviations of logarithms.
const (
	levelSpread = 1.   // of the level of estimates
	localSpread = .08  // of what a few axes do together
	axisSpread  = .05  // of a value of an axis, beside what its estimate says
	orderSpread = .10  // of one that estimates do not see
	hotSpread   = .15  // the more of an axis that the stages of the schedule, or idle units, concern: times their share
	exact       = .003 // of what was measured
	distant     = .07  // of what was measured far from the best: times the square of the logarithm of the distance
	mostPoints  = 300  // that a process is conditioned on, the nearest to the best

	faultLevel  = .08 // the share of candidates without a rank
	faultSpread = .25 // of it by a value of an axis, and by values together
	faultNoise  = .05

	unknownFault = .5 // what a candidate without a known cost counts for, where one that is wrong counts for 1

	kernelTrust = .9 // of the logarithm of what an estimate of kernels says
	leastXLA    = 1e-3
)

// parts are the logarithms of the cycles of kernels and of XLA ops.
type parts [2]float64

// partsOf takes the logarithms. Glue below a thousandth of the kernels is noise there, not a
// saving.
func partsOf(kernel, glue float64) parts {
	return parts{math.Log(max(kernel, 1)), math.Log(max(glue, leastXLA*kernel, 1))}
}

// trust is how much of the logarithm of an estimate is believed.
var trust = parts{kernelTrust, 1}

// learn makes a surrogate from the judged candidates; what is pending counts as if it had been
// judged as expected. Otherwise all workers would be given neighbours of the same best guess.
func (s Space) learn(judged journal.View, pending []gdn.Variant) *surrogate {
	m := &surrogate{space: s, told: map[gdn.Variant]told{}}
	targets := judged.Header().Targets
	var ranked []seen
	var points []point
	var faults, noise []float64
	for _, c := range judged.Candidates() {
		if c.Variant == "" || c.Verdict == journal.Pruned || c.Gate == journal.GateProposal {
			continue
		}
		v, err := gdn.ParseVariant(c.Fitted)
		if err != nil {
			continue
		}
		if c.Verdict == journal.Duplicate { // it costs what the other costs
			if c = judged.Candidate(c.Of); c == nil {
				continue
			}
		}
		x := seen{c, pointOf(v), v}
		if e := errorsOf(c); len(e) > 0 {
			m.errors.add(x.point, v, e)
			if missed(c) { // its costs are known
				ranked = append(ranked, x)
				continue
			}
		}
		points, noise = append(points, x.point), append(noise, faultNoise*faultNoise)
		if c.Verdict.Ranked() {
			ranked, faults = append(ranked, x), append(faults, -faultLevel)
		} else if c.Verdict == journal.CostUnknown { // a limit of the cost model, which what is near may not meet
			faults = append(faults, unknownFault-faultLevel)
		} else {
			faults = append(faults, 1-faultLevel)
			if c.Verdict == journal.Numerics && len(c.Costs) > 0 { // its numbers are wrong, its costs are not
				ranked = append(ranked, x)
			}
		}
	}
	even := make([]float64, len(gdn.Axes))
	for i := range even {
		even[i] = faultSpread * faultSpread
	}
	m.errors.learn()
	m.faults, _ = newGaussian(&prior{0, even, faultSpread * faultSpread}, points, noise, faults)
	for i := range targets {
		m.targets = append(m.targets, m.ofTarget(i, judged, ranked, pending))
	}
	return m
}

// seen is a judged candidate, as models see it.
type seen struct {
	c     *journal.Candidate
	point point
	fit   gdn.Variant
}

// ofTarget is the part of the surrogate for the i-th target. What is learned is the residual:
// measured less estimated. Candidates far from the best count less (noise grows with the distance),
// since how a slow kernel differs from a slower one says little of the fast ones.
func (m *surrogate) ofTarget(i int, judged journal.View, ranked []seen, pending []gdn.Variant) targetModel {
	t := judged.Header().Targets[i]
	best := judged.Champion(t)
	if best == nil {
		return targetModel{least: math.Inf(1)}
	}
	least := math.Log(float64(best.Cost(t).Score))
	var at []point
	var noise []float64
	var residuals [2][]float64
	type row struct {
		seen
		off  float64
		real parts
	}
	var rows []row
	for _, x := range ranked {
		k := x.c.Cost(t)
		if k == nil {
			continue
		}
		glue := float64(k.XLA)
		rows = append(rows, row{x, math.Log(float64(k.Score)) - least, partsOf(float64(k.Score)-glue, glue)})
	}
	slices.SortStableFunc(rows, func(x, y row) int { return cmp.Compare(x.off, y.off) })
	for _, r := range rows[:min(len(rows), mostPoints)] {
		guess, ok := m.guess(i, r.fit)
		if !ok {
			continue
		}
		at = append(at, r.point)
		d := exact + distant*r.off*r.off
		noise = append(noise, d*d)
		for q := range residuals {
			residuals[q] = append(residuals[q], r.real[q]-guess[q])
		}
	}
	p := &prior{levelSpread * levelSpread, spreads(best.Cost(t)), localSpread * localSpread}
	model := targetModel{least: least}
	for q := range residuals {
		model.mean[q] = weightedMean(residuals[q], noise)
		for j := range residuals[q] {
			residuals[q][j] -= model.mean[q]
		}
	}
	if model.costs, _ = newGaussian(p, at, noise, residuals[0], residuals[1]); model.costs != nil && len(pending) > 0 {
		model = model.believing(m, i, pending, p, at, noise, residuals)
	}
	return model
}

// believing counts what is pending on the i-th target as judged as expected, and the best of these
// as the one to improve on: its neighbours then have little uncertainty left to be worth a try.
func (t targetModel) believing(m *surrogate, i int, pending []gdn.Variant, p *prior, at []point, noise []float64, residuals [2][]float64) targetModel {
	for _, v := range pending {
		v = v.Fit(m.space.Spec)
		guess, ok := m.guess(i, v)
		if !ok {
			continue
		}
		x := pointOf(v)
		means, _ := t.costs.at(x)
		at, noise = append(at, x), append(noise, exact*exact)
		total := 0.
		for q := range residuals {
			residuals[q] = append(residuals[q], means[q])
			total += math.Exp(guess[q] + t.mean[q] + means[q])
		}
		t.least = min(t.least, math.Log(total))
	}
	if g, ok := newGaussian(p, at, noise, residuals[0], residuals[1]); ok {
		t.costs = g
	}
	return t
}

// weightedMean is the mean by the inverse of variances; 0 of nothing.
func weightedMean(values, variances []float64) float64 {
	sum, weight := 0., 1e-9
	for i, v := range values {
		sum, weight = sum+v/variances[i], weight+1/variances[i]
	}
	return sum / weight
}

// spreads are the variances of the values of axes: wider for those that estimates do not see, as
// the order of instructions, and where the schedule of the best is hot: a choice of the stage that
// takes a third of the cycles may save more than one of a stage that takes a hundredth.
func spreads(best *journal.Cost) []float64 {
	l := make([]float64, len(gdn.Axes))
	for i, a := range gdn.Axes {
		if a.Sets != nil {
			continue
		}
		d := axisSpread
		if bearings[a.Name].orders {
			d = orderSpread
		}
		d += hotSpread * hotShare(a.Name, best)
		l[i] = d * d
	}
	return l
}

// guess is what the estimate says of a fitted variant on a target, as far as it is believed.
func (m *surrogate) guess(target int, v gdn.Variant) (p parts, ok bool) {
	if m.space.Estimate == nil {
		return p, true
	}
	e := m.space.Estimate(v)
	if e == nil {
		return p, false
	}
	p = partsOf(e.Targets[target].Kernel, e.Targets[target].XLA)
	for q := range p {
		p[q] *= trust[q]
	}
	return p, true
}

// forecast is what a surrogate expects of a variant.
type forecast struct {
	mean, spread []float64 // of the logarithm of the score, by target
	risk         float64   // that it gets no rank, for other reasons than the next
	beyond       float64   // that its errors are beyond a class of accuracy
}

// forecast tells of a variant; ok is false where nothing can be told.
func (m *surrogate) forecast(v gdn.Variant) (forecast, bool) {
	v = v.Fit(m.space.Spec)
	told, ok := m.told[v]
	if !ok {
		told.forecast, told.ok = m.tell(v)
		m.told[v] = told
	}
	return told.forecast, told.ok
}

// told is what was told of a variant.
type told struct {
	forecast forecast
	ok       bool
}

// tell tells of a fitted variant.
func (m *surrogate) tell(v gdn.Variant) (f forecast, ok bool) {
	x := pointOf(v)
	for i, t := range m.targets {
		if t.costs == nil {
			f.mean, f.spread = append(f.mean, math.NaN()), append(f.spread, 0)
			continue
		}
		guess, can := m.guess(i, v)
		if !can {
			return f, false
		}
		means, variance := t.costs.at(x)
		kernel := math.Exp(guess[0] + t.mean[0] + means[0])
		glue := math.Exp(guess[1] + t.mean[1] + means[1])
		share := kernel / (kernel + glue)
		f.mean = append(f.mean, math.Log(kernel+glue))
		f.spread = append(f.spread, math.Sqrt(variance*(share*share+(1-share)*(1-share))))
	}
	if m.faults != nil && len(m.faults.points) > 0 {
		means, _ := m.faults.at(x)
		f.risk = min(max(faultLevel+means[0], .02), .98)
	}
	f.beyond = m.errors.beyond(x, v)
	return f, true
}

// improvement is the logarithm by which a variant is expected to become better than the best, by
// the mean over the targets: what is worse counts as nothing. With z = (best - mean) / spread it is
//
//	(best - mean) Phi(z) + spread phi(z)
//
// so that a variant about which little is known is worth a try even if it is expected to lose.
func (m *surrogate) improvement(f forecast) (gain float64) {
	for i, t := range m.targets {
		if math.IsNaN(f.mean[i]) {
			continue
		}
		better, d := t.least-f.mean[i], f.spread[i]
		if d < 1e-9 {
			gain += max(better, 0)
			continue
		}
		gain += better*distuv.UnitNormal.CDF(better/d) + d*distuv.UnitNormal.Prob(better/d)
	}
	return gain / float64(max(1, len(m.targets)))
}

// against is the expected logarithm of what a variant saves of another's cycles, by the mean over
// the targets.
func (f forecast) against(g forecast) (gain float64) {
	n := 0
	for i := range f.mean {
		if d := g.mean[i] - f.mean[i]; !math.IsNaN(d) {
			gain, n = gain+d, n+1
		}
	}
	return gain / float64(max(1, n))
}
