package main

import (
	"fmt"
	"html/template"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// chartColours is the number of colours of series, which are classes in site.css.
const chartColours = 8

// series is a line or a row of points of a chart.
type series struct {
	Name   string
	Points [][2]float64 // x and y, both above 0
}

// charts draws the tables of the repository: cycles against tokens and heads, and errors by class.
func (s *site) charts() (string, error) {
	results, err := os.ReadFile("docs/data/results.md")
	if err != nil {
		return "", err
	}
	tokens, err := champions(string(results), map[string]float64{"T 1": 1, "T 7": 7, "T 200": 200, "T 1024": 1024, "Bench: T 4096, 8 heads, GVA 2, K = V = 128": 4096, "T 32768": 32768})
	if err != nil {
		return "", err
	}
	heads, err := champions(string(results), map[string]float64{"1 head": 1, "Bench: T 4096, 8 heads, GVA 2, K = V = 128": 8, "16 value heads": 16, "32 value heads": 32})
	if err != nil {
		return "", err
	}
	errs, err := os.ReadFile("gdn/exam/accuracy/errors.tsv")
	if err != nil {
		return "", err
	}
	table, err := errorTable(string(errs))
	if err != nil {
		return "", err
	}
	return "<div class=\"charts\"><figure>" + lineChart("in-order cycles per token and value head, 8 heads, against tokens of one sequence", "tokens", tokens) + "</figure><figure>" +
		lineChart("in-order cycles per token and value head, T 4096, against value heads", "value heads", heads) + "</figure></div>" +
		"<p class=\"soft\">From <a href=\"docs/data/results.html\">champions by target and shape</a>, which has the command of each.</p>" +
		"<h3>Errors by class of inputs</h3><p>Rms of the error of outputs over that of a float64 reference, times 1000, at 512 tokens. A stronger colour is a larger error. <a href=\"docs/accuracy.html\">Accuracy</a> says what the classes are.</p>" + table, nil
}

var wallFigure = regexp.MustCompile(`^([0-9.]+)(?: \(|$)`)

// champions reads the first table of the results: a series for each target with known in-order cycles, over the works of xs.
func champions(text string, xs map[string]float64) ([]series, error) {
	var targets []string
	var list []series
	rows := 0
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "work" {
			targets = cells[1:]
			list = make([]series, len(targets))
			for i, t := range targets {
				list[i].Name = t
			}
			continue
		}
		x, ok := xs[cells[0]]
		if !ok || len(cells) != len(targets)+1 {
			continue
		}
		rows++
		for i, cell := range cells[1:] {
			if m := wallFigure.FindStringSubmatch(cell); m != nil {
				y, err := strconv.ParseFloat(m[1], 64)
				if err != nil {
					return nil, err
				}
				list[i].Points = append(list[i].Points, [2]float64{x, y})
			}
		}
	}
	if rows != len(xs) {
		return nil, fmt.Errorf("docs/data/results.md has %d of the %d works of a chart", rows, len(xs))
	}
	list = slices.DeleteFunc(list, func(s series) bool { return len(s.Points) == 0 })
	for i := range list {
		slices.SortFunc(list[i].Points, func(a, b [2]float64) int { return int(math.Copysign(1, a[0]-b[0])) })
	}
	return list, nil
}

// Sizes of a chart, in the units of its view box.
const chartLeft, chartRight, chartTop, chartBottom, chartWidth, chartHeight = 52., 548., 16., 250., 560., 300.

