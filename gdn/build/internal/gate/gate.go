// Package gate has what raw inputs become before the rule: gates, and queries and keys of length 1; and the gradients.
//
// A projection gives a, b, q and k; the layer has A_log and dt_bias. With x = a + dt_bias and r = exp(A_log),
//
//	g    = -r softplus(x)           or, with a bound below 0,  g = bound sigmoid(r x)
//	beta = top sigmoid(b)           top is 2 with negative eigenvalues, else 1
//	k    = k / sqrt(k.k + eps)      and q likewise, times the scale of q
//
// Each gradient takes what the rule says of the left side to the names on the right:
//
//	da    = -dg r sigmoid(x)        or  dg bound p (1 - p) r, with p = sigmoid(r x)
//	dlogA = dg g                    or  da x, since r x depends on A_log as on x, by x in place of r
//	db    = dbeta beta (1 - beta / top)
//	dk    = (dy - y (y.dy)) / sqrt(k.k + eps)      for y, the row of length 1: what is along y would change its length alone
//
// All is in float32, whatever the inputs: g is summed over a chunk, and errors of a bf16 would be summed with it.
package gate

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Decay returns the log decay in float32: -exp(A_log) softplus(a + dt_bias), or with a bound below 0 bound
// sigmoid(exp(A_log) (a + dt_bias)). Above SoftplusLimit, log(1 + e^x) equals x in float32. The operand of exp is
// clamped to the limit as well, since select computes both of its operands and exp would overflow.
func Decay(b *ir.Builder, a, aLog, dt *ir.Value, bound float64) *ir.Value {
	x := b.Add(a, dt)
	if bound != 0 {
		return b.Scale(b.Unary(ir.OpLogistic, b.Mul(b.Exp(aLog), x)), bound)
	}
	limit := b.Like(x, gdn.SoftplusLimit)
	soft := b.Unary(ir.OpLog1p, b.Exp(b.Min(x, limit)))
	return b.Neg(b.Mul(b.Exp(aLog), b.Select(b.Compare(ir.GT, x, limit), x, soft)))
}

// mostLog is the most an A_log counts for: times 0 its exponential must be 0, not NaN, and what a chunk sums of it must be finite.
const mostLog = 64

// Held clamps A_log to mostLog and adds the excess to dt_bias, so that decay and gradients stay those of the given
// A_log. For x far below 0, exp(A) softplus(x) equals exp(A + x); for other x the decay is 0 either way. With a bound
// the sigmoid is saturated, and dt_bias is returned unchanged.
func Held(b *ir.Builder, aLog, dt *ir.Value, bound float64) (log, bias *ir.Value) {
	log = b.Min(aLog, b.Like(aLog, mostLog))
	if bound != 0 {
		return log, dt
	}
	return log, b.Add(dt, b.Sub(aLog, log))
}

// Beta returns sigmoid(x), times 2 if double (negative eigenvalues).
func Beta(b *ir.Builder, x *ir.Value, double bool) *ir.Value {
	beta := b.Unary(ir.OpLogistic, x)
	if double {
		beta = b.Scale(beta, 2)
	}
	return beta
}

// NormRows scales each row of lanes to length 1, in float32.
func NormRows(b *ir.Builder, x *ir.Value) *ir.Value { return ScaleRows(b, x, 1) }

// ScaleRows scales each row of lanes of x to the given length, in float32.
func ScaleRows(b *ir.Builder, x *ir.Value, length float64) *ir.Value {
	x = b.Convert(x, ir.F32)
	r := factor(b, b.Unary(ir.OpRsqrt, Squares(b, x)), length)
	return b.Mul(x, overLanes(b, r, x))
}

func factor(b *ir.Builder, r *ir.Value, length float64) *ir.Value {
	if length == 1 {
		return r
	}
	return b.Scale(r, length)
}

// overLanes spreads a number of each row of x over its lanes.
func overLanes(b *ir.Builder, r, x *ir.Value) *ir.Value {
	dims := make([]int, x.Type.Rank()-1)
	for i := range dims {
		dims[i] = i
	}
	return b.Broadcast(r, x.Type.Shape, dims...)
}

// Squares returns the sum of the squares of each row of lanes, in float32, plus gdn.L2Eps, so that rows of zeros do not
// have length 0.
func Squares(b *ir.Builder, x *ir.Value) *ir.Value {
	x = b.Convert(x, ir.F32)
	sum := b.Sum(b.Mul(x, x), x.Type.Rank()-1)
	return b.Add(sum, b.Like(sum, gdn.L2Eps))
}

// DecayGradient returns the gradients of a and of A_log from dg, the gradient of the log decay. dLog is per element of
// dg; the caller sums it.
func DecayGradient(b *ir.Builder, dg, a, aLog, dt *ir.Value, bound float64) (da, dLog *ir.Value) {
	x, rate := b.Add(a, dt), b.Exp(aLog)
	if bound == 0 {
		slope := b.Unary(ir.OpLogistic, x) // 1 above the limit of softplus
		return b.Neg(b.Mul(b.Mul(dg, rate), slope)), b.Mul(dg, Decay(b, a, aLog, dt, 0))
	}
	p := b.Unary(ir.OpLogistic, b.Mul(rate, x))
	slope := b.Mul(b.Scale(p, bound), b.Sub(b.Like(p, 1), p)) // 0 of a gate that is saturated, whatever its rate
	da = b.Mul(dg, b.Mul(rate, slope))
	return da, b.Mul(da, x)
}

