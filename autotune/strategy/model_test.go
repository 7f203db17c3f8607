package strategy

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

func parsed(t *testing.T, text string) gdn.Variant {
	v, err := gdn.ParseVariant(text)
	require.NoError(t, err)
	return v
}

// A process gives back what it was told, is sure there, less sure the farther away, and learns
// effects of axes that hold everywhere.
func TestGaussian(t *testing.T) {
	s := space(t)
	at := func(text string) point { return pointOf(parsed(t, text).Fit(s.Spec)) }
	even := make([]float64, len(gdn.Axes))
	for i := range even {
		even[i] = .01
	}
	p := &prior{level: 1, axes: even, local: .01}
	points := []point{at("default"), at("kq=joined"), at("solve=ladder")}
	values := []float64{0, -.5, .3}
	noise := []float64{1e-6, 1e-6, 1e-6}
	g, ok := newGaussian(p, points, noise, values, []float64{1, 2, 3})
	require.True(t, ok)
	for i, x := range points {
		means, variance := g.at(x)
		require.InDelta(t, values[i], means[0], 1e-3)
		require.InDelta(t, float64(i+1), means[1], 1e-3)
		require.Less(t, variance, 1e-5)
	}
	both, near := g.at(at("solve=ladder,kq=joined"))
	require.InDelta(t, -.2, both[0], .15, "what kq=joined saves, it saves with solve=ladder too")
	_, far := g.at(at("solve=forward,kq=joined,layout=bthd,heads=1,beta=right,chunk=16"))
	require.Greater(t, near, 1e-4)
	require.Greater(t, far, near)

	_, ok = newGaussian(p, []point{points[0], points[0]}, []float64{-5, -5}, []float64{1, 1})
	require.False(t, ok, "no covariance")
	none, ok := newGaussian(p, nil, nil, nil, nil)
	require.True(t, ok)
	means, variance := none.at(points[0])
	require.Equal(t, []float64{0, 0}, means)
	require.InDelta(t, p.covariance(points[0], points[0]), variance, 1e-12)
}

// Numbers near one another are alike, and an axis that does not apply is like itself alone.
func TestAlike(t *testing.T) {
	i := slices.IndexFunc(gdn.Axes, func(a gdn.Axis) bool { return a.Name == "leaf" })
	require.Equal(t, 1., alike(i, 2, 2))
	require.Equal(t, .5, alike(i, 2, 3))
	require.Equal(t, .25, alike(i, 3, 1))
	require.Zero(t, alike(i, -1, 2))
	require.Equal(t, 1., alike(i, -1, -1))
	j := slices.IndexFunc(gdn.Axes, func(a gdn.Axis) bool { return a.Name == "solve" })
	require.Zero(t, alike(j, 0, 1))
}

// simulated judges a strategy's proposals by a rule, and gives the best score after each.
func simulated(t *testing.T, s Space, text string, candidates int, rule func(gdn.Variant) journal.Cost) (best []float64, props []*Proposal) {
	st, err := Parse(text, s)
	require.NoError(t, err)
	j := newJudged(t, s)
	least := math.Inf(1)
	for range candidates {
		p := st.Next(t.Context(), j.state.Now(), nil)
		require.NotNil(t, p)
		f := p.Variant.Fit(s.Spec)
		cost := rule(f)
		cost.Target, cost.Cycles = "v6e", cost.Score
		c := journal.Candidate{ID: j.state.Len() + 1, Parent: p.Parent, Variant: p.Variant.String(), Fitted: f.String(), Cell: f.Cell(), Change: texts(p.Moves), Verdict: journal.Worse, Costs: []journal.Cost{cost}}
		j.add(journal.KindCandidate, c)
		least = min(least, float64(cost.Score))
		best, props = append(best, least), append(props, p)
	}
	return best, props
}

// factored is a rule by which values of axes multiply the cycles of the kernels, and the layout
// decides on the cycles of XLA ops.
func factored(factors map[string]float64, glue map[string]float64) func(gdn.Variant) journal.Cost {
	return func(v gdn.Variant) journal.Cost {
		kernel, outside := 1e6, 0.
		for _, a := range gdn.Axes {
			if a.Applies != nil && !a.Applies(v) {
				continue
			}
			if f, ok := factors[a.Name+"="+a.Get(&v)]; ok {
				kernel *= f
			}
			outside += 1e6 * glue[a.Name+"="+a.Get(&v)]
		}
		return journal.Cost{Score: int64(kernel + outside), XLA: int64(outside)}
	}
}

