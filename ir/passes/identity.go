package passes

import (
	varint "encoding/binary"
	"math"
	"reflect"

	"github.com/gdngen/gdngen/ir"
)

// Identity is equal for pure instructions that compute the same: equal ops, attributes, operands and result types. It is bytes, each list
// behind its length. Tasks and positions are no part of it: where work stands does not change what it gives. Operands count by identity, not by
// value, which is enough from the top down: what computes them has been merged before. It was a formatted
// text once, which took a fifth of the time of a search's proposal.
//
// Without lengths [1 2] [3] and [1] [2 3] would be the same bytes. An attribute that is not written here does not tell instructions apart, so each
// that a pure op without a body can have must be. Grids and loops have bodies, which nobody merges.
func Identity(op ir.Op, a ir.Attrs, args []*ir.Value, results ...ir.Type) string {
	b := append(make([]byte, 0, 64), 0) // no text of a key in words begins so
	number := func(n int) { b = varint.AppendVarint(b, int64(n)) }
	list := func(l []int) {
		number(len(l))
		for _, n := range l {
			number(n)
		}
	}
	number(int(op))
	number(a.Axis)
	list(a.Dims)
	list(a.Starts)
	list(a.Limits)
	list(a.Strides)
	number(int(a.Prec))
	number(int(a.Cmp))
	number(a.Count)
	// By bits: constants 0 and -0 are two, and a NaN is equal to itself.
	b = varint.NativeEndian.AppendUint64(b, math.Float64bits(a.Value))
	if a.Dot != nil {
		list(a.Dot.LB)
		list(a.Dot.RB)
		list(a.Dot.LC)
		list(a.Dot.RC)
	}
	number(len(args))
	for _, v := range args {
		// A pointer serves within one pass alone: keys must not be stored, or compared between runs.
		b = varint.NativeEndian.AppendUint64(b, uint64(reflect.ValueOf(v).Pointer()))
	}
	for _, t := range results {
		number(int(t.DType))
		number(int(t.Space))
		list(t.Shape)
	}
	return string(b)
}
