package explain

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// pageText is the template of the page. It names no other file or host, so the page can be sent and kept.
//
//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(part, whole int64) string { return terminal.Percent(part, whole) },
	"size":    terminal.Size,
	"number":  grouped,
	"times":   times,
	"signed": func(n int64) string {
		if n > 0 {
			return "+" + grouped(n)
		}
		return grouped(n)
	},
	"share": func(part, whole int64) string { return fmt.Sprintf("%.2f", 100*float64(part)/float64(max(whole, 1))) },
}).Parse(pageText))

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

// page is the data of the template.
type page struct {
	*Result
	Targets []pageTarget
}

type pageTarget struct {
	*Explanation
	Sides []pageSide // A, and B of a comparison
}

// pageSide is one module on one target.
type pageSide struct {
	Letter string // A or B; empty if there is only one
	*Explanation
	Stages   []pageStage
	Ops      []pageOp
	Ways     []stageWay
	Picture  *picture  // nil where the schedule has no ops
	Roofline *roofline // nil if a module has no products or no known traffic
}

// pageOp is an op with the cycles of all its calls.
type pageOp struct {
	llo.OpReport
	All int64
}

// PageColumns is the largest number of columns in the picture of a schedule.
const PageColumns = 600

// pageOps is the largest number of ops in the table of a page.
const pageOps = 24

// pageStage is a stage with its colour, the same everywhere on the page.
type pageStage struct {
	Name         string
	Colour       string
	Cycles       int64
	Instructions int64
}

// stageColours are assigned in order of cycles; all further stages share the last.
var stageColours = []string{"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#edc948", "#76b7b2", "#9c755f", "#ff9da7", "#a05d56", "#d37295", "#8cd17d", "#499894", "#79706e"}

// noStageColour is for cycles whose op is known, but not the stage.
const noStageColour = "#c9c9c9"

// WritePage writes the explanation as an HTML page to a file.
func (r *Result) WritePage(file string) error {
	colours := map[string]string{}
	p := page{Result: r}
	for _, e := range r.Targets {
		t := pageTarget{Explanation: e}
		if e.Against == nil {
			side := newPageSide("", e, colours)
			var err error
			if side.Ways, err = ways(e, side.Stages); err != nil {
				return err
			}
			t.Sides = []pageSide{side}
		} else {
			t.Sides = []pageSide{newPageSide("A", e, colours), newPageSide("B", e.Against, colours)}
		}
		p.Targets = append(p.Targets, t)
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return err
	}
	return store.WriteFile(file, b.Bytes())
}

func newPageSide(letter string, e *Explanation, colours map[string]string) pageSide {
	s := pageSide{Letter: letter, Explanation: e, Roofline: e.roofline()}
	for _, l := range e.Stages {
		name := l.File
		if colours[name] == "" {
			colours[name] = stageColours[min(len(colours), len(stageColours)-1)]
			if strings.HasPrefix(name, "(") {
				colours[name] = noStageColour
			}
		}
		s.Stages = append(s.Stages, pageStage{name, colours[name], measure.StageBy(e.Ruler, e.Report, l), l.Instructions})
	}
	for i, op := range e.Report.Ops {
		if i < pageOps {
			s.Ops = append(s.Ops, pageOp{op, measure.OpBy(e.Ruler, e.Report, &op)})
		}
	}
	if len(e.Report.Ops) > 0 && e.Report.Ops[0].Profile != nil {
		s.Picture = draw(&e.Report.Ops[0], e.module.Program, colours)
	}
	return s
}

// Sizes of the picture, in the units of its view box.
const (
	pictureLeft  = 84.0
	pictureWidth = 1116.0
	bandHeight   = 46.0
	bandGap      = 7.0
	pictureTop   = 6.0
	stagesHeight = 64.0
	axisHeight   = 34.0
)

// picture shows the use of the slots over the hottest part of an op, as shapes of an SVG.
type picture struct {
	Op            string
	Profile       *llo.Profile
	Bundles       int64
	Share         string // share of the op's cycles
	Width, Height float64
	Left, Across  float64 // start of the columns, and width of all
	AxisTop       float64
	Bands         []band
	Waits         bool        // a band shows waiting
	Stages        []stageBand // stacked shares, in one band at the bottom
	StageTop      float64
	Ticks         []tick
	Columns       []hit
}

// band is one slot: the filled part of its capacity, and within it the part filled by spills or fills.
type band struct {
	Name, Mean    string
	Top, Height   float64
	Used, Spilled string // paths
}

// stageBand is the share of a stage and of those before it: what is above the one before shows.
type stageBand struct{ Name, Colour, Path string }

// Painted are the stages in the order of drawing, the last one first.
func (p *picture) Painted() []stageBand {
	list := slices.Clone(p.Stages)
	slices.Reverse(list)
	return list
}

type tick struct {
	X             float64
	Label, Anchor string
}

// hit is a column with its hover text.
type hit struct {
	X, Width float64
	Text     string
}

// bandsOf lists the slots that have a band, and for each the part that is drawn within it.
var bandsOf = []struct{ slot, inner string }{
	{"MXU", ""}, {"MATMUL", ""}, {"MATPUSH", ""}, {"VPOP", ""}, {"XLU", ""}, {"VALU", ""}, {"EUP", ""}, {"VLOAD", "VLOAD:FILL"}, {"VSTORE", "VSTORE:SPILL"},
}