// lineChart draws series on logarithmic scales.
func lineChart(title, xTitle string, list []series) string {
	loX, hiX, loY, hiY := math.Inf(1), 0., math.Inf(1), 0.
	for _, l := range list {
		for _, p := range l.Points {
			loX, hiX, loY, hiY = min(loX, p[0]), max(hiX, p[0]), min(loY, p[1]), max(hiY, p[1])
		}
	}
	loX, hiX, loY, hiY = loX/1.2, hiX*1.2, loY/1.3, hiY*1.3
	at := func(v, lo, hi, from, to float64) float64 { return from + (to-from)*math.Log(v/lo)/math.Log(hi/lo) }
	x := func(v float64) float64 { return at(v, loX, hiX, chartLeft, chartRight) }
	y := func(v float64) float64 { return at(v, loY, hiY, chartBottom, chartTop) }
	var b strings.Builder
	fmt.Fprintf(&b, "<figcaption>%s</figcaption><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">", title, chartWidth, chartHeight, title)
	for _, v := range []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if v > loY && v < hiY {
			fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/><text text-anchor=\"end\" x=\"%.0f\" y=\"%.1f\">%g</text>", chartLeft, chartRight, y(v), y(v), chartLeft-6, y(v)+4, v)
		}
	}
	marks := map[float64]bool{}
	for i, l := range list {
		path := ""
		for _, p := range l.Points {
			path += fmt.Sprintf("%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[path == ""], x(p[0]), y(p[1]))
			marks[p[0]] = true
		}
		fmt.Fprintf(&b, "<path class=\"line s%d\" d=\"%s\"/>", i%chartColours, path)
		for _, p := range l.Points {
			fmt.Fprintf(&b, "<circle class=\"dot s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s, %s %g: %.2f</title></circle>", i%chartColours, x(p[0]), y(p[1]), l.Name, xTitle, p[0], p[1])
		}
	}
	for v := range marks {
		anchor, at := "middle", x(v)
		if at > chartRight-24 { // a long number would be cut
			anchor, at = "end", chartWidth
		}
		fmt.Fprintf(&b, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.0f\">%g</text>", anchor, at, chartBottom+18, v)
	}
	fmt.Fprintf(&b, "<text text-anchor=\"end\" x=\"%.0f\" y=\"%.0f\">%s</text></svg><p class=\"legend\">", chartRight, chartBottom+38, xTitle)
	for i, l := range list {
		fmt.Fprintf(&b, "<span><i class=\"chip s%d\"></i>%s</span> ", i%chartColours, l.Name)
	}
	return b.String() + "</p>"
}

// errorTable returns the errors of outputs by kernel and class as a table with darker cells for larger errors.
func errorTable(text string) (string, error) {
	var kernels, classes []string
	errs := map[[2]string]float64{}
	least, most := math.Inf(1), 0.
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") || len(cells) < 3 || strings.HasSuffix(cells[1], ", long") {
			continue
		}
		e, err := strconv.ParseFloat(cells[2], 64)
		if err != nil {
			return "", fmt.Errorf("errors.tsv: %w", err)
		}
		if !slices.Contains(kernels, cells[0]) {
			kernels = append(kernels, cells[0])
		}
		if !slices.Contains(classes, cells[1]) {
			classes = append(classes, cells[1])
		}
		errs[[2]string{cells[0], cells[1]}] = e
		least, most = min(least, e), max(most, e)
	}
	if len(errs) == 0 {
		return "", fmt.Errorf("errors.tsv has no rows")
	}
	var b strings.Builder
	b.WriteString("<div class=\"wide\"><table class=\"heat\"><tr><th>kernel</th>")
	for _, c := range classes {
		fmt.Fprintf(&b, "<th>%s</th>", template.HTMLEscapeString(c))
	}
	b.WriteString("</tr>")
	for _, k := range kernels {
		fmt.Fprintf(&b, "<tr><td>%s</td>", template.HTMLEscapeString(k))
		for _, c := range classes {
			e, ok := errs[[2]string{k, c}]
			if !ok {
				b.WriteString("<td></td>")
				continue
			}
			fmt.Fprintf(&b, "<td title=\"%s\" style=\"--share:%.2f\">%#.3g</td>", template.HTMLEscapeString(c), math.Log(e/least)/math.Log(most/least), 1000*e)
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</table></div>")
	return b.String(), nil
}
