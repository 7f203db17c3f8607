package autotune

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/internal/terminal"
)

// Simulation is the result of replaying a journal under another strategy.
type Simulation struct {
	Strategy string           `json:"strategy"`
	Judged   int              `json:"judged"`  // proposals that the journal has
	Unknown  int              `json:"unknown"` // proposals that it lacks: skipped, at no cost
	Best     []journal.Figure `json:"best"`    // least score per token and value head on the first target, after each judged proposal
	Within   map[string]int   `json:"within"`  // judged proposals until the best was within a share of the journal's best; absent: never
	Reason   string           `json:"reason"`  // why it ended
}

// within lists the keys of Simulation.Within, with the ratio to the journal's best score that each stands for.
var within = []struct {
	name  string
	ratio float64
}{{"2x", 2}, {"25 %", 1.25}, {"10 %", 1.1}, {"3 %", 1.03}, {"best", 1}}

// passedOver bounds the consecutive proposals that a journal lacks.
const passedOver = 300

// Simulate replays the journal of a run under other strategies: each proposal gets the recorded verdict and cost of the same
// variant. A journal has few of all variants, so the figures compare strategies only on the part of the space that it covers; the
// journal of an exhaustive run compares them best. judged limits the candidates of each strategy; 0: as many as the journal has.
func Simulate(ctx context.Context, dir string, strategies []string, judged int) ([]Simulation, error) {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	if judged <= 0 {
		judged = s.Len()
	}
	var out []Simulation
	for _, text := range strategies {
		h := *s.Header
		h.Strategy, h.Lookahead = text, 1
		p, err := newPlan(&h, 0)
		if err != nil {
			return nil, err
		}
		sim, err := p.replay(ctx, s.Now(), judged)
		if bad := p.strategy.Close(); err == nil {
			err = bad
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *sim)
	}
	return out, ctx.Err()
}

// replay runs the plan's strategy, judged by the known candidates.
func (p *plan) replay(ctx context.Context, known journal.View, most int) (*Simulation, error) {
	goal := math.Inf(1)
	for _, c := range known.Candidates() {
		goal = min(goal, p.perToken(c))
	}
	sim := &Simulation{Strategy: p.Header.Strategy, Best: []journal.Figure{}, Within: map[string]int{}}
	state := journal.NewState()
	if err := add(state, journal.KindHeader, p.Header); err != nil {
		return nil, err
	}
	best, missed := math.Inf(1), 0
	for sim.Judged < most && missed < passedOver {
		if ctx.Err() != nil {
			sim.Reason = "interrupted"
			return sim, nil
		}
		x := p.strategy.Next(ctx, state.Now(), nil)
		if x == nil {
			sim.Reason = "the strategy has nothing more to propose"
			return sim, nil
		}
		c, found, err := p.judgedBy(known, x, state)
		if err != nil {
			return nil, err
		}
		if err := add(state, journal.KindCandidate, c); err != nil {
			return nil, err
		}
		if !found {
			missed++
			sim.Unknown++
			continue
		}
		missed = 0
		best = min(best, p.perToken(c))
		sim.count(best, goal)
	}
	sim.Reason = fmt.Sprintf("%d candidates are judged", sim.Judged)
	if missed >= passedOver {
		sim.Reason = fmt.Sprintf("%d proposals in a row are not in the journal", missed)
	}
	return sim, nil
}

// perToken returns a candidate's score per token and value head on the first target; infinity if it has none.
func (p *plan) perToken(c *journal.Candidate) float64 {
	if k := c.Cost(p.Targets[0]); k != nil && c.Verdict.Ranked() {
		return float64(k.PerToken)
	}
	return math.Inf(1)
}

// judgedBy returns the record of a proposal, with the verdict of the same variant among the known candidates; found is
// false if it has none. The rank is among the candidates of state.
func (p *plan) judgedBy(known journal.View, x *strategy.Proposal, state *journal.State) (c *journal.Candidate, found bool, err error) {
	c = p.proposed(state.Len()+1, x, state.Now())
	c.Gate, c.Verdict, c.Reason = journal.GateProposal, journal.Invalid, "not in the journal"
	if !x.IsVariant() {
		return c, false, nil
	}
	id, ok := known.Fitted(c.Fitted)
	if !ok {
		return c, false, nil
	}
	had := known.Candidate(id)
	c.IR, c.Gate, c.Verdict, c.Reason, c.Errors, c.Costs = had.IR, had.Gate, had.Verdict, had.Reason, had.Errors, had.Costs
	if c.Verdict.Ranked() {
		c.Verdict, c.Reason, err = state.Now().Rank(c)
	}
	return c, true, err
}

// count adds a judged candidate; best is the best score so far, goal the journal's best.
func (sim *Simulation) count(best, goal float64) {
	sim.Judged++
	sim.Best = append(sim.Best, journal.Figure(best))
	for _, w := range within {
		if _, ok := sim.Within[w.name]; !ok && best <= goal*w.ratio {
			sim.Within[w.name] = sim.Judged
		}
	}
}

// SimulationShares returns the keys of Simulation.Within, in order.
func SimulationShares() []string {
	var l []string
	for _, w := range within {
		l = append(l, w.name)
	}
	return l
}

// WriteSimulations prints a row per strategy.
func WriteSimulations(w io.Writer, sims []Simulation) {
	heads := []string{"STRATEGY", ">JUDGED", ">UNKNOWN", ">BEST"}
	for _, name := range SimulationShares() {
		heads = append(heads, ">"+name)
	}
	t := terminal.NewTable(append(heads, "ENDED")...)
	for _, s := range sims {
		best := "-"
		if n := len(s.Best); n > 0 {
			best = fmt.Sprintf("%.2f", float64(s.Best[n-1]))
		}
		row := []any{s.Strategy, s.Judged, s.Unknown, best}
		for _, name := range SimulationShares() {
			if n, ok := s.Within[name]; ok {
				row = append(row, n)
			} else {
				row = append(row, "never")
			}
		}
		t.Add(append(row, s.Reason)...)
	}
	t.Write(w)
	fmt.Fprintln(w, "\ncolumns of shares: judged candidates until the best was so near the journal's best on the first target")
}
