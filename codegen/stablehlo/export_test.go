package stablehlo

import "github.com/gdngen/gdngen/ir"

// HasRule tells whether an op can be written or is refused with a reason.
func HasRule(op ir.Op) bool {
	r := rules[op]
	return r.emit != nil || r.multi != nil || r.refuse != ""
}
