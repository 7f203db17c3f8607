package report

import (
	"fmt"
	"math"
	"strings"
)

// plot is a picture of points and a line, in the units of its SVG.
type plot struct {
	Title                    string
	Width, Height            int
	Left, Right, Top, Bottom int
	X, Y                     []mark
	XTitle, YTitle           string
	Dots                     []dot
	Names                    []name
	Path                     string
	Level                    *level
}

// level is a horizontal line with a name.
type level struct {
	At   float64
	Text string
}

type mark struct {
	At    float64
	Label string
}

type dot struct {
	X, Y         float64
	Class, Title string
}

// name is a label next to a dot.
type name struct {
	X, Y   float64
	Anchor string
	Text   string
}

func newPlot(title, x, y string, width int) *plot {
	return &plot{Title: title, XTitle: x, YTitle: y, Width: width, Height: 320, Left: 52, Right: width - 12, Top: 24, Bottom: 270}
}

// scale maps numbers to a side of the plot.
type scale struct {
	lo, hi, from, to float64
	log              bool
}

func (s scale) at(x float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		x, lo, hi = math.Log(x), math.Log(lo), math.Log(hi)
	}
	return s.from + (s.to-s.from)*(x-lo)/(hi-lo)
}

// logMarks returns 1, 2 and 5 times the powers of ten within a scale; if these are many, only the powers, and if they
// are few, numbers at equal steps.
func logMarks(s scale, format func(float64) string) []mark {
	if !(s.lo > 0) || math.IsInf(s.hi, 1) {
		return nil // no powers of ten in range, or infinitely many
	}
	steps := []float64{1, 2, 5}
	if s.hi/s.lo > 1e4 {
		steps = steps[:1]
	}
	var l []mark
	for e := math.Floor(math.Log10(s.lo)); e <= math.Ceil(math.Log10(s.hi)); e++ {
		for _, m := range steps {
			if x := m * math.Pow(10, e); x >= s.lo && x <= s.hi {
				l = append(l, mark{s.at(x), format(x)})
			}
		}
	}
	if len(l) >= fewMarks {
		return l
	}
	l = nil
	step := math.Pow(10, math.Floor(math.Log10(s.hi-s.lo)))
	for _, m := range []float64{1, .5, .2, .1} {
		if (s.hi-s.lo)/(m*step) >= fewMarks {
			step *= m
			break
		}
	}
	for n := math.Ceil(s.lo / step); n*step <= s.hi; n++ {
		l = append(l, mark{s.at(n * step), format(n * step)})
	}
	return l
}

// fewMarks is the least number of marks of a scale.
const fewMarks = 3

// around widens a range so that no point is on its edge.
func around(lo, hi float64) (float64, float64) { return lo / 1.15, hi * 1.15 }

// cutAt: candidates that cost more than this multiple of the best are drawn on the curve's upper edge.
const cutAt = 1.3

// curvePlot draws the scores and the best so far over the candidates, and a baseline if base is not 0. Points above
// cutAt times the least are drawn on the upper edge; cut counts them.
func curvePlot(points []Point, base float64) (p *plot, cut int) {
	if len(points) == 0 {
		return nil, 0
	}
	p = newPlot("best so far", "candidates judged", "cycles per token and value head", 640)
	lo, hi := math.Inf(1), base
	for _, x := range points {
		lo, hi = min(lo, x.Score), max(hi, x.Score)
	}
	if base > 0 {
		lo = min(lo, base)
	}
	hi = min(hi, cutAt*lo)
	margin := max(hi-lo, lo/100) / 20
	lo, hi = lo-margin, hi+margin
	last := points[len(points)-1].ID
	xs := scale{lo: 0, hi: float64(last + 1), from: float64(p.Left), to: float64(p.Right)}
	ys := scale{lo, hi, float64(p.Bottom), float64(p.Top), true}
	p.Y = logMarks(ys, func(x float64) string { return fmt.Sprintf("%.4g", x) })
	if base > 0 {
		p.Level = &level{ys.at(min(base, hi)), fmt.Sprintf("auto, %.2f", base)}
	}
	step := round(last / 6)
	for i := 0; i <= last; i += step {
		p.X = append(p.X, mark{xs.at(float64(i)), fmt.Sprint(i)})
	}
	var path strings.Builder
	for i, x := range points {
		score, best := min(x.Score, hi), min(x.Best, hi)
		if x.Score > hi {
			cut++
		}
		if i == 0 {
			fmt.Fprintf(&path, "M%.1f %.1f", xs.at(float64(x.ID)), ys.at(best))
		} else {
			fmt.Fprintf(&path, "H%.1fV%.1f", xs.at(float64(x.ID)), ys.at(best))
		}
		p.Dots = append(p.Dots, dot{xs.at(float64(x.ID)), ys.at(score), string(x.Verdict), fmt.Sprintf("#%d %s, %.3f cycles, iteration %d, after %.0f s", x.ID, x.Verdict, x.Score, x.Iteration, x.Seconds)})
	}
	fmt.Fprintf(&path, "H%d", p.Right)
	p.Path = path.String()
	return p, cut
}

// round returns the largest of 1, 2 and 5 times the powers of ten that is at most n, and at least 1.
func round(n int) int {
	step := 1
	for _, m := range []int{2, 5, 10} {
		if m <= n {
			step = m
		}
	}
	if step == 10 {
		return 10 * round(n/10)
	}
	return step
}