// Where the cheapest kernel has the dearest XLA ops, the model finds the whole that is cheapest, by
// estimates that are off in level and blind to an axis: with each, sooner than elites.
func TestModelFindsBestWhole(t *testing.T) {
	factors := map[string]float64{"layout=bt_hd": .7, "layout=bthd": .9, "layout=bhdt": 2, "solve=merge": .5, "solve=ladder": .6, "heads=0": .4, "heads=4": .6, "kq=joined": .9, "transpose_k=key": .85, "phases_before=1": .8, "phases_before=2": .9, "head_group=2": .95}
	glue := map[string]float64{"layout=bhtd": .2, "layout=bt_hd": .1}
	real := factored(factors, glue)
	s := space(t, "naive")
	s.Axes = []string{"layout", "solve", "heads", "kq", "transpose_k", "phases_before", "head_group", "beta", "fold", "share", "chunks"}
	s.Targets = []string{"v6e"}
	s.Estimate = func(v gdn.Variant) *Estimate {
		seen := without(factors, "phases_before", "head_group", "layout=bthd")
		k := factored(seen, glue)(v)
		return &Estimate{Targets: []Guess{{Kernel: 3 * float64(k.Score-k.XLA), XLA: float64(k.XLA)}}, Size: 1000}
	}
	goal := parsed(t, "solve=merge,heads=0,layout=bthd,kq=joined,transpose_k=key,phases_before=1,head_group=2")
	want := float64(real(goal.Fit(s.Spec)).Score)
	within := map[string]int{}
	for _, text := range []string{"model", "elites"} {
		best, _ := simulated(t, s, text, 60, real)
		within[text] = slices.IndexFunc(best, func(x float64) bool { return x <= 1.02*want })
	}
	t.Log(within)
	require.Positive(t, within["model"])
	require.Less(t, within["model"], 30)
	require.True(t, within["elites"] < 0 || within["elites"] >= within["model"], "%v", within)
}

// without leaves out the factors of some axes or values.
func without(from map[string]float64, names ...string) map[string]float64 {
	m := map[string]float64{}
	for k, v := range from {
		axis, _, _ := strings.Cut(k, "=")
		if !slices.Contains(names, axis) && !slices.Contains(names, k) {
			m[k] = v
		}
	}
	return m
}

// What a surrogate promises of a move is near to what it then saves, and a move that failed with
// others is a risk elsewhere too.
func TestForecast(t *testing.T) {
	factors := map[string]float64{"solve=merge": .8, "kq=joined": .9, "heads=2": .9}
	real := factored(factors, nil)
	s := space(t, "naive")
	j := newJudged(t, s)
	for i, text := range []string{"naive", "naive,kq=joined", "naive,heads=2", "naive,solve=merge", "naive,layout=bhdt", "naive,layout=bhdt,kq=joined"} {
		v := parsed(t, text)
		f := v.Fit(s.Spec)
		c := real(f)
		c.Target, c.Cycles = "v6e", c.Score
		k := journal.Candidate{ID: i + 1, Variant: v.String(), Fitted: f.String(), Cell: f.Cell(), Verdict: journal.Worse, Costs: []journal.Cost{c}}
		if strings.Contains(text, "bhdt") {
			k.Verdict, k.Costs = journal.Numerics, nil
		}
		j.add(journal.KindCandidate, k)
	}
	m := s.learn(j.state.Now(), nil)
	base, ok := m.forecast(parsed(t, "naive,heads=2,solve=merge"))
	require.True(t, ok)
	f, ok := m.forecast(parsed(t, "naive,heads=2,solve=merge,kq=joined"))
	require.True(t, ok)
	require.InDelta(t, -math.Log(.9), f.against(base), .06)
	require.Positive(t, m.improvement(f))
	require.Less(t, f.risk, .15)
	turned, ok := m.forecast(parsed(t, "naive,heads=2,solve=merge,layout=bhdt"))
	require.True(t, ok)
	require.Greater(t, turned.risk, 2*f.risk)

	before := m.improvement(f)
	m = s.learn(j.state.Now(), []gdn.Variant{parsed(t, "naive,heads=2,solve=merge,kq=joined")})
	f, ok = m.forecast(parsed(t, "naive,heads=2,solve=merge,kq=joined"))
	require.True(t, ok)
	require.Less(t, m.improvement(f), before/2, "what is pending promises nothing more")
}

