package autotune

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/internal/terminal"
)

// Simulation is how a strategy would have gone, judged by the candidates of a journal.
type Simulation struct {
	Strategy string           `json:"strategy"`
	Judged   int              `json:"judged"`  // proposals that the journal knows
	Unknown  int              `json:"unknown"` // proposals that it does not: passed over, at no cost
	Best     []journal.Figure `json:"best"`    // least score per token and value head on the first target after each judged one
	Within   map[string]int   `json:"within"`  // judged candidates until the best was within a share of the journal's best; absent: never
	Reason   string           `json:"reason"`  // why it ended
}

// within are the shares that a simulation tells of.
var within = []struct {
	name  string
	ratio float64
}{{"2x", 2}, {"25 %", 1.25}, {"10 %", 1.1}, {"3 %", 1.03}, {"best", 1}}

// passedOver bounds the proposals in a row that a journal does not know.
const passedOver = 300

// Simulate replays the journal of a run under other strategies: what they propose is judged by the record of the same variant. A
// journal knows few of all variants, so the figures compare strategies on the part of the space that it covers; an exhaustive
// run compares them best. judged limits the candidates of each; 0: as many as the journal has.
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

// replay lets the plan's strategy propose, and judges by what is known.
func (p *plan) replay(ctx context.Context, known journal.View, most int) (*Simulation, error) {
	target := p.Targets[0]
	goal := math.Inf(1)
	for _, c := range known.Candidates() {
		if k := c.Cost(target); k != nil && c.Verdict.Ranked() {
			goal = min(goal, float64(k.PerToken))
		}
	}
	sim := &Simulation{Strategy: p.Header.Strategy, Best: []journal.Figure{}, Within: map[string]int{}}
	state := journal.NewState()
	add := func(kind journal.Kind, body any) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		return state.Add(journal.Record{Kind: kind, Body: text})
	}
	if err := add(journal.KindHeader, p.Header); err != nil {
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
		c := p.proposed(state.Len()+1, x, state.Now())
		c.Gate, c.Verdict, c.Reason = journal.GateProposal, journal.Invalid, "not in the journal"
		if x.IsVariant() {
			if id, ok := known.Fitted(c.Fitted); ok {
				had := known.Candidate(id)
				c.IR, c.Gate, c.Verdict, c.Reason, c.Errors, c.Costs = had.IR, had.Gate, had.Verdict, had.Reason, had.Errors, had.Costs
				if c.Verdict.Ranked() {
					var err error
					if c.Verdict, c.Reason, err = state.Now().Rank(c); err != nil {
						return nil, err
					}
				}
				missed = -1
			}
		}
		if err := add(journal.KindCandidate, c); err != nil {
			return nil, err
		}
		if missed++; missed > 0 {
			sim.Unknown++
			continue
		}
		sim.Judged++
		if k := c.Cost(target); k != nil && c.Verdict.Ranked() {
			best = min(best, float64(k.PerToken))
		}
		sim.Best = append(sim.Best, journal.Figure(best))
		for _, w := range within {
			if _, ok := sim.Within[w.name]; !ok && best <= goal*w.ratio {
				sim.Within[w.name] = sim.Judged
			}
		}
	}
	sim.Reason = fmt.Sprintf("%d candidates are judged", sim.Judged)
	if missed >= passedOver {
		sim.Reason = fmt.Sprintf("%d proposals in a row are not in the journal", missed)
	}
	return sim, nil
}

// SimulationShares names the shares of Simulation.Within, in order.
func SimulationShares() []string {
	var l []string
	for _, w := range within {
		l = append(l, w.name)
	}
	return l
}

// WriteSimulations prints how strategies would have gone, side by side.
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
