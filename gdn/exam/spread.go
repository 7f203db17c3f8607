package exam

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// longer is the factor on poisoned keys: chunks of a few keys of norm 1 then overflow.
const longer = 11

// The ways to poison inputs.
const (
	withNaN      = "NaN"
	withLongKeys = "long keys"
)

// Spread poisons the longest packed sequence and returns the first change in another sequence's outputs, or "" if all are bit-identical. Poison is NaN
// in some elements of each input, or keys eleven times as long. Gradients of parameters (sums over all sequences) and states within sequences are not
// compared. For specs with a pool, Spread returns "" without a run. Errors are from the program.
func (x *Case) Spread(program Program) (string, error) {
	if x.Spec.Seqs < 2 || x.Spec.Pool > 0 {
		return "", nil
	}
	want, err := program(x.Inputs)
	if err != nil {
		return "", err
	}
	victim := x.longest()
	for _, kind := range []string{withNaN, withLongKeys} {
		got, err := program(x.poisoned(kind, victim))
		if err != nil {
			return "", err
		}
		if what := x.differs(want, got, victim); what != "" {
			return fmt.Sprintf("%s in sequence %d changes %s", kind, victim, what), nil
		}
	}
	return "", nil
}

// poisoned returns the inputs with one sequence poisoned.
func (x *Case) poisoned(kind string, victim int) map[string]*array.Array {
	inputs := map[string]*array.Array{}
	for _, p := range x.Spec.Inputs() {
		in := x.Inputs[p.Name]
		inputs[p.Name] = in
		of := x.sequence(p)
		if of == nil || kind == withLongKeys && (p.Name != "k" && p.Name != "qkv" || x.Spec.L2Norm) {
			continue
		}
		key := func(int) bool { return true }
		if p.Name == "qkv" {
			parts := x.Spec.Slices()
			width := parts[2].To
			key = func(i int) bool { return i%width >= parts[1].From && i%width < parts[1].To }
		}
		values := in.Float64s()
		n := 0
		for i := range values {
			if of(i) != victim || kind == withLongKeys && !key(i) {
				continue
			}
			switch n++; {
			case kind == withLongKeys:
				values[i] *= longer
			case n%61 == 7 || n == 1:
				values[i] = math.NaN()
			}
		}
		inputs[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, values)
	}
	return inputs
}

// differs describes the first bit difference in outputs of sequences other than victim; "" if there is none.
func (x *Case) differs(want, got map[string]*array.Array, victim int) string {
	for _, p := range x.Spec.Outputs() {
		of := x.sequence(p)
		if of == nil {
			continue
		}
		width := p.Type.DType.Bytes()
		for i := range len(want[p.Name].Data) / width {
			if a, b := want[p.Name].Data[i*width:][:width], got[p.Name].Data[i*width:][:width]; of(i) != victim && !bytes.Equal(a, b) {
				return fmt.Sprintf("%s of sequence %d from %v to %v", p.Name, of(i), want[p.Name].Float64s()[i], got[p.Name].Float64s()[i])
			}
		}
	}
	return ""
}

// sequence returns a function from elements of a tensor to packed sequences; nil if the tensor belongs to all sequences.
func (x *Case) sequence(p gdn.Param) func(i int) int {
	name := p.Name
	if name != "dt_bias" { // its d is part of the name, not a gradient
		name = strings.TrimPrefix(name, "d")
	}
	switch name {
	case "A_log", "dt_bias", "cu_seqlens", "states":
		return nil
	case "initial_state", "final_state":
		each := p.Type.Size() / x.Spec.Seqs
		return func(i int) int { return i / each }
	}
	each, ends := p.Type.Size()/x.Spec.Tokens, x.Inputs["cu_seqlens"].Int64s()[1:]
	return func(i int) int {
		return slices.IndexFunc(ends, func(end int64) bool { return int64(i/each) < end })
	}
}
