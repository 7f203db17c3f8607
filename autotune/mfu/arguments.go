package mfu

import (
	"math"
	"math/rand/v2"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Arguments makes arguments for a run of a training module whose numbers do not matter: small negative numbers,
// which are valid log decays and let no rule, norm or loss grow. Integers are 0, a valid index of anything.
func Arguments(m *ir.Module) (args []*array.Array) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, p := range m.Params() {
		if p.Type.DType == ir.I32 {
			args = append(args, array.New(p.Type.DType, p.Type.Shape...))
			continue
		}
		l := make([]float64, p.Type.Size())
		for i := range l {
			l[i] = -.05 * math.Abs(draw.NormFloat64())
		}
		args = append(args, array.FromFloat64s(p.Type.DType, p.Type.Shape, l))
	}
	return args
}
