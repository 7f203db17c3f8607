package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/results"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam/accuracy"
)

// offFront: slower candidates than this multiple of the best are not on the front's plot.
const offFront = 4

// point is a kernel on the front of cost and error.
type point struct {
	cost, err float64
	label     string
	peer      string // name of a public kernel; empty: a candidate
}

// beats reports whether a point is no worse than another in both cost and error, and better in one.
func (x point) beats(y point) bool {
	return x.cost <= y.cost && x.err <= y.err && (x.cost < y.cost || x.err < y.err)
}

// frontPlot draws candidates by cycles and error, and highlights those that no other beats. If the objective had errors measured by class of
// inputs, the error is the largest relative to flash-linear-attention's, public kernels are included, and so are candidates that missed the
// class. Otherwise it is the error nearest to its limit. off counts the candidates that are too slow to be drawn.
func frontPlot(s *journal.State, v journal.View, target string) (p *plot, off int) {
	measured := s.Header.Objective != ""
	title := "largest error of the class of inputs that uses most of its limit"
	if measured {
		title = "largest error over that of flash-linear-attention, by class of inputs"
	}
	var l []point
	champion := v.Champion(target)
	for _, c := range v.Candidates() {
		cost := c.Cost(target)
		x, ok := candidatePoint(c, cost, measured)
		if !ok {
			continue
		}
		if champion != nil && cost.PerToken > offFront*champion.Cost(target).PerToken {
			off++
			continue
		}
		l = append(l, x)
	}
	if len(l) == 0 {
		return nil, off
	}
	if measured {
		l = append(l, peerPoints(s.Header.Spec, target)...)
	}
	clo, chi, elo, ehi := math.Inf(1), 0., math.Inf(1), 0.
	for _, x := range l {
		clo, chi, elo, ehi = min(clo, x.cost), max(chi, x.cost), min(elo, x.err), max(ehi, x.err)
	}
	p = newPlot("cycles and error", title, "cycles per token and value head", 520)
	clo, chi = around(clo, chi)
	elo, ehi = around(elo, ehi)
	xs := scale{elo, ehi, float64(p.Left), float64(p.Right), true}
	ys := scale{clo, chi, float64(p.Bottom), float64(p.Top), true}
	p.Y = logMarks(ys, func(x float64) string { return fmt.Sprintf("%.3g", x) })
	p.X = logMarks(xs, func(x float64) string { return fmt.Sprintf("%.2g", x) })
	for _, x := range l {
		class := ""
		switch {
		case x.peer != "":
			class = "peer"
			p.Names = append(p.Names, label(xs.at(x.err), ys.at(x.cost), p, x.peer))
		case !slices.ContainsFunc(l, func(y point) bool { return y.beats(x) }):
			class = "front"
		}
		p.Dots = append(p.Dots, dot{xs.at(x.err), ys.at(x.cost), class, x.label})
	}
	return p, off
}

// label puts a name to the right of a dot, or to the left in the right half of a plot.
func label(x, y float64, p *plot, text string) name {
	if x > float64(p.Left+p.Right)/2 {
		return name{x - 7, y, "end", text}
	}
	return name{x + 7, y, "start", text}
}

// candidatePoint returns the point of a candidate; ok is false if it has no cost or no error, or is wrong.
func candidatePoint(c *journal.Candidate, cost *journal.Cost, measured bool) (x point, ok bool) {
	if cost == nil {
		return point{}, false
	}
	if !measured {
		w := c.Worst()
		if w == nil || !c.Verdict.Ranked() || !(w.Error > 0) {
			return point{}, false
		}
		return point{float64(cost.PerToken), float64(w.Error), fmt.Sprintf("#%d %.3f cycles, error %.1e on %s inputs", c.ID, cost.PerToken, w.Error, w.Class), ""}, true
	}
	worst, class := 0., ""
	for _, e := range c.Errors {
		if e.Engine != journal.EngineAccuracy {
			continue
		}
		peer, found := accuracy.Of(accuracy.FLA, e.Class)
		if !found {
			continue
		}
		than := peer.O
		if e.Output == "final_state" {
			than = peer.State
		}
		if r := float64(e.Error) / than; r > worst {
			worst, class = r, e.Class
		}
	}
	if !(worst > 0) {
		return point{}, false
	}
	return point{float64(cost.PerToken), worst, fmt.Sprintf("#%d %s, %.3f cycles, error %.2f x flash-linear-attention's on %s inputs", c.ID, c.Verdict, cost.PerToken, worst, class), ""}, true
}

// peerPoints returns the public kernels whose arithmetic and cost on a target are known; their figures are for the preset bench.
func peerPoints(spec, target string) []point {
	bench, err := gdn.LookupPreset("bench")
	if err != nil || bench.String() != spec {
		return nil
	}
	peers, err := results.Peers()
	if err != nil {
		return nil
	}
	var l []point
	for _, p := range peers {
		kernel, ok := p.Arithmetic()
		cost := p.Figure(target)
		if !ok || cost == 0 {
			continue
		}
		worst := 0.
		for _, c := range accuracy.Short() {
			e, _ := accuracy.Of(kernel, c.Name)
			than, _ := accuracy.Of(accuracy.FLA, c.Name)
			worst = max(worst, e.Worst(than))
		}
		l = append(l, point{cost, worst, fmt.Sprintf("%s, %.1f cycles, error %.2f x flash-linear-attention's (%s)", p.Name, cost, worst, p.Note), kernel})
	}
	return l
}
