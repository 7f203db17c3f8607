package llo

import (
	"cmp"
	"math/bits"
	"strings"
)

// scalarOps is the table of the operations whose results the executor computes, keyed by the name before the first dot for those
// that come in several types. An operation that is not here leaves its destination unknown, which is no error until a branch asks.
var scalarOps = map[string]func(typ string, a []value) value{
	"smov":    func(_ string, a []value) value { return a[len(a)-1] },
	"pmov":    func(_ string, a []value) value { return a[len(a)-1] },
	"sadd":    binary(value.add),
	"ssub":    binary(value.sub),
	"smul":    arithmetic(func(x, y int32) int32 { return x * y }),
	"smulhi":  high,
	"sand":    arithmetic(func(x, y int32) int32 { return x & y }),
	"sor":     arithmetic(func(x, y int32) int32 { return x | y }),
	"sxor":    arithmetic(func(x, y int32) int32 { return x ^ y }),
	"sshll":   shifted(+1, false),
	"sshrl":   shifted(-1, false),
	"sshra":   shifted(-1, true),
	"smin":    extremum(func(less bool) bool { return less }),
	"smax":    extremum(func(less bool) bool { return !less }),
	"sdivrem": divide,
	"sclz":    unary(func(x uint32) uint32 { return uint32(bits.LeadingZeros32(x)) }),
	"spopcnt": unary(func(x uint32) uint32 { return uint32(bits.OnesCount32(x)) }),
	"sc": binary(func(x, y value) value { // carry of the sum
		if !x.isNumber() || !y.isNumber() {
			return value{}
		}
		_, carry := bits.Add32(uint32(x.num), uint32(y.num), 0)
		return number(int32(carry))
	}),
	"scmp": compare,
	"scalar_parameter_address": func(_ string, a []value) value {
		if !a[0].isNumber() {
			return value{}
		}
		return value{num: a[0].num, sym: parameter, known: true}
	},
	"scalar_lea":    sum,
	"scalar_select": choose,
	"pneg":          func(_ string, a []value) value { return not(a[0]) },
	"pnot":          func(_ string, a []value) value { return not(a[0]) },
	"pand":          func(_ string, a []value) value { return and(a) },
	"pnand":         func(_ string, a []value) value { return not(and(a)) },
	"por":           func(_ string, a []value) value { return or(a) },
	"pnor":          func(_ string, a []value) value { return not(or(a)) },
	"pxor":          arithmetic(func(x, y int32) int32 { return x ^ y }),
}

// arity is the least number of operands of an entry of scalarOps.
var arity = map[string]int{"smov": 1, "pmov": 1, "pneg": 1, "pnot": 1, "sclz": 1, "spopcnt": 1, "scalar_select": 3, "scalar_parameter_address": 1}

// divide is the quotient (kDiv) or the remainder (kRem) of unsigned numbers, or of signed ones that are not negative.
func divide(typ string, a []value) value {
	typ, kind, _ := strings.Cut(typ, ".")
	x, y := a[0], a[1]
	negative := x.num < 0 || y.num < 0
	switch {
	case !x.isNumber() || !y.isNumber() || y.num == 0, typ != "u32" && (typ != "s32" || negative):
		return value{}
	case kind == "kDiv":
		return number(int32(uint32(x.num) / uint32(y.num)))
	case kind == "kRem":
		return number(int32(uint32(x.num) % uint32(y.num)))
	}
	return value{}
}

// high is the upper word of a product.
func high(typ string, a []value) value {
	x, y := a[0], a[1]
	switch {
	case !x.isNumber() || !y.isNumber():
	case typ == "u32":
		return number(int32(uint64(uint32(x.num)) * uint64(uint32(y.num)) >> 32))
	case typ == "s32":
		return number(int32(int64(x.num) * int64(y.num) >> 32))
	}
	return value{}
}

func binary(f func(x, y value) value) func(string, []value) value {
	return func(typ string, a []value) value {
		if strings.HasPrefix(typ, "f") || strings.HasPrefix(typ, "bf") {
			return value{}
		}
		return f(a[0], a[1])
	}
}

func sum(_ string, a []value) value {
	total := number(0)
	for _, v := range a {
		total = total.add(v)
	}
	return total
}

func arithmetic(f func(x, y int32) int32) func(string, []value) value {
	return binary(func(x, y value) value {
		if !x.isNumber() || !y.isNumber() {
			return value{}
		}
		return number(f(x.num, y.num))
	})
}

func unary(f func(x uint32) uint32) func(string, []value) value {
	return func(_ string, a []value) value {
		if !a[0].isNumber() {
			return value{}
		}
		return number(int32(f(uint32(a[0].num))))
	}
}

func shifted(sign int, arith bool) func(string, []value) value {
	return binary(func(x, n value) value {
		if !n.isNumber() || n.num < 0 || n.num > 63 {
			return value{}
		}
		return x.shift(sign*int(n.num), arith)
	})
}

func extremum(first func(less bool) bool) func(string, []value) value {
	return func(typ string, a []value) value {
		less, ok := order(typ, a[0], a[1])
		switch {
		case !ok:
			return value{}
		case first(less < 0):
			return a[0]
		}
		return a[1]
	}
}

// order compares as the type suffix says (s32, u32); floats are not ordered here.
func order(typ string, x, y value) (int, bool) {
	if !x.comparable(y) {
		return 0, false
	}
	switch {
	case strings.HasPrefix(typ, "s"), x.sym != 0 && strings.HasPrefix(typ, "u"):
		return cmp.Compare(x.num, y.num), true
	case strings.HasPrefix(typ, "u"):
		return cmp.Compare(uint32(x.num), uint32(y.num)), true
	}
	return 0, false
}

// relations are the first suffixes of scmp.
var relations = map[string]func(order int) bool{
	"eq": func(o int) bool { return o == 0 }, "ne": func(o int) bool { return o != 0 },
	"lt": func(o int) bool { return o < 0 }, "le": func(o int) bool { return o <= 0 },
	"gt": func(o int) bool { return o > 0 }, "ge": func(o int) bool { return o >= 0 },
}

// compare is scmp.<relation>.<type>[.totalorder]. A parameter's address is compared with that of a result that may take its
// memory: it does.
func compare(suffix string, a []value) value {
	rel, typ, _ := strings.Cut(suffix, ".")
	holds := relations[rel]
	if rel == "eq" && (!a[0].known && a[1].sym == parameter || a[0].sym == parameter && !a[1].known) {
		return truth(true)
	}
	o, ok := order(typ, a[0], a[1])
	if holds == nil || !ok {
		return value{}
	}
	return truth(holds(o))
}

func choose(_ string, a []value) value {
	switch {
	case a[0].isNumber() && a[0].num != 0:
		return a[1]
	case a[0].isNumber():
		return a[2]
	case a[1] == a[2]:
		return a[1]
	}
	return value{}
}

func not(v value) value {
	if !v.isNumber() {
		return value{}
	}
	return truth(v.num == 0)
}

// and is 0 as soon as one operand is, whatever the others; or likewise with 1.
func and(a []value) value {
	all := number(1)
	for _, v := range a {
		if v.isNumber() && v.num == 0 {
			return v
		}
		if !v.isNumber() {
			all = value{}
		}
	}
	return all
}

func or(a []value) value {
	any := number(0)
	for _, v := range a {
		if v.isNumber() && v.num != 0 {
			return number(1)
		}
		if !v.isNumber() {
			any = value{}
		}
	}
	return any
}