// A candidate whose cost the model can not tell is less of a warning than one that is wrong: what
// is near may have a cost.
func TestUnknownCost(t *testing.T) {
	s := space(t, "naive")
	risk := func(verdict journal.Verdict) float64 {
		j := newJudged(t, s)
		j.judge(&Proposal{Variant: parsed(t, "naive")}, 1000)
		v := parsed(t, "naive,layout=bhdt")
		f := v.Fit(s.Spec)
		j.add(journal.KindCandidate, journal.Candidate{ID: 2, Variant: v.String(), Fitted: f.String(), Cell: f.Cell(), Verdict: verdict})
		forecast, ok := s.learn(j.state.Now(), nil).forecast(parsed(t, "naive,layout=bhdt,kq=joined"))
		require.True(t, ok)
		return forecast.risk
	}
	require.Less(t, risk(journal.CostUnknown), .7*risk(journal.Numerics))
	require.Greater(t, risk(journal.CostUnknown), faultLevel)
}

// A choice that is refused or unsafe alone is weighed with what it needs: aligned blocks of packed sequences, from a variant that lacks most
// of it, and from one without the masks that separate sequences.
func TestNeededChoices(t *testing.T) {
	s := space(t)
	s.Spec, _ = gdn.Parse("contest-prefill,t=2048,seqs=15")
	from := parsed(t, "heads=0,layout=bt_hd,decay=base2,transpose_k=key,out=shared")
	for _, v := range []gdn.Variant{from, parsed(t, "tpu-packed,pack=gather,mask=select")} {
		var aligned []single
		for _, x := range s.singles(v) {
			if x.String() == "pack=aligned" {
				aligned = append(aligned, x)
			}
		}
		require.Len(t, aligned, 2)
		require.False(t, s.admits(aligned[0].v))
		require.True(t, aligned[1].needed)
		require.True(t, s.admits(aligned[1].v))
		require.Equal(t, gdn.PackAligned, aligned[1].v.Fit(s.Spec).Mapping.Pack)
	}
	require.NoError(t, parsed(t, "tpu-packed,mask=select").Check(s.Spec), "it is unsafe alone")
	s.Axes = []string{"pack", "layout"}
	for _, x := range s.singles(from) {
		require.False(t, x.needed, "what it needs is not walked: %s", x.v)
	}
}

// Where nothing that was ranked has an estimate, what is pending is expected to cost what its own
// estimate says.
func TestForecastFromNothing(t *testing.T) {
	s := space(t, "naive")
	naive := parsed(t, "naive").Fit(s.Spec)
	s.Estimate = func(v gdn.Variant) *Estimate {
		if v == naive {
			return nil
		}
		return &Estimate{Targets: []Guess{{Kernel: 1e6}}, Size: 1}
	}
	j := newJudged(t, s)
	j.add(journal.KindCandidate, journal.Candidate{ID: 1, Variant: naive.String(), Fitted: naive.String(), Cell: naive.Cell(), Verdict: journal.Worse, Costs: []journal.Cost{{Target: "v6e", Score: 1e6, Cycles: 1e6}}})
	m := s.learn(j.state.Now(), []gdn.Variant{parsed(t, "default")})
	f, ok := m.forecast(parsed(t, "split"))
	require.True(t, ok)
	require.False(t, math.IsNaN(f.mean[0]))
	_, ok = m.forecast(naive)
	require.False(t, ok)
	require.NotNil(t, newPolicy(s, &model{s, 4}).Next(t.Context(), j.state.Now(), nil))
}

// Elites are good and differ in many axes.
func TestElites(t *testing.T) {
	s := space(t, "naive")
	j := newJudged(t, s)
	for i, text := range []string{"default", "default,kq=joined", "default,beta=right", "naive,form=uw", "split,beta=right"} {
		v := parsed(t, text)
		f := v.Fit(s.Spec)
		j.add(journal.KindCandidate, journal.Candidate{ID: i + 1, Variant: v.String(), Fitted: f.String(), Cell: f.Cell(), Verdict: journal.Worse, Costs: []journal.Cost{{Target: "v6e", Score: int64(100 + i), Cycles: 100}}})
	}
	var ids []int
	for _, c := range elitesOf(j.state.Now(), 3) {
		ids = append(ids, c.ID)
	}
	require.Equal(t, []int{1, 4, 5}, ids)
}

