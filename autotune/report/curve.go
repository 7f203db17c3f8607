package report

import (
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Curve returns an SVG of the scores of a run's candidates on a target, the best so far and the baseline, with the CSS classes of the report's page.
func Curve(s *journal.State, target string) (string, error) {
	base := 0.
	if b := BaselineOf(s.Now(), target); b != nil {
		base = float64(b.PerToken)
	}
	p, _ := curvePlot(curve(s, target), base)
	return draw(p)
}

// Figures returns an SVG of figures in order, less being better, and the best so far; x and y are the titles of the axes.
func Figures(points []Point, x, y string) (string, error) {
	p, _ := curvePlot(points, 0)
	if p != nil {
		p.XTitle, p.YTitle = x, y
	}
	return draw(p)
}

// draw renders a plot as SVG, or a sentence if it is nil.
func draw(p *plot) (string, error) {
	var b strings.Builder
	err := pageTemplate.ExecuteTemplate(&b, "plot", p)
	return b.String(), err
}
