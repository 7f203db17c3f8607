package autotune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/target"
)

// quickSpec is the work of searches with the fake evaluator: of few heads, since estimates of their programs are most of what such a search
// takes.
const quickSpec = "b=1,t=1024,hk=1,hv=2,k=128,v=128,dtype=bf16"

// quick is a search with the fake evaluator.
func quick(t *testing.T, candidates int) Config {
	return Config{Spec: spec(t, quickSpec), Dir: t.TempDir(), Candidates: candidates, Strategy: "elites", Evaluator: &fake{}, Generator: "test", Backoff: time.Millisecond}
}

// decisions lists the header and the candidates of a run without their times.
func decisions(t *testing.T, dir string) (l []string) {
	_, _, err := journal.Read(dir, func(r journal.Record) error {
		if text, ok := r.Decision(); ok {
			l = append(l, text)
		}
		return nil
	})
	require.NoError(t, err)
	return l
}

func requireVerified(t *testing.T, dir string) map[string]int {
	v, err := Verify(dir, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	return v.Champions
}

func TestSearch(t *testing.T) {
	n := max(60, rotate.Short(100)) // seeds, and what is weighed from them
	c := quick(t, n)
	c.Strategy = "" // the default
	var progress int
	c.Progress = func(p Progress) { progress++; require.Equal(t, progress, p.Candidate.ID) }
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, n, sum.Candidates)
	require.Equal(t, n, progress)
	require.Equal(t, fmt.Sprintf("the budget of %d candidates is spent", n), sum.Stopped)
	require.Len(t, sum.Rankings, 3)
	require.Greater(t, sum.Cells, 12)
	for _, v := range []journal.Verdict{journal.Improved, journal.Close, journal.Worse, journal.Duplicate, journal.VMEM} {
		require.NotZero(t, sum.Verdicts[v], v)
	}
	require.Zero(t, sum.Verdicts[journal.Numerics], "no seed and no proposal is a certain refusal")
	require.Less(t, sum.Iterations, sum.Candidates, "tuning of scalars is no iteration")
	require.NotZero(t, sum.Iterations)
	champions := requireVerified(t, c.Dir)
	for i, target := range DefaultTargets {
		best, err := Best(c.Dir, target)
		require.NoError(t, err)
		require.Equal(t, champions[target], best.ID)
		require.Equal(t, best.ID, sum.Rankings[i].Rows[0].ID)
		text, err := Object(c.Dir, best.Objects["ir"])
		require.NoError(t, err)
		require.Equal(t, best.Variant, string(text))
	}
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	for _, k := range s.Now().Candidates() {
		require.NotEmpty(t, k.Hypothesis)
		require.NotEmpty(t, k.Reason)
	}
	var text bytes.Buffer
	require.NoError(t, sum.Text(&text, 10))
	for _, want := range []string{"v5e: in-order cycles per token", "... ", "rejected", "too large", "candidates a minute"} {
		require.Contains(t, text.String(), want)
	}
	data, err := json.Marshal(sum)
	require.NoError(t, err)
	var back report.Summary
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, sum.Rankings, back.Rankings)
}