// Errors are learned by class of inputs: choices that each mend one of two are known to mend both together, though the largest error hides one of
// them. A neighbour by schedule has the same errors.
func TestErrorsByClass(t *testing.T) {
	s := space(t)
	const base = "chunk=128,leaf=16,merge=packed,prec=bf16x1,store=bf16,mask=words"
	var m errorModel
	of := func(text string) gdn.Variant { return parsed(t, base+text).Fit(s.Spec) }
	for _, x := range []struct {
		text      string
		cos9, u01 float64
	}{{"", 2.5, 1.2}, {",error_feedback=4", 2.5, .8}, {",refine=yes", .8, 1.2}, {",scale=output", 2.5, 1.2}} {
		v := of(x.text)
		m.add(pointOf(v), v, map[string]float64{"cos.9": math.Log(x.cos9), "u01": math.Log(x.u01)})
	}
	m.learn()
	beyond := func(text string) float64 { v := of(text); return m.beyond(pointOf(v), v) }
	require.Greater(t, beyond(",refine=yes"), .99)
	require.Greater(t, beyond(",refine=yes,head_group=2"), .99)
	require.Greater(t, beyond(",error_feedback=4,head_group=2"), .99)
	require.Less(t, beyond(",refine=yes,error_feedback=4"), .35)

	v := of(",fold=yes")
	m.add(pointOf(v), v, map[string]float64{"cos.9": 0})
	require.Equal(t, []string{"cos.9", "u01"}, m.classes)
	require.Len(t, m.points, 4, "an exam that ended early tells nothing of what it did not ask")

	e := errorsOf(&journal.Candidate{Errors: []journal.ClassError{
		{Class: "a", Engine: journal.EngineAccuracy, Error: journal.Figure(math.NaN()), Limit: 1}, {Class: "b", Engine: journal.EngineAccuracy, Error: journal.Figure(math.Inf(1)), Limit: 1},
		{Class: "c", Engine: journal.EngineAccuracy, Error: 2, Limit: 1}, {Class: "c", Engine: journal.EngineAccuracy, Error: 1, Limit: 1}, {Class: "d", Error: 1, Limit: 1}}})
	require.Equal(t, map[string]float64{"a": math.Log(1e6), "b": math.Log(1e6), "c": math.Log(2)}, e)
}

// Where a class of accuracy refuses what is cheapest, the model learns which choices mend errors,
// and finds the cheapest within the class. A model that is told of refusals alone does not within
// as many candidates.
func TestModelMendsErrors(t *testing.T) {
	cost := factored(map[string]float64{"precstate=bf16x1": .3, "precintra=bf16x1": .3, "precinv=bf16x1": .8, "store=bf16": .9, "solve=merge": .5, "merge=packed": .8, "layout=bthd": .8,
		"refine=yes": 1.08, "fold=yes": .97, "tail_decay=v": 1.03}, nil)
	errors := func(v gdn.Variant) float64 { // over the limit: what several choices round adds up
		var sum float64
		add := func(x float64, rounds bool) {
			if rounds {
				sum += x * x
			}
		}
		one := v.Numerics.PrecInv == ir.PrecBF16x1
		add(.5, one && v.Inverse.Refine)
		add(2, one && !v.Inverse.Refine)
		add(.6, v.Numerics.PrecIntra == ir.PrecBF16x1)
		add(.3, v.Numerics.PrecState == ir.PrecBF16x1)
		add(.5, v.Numerics.PrecState == ir.PrecBF16x1 && v.TailDecay == gdn.TailDecayK)
		add(.8, v.Numerics.PrecIntra == ir.PrecBF16x1 && v.Fold)
		return max(math.Sqrt(sum), 1e-3)
	}
	s := space(t, "naive")
	s.Axes = []string{"precstate", "precintra", "precinv", "store", "solve", "merge", "leaf", "layout", "refine", "fold", "tail_decay", "mask", "decay_bf16", "heads", "chunk", "beta", "head_group"}
	s.Targets = []string{"v6e"}
	s.Estimate = func(v gdn.Variant) *Estimate {
		k := cost(v)
		return &Estimate{Targets: []Guess{{Kernel: float64(k.Score)}}, Size: 1000}
	}
	goal := parsed(t, "merge-packed,prec=bf16x1,store=bf16,mask=words,refine=yes,fold=no").Fit(s.Spec)
	require.Less(t, errors(goal), 1.)
	within := map[bool]int{}
	for _, told := range []bool{true, false} {
		st, err := Parse("model", s)
		require.NoError(t, err)
		j := newJudged(t, s)
		best, at := math.Inf(1), -1
		for i := range 30 {
			if most, ok := within[true]; ok && i > most {
				break
			}
			p := st.Next(t.Context(), j.state.Now(), nil)
			require.NotNil(t, p)
			f := p.Variant.Fit(s.Spec)
			k := cost(f)
			k.Target, k.Cycles = "v6e", k.Score
			c := journal.Candidate{ID: j.state.Len() + 1, Parent: p.Parent, Variant: p.Variant.String(), Fitted: f.String(), Cell: f.Cell(), Change: texts(p.Moves), Verdict: journal.Worse, Costs: []journal.Cost{k}}
			e := errors(f)
			if told {
				c.Errors = []journal.ClassError{{Class: "cos.9", Engine: journal.EngineAccuracy, Output: "o", Kind: "rms", Error: journal.Figure(e), Limit: 1}}
			}
			if e > 1 {
				c.Gate, c.Verdict = "accuracy", journal.Numerics
			} else {
				best = min(best, float64(k.Score))
			}
			j.add(journal.KindCandidate, c)
			if at < 0 && best < 1.05*float64(cost(goal).Score) {
				at = i
			}
			if at >= 0 {
				break
			}
		}
		within[told] = at
	}
	require.Positive(t, within[true])
	require.Negative(t, within[false], "as soon as %d", within[true])
}

