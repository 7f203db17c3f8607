package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
)

// pool makes lists of scratch that is used alike: of one type, read and written by the same stages in the same ways. Heads and chunks
// then index one array, in order of use, and loops can count them.
func (k *Plan) pool() {
	use, apart, order := map[*loops.Item]map[string]bool{}, map[*loops.Item]bool{}, map[*loops.Item]int{}
	for i, ph := range k.Phases {
		for _, n := range ph.Nodes {
			at := fmt.Sprintf("%d %s %s %d", i, n.Stage, n.In.Op, len(n.Args))
			loops.EachRef(n, func(r *loops.Ref) {
				if use[r.Item] == nil {
					use[r.Item], order[r.Item] = map[string]bool{}, len(order)
				}
				use[r.Item][at] = true
			})
		}
	}
	for _, s := range k.Steps {
		for _, n := range s.Start {
			loops.EachRef(n, func(r *loops.Ref) { apart[r.Item] = true })
		}
		for _, w := range s.Slots {
			for _, x := range w.Refs {
				apart[x] = true
			}
		}
	}
	for _, n := range k.Prologue {
		loops.EachRef(n, func(r *loops.Ref) { apart[r.Item] = true })
	}
	alike := map[string][]*loops.Item{}
	for _, x := range k.Params {
		if !x.Scratch || x.In != nil || apart[x] || use[x] == nil {
			continue
		}
		key := x.Typ.String() + strings.Join(slices.Sorted(maps.Keys(use[x])), ";")
		alike[key] = append(alike[key], x)
	}
	for _, key := range slices.Sorted(maps.Keys(alike)) {
		if l := alike[key]; len(l) > 1 {
			slices.SortStableFunc(l, func(a, b *loops.Item) int { return order[a] - order[b] })
			loops.List(l)
		}
	}
}
