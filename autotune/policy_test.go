package autotune

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// priced is an evaluator whose costs a test gives.
func priced(costs func(w *judge.Work, target string) int64) *fake {
	return &fake{roomy: true, refuse: func(gate string, w *judge.Work) *judge.Refusal {
		switch gate {
		case "schedule":
			w.Record.Costs = nil
			for _, t := range w.Targets {
				score := costs(w, t.Name)
				w.Record.Costs = append(w.Record.Costs, journal.Cost{Target: t.Name, Cycles: score, Score: score, PerToken: perToken(w, score), Schedule: w.Variant.Hash()})
			}
		case "targets":
			w.Targets = w.Targets[:1]
		}
		return nil
	}}
}

// A champion must not make a guarded target worse by more than its share.
func TestGuards(t *testing.T) {
	scores := map[string][2]int64{"naive": {1000_000, 1000_000}, "default": {900_000, 1050_000}, "split": {800_000, 1010_000}, "uw": {700_000, 1100_000}}
	for _, guarded := range []bool{false, true} {
		c := quick(t, 4)
		c.Targets, c.Seeds, c.Strategy = []string{"v6e", "v5e"}, []string{"naive", "default", "split", "uw"}, "exhaustive"
		if guarded {
			c.Guards = map[string]float64{"v5e": .02}
		}
		c.Evaluator = priced(func(w *judge.Work, target string) int64 {
			for name, s := range scores {
				if v, _ := gdn.ParseVariant(name); v == w.Variant {
					return s[map[string]int{"v6e": 0, "v5e": 1}[target]]
				}
			}
			return 2000_000
		})
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		champions := requireVerified(t, c.Dir)
		want := 4
		if guarded {
			want = 3
			require.Equal(t, 2, sum.Verdicts[journal.Close])
			s, _, err := journal.Read(c.Dir, nil)
			require.NoError(t, err)
			require.Contains(t, s.Now().Candidate(2).Reason, "5.00 % above candidate 1 on the guarded target v5e, 2 % is allowed")
		}
		require.Equal(t, want, champions["v6e"])
		require.Equal(t, 1, champions["v5e"])
	}
	c := quick(t, 1)
	c.Guards = map[string]float64{"v4": .1}
	_, err := Search(t.Context(), c)
	require.ErrorContains(t, err, "guard: v4 is not a target of the run")
	require.ErrorAs(t, err, new(*ConfigError))
}

// Every target has its champion; the portfolio is the smallest set within 3 % of the best everywhere.
func TestPortfolio(t *testing.T) {
	scores := map[string][3]int64{"naive": {500_000, 900_000, 900_000}, "default": {900_000, 500_000, 900_000}, "split": {900_000, 505_000, 500_000}, "uw": {900_000, 900_000, 495_000}}
	c := quick(t, 4)
	c.Seeds, c.Strategy = []string{"naive", "default", "split", "uw"}, "exhaustive"
	c.Evaluator = priced(func(w *judge.Work, target string) int64 {
		for name, s := range scores {
			if v, _ := gdn.ParseVariant(name); v == w.Variant {
				return s[map[string]int{"v5e": 0, "v6e": 1, "tpu7x": 2}[target]]
			}
		}
		return 2000_000
	})
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"v5e": 1, "v6e": 2, "tpu7x": 4}, requireVerified(t, c.Dir))
	require.Len(t, sum.Portfolio, 2)
	require.Equal(t, 1, sum.Portfolio[0].ID)
	require.Equal(t, []string{"v5e"}, sum.Portfolio[0].Targets)
	require.Equal(t, 3, sum.Portfolio[1].ID)
	require.Equal(t, []string{"v6e", "tpu7x"}, sum.Portfolio[1].Targets)
	require.InDelta(t, math.Max(505./500, 500./495), float64(sum.Portfolio[1].Ratios), 1e-9)
}

// The session ends after so many iterations without a champion; tuning of scalars is none.
func TestPatience(t *testing.T) {
	c := quick(t, 0)
	c.Patience, c.Seeds = 12, []string{"naive"}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "no new champion in 12 iterations", sum.Stopped)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	last, after := 0, 0
	for _, k := range s.Now().Candidates() {
		if k.Verdict == journal.Improved {
			last, after = k.ID, 0
		} else if !k.Scalar {
			after++
		}
	}
	require.NotZero(t, last)
	require.GreaterOrEqual(t, after, 12)
	require.LessOrEqual(t, after, 12+leastLookahead)
}

