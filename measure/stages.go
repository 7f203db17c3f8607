package measure

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/pjrt/llo"
)

// Stage is the stage of the algorithm at a place stage.chunk.head of a generated kernel; empty where the place names none. What the
// compiler made of ops without a location it places in the file "-".
func Stage(place string) string {
	stage, _, _ := strings.Cut(place, ".")
	return strings.TrimPrefix(stage, "-")
}

// Stages sums the cycles of a report by stage of the algorithm, most first, or of a foreign program by source file.
func (p *Program) Stages(r *llo.Report) []llo.Location {
	places := r.Stages()
	if p.IsForeign() {
		return places
	}
	return wholeStages(places)
}

// wholeStages sums the places of a generated kernel by stage.
func wholeStages(places []llo.Location) []llo.Location {
	var list []llo.Location
	at := map[string]int{}
	for _, p := range places {
		p.File = Stage(p.File)
		i, ok := at[p.File]
		if !ok {
			at[p.File] = len(list)
			list = append(list, p)
			continue
		}
		list[i].Cycles += p.Cycles
		list[i].Wait += p.Wait
		list[i].Instructions += p.Instructions
	}
	slices.SortStableFunc(list, func(x, y llo.Location) int { return cmp.Compare(y.Cycles, x.Cycles) })
	return list
}
