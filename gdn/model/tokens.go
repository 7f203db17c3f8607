package model

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// tokenMap is work on a few neighbouring tokens: convolutions, norms, elementwise work. The lanes of a token are cut into
// parts of one width, which are independent except for the sums.
type tokenMap struct {
	name    string
	batch   int
	lanes   int         // lanes of a part
	tokens  []tokens    // [B, T, parts x lanes]
	weights []*ir.Value // [rows, parts x lanes], or [rows, lanes] shared by all parts
	gives   []int       // widths of the narrow results [B, T, width]; results of one body value are consecutive
	main    bool        // the kernel reads arrays from outside the module in HBM, since no earlier work would hide a copy
	sums    []int       // rows of the wide sums over all tokens; as wide as the weights
}

// tokens is an operand of one or several arrays with concatenated lanes. Its block may include the last tokens before it and the first after it.
// If by is set, the operand is the product of the one array's lanes with these weights, [in, parts x lanes] or turned [parts x lanes, in]: the matrix
// unit then works beside the vector unit.
type tokens struct {
	pieces        []*ir.Value
	before, after bool
	by            *ir.Value
	turned        bool
}

// halo is the number of tokens before and after a block: one bf16 tile. Beyond the ends of a sequence they are zero.
const halo = 16

// A step has up to mostTokens tokens, as long as no block exceeds blockSize values: long steps lose less to the sums over lanes at their start. With
// tokens before a block the limit is half, and with tokens after it too it is blockTokens, since shifted values keep most of a step
// in or near registers. An operand that is a product has no such limit: its weights enter the matrix unit once a step.
const blockTokens, mostTokens, blockSize = 128, 512, 1 << 19

// strip is the number of tokens processed at once in work without sums over lanes.
const strip = 32

