package plan

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
)

// Segment is the part of a phase that belongs to one stage.
type Segment struct {
	Stage   string
	Nodes   []*loops.Node
	Reads   []*loops.Item // made by earlier stages
	Results []*loops.Item // read by later stages
}

// Segments splits the nodes of a phase by stage, and finds the values that pass between stages.
func Segments(nodes []*loops.Node) []*Segment {
	var out []*Segment
	for i, n := range nodes {
		if i == 0 || n.Stage != nodes[i-1].Stage {
			out = append(out, &Segment{Stage: n.Stage})
		}
		s := out[len(out)-1]
		s.Nodes = append(s.Nodes, n)
	}
	made := map[*loops.Item]*Segment{}
	for _, s := range out {
		for _, n := range s.Nodes {
			loops.EachRef(n, func(r *loops.Ref) {
				x := r.Item
				for made[x] == nil && x.In != nil { // made with a list
					x = x.In
				}
				s.read(x, made[x])
			})
		}
		for _, n := range s.Nodes {
			for _, d := range n.Defs {
				made[d] = s
			}
		}
	}
	return out
}

// read records that a segment reads a value of another.
func (s *Segment) read(x *loops.Item, maker *Segment) {
	if maker == nil || maker == s || loops.IsCast(x) {
		return
	}
	if !slices.Contains(s.Reads, x) {
		s.Reads = append(s.Reads, x)
	}
	if !slices.Contains(maker.Results, x) {
		maker.Results = append(maker.Results, x)
	}
}

// Outside returns the values made before the steps that phases read.
func (k *Plan) Outside() []*loops.Item {
	var out []*loops.Item
	for _, ph := range k.Phases {
		for _, n := range ph.Nodes {
			loops.EachRef(n, func(r *loops.Ref) {
				if x := r.Item; x.Param == 0 && x.Maker != nil && slices.Contains(k.Prologue, x.Maker) && !slices.Contains(out, x) {
					out = append(out, x)
				}
			})
		}
	}
	return out
}
