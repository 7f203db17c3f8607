package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// PictureColumns is the number of columns of the small picture of a schedule.
const PictureColumns = 180

// Sizes of the small picture, in the units of its view box.
const (
	smallLeft   = 92.0
	smallWidth  = 640.0
	smallRight  = 60.0
	smallTop    = 46.0
	smallRow    = 26.0
	smallGap    = 5.0
	smallAxis   = 34.0
	smallColour = "#4c7db5"
	unitColour  = "#8a94a0"
)

// smallUnits are the slots shown below the stages. Generations name the MXU's slot differently.
var smallUnits = []struct{ slot, label string }{{"MXU", "MXUs"}, {"MATMUL", "MXUs"}, {"VALU", "vector units"}}

// smallShare is the least share of the instructions for a stage to have a row.
const smallShare = .02

// WritePicture draws the first target's module as an SVG file.
func (r *Result) WritePicture(file string) error {
	if len(r.Targets) == 0 {
		return nil
	}
	text, err := r.Targets[0].Picture()
	if err != nil {
		return err
	}
	return store.WriteFile(file, text)
}

// Picture returns the hottest loop of the module as SVG: a row per stage, sorted by the mean position of its
// instructions, so that overlapping stages of successive chunks appear one below the other, then rows for the matrix
// and vector units. It errs if no op has a schedule. The module must be measured with Options.Columns = PictureColumns.
func (e *Explanation) Picture() ([]byte, error) {
	if len(e.Report.Ops) == 0 || e.Report.Ops[0].Profile == nil {
		return nil, fmt.Errorf("%s has no op with a schedule to draw", e.Target)
	}
	op := &e.Report.Ops[0]
	return smallPicture(e.Target, op, func(place string) string { return e.module.Program.OpStage(op.Name, place) }), nil
}

// lane is a row of the small picture: a height for each column, 0 to 1.
type lane struct {
	name, note, colour string
	heights            []float64
	whole              float64
	centre             float64 // mean position of its instructions, in columns
}

func smallPicture(target string, op *llo.OpReport, stage func(place string) string) []byte {
	f := op.Profile.Merged(PictureColumns)
	lanes := append(stageLanes(f, stage), unitLanes(f)...)
	height := smallTop + float64(len(lanes))*(smallRow+smallGap) + smallAxis
	width := smallLeft + smallWidth + smallRight
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="stages over one pass of a kernel's loop">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="8" y="18" font-weight="600" fill="#1c2733">%s on %s: one pass of the loop, %d bundles, run %s</text>`+"\n",
		html.EscapeString(op.Name), target, f.Bundles, times(f.Runs))
	fmt.Fprintf(&b, `<text x="8" y="35" font-size="11" fill="#5d6b7a">height: share of a stage in the instructions at that place; of a unit, the filled part of its slots</text>`+"\n")
	edges := columnEdges(f, smallLeft, smallWidth)
	y := smallTop
	for _, l := range lanes {
		k := -1
		path := steps(edges, y+smallRow, smallRow, f.Columns, func(llo.Column) float64 { k++; return l.heights[k] })
		fmt.Fprintf(&b, `<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" fill="#f3f5f8"/><path fill="%s" d="%s"/>`, smallLeft, y, smallWidth, smallRow, l.colour, path)
		fmt.Fprintf(&b, `<text x="8" y="%.0f" fill="#1c2733">%s</text><text x="%.0f" y="%.0f" font-size="11" fill="#5d6b7a">%s</text>`+"\n",
			y+17, html.EscapeString(l.name), smallLeft+smallWidth+8, y+17, l.note)
		y += smallRow + smallGap
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" font-size="11" fill="#5d6b7a">first bundle</text><text x="%.0f" y="%.0f" font-size="11" text-anchor="end" fill="#5d6b7a">last bundle</text>`+"\n",
		smallLeft, y+14, smallLeft+smallWidth, y+14)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// stageLanes returns a lane per stage with at least smallShare of the instructions, sorted by position.
func stageLanes(f *llo.Profile, stage func(place string) string) []lane {
	byName := map[string]*lane{}
	var whole float64
	for i, c := range f.Columns {
		for name, share := range stageShares(c, stage) {
			if strings.HasPrefix(name, "(") {
				continue
			}
			l := byName[name]
			if l == nil {
				l = &lane{name: name, colour: smallColour, heights: make([]float64, len(f.Columns))}
				byName[name] = l
			}
			weight := share * float64(c.Bundles)
			l.heights[i], l.whole, l.centre, whole = share, l.whole+weight, l.centre+weight*float64(i), whole+weight
		}
	}
	var lanes []lane
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		l := byName[name]
		if l.whole < smallShare*whole {
			continue
		}
		l.centre /= l.whole
		l.note = terminal.Percent(int64(1000*l.whole), int64(1000*whole))
		lanes = append(lanes, *l)
	}
	slices.SortStableFunc(lanes, func(x, y lane) int { return cmp.Compare(x.centre, y.centre) })
	return lanes
}

// times says how often the hottest part runs.
func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("up to %d times", n)
}

// unitLanes returns a lane per slot of smallUnits that the schedule uses.
func unitLanes(f *llo.Profile) []lane {
	var lanes []lane
	for _, u := range smallUnits {
		i := slices.Index(f.Slots, u.slot)
		if i < 0 {
			continue
		}
		l := lane{name: u.label, colour: unitColour}
		var sum float64
		for _, c := range f.Columns {
			l.heights = append(l.heights, c.Use[i])
			sum += c.Use[i] * float64(c.Bundles)
		}
		l.note = fmt.Sprintf("%.0f%%", 100*sum/float64(f.Bundles))
		lanes = append(lanes, l)
	}
	return lanes
}
