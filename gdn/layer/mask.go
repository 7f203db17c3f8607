package layer

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// asBools converts a mask of any type to bools.
func asBools(mask *Node) *Node {
	if mask.DType() == dtypes.Bool {
		return mask
	}
	return NotEqual(mask, ZerosLike(mask))
}

// overAxes broadcasts [batch, tokens] over the remaining axes of x.
func overAxes(of, x *Node) *Node {
	for of.Rank() < x.Rank() {
		of = InsertAxes(of, -1)
	}
	return BroadcastToDims(of, x.Shape().Dimensions...)
}

// whereReal returns x [batch, tokens, ...] with zeros at padding. It selects, since padding may be NaN and NaN times 0 is NaN.
func whereReal(real, x *Node) *Node { return Where(overAxes(real, x), x, ZerosLike(x)) }

// tokenOrder is a permutation of the tokens of each batch row.
type tokenOrder struct {
	from *Node // int32 [batch tokens, 1]: the token at each position, counted over all rows
	to   *Node // the position of each token
	real *Node // int32 [batch, 1]: number of real tokens of a row
}

// realFirst returns the stable order in which the real tokens of a row come first.
func realFirst(real *Node) tokenOrder {
	g, shape := real.Graph(), shapes.Make(dtypes.Int32, real.Shape().Dimensions...)
	batch, tokens := shape.Dim(0), shape.Dim(1)
	seen := ConvertDType(real, dtypes.Int32) // real tokens up to each position, by sums of shifted copies
	for reach := 1; reach < tokens; reach *= 2 {
		none := Zeros(g, shapes.Make(dtypes.Int32, batch, reach))
		seen = Add(seen, Concatenate([]*Node{none, SliceAxis(seen, 1, AxisRange(0, tokens-reach))}, 1))
	}
	count := SliceAxis(seen, 1, AxisElem(tokens-1))
	padded := Sub(Iota(g, shape, 1), seen) // padding before a padded token
	place := Where(real, AddScalar(seen, -1), Add(BroadcastToDims(count, batch, tokens), padded))
	to := Reshape(Add(place, MulScalar(Iota(g, shape, 0), tokens)), -1, 1)
	all := shapes.Make(dtypes.Int32, batch*tokens)
	return tokenOrder{from: Reshape(Scatter(to, Iota(g, all, 0), all, false, true), -1, 1), to: to, real: count}
}

// apply permutes x [batch, tokens, width] into the order.
func (o tokenOrder) apply(x *Node) *Node { return permute(x, o.from, o.to) }

// undo is the inverse of apply.
func (o tokenOrder) undo(x *Node) *Node { return permute(x, o.to, o.from) }

// permute gathers the tokens of x at places; back is the inverse permutation, for gradients.
func permute(x, places, back *Node) *Node {
	at := func(x, places *Node) *Node {
		return Reshape(Gather(Reshape(x, -1, x.Shape().Dim(-1)), places), x.Shape().Dimensions...)
	}
	return withGradient([]*Node{x}, func(a []*Node) []*Node { return []*Node{at(a[0], places)} },
		func(adjoints []*Node) []*Node { return []*Node{at(adjoints[0], back)} })[0]
}

// lastRows returns the n rows that end at the last real token of x [batch, n + tokens, width]; x has n rows before its tokens, which are in this order.
func (o tokenOrder) lastRows(x *Node, n int) *Node {
	batch, rows, width := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2)
	index := shapes.Make(dtypes.Int32, batch, n)
	row := Add(Iota(x.Graph(), index, 1), BroadcastToDims(o.real, batch, n))
	row = Add(row, MulScalar(Iota(x.Graph(), index, 0), rows))
	return Reshape(Gather(Reshape(x, -1, width), Reshape(row, -1, 1)), batch, n, width)
}
