package irgraph

import "github.com/gdngen/gdngen/ir"

// HasRule tells whether the table has a row for an op.
func HasRule(op ir.Op) bool {
	r := rules[op]
	n := 0
	for _, ok := range []bool{r.node != nil, r.values != nil, r.refuse != ""} {
		if ok {
			n++
		}
	}
	return n == 1
}