// The same header gives the same journal, whatever the number of workers, the speed of gates and the interruptions. The lookahead is
// part of the header, and follows the workers by default.
func TestDeterminism(t *testing.T) {
	n := max(12, rotate.Short(24)) // a multiple of 3
	few := []string{"naive", "default", "split"}
	quick := func(t *testing.T, candidates int) Config {
		c := quick(t, candidates)
		c.Lookahead = 4
		return c
	}
	strategies := []string{"model:2", "elites:3", "exhaustive"}
	for _, strategy := range rotate.Sample(663, strategies, rotate.Short(len(strategies))) {
		whole := quick(t, n)
		whole.Strategy, whole.Seeds = strategy, few
		_, err := Search(t.Context(), whole)
		require.NoError(t, err)
		want := decisions(t, whole.Dir)
		require.Len(t, want, n+1)

		for _, workers := range []int{1, 4} {
			c := quick(t, n)
			c.Strategy, c.Seeds, c.Workers, c.Evaluator = strategy, few, workers, &fake{delay: time.Millisecond / 2}
			_, err = Search(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, want, decisions(t, c.Dir), "%s, %d workers", strategy, workers)
		}

		c := quick(t, n/3-1)
		c.Strategy, c.Seeds = strategy, few
		_, err = Search(t.Context(), c)
		require.NoError(t, err)
		for part := n / 3; part <= n; part += n / 3 {
			_, err = Resume(t.Context(), Config{Dir: c.Dir, Candidates: part, Evaluator: &fake{}, Generator: "test"})
			require.NoError(t, err)
		}
		require.Equal(t, want, decisions(t, c.Dir), "%s in parts", strategy)

		c = quick(t, n)
		c.Strategy, c.Seeds, c.Seed = strategy, few, 1
		_, err = Search(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, strategy == "exhaustive", slices.Equal(decisions(t, c.Dir)[1:], want[1:]), "the seed matters to those that weigh equals")
	}
}

// Each verdict that a gate gives ends in the journal as that, with its reason.
func TestVerdicts(t *testing.T) {
	all := journal.Verdicts[3:]
	for _, v := range rotate.Sample(667, all, rotate.Short(len(all))) {
		c := quick(t, 3)
		c.Seeds = []string{"naive", "default", "split"}
		c.Evaluator = &fake{roomy: true, refuse: func(gate string, w *judge.Work) *judge.Refusal {
			if gate != "build" || w.Record.ID != 2 {
				return nil
			}
			w.Record.IR = "same"
			return &judge.Refusal{Verdict: v, Reason: "because", Of: 1}
		}}
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, 1, sum.Verdicts[v])
		require.Equal(t, journal.Improved, sum.Rankings[0].Rows[0].Verdict)
		require.Len(t, sum.Rejected, 1)
		require.Equal(t, "because", sum.Rejected[0].Reason)
		require.Equal(t, "build", sum.Rejected[0].Gate)
	}
}

func TestPanicIsInternal(t *testing.T) {
	c := quick(t, 2)
	c.Evaluator = &fake{roomy: true, refuse: func(gate string, w *judge.Work) *judge.Refusal {
		if gate == "compile" && w.Record.ID == 1 {
			var none []int
			_ = none[w.Record.ID]
		}
		return nil
	}}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 1, sum.Verdicts[journal.Internal])
	require.Contains(t, sum.Rejected[0].Reason, "gate compile panics: runtime error: index out of range")
	require.Contains(t, sum.Rejected[0].Reason, "in autotune.TestPanicIsInternal")
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	first := s.Now().Candidate(1)
	require.Equal(t, journal.CauseInternal, first.Cause)
	stack, err := Object(c.Dir, first.Objects[judge.StackRole])
	require.NoError(t, err)
	require.Contains(t, string(stack), "search_test.go")
	requireVerified(t, c.Dir)
}

// Candidates judged at the same time that turn out equal: the later one is the duplicate, and keeps nothing of what its
// later gates found.
func TestDuplicatesInFlight(t *testing.T) {
	for _, gate := range []string{"duplicate", "schedule"} {
		c := quick(t, 4)
		c.Workers = 4
		c.Evaluator = &fake{roomy: true, delay: time.Millisecond, refuse: func(at string, w *judge.Work) *judge.Refusal {
			switch {
			case gate == "duplicate" && at == "duplicate":
				w.Record.IR = "one"
			case gate == "schedule" && at == "schedule":
				w.Record.Costs[0].Schedule = "one"
			}
			return nil
		}, fail: nil}
		c.Seeds = []string{"default", "forward", "ladder16", "merge-rows"}
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, 3, sum.Verdicts[journal.Duplicate], gate)
		requireVerified(t, c.Dir)
		s, _, err := journal.Read(c.Dir, nil)
		require.NoError(t, err)
		for _, k := range s.Now().Candidates()[1:] {
			require.Equal(t, 1, k.Of)
			require.Equal(t, gate, k.Gate)
			require.Len(t, k.Costs, map[string]int{"duplicate": 0, "schedule": 1}[gate])
			_, compiled := k.Objects["module/v5e"]
			require.Equal(t, gate == "schedule", compiled)
		}
	}
}

