// Package report summarizes a run: a ranking by target, the reason of every rejection, and where the time went.
package report

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ruler"
)

// Summary has the results of a search, for the report.
type Summary struct {
	Dir        string                  `json:"dir"`
	Spec       string                  `json:"spec"`
	Strategy   string                  `json:"strategy"`
	Seed       uint64                  `json:"seed"`
	Targets    []string                `json:"targets"`
	Ruler      ruler.Ruler             `json:"ruler"`               // ranking unit on targets that have it
	Objective  string                  `json:"objective,omitempty"` // what it minimizes, if not cost alone
	Stopped    string                  `json:"stopped,omitempty"`   // why the last driver stopped
	Flight     string                  `json:"flight,omitempty"`    // how many candidates its last session judged at a time, and the limit
	Candidates int                     `json:"candidates"`
	Iterations int                     `json:"iterations"` // candidates other than tuning of scalars
	Cells      int                     `json:"cells"`      // structures with a cost on every target
	Verdicts   map[journal.Verdict]int `json:"verdicts"`
	Rankings   []Ranking               `json:"rankings"`  // by target
	Rejected   []Row                   `json:"rejected"`  // all without a rank, in order
	Portfolio  []Member                `json:"portfolio"` // fewest candidates with one near the best on every target
	Axes       []AxisFact              `json:"axes"`
	Infra      int                     `json:"infra"` // failures of the machinery
	Seconds    float64                 `json:"seconds"`
	PerMinute  float64                 `json:"per_minute"`          // candidates
	CPU        float64                 `json:"cpu,omitempty"`       // processor seconds with workers; for killed sessions up to the last candidate
	Gates      []GateTime              `json:"gates"`               // time by gate, in order
	Nodes      []Node                  `json:"nodes,omitempty"`     // the machines of workers, where there were any
	Standings  []Standing              `json:"standings,omitempty"` // of champions in a model, if they climbed
	Warnings   []string                `json:"warnings,omitempty"`
	Driven     bool                    `json:"driven,omitempty"` // a driver is running
}

// Ranking orders the correct candidates by their score on a target, best first; of equals the earlier is first.
type Ranking struct {
	Target string      `json:"target"`
	Ruler  ruler.Ruler `json:"ruler"` // of the scores; empty without rows
	Rows   []Row       `json:"rows"`
	Base   *Baseline   `json:"baseline,omitempty"` // nil if auto is a seed, or was not judged
	Absent []Row       `json:"absent,omitempty"`   // ranked on other targets, without a cost here; verdict and reason are this target's
}

// Row is one candidate. Costs are for the ranking's target; rejected candidates have none.
type Row struct {
	ID       int             `json:"id"`
	Variant  string          `json:"variant"`
	Parent   int             `json:"parent,omitempty"` // the candidate it was changed from
	Change   []string        `json:"change,omitempty"` // axis=value, changes of the parent
	Cell     string          `json:"cell"`
	Verdict  journal.Verdict `json:"verdict"`
	Reason   string          `json:"reason"`
	Gate     string          `json:"gate"`
	Class    string          `json:"class,omitempty"` // the input class nearest to its limit
	Error    journal.Figure  `json:"error"`
	Limit    journal.Figure  `json:"limit"`
	PerToken journal.Figure  `json:"per_token,omitempty"` // score, by the ruler of the cost, per token and value head
	Cost     *journal.Cost   `json:"cost,omitempty"`
	Cause    journal.Cause   `json:"cause,omitempty"`
	Runs     *journal.Timing `json:"runs,omitempty"` // on a device
}

// GateTime is the time spent in one gate.
type GateTime struct {
	Gate    string  `json:"gate"`
	Reached int     `json:"reached"` // candidates that it judged
	Refused int     `json:"refused"`
	Seconds float64 `json:"seconds"`
}

// Idle reports whether the gate has nothing to show: less time than the smallest shown, and no refused candidate.
func (g GateTime) Idle() bool { return g.Seconds < .05 && g.Refused == 0 }

