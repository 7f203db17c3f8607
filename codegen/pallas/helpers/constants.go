package helpers

import "github.com/gdngen/gdngen/ir"

// constants are the numbers with a name in helpers.py, which gives a reason for each.
var constants = map[ir.DType]map[float64]string{
	ir.U32: {0xffffffff: "ALL", 0xffff0000: "HIGH", 0x7f807f80: "EXPONENTS", 0x800080: "ONES", 0x80008000: "SIGNS"},
	ir.F32: {-40: "FLOOR", 1.4426950408889634: "LOG2E", -57.7077439277569: "HELD", 1e-20: "LEAST"},
}

// masks are the exponent bits with a name in helpers.py; a number that is not finite becomes finite without them.
var masks = map[string]string{"0x00800080": "HUGE", "0x08000800": "LARGE", "0x40004000": "MIDDLE"}

// Constant returns the name of a number; "" for none. The scale of queries has a name unless it is 1, or 0, which means unknown.
func Constant(d ir.DType, c, scale float64) string {
	if d == ir.F32 && c == scale && c != 0 && c != 1 {
		return "SCALE"
	}
	return constants[d][c]
}

// Note returns the helper that a call's last argument needs, and the argument as text. Bits become their name; "keep" and "drop" are
// helpers without a text.
func Note(n string) (name string, args []string) {
	switch name := masks[n]; {
	case name != "":
		return name, []string{"_" + name}
	case n == "keep" || n == "drop":
		return n, nil
	case n == "":
		return "", nil
	}
	return "", []string{n}
}