// Failing machinery is retried, then the run pauses; nothing is judged by it, and resuming ends as if it had not been.
func TestInfrastructure(t *testing.T) {
	want := quick(t, 30)
	_, err := Search(t.Context(), want)
	require.NoError(t, err)

	c := quick(t, 30)
	var left atomic.Int64
	left.Store(2)
	outage := &fake{fail: func(gate string, w *judge.Work) error {
		if gate == "compile" && w.Record.ID >= 10 && left.Add(-1) >= 0 {
			return errors.New("no worker")
		}
		return nil
	}}
	c.Evaluator = outage
	var warnings atomic.Int64
	c.Warn = func(string) { warnings.Add(1) }
	c.Attempts = 3
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 2, sum.Infra)
	require.EqualValues(t, 2, warnings.Load())
	require.Equal(t, decisions(t, want.Dir), decisions(t, c.Dir))

	c.Dir = t.TempDir()
	left.Store(1 << 40)
	sum, err = Search(t.Context(), c)
	var pause *PauseError
	require.ErrorAs(t, err, &pause)
	require.GreaterOrEqual(t, pause.Candidate, 10)
	require.Equal(t, 3, pause.Attempts)
	require.ErrorContains(t, err, "no worker")
	require.Equal(t, pause.Candidate-1, sum.Candidates)
	require.Equal(t, "the machinery failed", sum.Stopped)
	left.Store(0)
	_, err = Resume(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, decisions(t, want.Dir), decisions(t, c.Dir))
}

// A full disk or a lost folder ends the session with what is recorded intact.
func TestStoreFails(t *testing.T) {
	c := quick(t, 20)
	require.NoError(t, os.WriteFile(objectsDir(c.Dir), nil, 0o644)) // where a folder must be
	_, err := Search(t.Context(), c)
	var pause *PauseError
	require.ErrorAs(t, err, &pause)
	require.NoError(t, os.Remove(objectsDir(c.Dir)))
	sum, err := Resume(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 20, sum.Candidates)
	requireVerified(t, c.Dir)
}

