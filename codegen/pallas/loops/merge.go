package loops

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// merging matches the merges of inverses of diagonal blocks of unit triangles, for two heads at a time, as _merge of helpers.py computes
// them. It looks up each value that _merge makes, and does not match if one is missing.
type merging struct {
	*fuser
	readers map[*Item][]*Node
	x, a    [2][]*Item // block rows of two heads: inverses, as they grow, and the matrix to merge
	first   [2][]*Item // the initial inverses
	final   [2]*Node   // the nodes that join them at the end
	up      int        // 1 for upper triangles
	note    string     // the bits argument of _finite
	dots    []*Node
	count   int // blocks per head
}

// merge replaces all merges by one node: a call with the block rows of the inverses and of the matrices. Its result is a list of block
// rows per head.
func (f *fuser) merge() {
	readers := map[*Item][]*Node{}
	for _, n := range f.nodes {
		EachRef(n, func(r *Ref) {
			if !f.gone[n] {
				readers[r.Item] = append(readers[r.Item], n)
			}
		})
	}
	var pairs []*merging
	for _, n := range f.nodes {
		for up := range 2 {
			if m := (&merging{fuser: f, readers: readers, up: up}); n.In.Op == ir.OpDot && m.begin(n) && m.levels() {
				pairs = append(pairs, m)
			}
		}
	}
	other := func(m *merging) bool {
		return m.note != pairs[0].note || m.up != pairs[0].up || m.dots[0].Stage != pairs[0].dots[0].Stage
	}
	if len(pairs) < 2 || slices.ContainsFunc(pairs, other) {
		return
	}
	f.merged(pairs)
}

// merged places the node after its operands. The work on its first blocks comes directly before it, head by head.
func (f *fuser) merged(pairs []*merging) {
	one, list := pairs[0], &Item{}
	dot := one.dots[0]
	n := &Node{Stage: dot.Stage, Head: Number(-1), Call: "merge", Note: one.note, Defs: []*Item{list}}
	n.Ints = []Form{Number(2 * len(pairs)), Number(len(one.dots) * len(pairs)), Number(one.up)}
	n.In = &ir.Instr{Op: ir.OpOr, Results: f.maker[one.x[0][0]].In.Results, Task: dot.In.Task}
	var masks, before, after []*Node
	var a []Ref
	for i, m := range pairs {
		for k, blocks := range m.first {
			rows := &Item{Typ: blocks[0].Typ}
			own := []*Node{f.maker[f.maker[blocks[0]].Args[0].Item]}
			for j, x := range blocks {
				own = append(own, f.maker[x])
				masks = append(masks, f.with(masks, f.maker[x].Args[1].Item, dot.Stage)...)
				n.Args, a = append(n.Args, Ref{Item: x}), append(a, Ref{Item: m.a[k][j]})
				rows.Add(&Item{Typ: x.Typ, Maker: n})
				m.final[k].Args[j] = Ref{Item: rows.Elems[j]}
			}
			list.Typ = rows.Typ
			list.Add(rows)
			before = append(before, own...)
			after = append(after, m.final[k])
			stores := slices.DeleteFunc(slices.Clone(m.readers[m.final[k].Defs[0]]), func(r *Node) bool { return r.In.Op != ir.OpStore || r.Stage != dot.Stage })
			if after = append(after, stores...); len(stores) > 0 {
				own = append(append(own, m.final[k]), stores...)
			}
			for _, o := range own {
				o.Head = Number(2*i + k)
			}
		}
	}
	n.Args, list.Maker = append(n.Args, a...), n
	for _, o := range masks {
		o.Head = Number(-1)
	}
	before = append(masks, before...)
	f.put(slices.Concat(before, []*Node{n}, after))
}

// with returns the nodes of a stage that make an item, unless they are among others: masks of blocks and varlen blocks, and slices of
// these.
func (f *fuser) with(others []*Node, x *Item, stage string) (out []*Node) {
	n := f.maker[x]
	if n == nil || n.Stage != stage || n.In.Op != ir.OpAnd && n.In.Op != ir.OpSlice || slices.Contains(others, n) {
		return nil
	}
	return append(f.with(others, n.Args[0].Item, stage), n)
}

// put moves nodes after the nodes that they read.
func (f *fuser) put(nodes []*Node) {
	at := 0
	for _, n := range nodes {
		EachRef(n, func(r *Ref) {
			if m := f.maker[r.Item]; m != nil && !slices.Contains(nodes, m) {
				at = max(at, f.place[m])
			}
		})
	}
	behind := f.nodes[at]
	f.nodes = slices.DeleteFunc(slices.Clone(f.nodes), func(n *Node) bool { return slices.Contains(nodes, n) })
	f.nodes = slices.Insert(f.nodes, slices.Index(f.nodes, behind)+1, nodes...)
}

