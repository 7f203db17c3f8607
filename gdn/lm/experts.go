package lm

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// experts computes the mixture of experts of x [batch, tokens, hidden]: the experts that the router chooses for each token, and a shared one.
func (b *builder) experts(s *model.Scope, x *Node) *Node {
	e := b.c.Experts
	flat := Reshape(x, -1, b.c.Hidden)
	chosen, weights := b.choose(s, flat) // [tokens, chosen]
	y := b.chosen(s, flat, chosen)       // [tokens, chosen, hidden]
	y = DotGeneral(weights, []int{1}, []int{0}, y, []int{1}, []int{0})
	shared := b.mlp(s, flat, "shared_", e.Shared)
	if !e.Sigmoid {
		shared = Mul(shared, Sigmoid(b.linear(s, "shared_gate", flat, 1)))
	}
	return Reshape(Add(y, shared), x.Shape().Dimensions...)
}

// choose returns the experts of each token of x [tokens, hidden] and their weights.
func (b *builder) choose(s *model.Scope, x *Node) (chosen, weights *Node) {
	e, g := b.c.Experts, x.Graph()
	score := b.linear(s, "router", x, e.Count)
	by := score
	if e.Sigmoid {
		score = Sigmoid(score)
		by = Add(score, InsertAxes(ConvertDType(b.weight(s, "router_bias", g, e.Count), dtypes.Float32), 0))
	} else {
		score = Softmax(score, -1)
	}
	_, chosen = TopK(StopGradient(by), e.Chosen, -1)
	weights = DotGeneral(OneHot(chosen, e.Count, dtypes.Float32), []int{2}, []int{0}, score, []int{1}, []int{0})
	if e.Normalise {
		weights = Div(weights, AddScalar(ReduceAndKeep(weights, ReduceSum, -1), 1e-20))
	}
	return chosen, MulScalar(weights, e.Scale)
}

// chosen computes the experts of each token: x is [tokens, hidden], chosen [tokens, n], the result [tokens, n, hidden]. Tokens are grouped
// into blocks of one expert each, enough for every distribution, so that no token is dropped and only chosen experts are computed.
func (b *builder) chosen(s *model.Scope, x, chosen *Node) *Node {
	e, g := b.c.Experts, x.Graph()
	tokens, hidden := x.Shape().Dim(0), b.c.Hidden
	pairs := tokens * e.Chosen
	of := Reshape(chosen, pairs) // the expert of each (token, expert) pair
	size := (pairs + e.Count - 1) / e.Count
	blocks := pairs
	var slots *Node // the slot of each pair
	token := Iota(g, shapes.Make(dtypes.Int32, pairs), 0)
	if size > 1 {
		blocks = pairs/size + e.Count
		var from *Node
		slots, of, from = placed(of, e.Count, size, blocks)
		token = from
	}
	rows := Gather(x, InsertAxes(DivScalar(token, e.Chosen), -1))
	rows = Reshape(rows, blocks, size, hidden)
	matrix := func(name string, shape ...int) *Node {
		return ConvertDType(Gather(b.weight(s, name, g, shape...), InsertAxes(of, -1)), dtypes.Float32)
	}
	both := DotGeneral(rows, []int{2}, []int{0}, matrix("experts_in", e.Count, 2*e.Width, hidden), []int{2}, []int{0})
	mid := Mul(silu(SliceAxis(both, -1, AxisRange(0, e.Width))), SliceAxis(both, -1, AxisRangeToEnd(e.Width)))
	y := Reshape(DotGeneral(mid, []int{2}, []int{0}, matrix("experts_out", e.Count, hidden, e.Width), []int{2}, []int{0}), blocks*size, hidden)
	if slots != nil {
		y = Gather(y, InsertAxes(slots, -1))
	}
	return Reshape(y, tokens, e.Chosen, hidden)
}

// placed groups pairs, int32 [pairs] with the expert of each, into blocks of one expert each. It returns the slot of each pair, the
// expert of each block, and the pair in each slot (0 if empty).
func placed(of *Node, experts, size, blocks int) (slots, owner, from *Node) {
	g, pairs := of.Graph(), of.Shape().Dim(0)
	mine := OneHot(of, experts, dtypes.Int32) // [pairs, experts]
	upTo := sums(mine, 0)
	count := SliceAxis(upTo, 0, AxisElem(pairs-1))                // [1, experts]
	ends := sums(DivScalar(AddScalar(count, size-1), size), 1)    // end of each expert's blocks
	first := Sub(ends, DivScalar(AddScalar(count, size-1), size)) // its first block
	place := Add(AddScalar(upTo, -1), BroadcastToDims(MulScalar(first, size), pairs, experts))
	slots = ReduceSum(Mul(mine, place), 1)
	block := Iota(g, shapes.Make(dtypes.Int32, blocks, experts), 0)
	owner = ReduceSum(ConvertDType(GreaterOrEqual(block, BroadcastToDims(ends, blocks, experts)), dtypes.Int32), 1)
	owner = MinScalar(owner, experts-1)
	all := shapes.Make(dtypes.Int32, blocks*size)
	from = Scatter(InsertAxes(slots, -1), Iota(g, shapes.Make(dtypes.Int32, pairs), 0), all, false, true)
	return slots, owner, from
}

// sums returns prefix sums along an axis of [n, m].
func sums(x *Node, axis int) *Node {
	for reach := 1; reach < x.Shape().Dim(axis); reach *= 2 {
		dims := []int{x.Shape().Dim(0), x.Shape().Dim(1)}
		dims[axis] = reach
		none := Zeros(x.Graph(), shapes.Make(x.DType(), dims...))
		x = Add(x, Concatenate([]*Node{none, SliceAxis(x, axis, AxisRange(0, x.Shape().Dim(axis)-reach))}, axis))
	}
	return x
}
