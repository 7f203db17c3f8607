package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
)

// unify finds the common work of the slots of each phase. Phases stays nil if slots of a phase differ in more than integers and
// parameters.
func (k *Plan) unify() {
	slots := map[int][]*slotWork{}
	for _, s := range k.Steps {
		for _, w := range s.Slots {
			slots[w.Phase] = append(slots[w.Phase], w)
		}
	}
	// Slots of a phase with different work become separate phases.
	for _, p := range slices.Sorted(maps.Keys(slots)) {
		for rest := slots[p]; len(rest) > 0; {
			same, other := rest, []*slotWork(nil)
			ph := k.unifyPhase(same)
			if ph == nil {
				same = rest[:1:1]
				for _, w := range rest[1:] {
					if k.unifyPhase([]*slotWork{same[0], w}) != nil {
						same = append(same, w)
					} else {
						other = append(other, w)
					}
				}
				ph = k.unifyPhase(same)
			}
			if ph == nil {
				same, other = same[:1], rest[1:]
				ph = k.unifyPhase(same)
			}
			for _, w := range same {
				w.Phase = len(k.Phases)
			}
			k.Phases = append(k.Phases, ph)
			rest = other
		}
	}
}

// unifyPhase returns the common work of slots; nil if they differ in more than integers and parameters.
func (k *Plan) unifyPhase(slots []*slotWork) *Phase {
	for _, w := range slots {
		w.Args, w.Refs = map[*loops.Variable]int{}, nil
	}
	ph := &Phase{}
	var shapes []*loops.Shape
	for _, w := range slots {
		nodes := loops.ToNodes(w.instrs, maps.Clone(k.of), k.tasks)
		s := loops.DescribeAll(nodes)
		if len(shapes) > 0 && s.Text != shapes[0].Text {
			return nil
		}
		if ph.Nodes == nil {
			ph.Nodes = nodes
		}
		shapes = append(shapes, s)
	}
	k.unifyIntegers(ph, slots, shapes)
	if !k.unifyReferences(ph, slots, shapes) {
		return nil
	}
	return ph
}

// unifyIntegers replaces integers that grow with the chunk by a formula of the chunk, and others that differ by variables.
func (k *Plan) unifyIntegers(ph *Phase, slots []*slotWork, shapes []*loops.Shape) {
	chunk := &loops.Variable{Name: "chunk"}
	known := map[string]*loops.Variable{}
	values := make([]int, len(slots))
	for x, f := range shapes[0].Ints {
		for i := range slots {
			values[i] = shapes[i].Ints[x].C
		}
		if step, ok := byChunk(values, slots); ok && step == 0 {
			continue
		} else if ok {
			if !slices.Contains(ph.Vars, chunk) {
				ph.Vars = append(ph.Vars, chunk)
				for _, w := range slots {
					w.Args[chunk] = w.chunk
				}
			}
			f.C, f.T = values[0]-step*slots[0].chunk, append(slices.Clone(f.T), loops.Term{V: chunk, K: step})
			continue
		}
		key := fmt.Sprint(values)
		v := known[key]
		if v == nil {
			v = &loops.Variable{Name: "place"}
			known[key] = v
			ph.Vars = append(ph.Vars, v)
			for i, w := range slots {
				w.Args[v] = values[i]
			}
		}
		f.C, f.T = 0, append(slices.Clone(f.T), loops.Term{V: v, K: 1})
	}
}

// byChunk fits the values of the slots to a linear function of their chunks.
func byChunk(values []int, slots []*slotWork) (step int, ok bool) {
	for i, w := range slots {
		if d := w.chunk - slots[0].chunk; d != 0 {
			step = (values[i] - values[0]) / d
		}
	}
	for i, w := range slots {
		if values[i] != values[0]+step*(w.chunk-slots[0].chunk) {
			return 0, false
		}
	}
	return step, true
}

// unifyReferences replaces parameters that differ between slots by stand-ins. It returns false if other items differ.
func (k *Plan) unifyReferences(ph *Phase, slots []*slotWork, shapes []*loops.Shape) bool {
	stands := map[string]*loops.Item{}
	for x, r := range shapes[0].Refs {
		key := ""
		same := true
		for i := range slots {
			other := shapes[i].Refs[x].Item
			key += fmt.Sprint(other.Param, " ")
			same = same && other == r.Item
			if other.Param == 0 && other != r.Item {
				return false
			}
		}
		if same {
			continue
		}
		if stands[key] == nil {
			stands[key] = &loops.Item{Typ: r.Item.Typ, Param: r.Item.Param}
			k.inputs[stands[key]] = k.inputs[r.Item]
			ph.Refs = append(ph.Refs, stands[key])
			for i, w := range slots {
				w.Refs = append(w.Refs, shapes[i].Refs[x].Item)
			}
		}
		r.Item = stands[key]
	}
	return true
}
