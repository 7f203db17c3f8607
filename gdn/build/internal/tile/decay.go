package tile

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// The decay of a chunk. With g_t the log decay of token t and G_t = g_1 + ... + g_t, the rule has three weights:
//
//	exp(G_i - G_j)   the write of token j, as token i reads it: the matrix D of [C, C], lower triangular (Between)
//	exp(G_i)         the state before the chunk, as token i reads it          (Sum)
//	exp(G_C - G_j)   the write of token j, in the state after the chunk       (Tail)
//
// All three are exponentials of a difference, never quotients of exponentials: exp(G_j) of a chunk of strong decays is zero in float32, and
// its inverse infinite, where exp(G_i - G_j) of two neighbours is an ordinary number.
//
// A difference has an absolute error: float32 sums of size 1000 are known to 6e-5, and so are their differences, however small;
// exp turns this into a relative error of the same size. Hence the forms of axis decay. clamp sums in float32. split sums a coarse part,
// a multiple of 1/256, exactly, and the rest, below 1 a chunk, separately. segment sums g from j + 1 to i for every pair, without
// cancellation, by a separate product. base2 counts in powers of 2, since TPUs have 2^x in hardware: its sums are products
// of bf16 parts with ones, accumulated in float32 by the MXU.

// ResetFloor is the lowest log decay that builders use.
const ResetFloor = gdn.ResetFloor

// coarse is the unit of the coarse part of a split decay: its sums over a chunk are exact in float32, and sums of the
// rest are below 1.
//
// With g >= -40 the coarse parts of C tokens sum to at most 40 * 256 C steps, 1.3e6 for C = 128, and float32 has every integer up to 1.6e7.
const coarse = 1.0 / 256

// Sums are the sums of the log decays of N entries, each [N, C] f32, in the base of the variant.
type Sums struct {
	Log   *ir.Value   // the log decay, clamped if the variant says so
	Parts []*ir.Value // inclusive prefix sums of the parts that it is split into
	Sum   *ir.Value   // inclusive prefix sums
	Tail  *ir.Value   // the sum after each token
}

// SumsOf sums a log decay by products with triangles of ones; suffixes are summed separately, so nothing cancels.
//
//	Sum  = g U,  U[j, i] = 1 for j <= i      C = 3, g = [-1 -2 -3]:  Sum  = [-1 -3 -6]
//	Left = g L,  L[j, i] = 1 for j > i                               Left = [-5 -3  0]
//
// Log decays are clamped to ResetFloor. A reset is -1e4 in some models, -Inf in others, and in a sum it would leave later tokens three
// digits or none after the point; exp(-40) is as good as zero next to values that are kept.
func (e *Body) SumsOf(g *ir.Value) Sums {
	b, c := e.B, e.C
	g = b.Max(g, b.Like(g, ResetFloor))
	if e.V.Decay == gdn.DecayBase2 {
		return e.base2Sums(g)
	}
	times := func(g *ir.Value, cmp ir.Cmp) *ir.Value {
		t := ir.T(ir.F32, c, c)
		ones := b.Select(b.Compare(cmp, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0)).Called("ones")
		return b.MatMul(g, ones, false, false, ir.PrecF32)
	}
	s := Sums{Log: g}
	parts := []*ir.Value{g}
	if e.V.Decay == gdn.DecaySplit {
		// Truncated: g = -1.7 is -435 steps, -1.69921875, and a rest of -.00078125, which has the sign of g.
		steps := b.Convert(b.Convert(b.Scale(g, 1/coarse), ir.I32), ir.F32)
		most := b.Scale(steps, coarse)
		parts = []*ir.Value{most, b.Sub(g, most)}
	}
	for _, part := range parts {
		part = times(part, ir.LE)
		s.Parts = append(s.Parts, part)
		s.Sum = e.added(s.Sum, part)
	}
	s.Tail = times(g, ir.GT)
	return s
}

