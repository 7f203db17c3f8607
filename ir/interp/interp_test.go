package interp

import (
	"math/rand/v2"
	"testing"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/stretchr/testify/require"
)

func TestEveryOpHasARule(t *testing.T) {
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		require.NotNil(t, rules[op], op.String())
	}
}

// random makes normal numbers.
func random(r *rand.Rand, d ir.DType, shape ...int) *array.Array {
	v := make([]float64, ir.T(d, shape...).Size())
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return array.FromFloat64s(d, shape, v)
}

// build makes a module with results r0, r1, ... of the values that f returns.
func build(t testing.TB, f func(b *ir.Builder) []*ir.Value) *ir.Module {
	m, b := ir.NewModule("test")
	out := f(b)
	names := make([]string, len(out))
	for i := range names {
		names[i] = "r" + string(rune('0'+i))
	}
	require.NoError(t, b.Finish(m, names, out))
	return m
}

func run(t testing.TB, m *ir.Module, args map[string]*array.Array) map[string]*array.Array {
	out, err := Run(m, args, Options{})
	require.NoError(t, err, m.String())
	return out
}

func BenchmarkDot128(b *testing.B) {
	m := build(b, func(b *ir.Builder) []*ir.Value {
		x, y := b.Param("x", ir.T(ir.F32, 128, 128)), b.Param("y", ir.T(ir.F32, 128, 128))
		return []*ir.Value{b.MatMul(x, y, false, false, ir.PrecF32)}
	})
	r := rand.New(rand.NewPCG(1, 2))
	args := map[string]*array.Array{"x": random(r, ir.F32, 128, 128), "y": random(r, ir.F32, 128, 128)}
	for b.Loop() {
		run(b, m, args)
	}
}