// A resumed session has its patience from its own beginning.
func TestPatienceAgain(t *testing.T) {
	c := quick(t, 0)
	c.Patience, c.Seeds = 6, []string{"naive"}
	first, err := Search(t.Context(), c)
	require.NoError(t, err)
	again, err := Resume(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "no new champion in 6 iterations", again.Stopped)
	require.GreaterOrEqual(t, again.Candidates, first.Candidates+6)
}

// A search ends where nothing can be gained: at the time that HBM takes for inputs and outputs.
func TestBoundEnds(t *testing.T) {
	c := quick(t, 40)
	c.Targets = []string{"v6e"}
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	least := measure.Score(0, 0, c.Spec, target)
	var compiled atomic.Int64
	c.Evaluator = &fake{roomy: true, cost: func(cost *journal.Cost) {
		n := compiled.Add(1)
		cost.Wall = least*103/100 + 1000/n // not near enough
		if n >= 8 {
			cost.Wall = least * 101 / 100
		}
		cost.Cycles, cost.Score = cost.Wall, cost.Wall
	}}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "the champions are within 2 % of what HBM allows", sum.Stopped)
	require.GreaterOrEqual(t, sum.Candidates, 8)
	require.Less(t, sum.Candidates, 40)
}

// Candidates under way get a quarter of the budget more, then they are dropped.
func TestBudgetEnds(t *testing.T) {
	c := quick(t, 0)
	c.Budget, c.Workers = 3*time.Second, 2 // enough for four candidates of no work on a busy machine
	c.Evaluator = &fake{roomy: true, stuck: func(id int) bool { return id > 4 }}
	begin := time.Now()
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "the budget of 3s is spent", sum.Stopped)
	require.Equal(t, 4, sum.Candidates)
	require.Less(t, time.Since(begin), 20*time.Second) // without the end they would stand still for a minute
	requireVerified(t, c.Dir)
}

// Specs are weighed by use: score and figures are sums over the shapes, and a variant must be legal for each.
func TestShapes(t *testing.T) {
	long, short := spec(t, "b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16"), spec(t, "b=2,t=64,hk=4,hv=8,k=128,v=128,dtype=bf16")
	c := quick(t, 2)
	c.Spec, c.Shapes, c.Seeds = long, []judge.Shape{{Spec: short, Weight: 20}}, []string{"default", "split"}
	var seen []judge.Shape
	c.Evaluator = &fake{roomy: true, refuse: func(gate string, w *judge.Work) *judge.Refusal {
		if gate == "build" {
			seen = w.Shapes
		}
		return nil
	}}
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []judge.Shape{{Spec: long, Weight: 1}, {Spec: short, Weight: 20}}, seen)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.Equal(t, []journal.Shape{{Spec: long.String(), Weight: 1}, {Spec: short.String(), Weight: 20}}, s.Header.Shapes)

	c.Shapes, c.Dir = []judge.Shape{{Spec: short, Weight: 0}}, t.TempDir()
	_, err = Search(t.Context(), c)
	require.ErrorContains(t, err, "weight 0 is not positive")
}

// Strategies are compared on a journal without a compiler: all know the seeds, and what the journal lacks costs nothing.
func TestSimulate(t *testing.T) {
	c := quick(t, 60)
	c.Strategy, c.Seeds, c.Lookahead = "random", []string{"naive"}, 1
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	sims, err := Simulate(t.Context(), c.Dir, []string{"random", "model:2", "elites", "exhaustive"}, 0)
	require.NoError(t, err)
	require.Len(t, sims, 4)
	require.Equal(t, 60, sims[0].Judged, "the run's own strategy finds all again: %s", sims[0].Reason)
	require.Contains(t, sims[0].Within, "best")
	for _, s := range sims {
		require.NotZero(t, s.Judged)
		require.Len(t, s.Best, s.Judged)
		for i := 1; i < len(s.Best); i++ {
			require.LessOrEqual(t, s.Best[i], s.Best[i-1])
		}
	}
	_, err = Simulate(t.Context(), c.Dir, []string{"luck"}, 0)
	require.ErrorContains(t, err, "unknown strategy")
}