// An interrupt drops what is under way and records nothing half; resumed, the run makes the decisions of one that was not interrupted.
func TestInterrupt(t *testing.T) {
	c := quick(t, 0)
	c.Evaluator = &fake{delay: 5 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(p Progress) {
		if p.Candidate.ID == 20 {
			cancel()
		}
	}
	sum, err := Search(ctx, c)
	require.NoError(t, err)
	require.Equal(t, interrupted, sum.Stopped)
	require.GreaterOrEqual(t, sum.Candidates, 20)
	require.LessOrEqual(t, sum.Candidates, 20+leastLookahead)
	requireWhole(t, c, sum.Candidates)
}

// requireWhole resumes an interrupted run for a few candidates, and compares it with one that was not.
func requireWhole(t *testing.T, c Config, had int) {
	sum, err := Resume(t.Context(), Config{Dir: c.Dir, Candidates: had + 5, Evaluator: &fake{}, Generator: "test"})
	require.NoError(t, err)
	require.Equal(t, had+5, sum.Candidates)
	whole := quick(t, had+5)
	_, err = Search(t.Context(), whole)
	require.NoError(t, err)
	require.Equal(t, decisions(t, whole.Dir), decisions(t, c.Dir))
	requireVerified(t, c.Dir)
}

// An interrupt does not wait: not for a pause after a failure of the machinery, not for a gate that never looks at its context.
func TestInterruptAtOnce(t *testing.T) {
	release := make(chan struct{})
	for name, gate := range map[string]func(*judge.Work) error{
		"back-off": func(w *judge.Work) error {
			if w.Record.ID == 7 {
				return errors.New("no worker")
			}
			return nil
		},
		"busy gate": func(w *judge.Work) error {
			if w.Record.ID == 7 {
				<-release
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := quick(t, 0)
			c.Backoff = time.Hour
			reached := make(chan struct{})
			var once sync.Once
			c.Evaluator = &fake{fail: func(g string, w *judge.Work) error {
				if g != "numerics" {
					return nil
				}
				if w.Record.ID == 7 {
					once.Do(func() { close(reached) })
				}
				return gate(w)
			}}
			ctx, cancel := context.WithCancel(t.Context())
			var at atomic.Pointer[time.Time]
			go func() {
				<-reached
				now := time.Now()
				at.Store(&now)
				cancel()
			}()
			sum, err := Search(ctx, c)
			late := time.Since(*at.Load())
			require.NoError(t, err)
			require.Less(t, late, 5*time.Second)
			require.Equal(t, interrupted, sum.Stopped)
			require.LessOrEqual(t, sum.Candidates, 6)
			if name == "busy gate" { // the session that was left holds the run until its gate returns
				_, err = Resume(t.Context(), Config{Dir: c.Dir, Evaluator: &fake{}, Generator: "test"})
				var locked *journal.LockedError
				require.ErrorAs(t, err, &locked)
				close(release)
				require.Eventually(t, func() bool {
					j, _, err := journal.Open(c.Dir)
					return err == nil && j.Close() == nil
				}, 10*time.Second, 10*time.Millisecond)
			}
			requireWhole(t, c, sum.Candidates)
		})
	}
}

// As many candidates are judged at a time as there are workers, where the lookahead allows; else the run says why fewer.
func TestFlight(t *testing.T) {
	for _, row := range []struct {
		workers, lookahead, atOnce int
		says                       string
	}{
		{8, 8, 8, "8 at a time"},
		{8, 3, 3, "3 at a time: the run has a lookahead of 3, so 5 of 8 workers have nothing to do"},
		{2, 8, 2, "2 at a time"},
	} {
		c := quick(t, max(16, rotate.Short(40)))
		c.Strategy, c.Workers, c.Lookahead = "exhaustive", row.workers, row.lookahead
		var now, most atomic.Int64
		c.Evaluator = &fake{fail: func(g string, w *judge.Work) error {
			if g != "build" {
				return nil
			}
			defer now.Add(-1)
			n := now.Add(1)
			for end := time.Now().Add(20 * time.Second); now.Load() < int64(row.atOnce) && most.Load() < int64(row.atOnce) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
			}
			return nil
		}}
		var begun string
		c.Begun = func(text string) { begun = text }
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		require.EqualValues(t, row.atOnce, most.Load())
		require.Contains(t, begun, row.says)
		require.Equal(t, begun, sum.Flight)
	}
}

// Figures that a session can not have are refused, none is taken for the default.
func TestNegative(t *testing.T) {
	changes := map[string]func(*Config){
		"failures": func(c *Config) { c.Failures = -2 }, "workers": func(c *Config) { c.Workers = -2 }, "attempts": func(c *Config) { c.Attempts = -1 },
		"patience": func(c *Config) { c.Patience = -1 }, "budget": func(c *Config) { c.Budget = -1 }, "back-off": func(c *Config) { c.Backoff = -1 },
		"candidates": func(c *Config) { c.Candidates = -1 }, "lookahead": func(c *Config) { c.Lookahead = -1 },
	}
	for _, what := range rotate.Sample(668, slices.Sorted(maps.Keys(changes)), rotate.Short(len(changes))) {
		c := quick(t, 1)
		changes[what](&c)
		_, err := Search(t.Context(), c)
		var bad *ConfigError
		require.ErrorAs(t, err, &bad, what)
		require.ErrorContains(t, err, what)
	}
}

