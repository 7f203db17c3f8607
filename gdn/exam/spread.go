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

// norm is what poisoned keys are multiplied by: enough for chunks of a few keys of norm 1 to overflow.
const norm = 11

// Spread says what the longest of the packed sequences of a sheet changes of the others where it is poisoned: NaN in some elements of each of
// its inputs, or keys eleven times as long. It is empty where every other output is equal to the bit. Gradients of parameters, which are sums
// over all sequences, and states within them are left out, and so are specs whose states lie in a pool.
func (x *Sheet) Spread(program Program) (string, error) {
	s := x.Spec
	if s.Seqs < 2 || s.Pool > 0 {
		return "", nil
	}
	want, err := program(x.Inputs)
	if err != nil {
		return "", err
	}
	victim := x.longest()
	for _, kind := range []string{"NaN", "long keys"} {
		inputs := map[string]*array.Array{}
		for _, p := range s.Inputs() {
			in := x.Inputs[p.Name]
			inputs[p.Name] = in
			of := x.sequence(p)
			if of == nil || kind != "NaN" && (p.Name != "k" || s.L2Norm) {
				continue
			}
			values := in.Float64s()
			n := 0
			for i := range values {
				if of(i) != victim {
					continue
				}
				switch n++; {
				case kind != "NaN":
					values[i] *= norm
				case n%61 == 7 || n == 1:
					values[i] = math.NaN()
				}
			}
			inputs[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, values)
		}
		got, err := program(inputs)
		if err != nil {
			return "", err
		}
		for _, p := range s.Outputs() {
			of := x.sequence(p)
			if of == nil {
				continue
			}
			width := p.Type.DType.Bytes()
			for i := range len(want[p.Name].Data) / width {
				if a, b := want[p.Name].Data[i*width:][:width], got[p.Name].Data[i*width:][:width]; of(i) != victim && !bytes.Equal(a, b) {
					return fmt.Sprintf("%s in sequence %d changes %s of sequence %d from %v to %v", kind, victim, p.Name, of(i),
						want[p.Name].Float64s()[i], got[p.Name].Float64s()[i]), nil
				}
			}
		}
	}
	return "", nil
}

// sequence says which packed sequence an element of a tensor belongs to; it is nil for one that belongs to all.
func (x *Sheet) sequence(p gdn.Param) func(i int) int {
	switch strings.TrimPrefix(p.Name, "d") {
	case "A_log", "t_bias", "dt_bias", "cu_seqlens", "states": // dt_bias has lost its d
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
