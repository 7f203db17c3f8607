package mfu

import (
	"math"
	"math/rand/v2"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Arguments makes arguments of a module of a step, for runs whose numbers nobody reads: small numbers below zero, as a log decay is, which no
// rule, norm or loss lets grow. Whole numbers are 0, which is an index of anything.
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