func TestBudget(t *testing.T) {
	for budget, n := 150*time.Millisecond, 0; n == 0; budget *= 2 { // a busy machine judges none in so short a time
		require.Less(t, budget, time.Minute)
		c := quick(t, 0)
		c.Evaluator = &fake{delay: 10 * time.Millisecond}
		c.Budget = budget
		var start time.Time
		c.Begun = func(string) { start = time.Now() }
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("the budget of %v is spent", budget), sum.Stopped)
		require.Less(t, time.Since(start), budget+2*time.Second)
		require.InDelta(t, time.Since(start).Seconds(), sum.Seconds, .5)
		n = sum.Candidates
	}
}

// The walk over few axes ends by itself, and every cell is there once.
func TestExhaustion(t *testing.T) {
	c := quick(t, 0)
	c.Strategy, c.Seeds, c.Axes = "exhaustive", []string{"default"}, []string{"form", "kq", "beta"}
	c.Focus = map[string]string{"flow": "split"}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "the strategy has nothing more to propose", sum.Stopped)
	cells := 1
	for _, name := range c.Axes {
		a, err := gdn.LookupAxis(name)
		require.NoError(t, err)
		cells *= len(a.Values)
	}
	require.Equal(t, cells, sum.Candidates)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	for _, k := range s.Now().Candidates() {
		require.Contains(t, k.Variant, "flow=split")
	}
	sum, err = Resume(t.Context(), Config{Dir: c.Dir, Evaluator: &fake{}, Generator: "test"})
	require.NoError(t, err)
	require.Equal(t, cells, sum.Candidates)

	c = quick(t, 0)
	c.Strategy, c.Seeds, c.Axes = "elites:2", []string{"default"}, []string{"form", "kq"}
	sum, err = Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "the strategy has nothing more to propose", sum.Stopped)
	require.Equal(t, 4, sum.Candidates)
}

func TestRefusedConfigurations(t *testing.T) {
	changes := map[string]func(*Config){
		`unknown target "v9"`:                       func(c *Config) { c.Targets = []string{"v9"} },
		"v6e is given twice":                        func(c *Config) { c.Targets = []string{"v6e", "v6e"} },
		"unknown strategy":                          func(c *Config) { c.Strategy = "luck" },
		"elites:N takes an N from 1 to 1000":        func(c *Config) { c.Strategy = "elites:0" },
		"is for GPUs":                               func(c *Config) { c.Strategy = "beam:4" },
		"exhaustive takes no parameter":             func(c *Config) { c.Strategy = "exhaustive:3" },
		"unknown axis":                              func(c *Config) { c.Axes = []string{"colour"} },
		"form can not be":                           func(c *Config) { c.Focus = map[string]string{"form": "w"} },
		"unknown name":                              func(c *Config) { c.Seeds = []string{"mystery"} },
		"needs a folder":                            func(c *Config) { c.Dir = "" },
		"unknown precision":                         func(c *Config) { c.Precision = "f8" },
		fmt.Sprintf("lookahead %d", maxLookahead+1): func(c *Config) { c.Lookahead = maxLookahead + 1 },
		"tokens": func(c *Config) { c.Spec.Tokens = -1 },
	}
	for _, want := range rotate.Sample(669, slices.Sorted(maps.Keys(changes)), rotate.Short(len(changes))) {
		c := quick(t, 3)
		changes[want](&c)
		_, err := Search(t.Context(), c)
		require.ErrorContains(t, err, want)
		if c.Dir != "" {
			left, err := os.ReadDir(c.Dir)
			require.NoError(t, err)
			require.Empty(t, left, "a run that is refused leaves nothing")
		}
	}
	c := quick(t, 3)
	_, err := Resume(t.Context(), c)
	require.ErrorContains(t, err, "no run in")
	_, err = Search(t.Context(), c)
	require.NoError(t, err)
	_, err = Search(t.Context(), c)
	require.ErrorIs(t, err, ErrExists)
	c.Evaluator = &fake{plugins: map[string]string{"libtpu": "2"}}
	_, err = Resume(t.Context(), c)
	require.ErrorContains(t, err, "begun with other tools")
	c.Evaluator, c.Generator = &fake{}, "later"
	_, err = Resume(t.Context(), c)
	require.ErrorContains(t, err, "generator test, now later")
	_, err = Best(c.Dir, "v4")
	require.ErrorContains(t, err, "no candidate with a cost on v4")
}