// begin matches the first product of two heads: the inverses it reads, and the matrices it merges.
func (m *merging) begin(dot *Node) bool {
	left, right := m.rows(dot.Args[0]), m.rows(dot.Args[1])
	if len(left) != 2 || len(right) < 4 {
		return false
	}
	m.count = len(right)
	turned := m.made(left[1].Item, ir.OpTake)
	if turned == nil {
		return false
	}
	x, a := right[:2], []Ref{m.packs(left[0]), m.packs(turned.Args[0])}
	if m.up > 0 {
		x, a = a, x
	}
	for k := range 2 {
		from, merged := m.made(x[k].Item, ir.OpAnd), m.made(a[k].Item, ir.OpAnd)
		if from == nil || merged == nil {
			return false
		}
		m.first[k], m.a[k] = m.blocks(from.Args[0].Item), m.slices(merged.Args[0].Item, m.count)
		if m.x[k] = slices.Clone(m.first[k]); m.x[k] == nil || m.a[k] == nil {
			return false
		}
	}
	return true
}

// levels matches merges of ever larger blocks.
func (m *merging) levels() bool {
	c := len(m.x[0])
	for n := 1; n < c; n *= 2 {
		part := func(t []*Item, i int, masked bool) *Item {
			if i/n%2 == m.up {
				return nil
			}
			if masked {
				return m.and(t[i%len(t)], n, i/(2*n)*2+m.up)
			}
			return t[i%len(t)]
		}
		every := func(t [2][]*Item, masked bool) (out [2][]*Item) {
			for k := range t {
				for i := range c {
					out[k] = append(out[k], part(t[k], i, masked))
				}
			}
			return out
		}
		left, right := m.packed(every(m.a, true), n), m.x
		if m.up > 0 {
			left, right = m.packed(m.x, n), every(m.a, true)
		}
		half := m.parts(m.times(left, right, n, 0), n, true)
		if half[0] == nil {
			return false
		}
		left, right = m.packed(m.x, n), every(half, 2*n < c)
		if m.up > 0 {
			left, right = half, m.x
		}
		z := m.parts(m.times(left, right, n, 1), n, 2*n < c)
		if z[0] == nil {
			return false
		}
		z = every(z, 2*n < c)
		for k := range z {
			for i, y := range z[k] {
				if i/n%2 != m.up {
					m.x[k][i] = m.or([]*Item{m.x[k][i], y})
				}
			}
		}
	}
	for k := range m.x {
		m.final[k] = m.find(ir.OpConcat, "", m.x[k]...)
	}
	return m.final[0] != nil && m.final[1] != nil
}

// packed combines the growing blocks of n block rows each into n rows.
func (m *merging) packed(t [2][]*Item, n int) (out [2][]*Item) {
	for k := range t {
		for j := n * (1 - m.up); j < n*(2-m.up); j++ {
			var l []*Item
			for i := j; i < len(t[k]); i += 2 * n {
				l = append(l, t[k][i])
			}
			out[k] = append(out[k], m.or(l))
		}
	}
	return out
}

// times returns the product of rows of two heads, the second's rotated, with blocks of the first and, interleaved, of the second.
func (m *merging) times(left, right [2][]*Item, n, side int) *Node {
	width := m.x[0][0].Typ.Shape[1]
	turn := width / len(m.x[0]) * n
	if side == 0 {
		turn = width - turn
	}
	rows := slices.Clone(left[0])
	for _, x := range left[1] {
		rows = append(rows, m.reader(x, func(r *Node) bool {
			return r.In.Op == ir.OpTake && r.Args[0].Item == x && m.turn(r.Args[1].Item) == turn
		}))
	}
	var blocks []*Item
	for i := range m.x[0] {
		if i/n%2 == side {
			blocks = append(blocks, right[0][i])
		} else {
			blocks = append(blocks, right[1][i^n])
		}
	}
	halves := func(l []*Item) *Item { return result(m.find(ir.OpHalves, "", result(m.find(ir.OpConcat, "", l...)))) }
	dot := m.find(ir.OpDot, "", halves(rows), halves(blocks))
	m.dots = append(m.dots, dot)
	return dot
}

// parts returns the rows of a product for each of two heads.
func (m *merging) parts(dot *Node, n int, finite bool) (out [2][]*Item) {
	words := result(m.find(ir.OpWords, "", result(m.find(ir.OpConvert, "", result(dot)))))
	for i, x := range m.slicesOf(words, 2*n) {
		if finite {
			f := m.find(ir.OpXor, "finite", x)
			if f == nil || m.note != "" && m.note != f.Note {
				return [2][]*Item{}
			}
			x, m.note = f.Defs[0], f.Note
		}
		out[i/n] = append(out[i/n], x)
	}
	return out
}

// find returns the node that applies an op to exactly these items.
func (m *merging) find(op ir.Op, call string, args ...*Item) *Node {
	for _, n := range m.readers[args[0]] {
		if args[0] != nil && n.In.Op == op && n.Call == call && slices.EqualFunc(n.Args, args, func(r Ref, x *Item) bool { return r.Item == x }) {
			return n
		}
	}
	return nil
}

// reader returns the result of a reader of an item that satisfies is.
func (m *merging) reader(x *Item, is func(*Node) bool) *Item {
	if i := slices.IndexFunc(m.readers[x], is); i >= 0 {
		return result(m.readers[x][i])
	}
	return nil
}

