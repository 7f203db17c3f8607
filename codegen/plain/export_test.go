package plain

import "github.com/gdngen/gdngen/ir"

// Batches tells whether the batch pass has a rule for an op, or a reason to refuse it.
func Batches(op ir.Op) bool {
	r := batchRules[op]
	return r.shift != nil || r.emit != nil || r.refuse != ""
}