// base2Sums returns the sums of g log2(e), as products of bf16 parts of g with a triangle of ones: two parts, or for precisions above bf16x1
// the three that make up a float32. Tail is the last sum minus each one: this cancels, but no worse than the differences in D,
// and saves a second product.
func (e *Body) base2Sums(g *ir.Value) Sums {
	b, c := e.B, e.C
	s := Sums{Log: b.Scale(g, math.Log2E).Called("g")}
	t := ir.T(ir.BF16, c, c)
	ones := b.Select(b.Compare(ir.LE, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0)).Called("ones")
	for i, part := range e.Split(s.Log, e.sumParts()) {
		s.Sum = e.added(s.Sum, b.MatMul(part, ones, false, false, ir.PrecBF16x1).Called("sum_"+partName(i, e.sumParts())))
	}
	s.Parts = []*ir.Value{s.Sum.Called("g_sum")}
	s.Tail = b.Sub(b.Broadcast(b.SliceAxis(s.Sum, 1, c-1, c), s.Sum.Type.Shape, 0, 1), s.Sum).Called("g_rest")
	return s
}

// partName returns the name of the i-th of n parts of a value.
func partName(i, n int) string {
	switch i {
	case 0:
		return "high"
	case n - 1:
		return "low"
	}
	return "mid"
}

// added returns x + y; a nil x means zeros.
func (e *Body) added(x, y *ir.Value) *ir.Value {
	if x == nil {
		return y
	}
	return e.B.Add(x, y)
}

// Exp returns the exponential in the base of the sums; nil for nil.
func (e *Body) Exp(x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	if e.V.Decay == gdn.DecayBase2 {
		return e.B.Unary(ir.OpExp2, x)
	}
	return e.B.Exp(x)
}

// Log returns the logarithm in the base of the sums.
func (e *Body) Log(x *ir.Value) *ir.Value {
	if e.V.Decay == gdn.DecayBase2 {
		return e.B.Unary(ir.OpLog2, x)
	}
	return e.B.Unary(ir.OpLog, x)
}

// sumParts returns the number of bf16 parts of a log decay in sums.
func (e *Body) sumParts() int {
	if e.V.Precision() == ir.PrecBF16x1 {
		return 2
	}
	return 3
}

// Alive zeroes the gradient of log decays g, in the base of the variant, below the floor. Nothing before such a token
// survives it, and rounding errors in the sums would be multiplied by the log decay itself for raw gates.
//
// The error was 5e-4 in dA_log, for a log decay of -1e4. The comparison has a margin, since scaling to base 2 rounds values at the floor.
func (e *Body) Alive(g, dg *ir.Value) *ir.Value {
	b, floor := e.B, float64(ResetFloor)
	if e.V.Decay == gdn.DecayBase2 {
		floor *= math.Log2E
	}
	return b.Select(b.Compare(ir.GT, g, b.Like(g, floor*(1-1e-6))), dg, b.Like(dg, 0)).Called("dg")
}

// DecayGradient returns, at token t, the sum of after from t on, plus the sum of before for tokens before t, plus rest [N].
//
// g_t is in G_i of every i >= t, so the derivative by G_i counts for each g_t up to i: a sum of suffixes. A token's decay to the chunk's end
// (Tail) includes g_t for the tokens before t: a sum of prefixes without t itself. The decay of the state over the whole chunk
// includes every g_t: the rest.
//
//	dg_t = sum_{i>=t} after_i + sum_{j<t} before_j + rest
//	C = 3:   dg = [a0+a1+a2   a1+a2+b0   a2+b0+b1] + rest
func (e *Body) DecayGradient(after, before, rest *ir.Value) *ir.Value {
	b, c := e.B, e.C
	times := func(x *ir.Value, cmp ir.Cmp, name string) *ir.Value {
		t, p := ir.F32, ir.PrecF32
		parts := []*ir.Value{x}
		if e.V.Decay == gdn.DecayBase2 {
			t, p, parts = ir.BF16, ir.PrecBF16x1, e.Split(x, 3)
		}
		ones := b.Select(b.Compare(cmp, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(ir.T(t, c, c), 1), b.Const(ir.T(t, c, c), 0)).Called(name + "ones")
		var sum *ir.Value
		for i, part := range parts {
			sum = e.added(sum, b.MatMul(part, ones, false, false, p).Called(name+partName(i, len(parts))))
		}
		return sum.Called(name + "sum")
	}
	return b.Add(b.Add(times(after, ir.GE, "after_"), times(before, ir.LT, "before_")).Called("sums"), b.Broadcast(rest, after.Type.Shape, 0)).Called("sums")
}
