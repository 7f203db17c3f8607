package mosaic

import "github.com/gdngen/gdngen/ir"

// span is known of an i32 scalar x: x is a multiple of mult (0: x is 0), and lo <= x <= hi if bounded.
type span struct {
	mult    int
	bounded bool
	lo, hi  int
}

// facts are the known spans of scalars.
type facts map[*ir.Value]span

func exactly(c int) span      { return span{max(c, -c), true, c, c} }
func between(lo, hi int) span { return span{1, true, lo, hi} }

func (f facts) of(v *ir.Value) span {
	if s, ok := f[v]; ok {
		return s
	}
	return span{mult: 1}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (x span) plus(y span) span {
	return span{gcd(x.mult, y.mult), x.bounded && y.bounded, x.lo + y.lo, x.hi + y.hi}
}

func (x span) times(y span) span {
	a, b, c, d := x.lo*y.lo, x.lo*y.hi, x.hi*y.lo, x.hi*y.hi
	return span{x.mult * y.mult, x.bounded && y.bounded, min(a, b, c, d), max(a, b, c, d)}
}

// add records the span of an instruction's result.
func (f facts) add(in *ir.Instr) {
	if len(in.Results) != 1 || !in.Result().Type.Equal(ir.T(ir.I32)) {
		return
	}
	if in.Op == ir.OpConst {
		f[in.Result()] = exactly(int(in.Attrs.Value))
		return
	}
	if len(in.Args) != 2 {
		return
	}
	x, y := f.of(in.Args[0]), f.of(in.Args[1])
	var s span
	switch in.Op {
	case ir.OpAdd:
		s = x.plus(y)
	case ir.OpSub:
		s = x.plus(exactly(-1).times(y))
	case ir.OpMul:
		s = x.times(y)
	case ir.OpMin:
		s = span{gcd(x.mult, y.mult), x.bounded && y.bounded, min(x.lo, y.lo), min(x.hi, y.hi)}
	case ir.OpMax:
		s = span{gcd(x.mult, y.mult), x.bounded && y.bounded, max(x.lo, y.lo), max(x.hi, y.hi)}
	case ir.OpAnd:
		if y.bounded && y.lo == y.hi && y.lo >= 0 {
			s = between(0, y.hi)
		}
	}
	const limit = 1 << 31
	if s.lo <= -limit || s.hi >= limit {
		s.bounded = false
	}
	if s.mult > 0 && s.mult < limit || s.bounded {
		f[in.Result()] = s
	}
}
