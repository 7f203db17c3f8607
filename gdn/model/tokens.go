package model

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
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
	main    bool        // a kernel reads what is there before the module from main memory: nothing before it would hide a copy
	sums    []int       // rows of the sums over all tokens, wide; of the width of the weights
}

// tokens is an operand of one or several pieces side by side. Its block has the last tokens before it and the first after it where asked for.
type tokens struct {
	pieces        []*ir.Value
	before, after bool
}

// halo is how many tokens before and after a block are at hand: a whole tile of bf16. Beyond the ends of a sequence they are zero.
const halo = 16

// A step of a kernel has up to mostTokens tokens, while no block has more than blockSize values: a longer step loses less to the sums over lanes that it
// begins with. With tokens before a block it has half as many, and with those after it too blockTokens, since there values are shifted, and most of a step
// is in registers or close to them.
const blockTokens, mostTokens, blockSize = 128, 512, 1 << 19

// strip is how many tokens of a step are worked on at a time where nothing is summed over lanes.
const strip = 32

// stepTokens are those of t tokens that a step has; zero where there is no kernel.
func (m *tokenMap) stepTokens(t int) int {
	if t%blockTokens != 0 {
		return 0
	}
	n, width := mostTokens, 0
	for _, o := range m.tokens {
		switch width = max(width, o.pieces[0].Type.Shape[2]); {
		case o.after:
			n = blockTokens
		case o.before:
			n = min(n, mostTokens/2)
		}
	}
	for n > blockTokens && (t%n != 0 || n*width > blockSize) {
		n /= 2
	}
	return n
}

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

// tokenBody is the work. It takes operands as [N, tokens, lanes], N batch rows x parts, with their halos, then weights as [N, rows, lanes],
// all wide. It gives values [N, tokens, lanes] without halos, and sums [N, rows, lanes].
type tokenBody func(p *program, in []*ir.Value) (out, sums []*ir.Value)

// overTokens computes body on all tokens. The results are m.gives, then m.sums.
//
// Where parts are whole registers it is a grid, a kernel on a TPU: parts side by side in the lanes of a row are no dimension that XLA could
// reduce over, or shift tokens of, without moving them. Elsewhere it is plain.
func (p *program) overTokens(m tokenMap, body tokenBody) []*ir.Value {
	t := m.tokens[0].pieces[0].Type.Shape[1]
	if n := m.stepTokens(t); !p.plain && m.lanes%target.Lanes == 0 && n > 0 {
		return p.tokenGrid(m, body, t, n)
	}
	run := tokenRun{&m, body, m.batch, t}
	blocks := m.blocks(func(x *ir.Value, at int) block {
		if at == 0 {
			return block{tokens: x}
		}
		return block{tokens: p.Const(ir.T(x.Type.DType, m.batch, halo, x.Type.Shape[2]), 0)}
	})
	out, sums := run.on(p, blocks, m.weights, nil)
	return append(out, sums...)
}

// eachBlock visits the pieces of the operands in the order in which a body has their blocks: the tokens before a piece where asked for, at -1,
// the piece at 0, and those after it at 1.
func (m *tokenMap) eachBlock(visit func(operand int, piece *ir.Value, at int)) {
	for i, o := range m.tokens {
		for _, x := range o.pieces {
			if o.before {
				visit(i, x, -1)
			}
			visit(i, x, 0)
			if o.after {
				visit(i, x, 1)
			}
		}
	}
}

// blocks lists them by operand.
func (m *tokenMap) blocks(of func(piece *ir.Value, at int) block) [][]block {
	list := make([][]block, len(m.tokens))
	m.eachBlock(func(i int, x *ir.Value, at int) { list[i] = append(list[i], of(x, at)) })
	return list
}

// tokenRun is a body on some tokens of some batch rows.
type tokenRun struct {
	*tokenMap
	body  tokenBody
	batch int
	count int // of tokens
}

// on runs the body on blocks, by operand. before, if any, are the sums so far.
func (r tokenRun) on(p *program, blocks [][]block, weights, before []*ir.Value) (out, sums []*ir.Value) {
	var in []*ir.Value
	for i, o := range r.tokens {
		in = append(in, r.operand(p, blocks[i], len(o.pieces)))
	}
	n := in[0].Type.Shape[0]
	for _, w := range weights {
		in = append(in, r.weight(p, w, n))
	}
	values, totals := r.body(p, in)
	out = r.results(p, values)
	for i, x := range totals {
		of := weights[i].Type.Shape[1] / r.lanes
		if x = p.Reshape(x, n/of, of, r.sums[i], r.lanes); n == of {
			x = p.Reshape(x, of, r.sums[i], r.lanes)
		} else {
			x = p.Sum(x, 0)
		}
		if before != nil {
			x = p.Add(p.split(p.Reshape(before[i], r.sums[i], of*r.lanes), r.lanes), x)
		}
		sums = append(sums, p.Reshape(p.Transpose(x, 1, 0, 2), r.sums[i], of*r.lanes))
	}
	return out, sums
}

// operand joins the blocks of an operand along the tokens, and its pieces along the parts.
func (r tokenRun) operand(p *program, blocks []block, pieces int) *ir.Value {
	per := len(blocks) / pieces
	var joined []*ir.Value
	for k := range pieces {
		var rows []*ir.Value
		for _, x := range blocks[k*per : (k+1)*per] {
			rows = append(rows, r.parts(p, x))
		}
		joined = append(joined, p.Concat(2, rows...))
	}
	x := p.Concat(1, joined...)
	s := x.Type.Shape
	return p.Reshape(x, s[0]*s[1], s[2], s[3])
}

