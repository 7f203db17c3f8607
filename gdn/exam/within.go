package exam

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// silent is a raw gate for which softplus and sigmoid are zero in float32: no decay, and beta 0.
const silent = -200

// Program computes outputs by name from inputs by name.
type Program func(inputs map[string]*array.Array) (map[string]*array.Array, error)

// Within runs the inputs of x in a program for spec s, which is x.Spec with more tokens, so that one compiled program
// serves short and long Cases. It appends padding tokens with zero k, v and beta and no decay; with packed sequences
// after the longest one, so that no empty sequence gets a token. Outputs of the padding are removed. Example: in a
// program of four tokens, a and b run as a, b, 0, 0.
func (x *Case) Within(s gdn.Spec, program Program) (map[string]*array.Array, error) {
	if s == x.Spec {
		return program(x.Inputs)
	}
	more := s.Tokens - x.Spec.Tokens
	at := x.Spec.Tokens // where padding is inserted
	inputs := map[string]*array.Array{}
	if x.Spec.Seqs > 0 {
		cu := slices.Clone(x.Inputs["cu_seqlens"].Int64s())
		if s.Mixed == 0 { // in a mixed batch, tokens after the sequences are padding already
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
		case "states", "convs": // the first ones belong to the tokens of the Case
			ends, own := s.Tokens/s.Every, x.Spec.Tokens/s.Every
			got[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, cut(got[p.Name].Float64s(), s.Batch, ends, own, ends-own))
		case "final_conv": // it holds padding tokens; only programs of the Case's own size can test it
			got[p.Name] = x.Want[p.Name]
		}
	}
	return got, nil
}

// longestTokens returns the token count of the longest sequence.
func (x *Case) longestTokens() int {
	if x.Spec.Seqs == 0 {
		return x.Spec.Tokens
	}
	cu, n := x.Inputs["cu_seqlens"].Int64s(), x.longest()
	return int(cu[n+1] - cu[n])
}

// longest returns the index of the packed sequence with the most tokens.
func (x *Case) longest() (n int) {
	cu := x.Inputs["cu_seqlens"].Int64s()
	for i := range len(cu) - 1 {
		if cu[i+1]-cu[i] > cu[n+1]-cu[n] {
			n = i
		}
	}
	return n
}

// insert inserts more tokens of one value into each row of v [rows, tokens, any], before token at.
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

// cut removes more tokens from each row of v [rows, tokens, any], starting at token at.
func cut(v []float64, rows, tokens, at, more int) []float64 {
	width := len(v) / (rows * tokens)
	var l []float64
	for row := range slices.Chunk(v, tokens*width) {
		l = append(append(l, row[:at*width]...), row[(at+more)*width:]...)
	}
	return l
}