// ChannelGradient is DecayGradient for a caller that has g, the log decay times base. With p = sigmoid(r x), a bounded
// log decay is bound p, and its slope is that times 1 - p. So no sigmoid is computed again: decays of channels are K
// times as many as decays of heads, and the transcendental unit is busy with them. With g' = base bound p the slope is
// g' (base bound - g') r / (bound base^2). The difference is exactly 0 where p is 1.
func ChannelGradient(b *ir.Builder, dg, g, a, aLog, dt *ir.Value, bound, base float64) (da, dLog *ir.Value) {
	if bound == 0 {
		return DecayGradient(b, dg, a, aLog, dt, 0)
	}
	rate := b.Exp(aLog)
	slope := b.Mul(g, b.Mul(b.Sub(b.Like(g, base*bound), g), b.Scale(rate, 1/(bound*base*base))))
	da = b.Mul(dg, slope)
	return da, b.Mul(da, b.Add(a, dt))
}

// NormRowsGradient returns the gradient of x from dy, the gradient of NormRows(x), in float32.
func NormRowsGradient(b *ir.Builder, x, dy *ir.Value) *ir.Value {
	x, dy = b.Convert(x, ir.F32), b.Convert(dy, ir.F32)
	r := b.Unary(ir.OpRsqrt, Squares(b, x))
	along := b.Mul(b.Mul(b.Sum(b.Mul(x, dy), x.Type.Rank()-1), r), b.Mul(r, r))
	return b.Sub(b.Mul(dy, overLanes(b, r, x)), b.Mul(x, overLanes(b, along, x)))
}

// ScaleRowsGradient returns the gradient of x from dy, the gradient of y = ScaleRows(x, length). Unlike
// NormRowsGradient it takes y, and reads x only for its length: y (y.dy) / length^2 equals x (x.dy) / (x.x + eps).
func ScaleRowsGradient(b *ir.Builder, x, y, dy *ir.Value, length float64) *ir.Value {
	r := factor(b, b.Unary(ir.OpRsqrt, Squares(b, x)), length)
	along := factor(b, b.Sum(b.Mul(y, dy), y.Type.Rank()-1), 1/(length*length))
	return b.Mul(b.Sub(dy, b.Mul(y, overLanes(b, along, y))), overLanes(b, r, y))
}

// LengthGradient returns the gradient of x from dx, a gradient computed with 1/|x| held constant: it removes the
// component of dx along x.
func LengthGradient(b *ir.Builder, x, dx *ir.Value) *ir.Value {
	x, dx = b.Convert(x, ir.F32), b.Convert(dx, ir.F32)
	along := b.Div(b.Sum(b.Mul(x, dx), x.Type.Rank()-1), Squares(b, x))
	return b.Sub(dx, b.Mul(x, overLanes(b, along, x)))
}

// BetaGradient returns the gradient of beta's raw form from d, the gradient of beta = top sigmoid(raw).
func BetaGradient(b *ir.Builder, beta, d *ir.Value, top float64) *ir.Value {
	return b.Mul(b.Mul(d, beta), b.Sub(b.Like(beta, 1), b.Scale(beta, 1/top)))
}

// RawBetaGradient is BetaGradient for a caller that has the raw form and not beta.
func RawBetaGradient(b *ir.Builder, raw, dbeta *ir.Value, double bool) *ir.Value {
	beta := b.Unary(ir.OpLogistic, raw)
	db := b.Mul(b.Mul(dbeta, beta), b.Sub(b.Like(beta, 1), beta))
	if double {
		db = b.Scale(db, 2)
	}
	return db
}

// RawGradients returns the gradients of A_log [H], a [..., H], dt_bias [H] and b [..., H], from dg and dbeta [..., H],
// the gradients of the log decay -exp(A_log) softplus(a + dt_bias) and of beta. args has the four inputs by these
// names.
func RawGradients(b *ir.Builder, args map[string]*ir.Value, dg, dbeta *ir.Value, double bool, dtype ir.DType) []*ir.Value {
	last := dg.Type.Rank() - 1
	lead := make([]int, last)
	for i := range lead {
		lead[i] = i
	}
	overHeads := func(x *ir.Value) *ir.Value { return b.Broadcast(x, dg.Type.Shape, last) }
	a, raw := b.Convert(args["a"], ir.F32), b.Convert(args["b"], ir.F32)
	aLog, bias := Held(b, overHeads(args["A_log"]), overHeads(args["dt_bias"]), 0)
	x := b.Add(a, bias)
	slope := b.Select(b.Compare(ir.GT, x, b.Like(x, gdn.SoftplusLimit)), b.Like(x, 1), b.Unary(ir.OpLogistic, x))
	da := b.Neg(b.Mul(b.Mul(dg, b.Exp(aLog)), slope))
	db := RawBetaGradient(b, raw, dbeta, double)
	dLog := b.Sum(b.Mul(dg, Decay(b, a, aLog, bias, 0)), lead...)
	return []*ir.Value{dLog, b.Convert(da, dtype), b.Sum(da, lead...), b.Convert(db, dtype)}
}