// parts cuts a block [batch, tokens, width] into [batch, parts, tokens, lanes].
func (r tokenRun) parts(p *program, x block) *ir.Value {
	s := x.tokens.Type.Shape
	y := p.Convert(p.Transpose(p.Reshape(x.tokens, s[0], s[1], s[2]/r.lanes, r.lanes), 0, 2, 1, 3), p.wide)
	if x.inside != nil {
		y = p.Select(p.Broadcast(x.inside, y.Type.Shape), y, p.Like(y, 0))
	}
	return y
}

// weight cuts a weight into parts, and repeats it for n batch rows x parts.
func (r tokenRun) weight(p *program, w *ir.Value, n int) *ir.Value {
	rows := w.Type.Shape[0]
	x := p.Convert(p.split(w, r.lanes), p.wide)
	if of := x.Type.Shape[0]; of < n {
		x = p.Reshape(p.Broadcast(x, []int{n / of, of, rows, r.lanes}, 1, 2, 3), n, rows, r.lanes)
	}
	return x
}

// results cuts the values of the body into [batch, tokens, width] for each width that the map gives.
func (r tokenRun) results(p *program, values []*ir.Value) (out []*ir.Value) {
	at, left := 0, 0 // parts of the value before at that are not given yet
	for _, width := range r.gives {
		if left == 0 {
			left = values[at].Type.Shape[0] / r.batch
			at++
		}
		y := values[at-1]
		all := y.Type.Shape[0] / r.batch
		from := all - left
		y = p.SliceAxis(p.Reshape(y, r.batch, all, r.count, r.lanes), 1, from, from+width/r.lanes)
		left -= width / r.lanes
		out = append(out, p.Reshape(p.Transpose(p.Convert(y, p.narrow), 0, 2, 1, 3), r.batch, r.count, width))
	}
	return out
}

// tokenGrid is overTokens of t tokens as a grid: one batch row after another, blocks of n tokens in order, the sums carried.
func (p *program) tokenGrid(m tokenMap, body tokenBody, t, n int) []*ir.Value {
	steps := t / n
	g := &ir.Grid{Name: m.name, Dims: []ir.GridDim{{Name: "b", Size: m.batch}, {Name: "t", Size: steps, Seq: true}}, Main: m.main}
	g.Sched = &ir.Sched{Steps: 1, Lags: []int{0}, Lock: 1} // one part after another: few are in registers
	args := p.tokenWindows(&m, g, steps, n)
	run := tokenRun{&m, body, 1, n}
	rs := slices.Clone(p.Grid(g, args, func(b *ir.Builder, in, carried []*ir.Value) (ys, after []*ir.Value) {
		inner := &program{Builder: b, wide: p.wide, narrow: p.narrow, kernel: true}
		id := b.ProgramID(1)
		at := 0
		blocks := m.blocks(func(_ *ir.Value, where int) block {
			x := in[at]
			at++
			switch where {
			case -1:
				return block{b.Reshape(x, 1, halo, x.Type.Size()/halo), b.Compare(ir.NE, id, b.Like(id, 0))}
			case 1:
				return block{b.Reshape(x, 1, halo, x.Type.Size()/halo), b.Compare(ir.NE, id, b.Like(id, float64(steps-1)))}
			}
			return block{tokens: x}
		})
		out, sums := run.on(inner, blocks, in[at:], carried)
		for i, s := range sums {
			after = append(after, b.Reshape(s, carried[i].Type.Shape...))
		}
		for _, y := range out {
			width := y.Type.Shape[2]
			g.Out = append(g.Out, tokenWindow(n, width))
			g.Outs = append(g.Outs, ir.T(p.narrow, m.batch, t, width))
		}
		return out, after
	}))
	for i := len(m.gives); i < len(rs); i++ {
		if m.batch == 1 {
			rs[i] = p.Reshape(rs[i], rs[i].Type.Shape[1:]...)
		} else {
			rs[i] = p.Sum(rs[i], 0)
		}
	}
	return rs
}

// tokenWindow is the n tokens of a step of a batch row.
func tokenWindow(n, width int) ir.Window {
	return ir.Window{Block: []int{1, n, width}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1), ir.IndexConst(0)}}
}

// tokenWindows adds the windows of blocks, weights and sums, and gives the operands. The tokens before a block are the last tile of the
// block before it, those after it the first of the next. Each batch row has sums of its own.
func (p *program) tokenWindows(m *tokenMap, g *ir.Grid, steps, n int) (args []*ir.Value) {
	zero := ir.IndexConst(0)
	tiles := n / halo
	m.eachBlock(func(_ int, x *ir.Value, at int) {
		width := x.Type.Shape[2]
		if at == 0 {
			args, g.In = append(args, x), append(g.In, tokenWindow(n, width))
			return
		}
		neighbour, tile := ir.IndexAxis(1), 0
		neighbour.Shift, neighbour.Max = at, steps-1
		if at < 0 {
			tile = tiles - 1
		}
		args = append(args, p.Reshape(x, m.batch, steps, tiles, halo, width))
		g.In = append(g.In, ir.Window{Block: []int{1, 1, 1, halo, width}, Index: []ir.Index{ir.IndexAxis(0), neighbour, ir.IndexConst(tile), zero, zero}})
	})
	for _, w := range m.weights {
		args, g.In = append(args, w), append(g.In, ir.Window{Block: w.Type.Shape, Index: []ir.Index{zero, zero}})
	}
	for i, rows := range m.sums {
		x := p.Const(ir.T(p.wide, m.batch, rows, m.weights[i].Type.Shape[1]), 0)
		w := ir.Window{Block: slices.Concat([]int{1}, x.Type.Shape[1:]), Index: []ir.Index{ir.IndexAxis(0), zero, zero}}
		args, g.Carry = append(args, x), append(g.Carry, w)
	}
	return args
}
