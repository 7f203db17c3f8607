package strategy

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// surrogate predicts a variant's cost from judged candidates and from estimates: the logarithms of the cycles of the
// kernels, and of the XLA ops around them, are each the estimate plus a Gaussian process. So the effect of a change of
// one axis carries over to cells where it was not tried, less the more these differ. Another process predicts which
// candidates get no rank, and if a class of accuracy is asked for, one more predicts their errors (errors.go).
//
// Logarithms, since choices multiply: a solver that saves a fifth does so in any kernel. Kernels and XLA ops
// separately, since a choice of layout moves work from one to the other, and a model of the sum would learn that
// layouts cost nothing.
type surrogate struct {
	space   Space
	targets []targetModel
	faults  *gaussian
	errors  errorModel
	told    map[gdn.Variant]told // cache by fitted variant: moves from many candidates lead to the same ones
}

// targetModel is the part of a surrogate for one target.
type targetModel struct {
	costs *gaussian // of residuals: kernels, XLA ops
	mean  [2]float64
	least float64 // logarithm of the best score
}

// Priors of a surrogate, as standard deviations of logarithms.
const (
	levelSpread = 1.   // of the level of estimates
	localSpread = .08  // of the interaction of a few axes
	axisSpread  = .05  // of a value of an axis, besides its effect on the estimate
	orderSpread = .10  // of a value of an axis that estimates ignore
	hotSpread   = .15  // additional for an axis whose stages, or idle units, are hot: times their share
	exact       = .003 // of measurements
	distant     = .07  // of measurements far from the best: times the square of the logarithm of the distance
	mostPoints  = 300  // most points that a process is conditioned on, the nearest to the best

	faultLevel  = .08 // prior share of candidates without a rank
	faultSpread = .25 // of that share by a value of an axis, and by interactions
	faultNoise  = .05

	unknownFault = .5 // weight of a candidate with an unknown cost, where a wrong one has 1

	kernelTrust = .9 // share of the logarithm of a kernel estimate that is believed
	leastXLA    = 1e-3
)

// parts are the logarithms of the cycles of kernels and of XLA ops.
type parts [2]float64

// partsOf returns the logarithms. XLA cycles below a thousandth of the kernels' are noise, not a saving, and are raised
// to it.
func partsOf(kernel, glue float64) parts {
	return parts{math.Log(max(kernel, 1)), math.Log(max(glue, leastXLA*kernel, 1))}
}

// trust is the share of the logarithm of an estimate that is believed.
var trust = parts{kernelTrust, 1}

// learn returns a surrogate of the judged candidates; a pending candidate counts as if its expectation had been
// measured. Otherwise all workers would be given neighbours of the same best guess.
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
		if c.Verdict == journal.Duplicate { // it costs as much as the candidate it repeats
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
		} else if c.Verdict == journal.CostUnknown { // a limit of the cost model, which neighbours may not reach
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

// seen is a judged candidate as models use it.
type seen struct {
	c     *journal.Candidate
	point point
	fit   gdn.Variant
}

// ofTarget returns the part of the surrogate for the i-th target. It learns the residual: measured less estimated.
// Candidates far from the best count less (noise grows with the distance), since differences between slow kernels say
// little about fast ones.
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

// believing adds the pending candidates on the i-th target with their expectations as measurements, and the best of
// these as the one to improve on: their neighbours then have little uncertainty left to be worth a try.
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

// weightedMean returns the mean, weighted by inverse variances; 0 without values.
func weightedMean(values, variances []float64) float64 {
	sum, weight := 0., 1e-9
	for i, v := range values {
		sum, weight = sum+v/variances[i], weight+1/variances[i]
	}
	return sum / weight
}

// spreads returns the variances of the values of axes: larger for axes that estimates ignore, such as the order of
// instructions, and for hot stages of the best: a choice in the stage that takes a third of the cycles may save more
// than one in a stage that takes a hundredth.
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

// guess returns the believed part of the estimate of a fitted variant on a target.
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

// forecast is a surrogate's prediction for a variant.
type forecast struct {
	mean, spread []float64 // of the logarithm of the score, by target
	risk         float64   // probability that it gets no rank, for other reasons than its errors
	beyond       float64   // probability that its errors exceed a class of accuracy
}

// forecast predicts a variant; ok is false if there is no estimate. Forecasts are cached.
func (m *surrogate) forecast(v gdn.Variant) (forecast, bool) {
	v = v.Fit(m.space.Spec)
	told, ok := m.told[v]
	if !ok {
		told.forecast, told.ok = m.tell(v)
		m.told[v] = told
	}
	return told.forecast, told.ok
}

// told is a cached forecast.
type told struct {
	forecast forecast
	ok       bool
}

// tell computes the forecast of a fitted variant.
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

// improvement returns the expected improvement on the best as a logarithm, the mean over the targets; a worse result
// counts as 0. With z = (best - mean) / spread it is
//
//	(best - mean) Phi(z) + spread phi(z)
//
// so that a variant with an uncertain forecast is worth a try even if it is expected to lose.
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

// against returns the expected saving over another variant as a logarithm, the mean over the targets.
func (f forecast) against(g forecast) (gain float64) {
	n := 0
	for i := range f.mean {
		if d := g.mean[i] - f.mean[i]; !math.IsNaN(d) {
			gain, n = gain+d, n+1
		}
	}
	return gain / float64(max(1, n))
}