// New summarizes a run.
func New(dir string, s *journal.State) *Summary {
	h := s.Header
	r := &Summary{Dir: dir, Spec: h.Spec, Strategy: h.Strategy, Seed: h.Seed, Targets: h.Targets, Ruler: h.RulerName(), Objective: h.Objective, Candidates: s.Len(),
		Verdicts: map[journal.Verdict]int{}, Seconds: s.Busy().Seconds(), Driven: journal.Driven(dir)}
	unended := "the driver was killed: gdngen run resume " + dir + " goes on"
	if r.Driven {
		unended = "a driver is at work"
	}
	all := s.Now().Candidates()
	cells := map[string]bool{}
	for _, c := range all {
		r.Verdicts[c.Verdict]++
		if !c.Scalar {
			r.Iterations++
		}
		if !c.Verdict.Ranked() {
			r.Rejected = append(r.Rejected, row(c, nil))
		} else if !slices.ContainsFunc(h.Targets, func(t string) bool { return c.Cost(t) == nil }) {
			cells[c.Cell] = true
		}
	}
	r.Cells = len(cells)
	times := s.Times()
	r.Nodes = nodes(s)
	for _, t := range h.Targets {
		x := rank(t, all, times)
		x.Base = BaselineOf(s.Now(), t)
		r.Rankings = append(r.Rankings, x)
	}
	r.Portfolio, r.Axes = portfolio(s.Now()), axisFacts(s.Now())
	for i, t := range times { // each session counts from 0
		if i+1 == len(times) || times[i+1].CPU < t.CPU {
			r.CPU += t.CPU
		}
	}
	for _, e := range s.Events() {
		switch e.Kind {
		case journal.KindError:
			r.Infra++
		case journal.KindSession:
			r.Stopped = unended
			if begun, err := e.Event(); err == nil {
				r.Flight = begun.Flight
			}
		case journal.KindEnd:
			var end journal.Event
			if json.Unmarshal(e.Body, &end) == nil {
				r.Stopped = end.Message
			}
		}
	}
	if r.Seconds > 0 {
		r.PerMinute = float64(r.Candidates) * 60 / r.Seconds
	}
	r.Gates = gateTimes(h.Gates, all, times)
	standings, err := ReadStandings(dir)
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	}
	r.Standings = ranked(standings, s.Now())
	return r
}

func rank(target string, all []*journal.Candidate, times []journal.Times) Ranking {
	r := Ranking{Target: target}
	for i, c := range all {
		if cost := c.Cost(target); cost != nil && c.Verdict.Ranked() {
			x := row(c, cost)
			x.Runs = times[i].Runs
			r.Rows = append(r.Rows, x)
		} else if c.Verdict.Ranked() {
			x := row(c, nil)
			if i := slices.IndexFunc(c.Costs, func(k journal.Cost) bool { return k.Target == target }); i >= 0 {
				x.Verdict, x.Reason = c.Costs[i].Verdict, c.Costs[i].Reason
			}
			r.Absent = append(r.Absent, x)
		}
	}
	slices.SortStableFunc(r.Rows, func(x, y Row) int { return cmp.Compare(x.Cost.Score, y.Cost.Score) })
	if len(r.Rows) > 0 {
		r.Ruler = r.Rows[0].Cost.RulerName()
	}
	return r
}

func row(c *journal.Candidate, cost *journal.Cost) Row {
	r := Row{ID: c.ID, Variant: c.Variant, Parent: c.Parent, Change: c.Change, Cell: c.Cell, Verdict: c.Verdict, Reason: c.Reason, Gate: c.Gate, Cost: cost, Cause: c.Cause}
	if w := c.Worst(); w != nil {
		r.Class, r.Error, r.Limit = w.Class, w.Error, w.Limit
	}
	if cost != nil {
		r.PerToken = cost.PerToken
	}
	return r
}

// gateTimes sums the wall times of each gate; a candidate reached the gates up to its last.
func gateTimes(gates []string, all []*journal.Candidate, times []journal.Times) []GateTime {
	l := make([]GateTime, len(gates))
	for i, g := range gates {
		l[i].Gate = g
		for j, c := range all {
			l[i].Seconds += times[j].Wall[g]
			last := slices.Index(gates, c.Gate)
			if last >= i {
				l[i].Reached++
			}
			if last == i && !c.Verdict.Ranked() {
				l[i].Refused++
			}
		}
	}
	return l
}

// Elapsed returns the time that drivers worked on the run.
func (s *Summary) Elapsed() time.Duration { return time.Duration(s.Seconds * float64(time.Second)) }

// Listed is a row of a summary with its target and rank.
type Listed struct {
	Target string `json:"target,omitempty"` // absent among the rejected
	Rank   int    `json:"rank,omitempty"`
	Row
}

// Listed returns the rows of the rankings, then the rejected ones.
func (s *Summary) Listed() (rows []Listed) {
	for _, r := range s.Rankings {
		for i, c := range r.Rows {
			rows = append(rows, Listed{r.Target, i + 1, c})
		}
	}
	for _, c := range s.Rejected {
		rows = append(rows, Listed{Row: c})
	}
	return rows
}
