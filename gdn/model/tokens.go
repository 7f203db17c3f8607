package model

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/target"
)

// tokenMap is work on the lanes of a head and of a few tokens around each: convolutions, norms, elementwise work. The lanes of a token are cut into
// parts of one width, which are independent but for the sums.
type tokenMap struct {
	name    string
	batch   int
	lanes   int         // of a part
	tokens  []tokens    // [B, T, parts x lanes]
	weights []*ir.Value // [rows, parts x lanes], or [rows, lanes] where all parts share them
	gives   []int       // widths of the results [B, T, width], narrow; those of one value of the body follow one another
	sums    []int       // rows of the sums over all tokens, wide; of the width of the weights
}

// tokens is an operand of one or several pieces side by side. Its block has the last tokens before it and the first after it where asked for.
type tokens struct {
	pieces        []*ir.Value
	before, after bool
}

// halo is how many tokens before and after a block are at hand: a whole tile of bf16. Beyond the ends of a sequence they are zero.
const halo = 16

// blockTokens are the tokens of a step of a kernel.
const blockTokens = 128

// block is some tokens [batch, tokens, width]; zeros where the scalar inside is there and false.
type block struct{ tokens, inside *ir.Value }

// commonWidth is the width of the parts into which operands of two widths are cut: registers where both consist of them.
func commonWidth(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	if a%target.Lanes == 0 {
		return target.Lanes
	}
	return a
}

// split cuts [rows, parts x lanes] into [parts, rows, lanes].
func (p *program) split(x *ir.Value, lanes int) *ir.Value {
	return p.Transpose(p.Reshape(x, x.Type.Shape[0], x.Type.Shape[1]/lanes, lanes), 1, 0, 2)
}

// overTokensOf sums [N, T, lanes] over the tokens to [N, 1, lanes].
func (p *program) overTokensOf(x *ir.Value) *ir.Value {
	return p.Reshape(p.Sum(x, 1), x.Type.Shape[0], 1, x.Type.Shape[2])
}