func result(n *Node) *Item {
	if n == nil {
		return nil
	}
	return n.Defs[0]
}

func (m *merging) or(l []*Item) *Item {
	switch len(l) {
	case 1:
		return l[0]
	case 2:
		return result(m.find(ir.OpOr, "", l...))
	}
	return result(m.find(ir.OpOr, "union", l...))
}

// and returns x masked by block i of n block rows.
func (m *merging) and(x *Item, n, i int) *Item {
	return m.reader(x, func(r *Node) bool {
		return r.In.Op == ir.OpAnd && len(r.Args) == 2 && r.Args[0].Item == x && m.block(r.Args[1].Item, n) == i
	})
}

// made returns the node that makes an item, if it has this op.
func (m *merging) made(x *Item, op ir.Op) *Node {
	if n := m.maker[x]; n != nil && n.In.Op == op && n.Call == "" {
		return n
	}
	return nil
}

// rows returns the rows that are concatenated to an operand of a product.
func (m *merging) rows(r Ref) []Ref {
	if n := m.made(r.Item, ir.OpHalves); n != nil {
		if n = m.made(n.Args[0].Item, ir.OpConcat); n != nil {
			return n.Args
		}
	}
	return nil
}

// packs returns the first of the values that are packed into rows.
func (m *merging) packs(r Ref) Ref {
	if n := m.maker[r.Item]; n != nil && n.In.Op == ir.OpOr && len(n.Args) > 1 {
		return n.Args[0]
	}
	return r
}

// blocks returns x masked by each block, in the order of blocks.
func (m *merging) blocks(x *Item) []*Item {
	out := make([]*Item, m.count)
	for _, n := range m.readers[x] {
		if n.In.Op != ir.OpAnd || len(n.Args) != 2 || n.Args[0].Item != x {
			continue
		}
		mask := n.Args[1].Item
		if seen := m.made(mask, ir.OpAnd); seen != nil && len(seen.Args) == 2 { // of a varlen block
			mask = seen.Args[1].Item
		}
		if i := m.block(mask, 1); i >= 0 && i < m.count {
			out[i] = n.Defs[0]
		}
	}
	if m.maker[x] == nil || slices.Contains(out, nil) {
		return nil
	}
	return out
}

// slices returns the c slices of the value that x is a slice of.
func (m *merging) slices(x *Item, c int) []*Item {
	if n := m.made(x, ir.OpSlice); n != nil {
		return m.slicesOf(n.Args[0].Item, c)
	}
	return nil
}

func (m *merging) slicesOf(x *Item, c int) []*Item {
	if x == nil {
		return nil
	}
	var out []*Item
	for i := range c {
		out = append(out, m.reader(x, func(n *Node) bool {
			rows := x.Typ.Shape[0] / c
			return n.In.Op == ir.OpSlice && n.from(rows*i, rows)
		}))
	}
	if slices.Contains(out, nil) {
		return nil
	}
	return out
}

// number returns the constant operand of an operation.
func (n *Node) number() (int, bool) {
	c, ok := Constant(n.In.Args[len(n.In.Args)-1])
	return int(c), ok && len(n.Args) == 1
}

// block returns which block of n block rows a mask selects by lanes; -1 for none.
func (m *merging) block(mask *Item, n int) int {
	s := m.made(mask, ir.OpSelect)
	if s == nil || len(s.In.Args) != 3 {
		return -1
	}
	all, _ := Constant(s.In.Args[1])
	none, ok := Constant(s.In.Args[2])
	is := m.made(s.Args[0].Item, ir.OpCompare)
	if all != 0xffffffff || none != 0 || !ok || is == nil || is.In.Attrs.Cmp != ir.EQ {
		return -1
	}
	i, ok := is.number()
	block := m.made(is.Args[0].Item, ir.OpDiv)
	if !ok || block == nil || m.lane(block.Args[0].Item) != mask.Typ.Shape[1] {
		return -1
	}
	if w, ok := block.number(); !ok || w != n*mask.Typ.Shape[1]/m.count {
		return -1
	}
	return i
}

// lane returns the number of lanes if an item is the lane numbers; else 0.
func (m *merging) lane(x *Item) int {
	if n := m.made(x, ir.OpIota); n != nil && n.In.Attrs.Axis == 1 {
		return x.Typ.Shape[1]
	}
	return 0
}

// turn returns by how many lanes a take with these indices rotates a row; -1 if it does not.
func (m *merging) turn(lanes *Item) int {
	rest := m.made(lanes, ir.OpSub)
	if rest == nil || len(rest.Args) != 2 {
		return -1
	}
	sum, times := m.made(rest.Args[0].Item, ir.OpAdd), m.made(rest.Args[1].Item, ir.OpMul)
	if sum == nil || times == nil {
		return -1
	}
	turn, ok := sum.number()
	width, by := times.number()
	over := m.made(times.Args[0].Item, ir.OpDiv)
	if over == nil || over.Args[0].Item != rest.Args[0].Item || m.lane(sum.Args[0].Item) != width {
		return -1
	}
	if c, divides := over.number(); !ok || !by || !divides || c != width {
		return -1
	}
	return turn
}
