package truth

import (
	"maps"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// SplitQKV returns the inputs of s.ByHeads: separate q, k and v with an axis of heads, from any row layout of s.
func SplitQKV(s gdn.Spec, inputs map[string]*array.Array) map[string]*array.Array {
	if s.Rows == gdn.RowsHeads {
		return inputs
	}
	out := maps.Clone(inputs)
	for _, p := range s.ByHeads().Inputs() {
		if x := out[p.Name]; x != nil {
			out[p.Name] = &array.Array{Type: x.Type, Shape: p.Type.Shape, Data: x.Data}
		}
	}
	if whole := inputs["qkv"]; whole != nil {
		delete(out, "qkv")
		parts := s.Slices()
		values, width := whole.Float64s(), parts[len(parts)-1].To
		for _, p := range parts {
			part := make([]float64, 0, p.Type.Size())
			for row := 0; row < len(values); row += width {
				part = append(part, values[row+p.From:row+p.To]...)
			}
			out[p.Name] = array.FromFloat64s(whole.Type, p.Type.Shape, part)
		}
	}
	return out
}

// project adds qkv to drawn values of q, k and v if the spec has it.
func project(s gdn.Spec, values map[string][]float64) {
	if s.Rows != gdn.RowsQKV {
		return
	}
	parts := s.Slices()
	width := parts[len(parts)-1].To
	whole := make([]float64, s.Batch*s.Tokens*width)
	for _, p := range parts {
		n := p.To - p.From
		for i := range s.Batch * s.Tokens {
			copy(whole[i*width+p.From:], values[p.Name][i*n:][:n])
		}
	}
	values["qkv"] = whole
}
