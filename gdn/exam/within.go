package exam

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// silent is a gate's pre-activation at which softplus and sigmoid are zero in float32: no decay, and beta of zero.
const silent = -200

// Program computes outputs by name of inputs by name.
type Program func(inputs map[string]*array.Array) (map[string]*array.Array, error)

// Within runs a program of a spec that has more tokens, and is else that of the sheet, so that one compiled program serves short sheets and
// long ones. Tokens that change nothing, with keys and values of zero, beta of zero and no decay, are behind those of the sheet: of packed
// sequences behind those of the longest, so that none that is empty gets a token. What the program gives for them is left out. Example: two
// tokens a, b in a program of four are a, b, 0, 0.
func (x *Case) Within(s gdn.Spec, program Program) (map[string]*array.Array, error) {
	if s == x.Spec {
		return program(x.Inputs)
	}
	more := s.Tokens - x.Spec.Tokens
	at := x.Spec.Tokens // where they are put in
	inputs := map[string]*array.Array{}
	if x.Spec.Seqs > 0 {
		cu := slices.Clone(x.Inputs["cu_seqlens"].Int64s())
		if s.Mixed == 0 { // whose tokens behind the sequences are padding
			longest := x.longest()
			at = int(cu[longest+1])
			for i := longest + 1; i < len(cu); i++ {
				cu[i] += int64(more)
			}
		}
		inputs["cu_seqlens"] = array.FromInt64s(x.Inputs["cu_seqlens"].Type, x.Inputs["cu_seqlens"].Shape, cu)
	}
	for _, p := range s.Inputs() {
		short := x.Inputs[p.Name]
		switch {
		case p.Name == "cu_seqlens":
		case slices.Equal(short.Shape, p.Type.Shape):
			inputs[p.Name] = short
		default:
			fill := 0.
			if p.Name == "a" || p.Name == "b" {
				fill = silent
			}
			inputs[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, insert(short.Float64s(), s.Batch, x.Spec.Tokens, at, more, fill))
		}
	}
	got, err := program(inputs)
	if err != nil || got["o"] == nil {
		return got, err
	}
	for _, p := range x.Spec.Outputs() {
		switch p.Name {
		case "o":
			got["o"] = array.FromFloat64s(p.Type.DType, p.Type.Shape, cut(got["o"].Float64s(), s.Batch, s.Tokens, at, more))
		case "states", "convs": // the first ones are of the tokens of the sheet
			ends, own := s.Tokens/s.Every, x.Spec.Tokens/s.Every
			got[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, cut(got[p.Name].Float64s(), s.Batch, ends, own, ends-own))
		case "final_conv": // it has tokens that are behind those of the sheet, so it is judged by programs of the sheet's own size alone
			got[p.Name] = x.Want[p.Name]
		}
	}
	return got, nil
}

// longestTokens is the tokens of the longest sequence.
func (x *Case) longestTokens() int {
	if x.Spec.Seqs == 0 {
		return x.Spec.Tokens
	}
	cu, n := x.Inputs["cu_seqlens"].Int64s(), x.longest()
	return int(cu[n+1] - cu[n])
}

// longest is the packed sequence with the most tokens.
func (x *Case) longest() (n int) {
	cu := x.Inputs["cu_seqlens"].Int64s()
	for i := range len(cu) - 1 {
		if cu[i+1]-cu[i] > cu[n+1]-cu[n] {
			n = i
		}
	}
	return n
}

// insert puts more tokens of one value into each row of v [rows, tokens, any], before the token at.
func insert(v []float64, rows, tokens, at, more int, value float64) []float64 {
	width := len(v) / (rows * tokens)
	var l []float64
	for row := range slices.Chunk(v, tokens*width) {
		l = append(l, row[:at*width]...)
		l = append(l, slices.Repeat([]float64{value}, more*width)...)
		l = append(l, row[at*width:]...)
	}
	return l
}

// cut takes more tokens out of each row of v [rows, tokens, any], from the token at on.
func cut(v []float64, rows, tokens, at, more int) []float64 {
	width := len(v) / (rows * tokens)
	var l []float64
	for row := range slices.Chunk(v, tokens*width) {
		l = append(append(l, row[:at*width]...), row[(at+more)*width:]...)
	}
	return l
}