// A candidate that was compiled and then refused for its numbers tells what its choices cost.
func TestCostOfRefused(t *testing.T) {
	s := space(t, "naive")
	gain := func(costs []journal.Cost) float64 {
		j := newJudged(t, s)
		j.judge(&Proposal{Variant: parsed(t, "naive")}, 1000)
		f := parsed(t, "naive,layout=bthd,solve=ladder").Fit(s.Spec)
		j.add(journal.KindCandidate, journal.Candidate{ID: 2, Variant: f.String(), Fitted: f.String(), Cell: f.Cell(), Verdict: journal.Numerics, Costs: costs})
		m := s.learn(j.state.Now(), nil)
		from, ok := m.forecast(parsed(t, "naive"))
		require.True(t, ok)
		near, ok := m.forecast(parsed(t, "naive,layout=bthd,solve=ladder,kq=joined"))
		require.True(t, ok)
		require.Greater(t, near.risk, .3)
		return near.against(from)
	}
	require.InDelta(t, 0, gain(nil), .01)
	require.Greater(t, gain([]journal.Cost{{Target: "v6e", Score: 500, Cycles: 500}}), .3)
}

// A move that gave the program of its parent is put off elsewhere too; with others it counts as
// they do.
func TestIdleMoves(t *testing.T) {
	s := space(t, "naive")
	value := func(of int, text string) float64 {
		j := newJudged(t, s)
		j.judge(&Proposal{Variant: parsed(t, "naive")}, 1000)
		f := parsed(t, "naive,kq=joined").Fit(s.Spec)
		j.add(journal.KindCandidate, journal.Candidate{ID: 2, Parent: 1, Change: []string{"kq=joined"}, Variant: f.String(), Fitted: f.String(), Cell: f.Cell(), Verdict: journal.Duplicate, Of: of})
		j.judge(&Proposal{Variant: parsed(t, "naive,beta=right"), Parent: 1}, 900)
		w := &weighing{Space: s, surrogate: s.learn(j.state.Now(), nil), tried: func(gdn.Variant) bool { return false }, idle: idleMoves(j.state.Now()), seen: map[gdn.Variant]bool{}}
		o, ok := w.origin(j.state.Now().Candidate(3))
		require.True(t, ok)
		_, ok = w.weigh(o, parsed(t, text))
		require.True(t, ok)
		require.Len(t, w.options, 1)
		return w.options[0].value
	}
	alone, joined := "naive,beta=right,kq=joined", "naive,beta=right,kq=joined,solve=ladder"
	require.Less(t, value(1, alone), .2*value(9, alone))
	require.Greater(t, value(1, joined), .5*value(9, joined))
}