// draw makes the picture of an op's profile, coloured by stage.
func draw(op *llo.OpReport, program *measure.Program, colours map[string]string) *picture {
	stage := func(place string) string { return program.OpStage(op.Name, place) }
	f := op.Profile.Merged(PageColumns)
	p := &picture{Op: op.Name, Profile: f, Bundles: int64(f.Bundles), Share: terminal.Percent(f.Cycles, op.Cycles), Width: pictureLeft + pictureWidth, Left: pictureLeft, Across: pictureWidth}
	at := columnEdges(f, pictureLeft, pictureWidth)
	p.Height = pictureTop
	add := func(name string, use, within func(llo.Column) float64) {
		b := band{Name: name, Top: p.Height, Height: bandHeight, Used: steps(at, p.Height+bandHeight, bandHeight, f.Columns, use)}
		if within != nil {
			b.Spilled = steps(at, p.Height+bandHeight, bandHeight, f.Columns, within)
		}
		var sum float64
		for _, c := range f.Columns {
			sum += use(c) * float64(c.Bundles)
		}
		b.Mean = fmt.Sprintf("%.0f%%", 100*sum/float64(f.Bundles))
		p.Bands = append(p.Bands, b)
		p.Height += bandHeight + bandGap
	}
	use := func(slot string) func(llo.Column) float64 {
		i := slices.Index(f.Slots, slot)
		if i < 0 {
			return nil
		}
		return func(c llo.Column) float64 { return c.Use[i] }
	}
	for _, b := range bandsOf {
		if used := use(b.slot); used != nil {
			add(b.slot, used, use(b.inner))
		}
	}
	if slices.ContainsFunc(f.Columns, func(c llo.Column) bool { return c.Stall > 0 }) {
		p.Waits = true
		add("waiting", func(c llo.Column) float64 { return c.Stall }, nil)
	}
	p.stages(f, at, stage, colours)
	for _, fraction := range []float64{0, .25, .5, .75, 1} {
		anchor := map[float64]string{0: "start", 1: "end"}[fraction]
		p.Ticks = append(p.Ticks, tick{pictureLeft + fraction*pictureWidth, grouped(int64(math.Round(fraction * float64(f.Bundles)))), cmp.Or(anchor, "middle")})
	}
	for i, c := range f.Columns {
		p.Columns = append(p.Columns, hit{at[i], at[i+1] - at[i], columnText(f, c, stage)})
	}
	p.AxisTop = p.Height
	p.Height += axisHeight
	return p
}

// columnEdges returns the x positions where the columns of a profile begin, and the end of the last.
func columnEdges(f *llo.Profile, left, width float64) []float64 {
	edges := make([]float64, 1, len(f.Columns)+1)
	edges[0] = left
	done := 0
	for _, c := range f.Columns {
		done += c.Bundles
		edges = append(edges, left+width*float64(done)/float64(f.Bundles))
	}
	return edges
}

// stages stacks the shares of the stages in the instructions of each column.
func (p *picture) stages(f *llo.Profile, at []float64, stage func(string) string, colours map[string]string) {
	shares := make([]map[string]float64, len(f.Columns))
	total := map[string]float64{}
	for i, c := range f.Columns {
		shares[i] = stageShares(c, stage)
		for name, share := range shares[i] {
			total[name] += share
		}
	}
	names := slices.SortedFunc(maps.Keys(total), func(x, y string) int {
		if total[x] != total[y] {
			return map[bool]int{true: -1, false: 1}[total[x] > total[y]]
		}
		return strings.Compare(x, y)
	})
	p.StageTop = p.Height
	sums := make([]float64, len(f.Columns)) // of the stages so far
	for _, name := range names {
		k := -1
		path := steps(at, p.StageTop+stagesHeight, stagesHeight, f.Columns, func(llo.Column) float64 { k++; sums[k] += shares[k][name]; return sums[k] })
		p.Stages = append(p.Stages, stageBand{name, cmp.Or(colours[name], noStageColour), path})
	}
	p.Height += stagesHeight
}

// stageShares returns the share of each stage in the instructions of a column. Instructions without a location count
// only if no other has one.
func stageShares(c llo.Column, stage func(place string) string) map[string]float64 {
	shares := map[string]float64{}
	none := func(file string) bool { return strings.HasPrefix(stage(file), "(") }
	var all, located int64
	for file, n := range c.Files {
		all += n
		if !none(file) {
			located += n
		}
	}
	if located > 0 {
		all = located
	}
	for file, n := range c.Files {
		if located > 0 && none(file) {
			continue
		}
		shares[stage(file)] += float64(n) / float64(max(all, 1))
	}
	return shares
}

// steps returns the SVG path of a histogram on the line at bottom. Heights are shares of height; equal neighbouring columns are one line.
func steps(at []float64, bottom, height float64, columns []llo.Column, use func(llo.Column) float64) string {
	var b strings.Builder
	last := fmt.Sprintf("%.1f", bottom)
	fmt.Fprintf(&b, "M%.1f %s", at[0], last)
	for i, c := range columns {
		if y := fmt.Sprintf("%.1f", bottom-height*min(use(c), 1)); y != last {
			fmt.Fprintf(&b, "H%.1fV%s", at[i], y)
			last = y
		}
	}
	fmt.Fprintf(&b, "H%.1fV%.1fZ", at[len(columns)], bottom)
	return b.String()
}

// columnText describes a column in words.
func columnText(f *llo.Profile, c llo.Column, stage func(place string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bundles from %#x: %d", c.First, c.Bundles)
	for i, name := range f.Slots {
		if c.Use[i] > 0 {
			fmt.Fprintf(&b, "\n%s %.0f%%", name, 100*c.Use[i])
		}
	}
	if c.Stall > 0 {
		fmt.Fprintf(&b, "\nwaiting %.0f%%", 100*c.Stall)
	}
	shares := stageShares(c, stage)
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if shares[name] >= .005 {
			fmt.Fprintf(&b, "\nstage %s %.0f%%", name, 100*shares[name])
		}
	}
	return b.String()
}
