package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// A stage's way through the compiler: its lines of IR after each pass that changes them much, their positions among
// other stages' lines, its bundles in the schedule, and its cycles.

type stageWay struct {
	pageStage
	Wait     int64
	Steps    []stageStep
	Schedule *stageStep // nil if the compiler keeps no locations
	Units    string     // the slots that its bundles fill most
}

// stageStep is a stage after a pass. Strip is a path 0 to 100 wide and 0 to 10 high: the share of the stage in the lines at each position.
type stageStep struct {
	Name, Doc string
	Count, Of int
	Ops       string // how often each op occurs
	Strip     string
	Lines     []string // the first lines
}

// Sizes of the way of a stage.
const (
	wayColumns = 160
	wayLines   = 8
	wayOps     = 7
	wayShare   = .01 // least share of a stage in the cycles
)

// waySteps are the passes after which a stage is shown.
var waySteps = []struct{ name, after, doc string }{
	{"build", "", "what the builder wrote, on tensors: one program of the grid"},
	{"tile", "dce2", "on tiles of rows and lanes: one op over all tiles before the next, so the stage still stands together"},
	{"order, pipeline", "pipeline", "in the order of issue: stages of successive chunks stand between one another"},
}

// ways follows the stages of a generated Mosaic kernel, those with most cycles first. For other programs it returns nil.
func ways(e *Explanation, stages []pageStage) ([]stageWay, error) {
	p := e.module.Program
	if p.Spec == nil || p.Backend() != "mosaic" || len(e.Report.Ops) == 0 {
		return nil, nil
	}
	f := route.NewForm(*p.Spec, p.Variant)
	built, err := f.Build()
	if err != nil {
		return nil, err
	}
	var texts [][]stageLine
	for _, s := range waySteps {
		m := built
		if s.after != "" {
			if m, err = route.After(built, s.after); err != nil {
				return nil, err
			}
		}
		texts = append(texts, stageLines(m))
	}
	var list []stageWay
	for _, s := range followed(e, stages, texts[0]) {
		w := stageWay{pageStage: s}
		if i := slices.IndexFunc(e.Stages, func(l llo.Location) bool { return l.File == s.Name }); i >= 0 {
			w.Wait = e.Stages[i].Wait
		}
		for i, text := range texts {
			step := stepOf(text, s.Name)
			step.Name, step.Doc = waySteps[i].name, waySteps[i].doc
			w.Steps = append(w.Steps, step)
		}
		w.onSchedule(&e.Report.Ops[0], p)
		list = append(list, w)
	}
	return list, nil
}

// followed returns the stages with at least wayShare of the cycles. If the compiler drops a kernel's locations, it
// returns the builder's stages, without cycles.
func followed(e *Explanation, stages []pageStage, built []stageLine) []pageStage {
	var list []pageStage
	for _, s := range stages {
		if !strings.HasPrefix(s.Name, "(") && float64(s.Cycles) >= wayShare*float64(e.Took()) {
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		return list
	}
	known := map[string]bool{}
	for _, l := range built {
		if !known[l.stage] && l.stage != "glue" {
			known[l.stage] = true
			list = append(list, pageStage{Name: l.stage, Colour: stageColours[len(list)%len(stageColours)]})
		}
	}
	return list
}

// stageLine is a line of a module's text with its stage.
type stageLine struct{ stage, op, text string }

var (
	placeAt = regexp.MustCompile(` @([\w-]+)(?:\.\w+)*$`)
	opOf    = regexp.MustCompile(`^(?:%\w+(?:, %\w+)* = )?(\w+)`)
)

func stageLines(m *ir.Module) []stageLine {
	var list []stageLine
	for line := range strings.Lines(m.String()) {
		line = strings.TrimSpace(line)
		if at := placeAt.FindStringSubmatch(line); at != nil && opOf.MatchString(line) {
			list = append(list, stageLine{at[1], opOf.FindStringSubmatch(line)[1], line})
		}
	}
	return list
}

// stepOf collects the lines of a stage in a module.
func stepOf(lines []stageLine, stage string) stageStep {
	s := stageStep{Of: len(lines)}
	count := map[string]int{}
	columns := min(wayColumns, max(len(lines), 1))
	own, all := make([]float64, columns), make([]float64, columns)
	for i, l := range lines {
		k := i * columns / len(lines)
		all[k]++
		if l.stage != stage {
			continue
		}
		own[k]++
		s.Count++
		count[l.op]++
		if len(s.Lines) < wayLines {
			s.Lines = append(s.Lines, l.text)
		}
	}
	for k := range own {
		own[k] /= max(all[k], 1)
	}
	s.Strip, s.Ops = strip(own), opCounts(count)
	return s
}

// opCounts lists ops with their numbers, the most frequent first.
func opCounts(count map[string]int) string {
	names := slices.SortedFunc(maps.Keys(count), func(x, y string) int { return cmp.Or(count[y]-count[x], strings.Compare(x, y)) })
	var list []string
	for i, name := range names {
		if i == wayOps {
			list = append(list, fmt.Sprintf("%d other ops", len(names)-i))
			break
		}
		list = append(list, fmt.Sprintf("%d %s", count[name], name))
	}
	return strings.Join(list, ", ")
}

// strip is a histogram of heights 0 to 1 as a path.
func strip(heights []float64) string {
	var b strings.Builder
	b.WriteString("M0 10")
	for i, h := range heights {
		fmt.Fprintf(&b, "V%.1fH%.2f", 10*(1-h), 100*float64(i+1)/float64(len(heights)))
	}
	return b.String() + "V10Z"
}

// onSchedule finds the stage in the schedule of the hottest op.
func (w *stageWay) onSchedule(op *llo.OpReport, p *measure.Program) {
	f := op.Profile
	if f == nil {
		return
	}
	heights, use := make([]float64, len(f.Columns)), make([]float64, len(f.Slots))
	var weight float64
	bundles := 0
	for i, c := range f.Columns {
		share := stageShares(c, func(place string) string { return p.OpStage(op.Name, place) })[w.Name]
		heights[i] = share
		if share == 0 {
			continue
		}
		bundles += c.Bundles
		weight += share * float64(c.Bundles)
		for s, used := range c.Use {
			use[s] += share * float64(c.Bundles) * used
		}
	}
	if weight == 0 {
		return
	}
	w.Schedule = &stageStep{Name: "bundles", Doc: "in the compiler's schedule of " + op.Name + ", one pass of its hottest loop", Count: bundles, Of: f.Bundles, Strip: strip(heights)}
	w.Units = fullest(f.Slots, use, weight)
}

// fullest names the slots that a stage fills most, weighted by its share in the bundles.
func fullest(slots []string, use []float64, weight float64) string {
	order := make([]int, len(slots))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(use[y], use[x]) })
	var list []string
	for _, i := range order[:min(4, len(order))] {
		list = append(list, fmt.Sprintf("%s %.0f %%", slots[i], 100*use[i]/weight))
	}
	return strings.Join(list, ", ")
}
