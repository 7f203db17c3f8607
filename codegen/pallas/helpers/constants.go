package helpers

import "github.com/gdngen/gdngen/ir"

// constants are the numbers that have names in helpers.py, with a reason each.
var constants = map[ir.DType]map[float64]string{
	ir.U32: {0xffffffff: "ALL", 0xffff0000: "HIGH", 0x7f807f80: "EXPONENTS", 0x800080: "ONES", 0x80008000: "SIGNS"},
	ir.F32: {-40: "FLOOR", 1.4426950408889634: "LOG2E", -57.7077439277569: "HELD", 1e-20: "LEAST"},
}

// masks are the bits of exponents that have names there: what is no number becomes finite without.
var masks = map[string]string{"0x00800080": "HUGE", "0x08000800": "LARGE", "0x40004000": "MIDDLE"}

// Constant is the name of a number, empty where it has none. The scale of queries has one, but for 1, and 0, which says that it is not known.
func Constant(d ir.DType, c, scale float64) string {
	if d == ir.F32 && c == scale && c != 0 && c != 1 {
		return "SCALE"
	}
	return constants[d][c]
}

// Note is the helper that a last argument needs, and the argument as written: of bits their name, of what visits do with states none.
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