// overTokens computes body on all tokens. The body takes operands as [N, tokens, lanes], N batch rows x parts, with their halos, then weights as
// [N, rows, lanes], all wide; it gives values [N, tokens, lanes] without halos, and sums [N, rows, lanes]. The results are m.gives, then m.sums.
//
// Where parts are whole registers it is a grid, a kernel on a TPU: parts side by side in the lanes of a row are no dimension that XLA could
// reduce over, or shift tokens of, without moving them. Elsewhere it is plain.
func (p *program) overTokens(m tokenMap, body func(p *program, in []*ir.Value) (out, sums []*ir.Value)) []*ir.Value {
	t := m.tokens[0].pieces[0].Type.Shape[1]
	plain := p.plain || m.lanes%target.Lanes != 0 || t%blockTokens != 0
	n, batch := blockTokens, 1
	if plain {
		n, batch = t, m.batch
	}

	// run is the body on n tokens of some batch rows. blocks hold, for each piece, the tokens before it if asked for, itself, those after it;
	// before, if any, are the sums so far.
	run := func(p *program, blocks [][]block, weights, before []*ir.Value) (out, sums []*ir.Value) {
		parts := func(x block) *ir.Value { // [batch, tokens, width] to [batch, parts, tokens, lanes]
			s := x.tokens.Type.Shape
			y := p.Convert(p.Transpose(p.Reshape(x.tokens, s[0], s[1], s[2]/m.lanes, m.lanes), 0, 2, 1, 3), p.wide)
			if x.inside != nil {
				y = p.Select(p.Broadcast(x.inside, y.Type.Shape), y, p.Like(y, 0))
			}
			return y
		}
		var in []*ir.Value
		for i, o := range m.tokens {
			var pieces []*ir.Value
			per := len(blocks[i]) / len(o.pieces)
			for k := range o.pieces {
				var rows []*ir.Value
				for _, x := range blocks[i][k*per : (k+1)*per] {
					rows = append(rows, parts(x))
				}
				pieces = append(pieces, p.Concat(2, rows...))
			}
			x := p.Concat(1, pieces...)
			s := x.Type.Shape
			in = append(in, p.Reshape(x, s[0]*s[1], s[2], s[3]))
		}
		count := in[0].Type.Shape[0]
		for _, w := range weights {
			rows := w.Type.Shape[0]
			x := p.Convert(p.split(w, m.lanes), p.wide)
			if of := x.Type.Shape[0]; of < count {
				x = p.Reshape(p.Broadcast(x, []int{count / of, of, rows, m.lanes}, 1, 2, 3), count, rows, m.lanes)
			}
			in = append(in, x)
		}
		values, totals := body(p, in)
		at, left := 0, 0
		for _, width := range m.gives {
			if left == 0 {
				left = values[at].Type.Shape[0] / batch
				at++
			}
			y := values[at-1]
			all := y.Type.Shape[0] / batch
			from := all - left
			y = p.SliceAxis(p.Reshape(y, batch, all, n, m.lanes), 1, from, from+width/m.lanes)
			left -= width / m.lanes
			out = append(out, p.Reshape(p.Transpose(p.Convert(y, p.narrow), 0, 2, 1, 3), batch, n, width))
		}
		for i, x := range totals {
			of := weights[i].Type.Shape[1] / m.lanes
			if x = p.Reshape(x, count/of, of, m.sums[i], m.lanes); count == of {
				x = p.Reshape(x, of, m.sums[i], m.lanes)
			} else {
				x = p.Sum(x, 0)
			}
			if before != nil {
				x = p.Add(p.split(p.Reshape(before[i], m.sums[i], of*m.lanes), m.lanes), x)
			}
			sums = append(sums, p.Reshape(p.Transpose(x, 1, 0, 2), m.sums[i], of*m.lanes))
		}
		return out, sums
	}

	if plain {
		var blocks [][]block
		for _, o := range m.tokens {
			var list []block
			for _, x := range o.pieces {
				none := block{tokens: p.Const(ir.T(x.Type.DType, batch, halo, x.Type.Shape[2]), 0)}
				if o.before {
					list = append(list, none)
				}
				list = append(list, block{tokens: x})
				if o.after {
					list = append(list, none)
				}
			}
			blocks = append(blocks, list)
		}
		out, sums := run(p, blocks, m.weights, nil)
		return append(out, sums...)
	}

	steps := t / n
	g := &ir.Grid{Name: m.name, Dims: []ir.GridDim{{Name: "b", Size: m.batch}, {Name: "t", Size: steps, Seq: true}}}
	var args []*ir.Value
	zero, here := ir.IndexConst(0), ir.IndexAxis(1)
	previous, next := here, here
	previous.Shift, previous.Max = -1, steps-1
	next.Shift, next.Max = 1, steps-1
	for _, o := range m.tokens {
		for _, x := range o.pieces {
			width := x.Type.Shape[2]
			around := p.Reshape(x, m.batch, steps, n/halo, halo, width)
			edge := func(at ir.Index, tile int) {
				args = append(args, around)
				g.In = append(g.In, ir.Window{Block: []int{1, 1, 1, halo, width}, Index: []ir.Index{ir.IndexAxis(0), at, ir.IndexConst(tile), zero, zero}})
			}
			if o.before {
				edge(previous, n/halo-1)
			}
			args = append(args, x)
			g.In = append(g.In, ir.Window{Block: []int{1, n, width}, Index: []ir.Index{ir.IndexAxis(0), here, zero}})
			if o.after {
				edge(next, 0)
			}
		}
	}
	whole := func(x *ir.Value) ir.Window { return ir.Window{Block: x.Type.Shape, Index: []ir.Index{zero, zero}} }
	for _, w := range m.weights {
		args, g.In = append(args, w), append(g.In, whole(w))
	}
	for i, rows := range m.sums { // those of each batch row
		x := p.Const(ir.T(p.wide, m.batch, rows, m.weights[i].Type.Shape[1]), 0)
		w := ir.Window{Block: slices.Concat([]int{1}, x.Type.Shape[1:]), Index: []ir.Index{ir.IndexAxis(0), zero, zero}}
		args, g.Carry = append(args, x), append(g.Carry, w)
	}
	g.Sched = &ir.Sched{Steps: 1, Lags: []int{0}, Lock: 1} // one part after another: few are in registers
	rs := slices.Clone(p.Grid(g, args, func(b *ir.Builder, in, carried []*ir.Value) (ys, after []*ir.Value) {
		inner := &program{Builder: b, wide: p.wide, narrow: p.narrow}
		id := b.ProgramID(1)
		// edge is beyond the end of the sequence at one step.
		edge := func(x *ir.Value, step int) block {
			return block{b.Reshape(x, 1, halo, x.Type.Size()/halo), b.Compare(ir.NE, id, b.Like(id, float64(step)))}
		}
		var blocks [][]block
		at := 0
		for _, o := range m.tokens {
			var list []block
			for range o.pieces {
				if o.before {
					list = append(list, edge(in[at], 0))
					at++
				}
				list = append(list, block{tokens: in[at]})
				at++
				if o.after {
					list = append(list, edge(in[at], steps-1))
					at++
				}
			}
			blocks = append(blocks, list)
		}
		out, sums := run(inner, blocks, in[at:], carried)
		for i, s := range sums {
			after = append(after, b.Reshape(s, carried[i].Type.Shape...))
		}
		for _, y := range out {
			width := y.Type.Shape[2]
			g.Out = append(g.Out, ir.Window{Block: []int{1, n, width}, Index: []ir.Index{ir.IndexAxis(0), here, zero}})
			g.Outs = append(g.Outs, ir.T(p.narrow, m.batch, t, width))
		}
		return out, after
	}))
	for i := len(m.gives); i < len(rs); i++ {
		rs[i] = p.Sum(rs[i], 0)
	}
	return rs
}
