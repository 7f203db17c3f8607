package tile

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// ResetFloor is that of the log decay.
const ResetFloor = gdn.ResetFloor

// coarse is the step of the coarse part of a split decay: its sums over a chunk are exact in float32, and those of the
// rest are below 1.
const coarse = 1.0 / 256

// Sums are those of the log decays of N entries, each [N, C] f32, in the base of the variant.
type Sums struct {
	Log   *ir.Value   // the log decay, clamped where the variant says so
	Parts []*ir.Value // inclusive prefix sums of the parts that it is split into
	Sum   *ir.Value   // inclusive prefix sums
	Left  *ir.Value   // the sum after each token
}

// SumsOf sums a log decay by products with triangles of ones; a suffix is summed by itself, so nothing cancels.
func (e *Body) SumsOf(g *ir.Value) Sums {
	b, c := e.B, e.C
	if e.V.Decay != gdn.DecaySegment {
		g = b.Max(g, b.Like(g, ResetFloor))
	}
	if e.V.Decay == gdn.DecayBase2 {
		return e.base2Sums(g)
	}
	times := func(g *ir.Value, cmp ir.Cmp) *ir.Value {
		t := ir.T(ir.F32, c, c)
		ones := b.Select(b.Compare(cmp, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0))
		return b.MatMul(g, ones, false, false, ir.PrecF32)
	}
	s := Sums{Log: g}
	parts := []*ir.Value{g}
	if e.V.Decay == gdn.DecaySplit {
		steps := b.Convert(b.Convert(b.Scale(g, 1/coarse), ir.I32), ir.F32)
		most := b.Scale(steps, coarse)
		parts = []*ir.Value{most, b.Sub(g, most)}
	}
	for _, part := range parts {
		part = times(part, ir.LE)
		s.Parts = append(s.Parts, part)
		s.Sum = e.added(s.Sum, part)
	}
	s.Left = times(g, ir.GT)
	return s
}

// base2Sums are the sums of g log2(e), as bf16 parts of g by a triangle of ones: two, or the three that are all of a float32
// where the label is above bf16x1.
func (e *Body) base2Sums(g *ir.Value) Sums {
	b, c := e.B, e.C
	s := Sums{Log: b.Scale(g, math.Log2E)}
	t := ir.T(ir.BF16, c, c)
	ones := b.Select(b.Compare(ir.LE, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0))
	for _, part := range e.Split(s.Log, e.sumParts()) {
		s.Sum = e.added(s.Sum, b.MatMul(part, ones, false, false, ir.PrecBF16x1))
	}
	s.Parts = []*ir.Value{s.Sum}
	s.Left = b.Sub(b.Broadcast(b.SliceAxis(s.Sum, 1, c-1, c), s.Sum.Type.Shape, 0, 1), s.Sum)
	return s
}

// added is x + y, where x may be nil for zeros.
func (e *Body) added(x, y *ir.Value) *ir.Value {
	if x == nil {
		return y
	}
	return e.B.Add(x, y)
}

// Exp is the exponential in the base of the sums, nil where there are none.
func (e *Body) Exp(x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	if e.V.Decay == gdn.DecayBase2 {
		return e.B.Unary(ir.OpExp2, x)
	}
	return e.B.Exp(x)
}

// Log is the logarithm in the base of the sums.
func (e *Body) Log(x *ir.Value) *ir.Value {
	if e.V.Decay == gdn.DecayBase2 {
		return e.B.Unary(ir.OpLog2, x)
	}
	return e.B.Unary(ir.OpLog, x)
}

// sumParts is the number of bf16 parts of a log decay that sums take.
func (e *Body) sumParts() int {
	if e.V.Precision() == ir.PrecBF16x1 {
		return 2
	}
	return 3
}

// Alive clears the gradient of log decays g, in the base of the variant, below the floor: nothing that stands before such a token
// survives it, and what rounding leaves in the sums would be multiplied by the log decay itself on the way to raw gates.
func (e *Body) Alive(g, dg *ir.Value) *ir.Value {
	b, floor := e.B, float64(ResetFloor)
	if e.V.Decay == gdn.DecayBase2 {
		floor *= math.Log2E
	}
	return b.Select(b.Compare(ir.GT, g, b.Like(g, floor*(1-1e-6))), dg, b.Like(dg, 0))
}

// DecayGradient is, at token t, the sum of after from t on, that of before up to t and the rest [N] of the whole chunk.
func (e *Body) DecayGradient(after, before, rest *ir.Value) *ir.Value {
	b, c := e.B, e.C
	times := func(x *ir.Value, cmp ir.Cmp) *ir.Value {
		t, p := ir.F32, ir.PrecF32
		parts := []*ir.Value{x}
		if e.V.Decay == gdn.DecayBase2 {
			t, p, parts = ir.BF16, ir.PrecBF16x1, e.Split(x, 3)
		}
		ones := b.Select(b.Compare(cmp, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(ir.T(t, c, c), 1), b.Const(ir.T(t, c, c), 0))
		var sum *ir.Value
		for _, part := range parts {
			sum = e.added(sum, b.MatMul(part, ones, false, false, p))
		}
		return sum
	}
	return b.Add(b.Add(times(after, ir.GE), times(before, ir.LT)), b.Broadcast(rest, after.Type.Shape, 0))
}
