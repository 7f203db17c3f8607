package model

import (
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// loss is the mean over tokens of log sum exp(logits) - logits[label], and its gradient (softmax - one-hot) / tokens. The loss is the last step, so
// the forward pass computes both and reads the logits once.
func (p *program) loss(t, vocab, memory int) {
	p.Stage("loss")
	x, label := p.param("logits", t, vocab), p.Param("labels", ir.T(ir.I32, t))
	var each, d *ir.Value
	if rows := lossRows(t, vocab, memory); rows > 0 && !p.plain {
		each, d = p.lossGrid(x, label, rows)
	} else {
		hit := p.Compare(ir.EQ, p.Iota(ir.T(ir.I32, t, vocab), 1), p.rows(label, x))
		each, d = p.crossEntropy(p.Convert(x, p.wide), hit, t, p.rows)
	}
	p.giveWide("loss", p.Scale(p.Sum(each, 0), 1/float64(t)))
	p.give("dlogits", d)
}

// crossEntropy returns the loss of each token and the gradient of the mean over t tokens. Logits are wide, [tokens, vocab] or
// [vocab / lanes, tokens, lanes]; hit marks each token's label, and rows broadcasts a value per token over its
// logits.
func (p *program) crossEntropy(x, hit *ir.Value, t int, rows func(v, x *ir.Value) *ir.Value) (each, d *ir.Value) {
	over := func(op ir.Op, x *ir.Value) *ir.Value {
		if x.Type.Rank() == 3 { // first across registers, then across lanes
			x = p.Append(op, []*ir.Value{x}, ir.Attrs{Dims: []int{0}}, nil)[0]
		}
		return p.Append(op, []*ir.Value{x}, ir.Attrs{Dims: []int{1}}, nil)[0]
	}
	zero, share := p.Like(x, 0), 1/float64(t)
	most := over(ir.OpReduceMax, x)
	e := p.Exp(p.Sub(x, rows(most, x)))
	sum := over(ir.OpReduceSum, e)
	right := over(ir.OpReduceSum, p.Select(hit, x, zero))
	each = p.Sub(p.Add(most, p.Unary(ir.OpLog, sum)), right)
	scale := p.Div(p.Like(sum, share), sum)
	return each, p.Sub(p.Mul(e, rows(scale, e)), p.Select(hit, p.Like(x, share), zero))
}

// leastMemory is the vector memory of the smallest target in bytes. mostLogits bounds the logits in a step of the loss kernel, since its code size grows
// with them.
const leastMemory, mostLogits = 16 << 20, 1 << 22

// lossRows returns the tokens per step of the loss kernel: 32, or 16 (one tile), or 0 for no kernel. Logits and gradients, both double-buffered, and the
// exponentials must fit three quarters of the vector memory.
//
//	vocabulary 50304, 128 MiB   32, for 18.4 MiB
//	50304, 16 MiB               16, for 9.2 MiB
//	151936, 16 MiB              0: 27.8 MiB
func lossRows(t, vocab, memory int) int {
	for _, rows := range []int{2 * halo, halo} {
		bytes := rows * vocab * (4*ir.BF16.Bytes() + ir.F32.Bytes())
		if vocab%target.Lanes == 0 && t%rows == 0 && bytes <= memory/4*3 && rows*vocab <= mostLogits {
			return rows
		}
	}
	return 0
}

// lossGrid computes the loss of each token and the gradients of its logits in a kernel. Without it the compiler reads the logits from HBM three times: for
// the maximum, the sum and the gradient.
//
// A register has 128 logits of a token. One vector has the register number of the label at the label's lane and -1 in other lanes. Each register finds
// its hit by comparing this vector with its own number.
func (p *program) lossGrid(x, label *ir.Value, rows int) (each, d *ir.Value) {
	t, vocab := x.Type.Shape[0], x.Type.Shape[1]
	parts := vocab / target.Lanes
	part := p.Div(label, p.Like(label, target.Lanes))
	lane := p.Sub(label, p.Mul(part, p.Like(part, target.Lanes)))
	at := ir.T(ir.I32, t, target.Lanes)
	where := p.Select(p.Compare(ir.EQ, p.Iota(at, 1), p.Broadcast(lane, at.Shape, 0)), p.Broadcast(part, at.Shape, 0), p.Const(at, -1))
	window := func(width int) ir.Window {
		return ir.Window{Block: []int{rows, width}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexConst(0)}}
	}
	g := &ir.Grid{Name: "loss", Dims: []ir.GridDim{{Name: "t", Size: t / rows, Seq: true}},
		In: []ir.Window{window(vocab), window(target.Lanes)}, Out: []ir.Window{window(1), window(vocab)},
		Outs: []ir.Type{ir.T(p.wide, t, 1), ir.T(p.narrow, t, vocab)}}
	g.Sched = &ir.Sched{Steps: 1, Lags: []int{0}, Lock: 1}
	rs := p.Grid(g, []*ir.Value{x, where}, func(b *ir.Builder, in, _ []*ir.Value) (ys, _ []*ir.Value) {
		q := &program{Builder: b, wide: p.wide, narrow: p.narrow}
		x := q.Convert(q.split(in[0], target.Lanes), q.wide)
		hit := q.Compare(ir.EQ, q.Iota(ir.T(ir.I32, x.Type.Shape...), 0), q.Broadcast(in[1], x.Type.Shape, 1, 2))
		each, d := q.crossEntropy(x, hit, t, func(v, x *ir.Value) *ir.Value { return q.Broadcast(v, x.Type.Shape, 1) })
		d = q.Reshape(q.Transpose(q.Convert(d, q.narrow), 1, 0, 2), rows, parts*target.Lanes)
		return []*ir.Value{q.Reshape(each, rows, 1), d}, nil
	})
	return p.Reshape(rs[0], t), rs[1]
}