// stepTokens returns how many of t tokens a step takes; 0 if there is no kernel.
func (m *tokenMap) stepTokens(t int) int {
	if t%blockTokens != 0 {
		return 0
	}
	n, width := mostTokens, 0
	for _, o := range m.tokens {
		switch width = max(width, o.pieces[0].Type.Shape[2]); {
		case o.by != nil:
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

// block is some tokens [batch, tokens, width]; zeros if inside is set and false at run time.
type block struct{ tokens, inside *ir.Value }

// commonWidth returns the width of parts for operands of two widths: registers if both consist of them.
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

// tokenBody computes the work. Operands are [N, tokens, lanes] with halos, N = batch rows x parts, then weights [N, rows, lanes],
// all wide. Results are values [N, tokens, lanes] without halos, and sums [N, rows, lanes].
type tokenBody func(p *program, in []*ir.Value) (out, sums []*ir.Value)

// overTokens runs body on all tokens. The results are m.gives, then m.sums.
//
// If parts are whole registers it is a grid, a kernel on a TPU: XLA could not reduce over parts in the lanes, or shift their
// tokens, without copies. Otherwise it is plain ops.
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
	out, sums := run.on(p, blocks, m.allWeights(), nil)
	return append(out, sums...)
}

// eachBlock calls visit for each block in the order of a body's parameters: the tokens before (at -1) if requested,
// the array's own (0), and the tokens after (1).
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

// allWeights returns the weights of products, then the others.
func (m *tokenMap) allWeights() (list []*ir.Value) {
	for _, o := range m.tokens {
		if o.by != nil {
			list = append(list, o.by)
		}
	}
	return append(list, m.weights...)
}

// blocks returns the blocks by operand.
func (m *tokenMap) blocks(of func(piece *ir.Value, at int) block) [][]block {
	list := make([][]block, len(m.tokens))
	m.eachBlock(func(i int, x *ir.Value, at int) { list[i] = append(list[i], of(x, at)) })
	return list
}

// tokenRun applies a body to some tokens of some batch rows.
type tokenRun struct {
	*tokenMap
	body  tokenBody
	batch int
	count int // number of tokens
}

// on runs the body on blocks, by operand. before holds earlier sums to add, if any.
func (r tokenRun) on(p *program, blocks [][]block, weights, before []*ir.Value) (out, sums []*ir.Value) {
	var in []*ir.Value
	for i, o := range r.tokens {
		if o.by != nil {
			in, weights = append(in, r.product(p, blocks[i], weights[0], o.turned)), weights[1:]
			continue
		}
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

// operand concatenates the blocks of an operand along the tokens, and its arrays along the parts.
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

// product returns the product of blocks, concatenated along the tokens [batch, tokens, in], with weights, cut into [batch x parts, tokens, lanes]. Two parts
// of a register are columns of one product, as wide as a matrix unit of 256.
func (r tokenRun) product(p *program, blocks []block, w *ir.Value, turned bool) *ir.Value {
	var rows []*ir.Value
	for _, x := range blocks {
		y := x.tokens
		if x.inside != nil {
			y = p.Select(p.Broadcast(x.inside, y.Type.Shape), y, p.Like(y, 0))
		}
		rows = append(rows, y)
	}
	x := p.Concat(1, rows...)
	in, t, out := x.Type.Shape[2], x.Type.Shape[1], w.Type.Size()/x.Type.Shape[2]
	wide := r.lanes
	if wide == target.Lanes && out%(2*wide) == 0 {
		wide *= 2
	}
	n, all := out/wide, r.batch*out/wide
	x = p.Reshape(p.Broadcast(x, []int{r.batch, n, t, in}, 0, 2, 3), all, t, in)
	if turned {
		w = p.Reshape(w, n, wide, in)
	} else {
		w = p.split(w, wide)
	}
	w = p.Reshape(p.Broadcast(w, slices.Concat([]int{r.batch}, w.Type.Shape), 1, 2, 3), all, w.Type.Shape[1], w.Type.Shape[2])
	y := p.MatMul(x, w, false, turned, p.product())
	if wide == r.lanes {
		return y
	}
	half := func(i int) *ir.Value {
		return p.Reshape(p.SliceAxis(y, 2, i*r.lanes, (i+1)*r.lanes), all, 1, t, r.lanes)
	}
	return p.Reshape(p.Concat(1, half(0), half(1)), 2*all, t, r.lanes)
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

// results splits the body's values into [batch, tokens, width] for each width in m.gives.
func (r tokenRun) results(p *program, values []*ir.Value) (out []*ir.Value) {
	at, left := 0, 0 // parts of the value before at that are not used yet
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

// tokenGrid is overTokens of t tokens as a grid: batch rows in turn, blocks of n tokens in order, sums carried.
func (p *program) tokenGrid(m tokenMap, body tokenBody, t, n int) []*ir.Value {
	steps := t / n
	g := &ir.Grid{Name: m.name, Dims: []ir.GridDim{{Name: "b", Size: m.batch}, {Name: "t", Size: steps, Seq: true}}, Main: m.main}
	g.Sched = &ir.Sched{Steps: 1, Lags: []int{0}, Lock: 1} // one part after another: few fit registers
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

// tokenWindow is the window of the n tokens of a step and batch row.
func tokenWindow(n, width int) ir.Window {
	return ir.Window{Block: []int{1, n, width}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1), ir.IndexConst(0)}}
}

// tokenWindows adds the windows of blocks, weights and sums, and returns the operands. The tokens before a block are the last tile of the
// previous block, the tokens after it the first tile of the next one. Each batch row has its own sums.
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
	for _, w := range m.allWeights() {
		args, g.In = append(args, w), append(g.In, ir.Window{Block: w.Type.Shape, Index: []ir.Index{zero, zero}})
	}
	for i, rows := range m.sums {
		x := p.Const(ir.T(p.wide, m.batch, rows, m.weights[i].Type.Shape[1]), 0)
		w := ir.Window{Block: slices.Concat([]int{1}, x.Type.Shape[1:]), Index: []ir.Index{ir.IndexAxis(0), zero, zero}}
		args, g.Carry = append(args, x), append(g.Carry, w)
	}
	return args
}
