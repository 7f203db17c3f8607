package llo

import "math"

// A value is what a scalar or predicate register, or a word of scalar memory, is known to hold. It is one of
//
//	unknown             only a run on a device would tell (the zero value)
//	a number            32 bits, two's complement; predicates are 0 and 1
//	symbol << exp + num an address: a named allocation or operand, shifted, plus a known distance
//
// Every operation on an unknown is unknown unless its result does not depend on it, so that a known value is always right.
type value struct {
	num   int32
	sym   int16 // index of the symbol, 0 for a plain number
	exp   int8  // power of two that the symbol is scaled by
	known bool
}

// parameter is the symbol of the addresses of the module's parameters.
const parameter = math.MaxInt16

func number(n int32) value { return value{num: n, known: true} }

func truth(b bool) value {
	if b {
		return number(1)
	}
	return number(0)
}

// isNumber reports whether v is a plain number.
func (v value) isNumber() bool { return v.known && v.sym == 0 }

// add is the sum of two values; the sum of two addresses is unknown.
func (v value) add(w value) value {
	if !v.known || !w.known || v.sym != 0 && w.sym != 0 {
		return value{}
	}
	if v.sym == 0 {
		v, w = w, v
	}
	v.num += w.num
	return v
}

// sub is the difference of two values; two addresses with the same base have a distance.
func (v value) sub(w value) value {
	switch {
	case !v.known || !w.known:
		return value{}
	case w.sym == 0:
		v.num -= w.num
		return v
	case v.sym == w.sym && v.exp == w.exp:
		return number(v.num - w.num)
	}
	return value{}
}

// shift multiplies by a power of two, n < 0 divides; arith keeps the sign. An address is shifted as a whole, so that granule,
// byte and word addresses of one base stay comparable.
func (v value) shift(n int, arith bool) value {
	if !v.known {
		return value{}
	}
	num := v.num
	switch {
	case n >= 32:
		num = 0
	case n >= 0:
		num <<= n
	case v.sym != 0 && (n <= -32 || num&(1<<-n-1) != 0):
		return value{} // the bits of the base that fall off are not known
	case arith || v.sym != 0:
		num >>= min(-n, 31)
	case n <= -32:
		num = 0
	default:
		num = int32(uint32(num) >> -n)
	}
	if v.sym == 0 {
		return number(num)
	}
	exp := int(v.exp) + n
	if exp > math.MaxInt8 || exp < math.MinInt8 {
		return value{}
	}
	v.num, v.exp = num, int8(exp)
	return v
}

// comparable reports whether order and equality of the two values are known, which needs the same base.
func (v value) comparable(w value) bool {
	return v.known && w.known && v.sym == w.sym && v.exp == w.exp
}
