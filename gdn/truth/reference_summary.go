package truth

import (
	"maps"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// ReferenceSummary is the summary in float64, token by token; inputs are those of s.SummaryInputs. Results have element type F64.
func ReferenceSummary(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	wide := s.Summarized()
	all := maps.Clone(inputs)
	for _, p := range wide.Inputs() {
		switch p.Name {
		case "q":
			all["q"] = array.New(p.Type.DType, p.Type.Shape...)
		case "v", "write", "w": // what weighs a zero says nothing
			if v := inputs[p.Name]; v != nil {
				all[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, columns(v.Float64s(), s.V, wide.V, s.K))
			}
		case "initial_state":
			eye := make([]float64, p.Type.Size())
			for i := range eye {
				if i%wide.V == i/wide.V%s.K {
					eye[i] = 1
				}
			}
			all["initial_state"] = array.FromFloat64s(ir.F32, p.Type.Shape, eye)
		}
	}
	made, err := Reference(wide, all)
	if err != nil {
		return nil, err
	}
	out, states := map[string]*array.Array{}, made["final_state"].Float64s()
	for _, p := range s.SummaryOutputs() {
		first, width := 0, s.K
		if p.Name == gdn.OffsetName {
			first, width = s.K, s.V
		}
		var l []float64
		for row := range slices.Chunk(states, wide.V) {
			l = append(l, row[first:first+width]...)
		}
		out[p.Name] = array.FromFloat64s(ir.F64, p.Type.Shape, l)
	}
	return out, nil
}

// columns puts rows of one width into rows of zeros of another, from a column on.
func columns(x []float64, width, into, at int) []float64 {
	var y []float64
	for row := range slices.Chunk(x, width) {
		wide := make([]float64, into)
		copy(wide[at:], row)
		y = append(y, wide...)
	}
	return y
}

// ReferenceStateGradient is D in float64; inputs are those of s.StateGradientInputs. The result has element type F64.
func ReferenceStateGradient(s gdn.Spec, inputs map[string]*array.Array) (*array.Array, error) {
	s = s.OfStateGradient()
	all := maps.Clone(inputs)
	for _, p := range s.Inputs() {
		if p.Name == "v" || p.Name == "initial_state" {
			all[p.Name] = array.New(p.Type.DType, p.Type.Shape...)
		}
	}
	made, err := Reference(s, all)
	return made["dinitial_state"], err
}
