package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// pageText is the template of the report. It names no other file or host, so the page can be sent and kept.
//
//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": grouped,
	"named":  named,
	"short":  short,
	"clip":   func(s string) string { return Clip(s, 260) },
	"signed": func(n int64) string {
		if n > 0 {
			return "+" + grouped(n)
		}
		return grouped(n)
	},
}).Parse(pageText))

// note says what the figures of a run are.
func note(h *journal.Header) string {
	return "Candidates are ranked by " + h.RulerName().Text() + ". Figures are of the whole module, per token and value head. Nothing ran on a device unless a device column says so."
}

// page is what the template shows.
type page struct {
	Sum           *Summary
	Note, Close   string
	Shapes        []journal.Shape
	Elapsed, Each string
	Within        string
	Targets       []pageTarget
	Pair          *pagePair
	Axes          []pageRow
	Dead          []AxisFact
	Pale          float64 // times the best, where the heat maps end
	Off           float64 // times the best, where the fronts end
	CutAt         float64 // times the best, where the curves end
	Verdicts      []pageCount
	Causes        []pageCount
}

type pageCount struct {
	Name  string
	Count int
}

type pageTarget struct {
	Name, Ruler    string
	Champion, Seed *pageCandidate
	Times          float64
	Error, Share   string
	Class, VMEM    string
	Curve, Front   *plot
	Off            int // candidates beyond the front's end
	Cut            int // candidates on the curve's upper edge
	Base           *Baseline
	Stages         []pageStage
	Line           []pageStep
	Pictures       []Picture // of the champion and of what it is a change of
	Timed          bool      // a row has a figure of a device
	Rows           []pageRanked
	More           int
}

type pageCandidate struct {
	ID       int
	PerToken journal.Figure
	Variant  string
	Short    string
}

type pageStage struct {
	Name                     string
	Seed, Champion, Change   int64
	SeedShare, ChampionShare float64
}

// pageStep is one champion of the succession.
type pageStep struct {
	ID              int
	PerToken        journal.Figure
	Gain, From, Hot string     // From: what it is a change of
	Diff            []axisDiff // none where the two are far apart
	Short           string
}

// Picture is the schedule of a candidate as SVG.
type Picture struct {
	ID   int
	Role string // champion, or what the champion is a change of
	SVG  template.HTML
}

type pageRanked struct {
	Rank, ID                            int
	PerToken                            journal.Figure
	Verdict                             journal.Verdict
	Error, Share, VMEM, Device, Variant string
	Spills                              int64
	Short                               string
	Diff                                []axisDiff // from the champion
	Kin                                 bool       // a better row has its structure
	Family                              int        // rows below it that have
}

type pagePair struct {
	X, Y  string
	Heads []string
	Rows  []pageRow
}

type pageRow struct {
	Name  string
	Cells []pageCell
}

type pageCell struct {
	Label, Title string
	Best         float64
	Count        int
	Colour       template.CSS
}

const pageRows = 40 // of a ranking