// A run ranks by in-order cycles, unless it is asked not to. It keeps its ruler; one of an older program, which names none, ranks by issue cycles.
func TestRulerOfRun(t *testing.T) {
	for asked, want := range map[ruler.Ruler]ruler.Ruler{"": ruler.InOrder, ruler.Issue: ruler.Issue} {
		c := quick(t, 3)
		c.Ruler, c.Targets = asked, []string{"v6e", "v4"}
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		require.EqualValues(t, want, sum.Ruler)
		_, err = Resume(t.Context(), Config{Dir: c.Dir, Candidates: 8, Evaluator: &fake{}, Generator: "test", Ruler: "wall"})
		require.NoError(t, err)
		s, _, err := journal.Read(c.Dir, nil)
		require.NoError(t, err)
		require.EqualValues(t, want, s.Header.Ruler)
		n := 0
		for _, x := range s.Now().Candidates() {
			for _, cost := range x.Costs {
				if cost.Verdict == "" {
					require.EqualValues(t, want.On(cost.Target), cost.Ruler)
					n++
				}
			}
		}
		require.Greater(t, n, 6)
		require.Equal(t, ruler.Issue, s.Now().Champion("v4").Cost("v4").Ruler)
		h := *s.Header
		h.Ruler = ""
		p, err := newPlan(&h, 0)
		require.NoError(t, err)
		require.Equal(t, ruler.Issue, p.ruler)
	}
	c := quick(t, 3)
	c.Ruler = "clock"
	_, err := Search(t.Context(), c)
	require.ErrorContains(t, err, `unknown ruler "clock" (known: in-order issue)`)
}

func TestSecondDriver(t *testing.T) {
	c := quick(t, 10)
	var second error
	c.Progress = func(p Progress) {
		if p.Candidate.ID == 5 {
			_, second = Resume(t.Context(), Config{Dir: c.Dir, Evaluator: &fake{}})
			sum, err := Status(c.Dir)
			require.NoError(t, err)
			require.Equal(t, 5, sum.Candidates)
		}
	}
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	var locked *journal.LockedError
	require.ErrorAs(t, second, &locked)
}

// The bound prunes what is above the best on every target, and nothing else.
func TestPruning(t *testing.T) {
	c := quick(t, 6)
	c.Lookahead, c.Seeds, c.Strategy = 1, []string{"default", "forward", "token", "ladder", "block", "split"}, "exhaustive"
	c.Objective = objective.Objective{Most: 1e-9} // which no cost meets: ranked by cycles, and a miracle below the bound of HBM ends nothing
	c.Evaluator = &fake{roomy: true, refuse: func(gate string, w *judge.Work) *judge.Refusal {
		miracle := func(target string) journal.Cost {
			return journal.Cost{Target: target, Ruler: ruler.InOrder, Cycles: 1, Wall: 1, Score: 1, PerToken: perToken(w, 1), Schedule: "wonder"}
		}
		if gate == "schedule" && w.Record.ID == 2 { // a miracle on the first target
			w.Record.Costs[0] = miracle(w.Targets[0].Name)
		}
		if gate == "targets" && w.Record.ID == 3 { // and on the others
			for _, t := range w.Targets[1:] {
				w.Record.Costs = append(w.Record.Costs, miracle(t.Name))
			}
			w.Targets = w.Targets[:1]
		}
		return nil
	}}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 3, sum.Verdicts[journal.Pruned], "%v", sum.Verdicts)
	require.Contains(t, sum.Rejected[0].Reason, "at least")
	requireVerified(t, c.Dir)
}

