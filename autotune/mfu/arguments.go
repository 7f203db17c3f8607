package mfu

import (
	"math"
	"math/rand/v2"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Arguments returns arguments for timing a training module, where values do not matter: small negative numbers, which
// are valid log decays and keep every rule, norm and loss bounded. Integers are 0, a valid index of anything.
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
