package serve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
)

// data is the content of the page.
type data struct {
	Kind    string   `json:"kind"` // search or loop
	Dir     string   `json:"dir"`
	Title   string   `json:"title"`
	State   string   `json:"state"`
	Live    bool     `json:"live"` // somebody is at work
	Note    string   `json:"note"`
	Tiles   []tile   `json:"tiles"`
	Targets []target `json:"targets"`
	Gates   []gate   `json:"gates"`
	Workers []worker `json:"workers"`
	Next    []string `json:"next"` // commands
}

// tile is a figure with its name.
type tile struct {
	Value string `json:"value"`
	Name  string `json:"name"`
}

// target is the ranking on one target, or the iterations of a loop.
type target struct {
	Name     string  `json:"name"`
	Curve    string  `json:"curve"` // SVG
	Baseline string  `json:"baseline,omitempty"`
	Heads    []head  `json:"heads"`
	Rows     [][]any `json:"rows"` // numbers and texts, in the order of the heads
}

// head is a column. One that is a number is sorted as one.
type head struct {
	Name   string `json:"name"`
	Number bool   `json:"number,omitempty"`
}

// gate is where time went.
type gate struct {
	Name    string  `json:"name"`
	Judged  int     `json:"judged"`
	Refused int     `json:"refused"`
	Seconds float64 `json:"seconds"`
}

// worker is a machine that judged.
type worker struct {
	Name    string  `json:"name"`
	Judged  int     `json:"judged"`
	Lost    int     `json:"lost"`
	Seconds float64 `json:"seconds"`
}

// rounded is a duration of seconds as text.
func rounded(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// runData reads a search.
func runData(dir string) (*data, error) {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	sum := report.New(dir, s)
	d := &data{Kind: "search", Dir: dir, Title: sum.Spec, State: cmp.Or(sum.Stopped, "not begun"), Live: sum.Driven, Gates: []gate{}, Workers: []worker{}, Targets: []target{},
		Note: "Per token and value head: " + sum.Ruler.Text() + "."}
	improved := sum.Verdicts[journal.Improved]
	d.Tiles = []tile{{fmt.Sprint(sum.Candidates), "candidates"}, {fmt.Sprint(improved), "improved"}, {fmt.Sprint(sum.Cells), "structures with a cost"}, {rounded(sum.Seconds), "of drivers at work"},
		{fmt.Sprintf("%.1f", sum.PerMinute), "candidates a minute"}, {rounded(sum.CPU), "of processor time"}, {fmt.Sprint(sum.Infra), "failures of machinery"}, {sum.Strategy, "strategy"}}
	for _, r := range sum.Rankings {
		t := target{Name: r.Target, Heads: []head{{"rank", true}, {"cycles", true}, {"id", true}, {"verdict", false}, {"error", true}, {"of limit %", true}, {"spills", true}, {"change or variant", false}, {"full variant", false}}, Rows: [][]any{}}
		if r.Base != nil {
			t.Baseline = r.Base.String()
		}
		if t.Curve, err = report.Curve(s, r.Target); err != nil {
			return nil, err
		}
		for i, x := range r.Rows {
			t.Rows = append(t.Rows, []any{i + 1, number(x.PerToken), x.ID, x.Verdict, number(x.Error), share(x.Error, x.Limit), x.Cost.Spills, x.Label(), x.Variant})
		}
		for _, x := range sum.Rejected {
			t.Rows = append(t.Rows, []any{nil, nil, x.ID, x.Verdict, number(x.Error), share(x.Error, x.Limit), nil, x.Label() + ": " + report.Clip(x.Reason, 200), x.Variant})
		}
		d.Targets = append(d.Targets, t)
	}
	for _, g := range sum.Gates {
		if !g.Idle() {
			d.Gates = append(d.Gates, gate{g.Gate, g.Reached, g.Refused, g.Seconds})
		}
	}
	for _, n := range sum.Nodes {
		d.Workers = append(d.Workers, worker{n.Name, n.Judged, n.Lost, n.Seconds})
	}
	if len(d.Workers) == 0 {
		d.Workers = append(d.Workers, worker{"this machine, " + cmp.Or(sum.Flight, "one at a time"), sum.Candidates, 0, sum.Seconds})
	}
	d.Next = []string{"gdngen run best " + dir, "gdngen run show " + dir + " ID", "gdngen run resume " + dir}
	return d, nil
}

// number is a figure that JSON has as a number; none where it is not finite.
func number(x journal.Figure) any {
	if x != x || x-x != 0 || x == 0 {
		return nil
	}
	return float64(x)
}

// share is an error as percent of its limit.
func share(e, limit journal.Figure) any {
	if limit == 0 {
		return nil
	}
	return number(100 * e / limit)
}

// loopData reads a loop of an agent.
func loopData(dir string) (*data, error) {
	s, err := loop.Status(dir)
	if err != nil {
		return nil, err
	}
	d := &data{Kind: "loop", Dir: dir, Title: "branch " + s.Branch, State: s.State, Live: s.State == "running", Gates: []gate{}, Workers: []worker{},
		Note: "Each iteration is a change by the agent. The figure is what the judge's command printed, less being better."}
	t := target{Name: "iterations", Heads: []head{{"iteration", true}, {"verdict", false}, {"before", true}, {"after", true}, {"gain %", true}, {"seconds", true}, {"commit", false}, {"hypothesis or reason", false}}, Rows: [][]any{}}
	var points []report.Point
	seconds, best := 0., s.First
	for _, r := range s.Iterations {
		seconds += r.Seconds
		row := []any{r.Iteration, r.Verdict, nil, nil, nil, r.Seconds, r.Commit[:min(10, len(r.Commit))], cmp.Or(loop.Words(r), r.Reason)}
		if f := r.Figures; f != nil {
			row[2], row[3], row[4] = number(journal.Figure(f.Before)), number(journal.Figure(f.After)), number(journal.Figure(100*f.Gain()))
			verdict := journal.Worse
			if loop.Moves(r.Verdict) {
				verdict, best = journal.Improved, f.After
			}
			if f.After > 0 {
				points = append(points, report.Point{ID: r.Iteration, Iteration: r.Iteration, Seconds: seconds, Score: f.After, Best: best, Verdict: verdict})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if t.Curve, err = report.Figures(points, "iterations", "figure"); err != nil {
		return nil, err
	}
	d.Targets = []target{t}
	d.Tiles = []tile{{fmt.Sprintf("%d of %d", len(s.Iterations), s.Wanted), "iterations"}, {fmt.Sprintf("%.6g", s.Now), "the figure now"}, {fmt.Sprintf("%.6g", s.First), "at the beginning"}, {rounded(seconds), "of iterations"}, {s.Sandbox, "sandbox"}}
	if f := s.Final; f != nil {
		d.Tiles = append(d.Tiles, tile{fmt.Sprintf("%.6g", f.After), "by a seed that decided nothing"})
	}
	if s.Busy > 0 {
		d.Workers = append(d.Workers, worker{fmt.Sprintf("the agent, at iteration %d", s.Busy), len(s.Iterations), s.Verdicts[loop.Interrupted], seconds})
	}
	for _, m := range loop.Meanings {
		if n := s.Verdicts[m.Verdict]; n > 0 {
			d.Gates = append(d.Gates, gate{Name: string(m.Verdict), Judged: n})
		}
	}
	d.Next = []string{"gdngen loop status --run " + dir, "gdngen loop resume --run " + dir}
	slices.SortStableFunc(d.Gates, func(a, b gate) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}