func TestTornJournalResumes(t *testing.T) {
	whole := quick(t, 20)
	_, err := Search(t.Context(), whole)
	require.NoError(t, err)
	c := quick(t, 12)
	_, err = Search(t.Context(), c)
	require.NoError(t, err)
	path := filepath.Join(c.Dir, journal.FileName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for cut := len(data) - 1; cut > len(data)*2/3; cut -= 301 {
		if data[cut-1] == '\n' { // records differ in length: one ends here by chance
			cut--
		}
		require.NoError(t, os.WriteFile(path, data[:cut], 0o644))
		var warned []string
		_, err = Resume(t.Context(), Config{Dir: c.Dir, Candidates: 20, Evaluator: &fake{}, Generator: "test", Warn: func(s string) { warned = append(warned, s) }})
		require.NoError(t, err)
		require.Equal(t, decisions(t, whole.Dir), decisions(t, c.Dir))
		require.Contains(t, fmt.Sprint(warned), "was cut")
	}
}

// As many candidates are under way as there are workers, and one in reserve, so that eight workers have eight at a time even where
// judging takes no time.
func TestWorkersInFlight(t *testing.T) {
	const workers = 8
	c := quick(t, 60)
	c.Workers, c.Strategy = workers, "random"
	var under, most atomic.Int64
	full := make(chan struct{})
	c.Evaluator = &fake{fail: func(gate string, w *judge.Work) error {
		if gate != "build" {
			return nil
		}
		n := under.Add(1)
		defer under.Add(-1)
		if n > most.Load() {
			most.Store(n)
		}
		if n == workers {
			close(full) // the first time; then nothing waits any more
		}
		select {
		case <-full:
		case <-time.After(20 * time.Second):
		}
		return nil
	}}
	flight := 0
	c.Progress = func(p Progress) { flight = max(flight, len(p.Flight)) }
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.EqualValues(t, workers, most.Load(), "judged at a time")
	require.Equal(t, workers, flight, "under way beside the one that is recorded")
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.Equal(t, workers+1, s.Header.Lookahead)
	requireVerified(t, c.Dir)
}

// A refused start does not end a search: it goes on with the neighbours, says so once, and the journal can be verified.
func TestRefusedStart(t *testing.T) {
	for _, strategy := range []string{"", "elites"} {
		c := quick(t, 30)
		c.Strategy, c.Seeds = strategy, []string{"naive"}
		naive, err := gdn.ParseVariant("naive")
		require.NoError(t, err)
		c.Evaluator = &fake{roomy: true, refuse: func(gate string, w *judge.Work) *judge.Refusal {
			if gate == "compile" && w.Variant.Inverse.Solve == naive.Inverse.Solve {
				return judge.Refuse(journal.CompileReject, "a branch of copy.36")
			}
			return nil
		}}
		var warned []string
		c.Warn = func(text string) { warned = append(warned, text) }
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, 30, sum.Candidates)
		require.NotZero(t, sum.Verdicts[journal.Improved])
		require.Len(t, warned, 1)
		require.Contains(t, warned[0], "no seed has a rank (candidate 1: compile-reject, a branch of copy.36)")
		requireVerified(t, c.Dir)
	}
}

// elsewhere is an evaluator whose device is not of the targets.
type elsewhere struct{ fake }

func (e *elsewhere) Attach([]*target.Target) error {
	return &judge.DeviceError{Err: errors.New("it is another")}
}

// A device that the run is not for is refused before anything is recorded.
func TestDeviceOfAnotherKind(t *testing.T) {
	c := quick(t, 2)
	c.Evaluator = &elsewhere{}
	_, err := Search(t.Context(), c)
	var none *judge.DeviceError
	require.ErrorAs(t, err, &none)
	_, _, err = journal.Read(c.Dir, nil)
	require.Error(t, err, "no run was begun")
}