// HTML writes the report of a run as one page that needs nothing else. Pictures are by target, and may be missing.
func HTML(w io.Writer, dir string, s *journal.State, pictures map[string][]Picture) error {
	sum := New(dir, s)
	v := s.Now()
	p := page{Sum: sum, Note: note(s.Header), Close: journal.CloseText, Elapsed: sum.Elapsed().Round(time.Second).String(), Within: fmt.Sprintf("%.0f %%", 100*journal.PortfolioWithin), Pale: pale, Off: offFront, CutAt: cutAt}
	if len(s.Header.Shapes) > 1 {
		p.Shapes = s.Header.Shapes
	}
	if sum.CPU > 0 && sum.Candidates > 0 {
		p.Each = fmt.Sprintf("%.1f", sum.CPU/float64(sum.Candidates))
	}
	for i, t := range s.Header.Targets {
		x := newPageTarget(s, v, t, sum.Rankings[i].Rows)
		x.Pictures = pictures[t]
		p.Targets = append(p.Targets, x)
	}
	p.cells(v, sum.Axes)
	for _, f := range sum.Axes {
		if f.Dead {
			p.Dead = append(p.Dead, f)
		}
	}
	for _, x := range journal.Verdicts {
		if n := sum.Verdicts[x]; n > 0 {
			p.Verdicts = append(p.Verdicts, pageCount{string(x), n})
		}
	}
	causes := map[journal.Cause]int{}
	for _, c := range v.Candidates() {
		causes[c.Cause]++
	}
	for _, x := range journal.Causes {
		if n := causes[x]; n > 0 {
			p.Causes = append(p.Causes, pageCount{string(x), n})
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

func newPageTarget(s *journal.State, v journal.View, t string, rows []Row) pageTarget {
	p := pageTarget{Name: t}
	champion, seed := v.Champion(t), seedOf(v, t)
	if champion == nil || seed == nil {
		return p
	}
	now, had := champion.Cost(t), seed.Cost(t)
	p.Champion = &pageCandidate{champion.ID, now.PerToken, named(champion.Variant), short(champion.Variant)}
	p.Seed = &pageCandidate{seed.ID, had.PerToken, named(seed.Variant), short(seed.Variant)}
	p.Ruler = string(now.RulerName())
	p.Times = float64(had.Score) / float64(now.Score)
	p.Error, p.Share, p.VMEM = "-", "-", mib(now.VMEM)
	if w := champion.Worst(); w != nil {
		p.Error, p.Class, p.Share = fmt.Sprintf("%.1e", float64(w.Error)), w.Class, share(w.Error, w.Limit)
	}
	base := 0.
	if p.Base = BaselineOf(v, t); p.Base != nil {
		base = float64(p.Base.PerToken)
	}
	p.Curve, p.Cut = curvePlot(curve(s, t), base)
	p.Front, p.Off = frontPlot(s, v, t)
	p.stages(now, had)
	p.succession(v, t)
	var cells []string
	for i, r := range rows[:min(pageRows, len(rows))] {
		device := ""
		if r.Runs != nil {
			device, p.Timed = measured(r.Runs), true
		}
		cells = append(cells, cellOf(r.Variant))
		p.Rows = append(p.Rows, pageRanked{i + 1, r.ID, r.PerToken, r.Verdict, fmt.Sprintf("%.1e", float64(r.Error)), share(r.Error, r.Limit), mib(r.Cost.VMEM), device, named(r.Variant), r.Cost.Spills,
			short(r.Variant), diffs(champion.Variant, r.Variant), false, 0})
	}
	families(p.Rows, cells)
	p.More = max(0, len(rows)-pageRows)
	return p
}

// stages sets the stages of the champion against those of the seed.
func (p *pageTarget) stages(now, had *journal.Cost) {
	at := map[string]int{}
	for side, c := range []*journal.Cost{now, had} {
		for _, x := range c.Stages {
			name := cmp.Or(x.Name, "(no location)")
			if _, ok := at[name]; !ok {
				at[name] = len(p.Stages)
				p.Stages = append(p.Stages, pageStage{Name: name})
			}
			if side == 0 {
				p.Stages[at[name]].Champion = x.Cycles
			} else {
				p.Stages[at[name]].Seed = x.Cycles
			}
		}
	}
	for i := range p.Stages {
		x := &p.Stages[i]
		x.Change = x.Champion - x.Seed
		x.SeedShare, x.ChampionShare = 100*float64(x.Seed)/float64(max(had.Took(), 1)), 100*float64(x.Champion)/float64(max(now.Took(), 1))
	}
	slices.SortStableFunc(p.Stages, func(x, y pageStage) int {
		return cmp.Or(cmp.Compare(y.Champion, x.Champion), cmp.Compare(y.Seed, x.Seed))
	})
}

func (p *pageTarget) succession(v journal.View, t string) {
	line := v.Champions(t)
	for i, c := range line {
		cost := c.Cost(t)
		step := pageStep{ID: c.ID, PerToken: cost.PerToken, Short: short(c.Variant), Hot: strings.Join(cost.Hot(), ", ")}
		if from, role := Before(v, c, t); from != nil {
			step.From, step.Diff = fmt.Sprintf("%s #%d", role, from.ID), diffs(from.Variant, c.Variant)
		}
		if i > 0 {
			had := line[i-1].Cost(t)
			step.Gain = fmt.Sprintf("%.1f %%", 100*(1-float64(cost.Score)/float64(had.Score)))
			step.Hot = strings.Join(had.Hot(), ", ") + " → " + step.Hot
		}
		p.Line = append(p.Line, step)
	}
}

// Before is the candidate that a champion is compared with: its parent, or for a variant without a parent the
// champion before it. It is nil for the first.
func Before(v journal.View, c *journal.Candidate, target string) (from *journal.Candidate, role string) {
	if c.Parent > 0 {
		return v.Candidate(c.Parent), "its parent"
	}
	for _, x := range v.Champions(target) {
		if x.ID < c.ID {
			from, role = x, "the champion before"
		}
	}
	return from, role
}

// cells draws the heat maps.
func (p *page) cells(v journal.View, facts []AxisFact) {
	lo, hi := math.Inf(1), 0.
	for _, f := range facts {
		for _, x := range f.Values {
			lo, hi = min(lo, float64(x.Best)), max(hi, float64(x.Best))
		}
	}
	hi = min(hi, pale*lo)
	for _, f := range facts {
		if len(f.Values) < 2 {
			continue
		}
		r := pageRow{Name: f.Axis}
		for _, x := range f.Values {
			r.Cells = append(r.Cells, pageCell{Label: x.Value, Best: float64(x.Best), Count: x.Count, Colour: heat(float64(x.Best), lo, hi), Title: fmt.Sprintf("%s=%s: best is #%d", f.Axis, x.Value, x.ID)})
		}
		p.Axes = append(p.Axes, r)
	}
	xName, yName := pair(v, facts)
	if xName == "" {
		return
	}
	x, errX := gdn.LookupAxis(xName)
	y, errY := gdn.LookupAxis(yName)
	if errX != nil || errY != nil {
		return
	}
	target := v.Header().Targets[0]
	type key struct{ x, y string }
	best := map[key]*pageCell{}
	for _, c := range v.Candidates() {
		cost := c.Cost(target)
		w, err := gdn.ParseVariant(c.Variant)
		if err != nil || c.Variant == "" || cost == nil || !c.Verdict.Ranked() {
			continue
		}
		k := key{x.Get(&w), y.Get(&w)}
		if best[k] == nil {
			best[k] = &pageCell{Best: math.Inf(1)}
		}
		b := best[k]
		b.Count++
		if score := float64(cost.PerToken); score < b.Best {
			b.Best, b.Title = score, fmt.Sprintf("best is #%d", c.ID)
		}
	}
	pair := &pagePair{X: xName, Y: yName}
	has := func(match func(key) bool) bool {
		for k := range best {
			if match(k) {
				return true
			}
		}
		return false
	}
	for _, value := range x.Values {
		if has(func(k key) bool { return k.x == value }) {
			pair.Heads = append(pair.Heads, value)
		}
	}
	for _, value := range y.Values {
		if !has(func(k key) bool { return k.y == value }) {
			continue
		}
		r := pageRow{Name: value}
		for _, head := range pair.Heads {
			cell := pageCell{}
			if b := best[key{head, value}]; b != nil {
				cell = *b
				cell.Colour = heat(b.Best, lo, hi)
			}
			r.Cells = append(r.Cells, cell)
		}
		pair.Rows = append(pair.Rows, r)
	}
	p.Pair = pair
}

// pale is how many times the best a cell of a heat map has no colour any more.
const pale = 2

// heat is a colour between light for hi and what is above, and strong for lo, on a logarithmic scale.
func heat(x, lo, hi float64) template.CSS {
	share := 0.
	if hi > lo {
		share = max(0, math.Log(hi/x)/math.Log(hi/lo))
	}
	mix := func(from, to float64) int { return int(math.Round(from + (to-from)*share)) }
	return template.CSS(fmt.Sprintf("rgb(%d,%d,%d)", mix(236, 98), mix(240, 160), mix(245, 214)))
}

// grouped prints an integer in groups of three digits.
func grouped(n int64) string {
	s := fmt.Sprint(max(n, -n))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u2009" + s[i:]
	}
	if n < 0 {
		return "−" + s
	}
	return s
}
