package loops

import (
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// fuser replaces idioms by single nodes.
type fuser struct {
	nodes []*Node
	maker map[*Item]*Node
	place map[*Node]int
	uses  map[*Item]int
	gone  map[*Node]bool
}

// Fuse replaces instructions that form a named idiom by one node with a Call. There are fewer nodes to read, and loops can differ in an
// integer where instructions differ. The node is at the position of its last instruction.
func Fuse(nodes []*Node) []*Node {
	f := &fuser{nodes: nodes, maker: map[*Item]*Node{}, place: map[*Node]int{}, uses: map[*Item]int{}, gone: map[*Node]bool{}}
	f.unwrap()
	for i, n := range nodes {
		f.place[n] = i
		if !f.gone[n] {
			EachRef(n, func(r *Ref) { f.uses[r.Item]++ })
		}
		for _, d := range n.Defs {
			f.maker[d] = n
		}
	}
	for _, n := range nodes {
		_ = f.half(n) || f.finite(n) || f.wordMask(n) || f.union(n) || f.feedback(n)
	}
	f.substitution()
	f.merge()
	return f.remaining()
}

// remaining returns the nodes that are left and read.
func (f *fuser) remaining() []*Node {
	var out []*Node
	clear(f.uses)
	keep := func(n *Node) {
		used := !computes(n.In) || len(n.Defs) == 0
		for _, d := range n.Defs {
			used = used || f.uses[d] > 0
		}
		if !f.gone[n] && used {
			EachRef(n, func(r *Ref) {
				for x := r.Item; x != nil; x = x.In {
					f.uses[x]++
				}
			})
			out = append(out, n)
		}
	}
	for _, n := range slices.Backward(f.nodes) {
		keep(n)
	}
	slices.Reverse(out)
	return out
}

// unwrap replaces words(halves(w)) by w in the operands.
func (f *fuser) unwrap() {
	halves, same := map[*Item]*Item{}, map[*Item]*Item{}
	for _, n := range f.nodes {
		EachRef(n, func(r *Ref) {
			if x := same[r.Item]; x != nil {
				r.Item = x
			}
		})
		switch {
		case n.In.Op == ir.OpHalves && len(n.Args) == 1:
			halves[n.Defs[0]] = n.Args[0].Item
		case n.In.Op == ir.OpWords && len(n.Args) == 1 && halves[n.Args[0].Item] != nil:
			same[n.Defs[0]], f.gone[n] = halves[n.Args[0].Item], true
		}
	}
}

// by returns the node of an operand if it has the given op, is in the same stage, and its result is read exactly uses times; else nil.
func (f *fuser) by(n *Node, arg int, op ir.Op, uses int) *Node {
	if arg >= len(n.Args) {
		return nil
	}
	m := f.maker[n.Args[arg].Item]
	if m == nil || m.In.Op != op || m.Call != "" || m.Stage != n.Stage || len(m.Defs) != 1 || f.uses[m.Defs[0]] != uses {
		return nil
	}
	return m
}

// fuse makes a node a call with args and integers, and removes its parts.
func (f *fuser) fuse(n *Node, call, note string, op ir.Op, args []Ref, ints []Form, parts ...*Node) bool {
	n.Call, n.Note, n.Args, n.Ints = call, note, args, ints
	n.In = &ir.Instr{Op: op, Results: n.In.Results, Task: n.In.Task}
	for _, p := range parts {
		f.gone[p] = true
		n.begins = n.begins || p.begins
	}
	return true
}

const high = 0xffff0000 // of a word, the high bf16

// half finds one bf16 of words as float32, from rows of a reference or from a value.
func (f *fuser) half(n *Node) bool {
	if n.In.Op != ir.OpBitcast || n.In.Result().Type.DType != ir.F32 {
		return false
	}
	half := 0
	bits := f.by(n, 0, ir.OpShl, 1)
	if bits == nil {
		bits, half = f.by(n, 0, ir.OpAnd, 1), 1
	}
	if bits == nil || len(bits.Args) != 1 || bits.In.Args[0].Type.DType != ir.U32 {
		return false
	}
	if c, ok := Constant(bits.In.Args[1]); !ok || c != [...]float64{16, high}[half] {
		return false
	}
	load := f.by(bits, 0, ir.OpLoad, 1)
	if load == nil || !f.strided(load) || f.written(load, n) {
		return f.fuse(n, "half", "", ir.OpBitcast, bits.Args, []Form{Number(half)}, bits)
	}
	cast := load.Args[0].Item.Maker
	row := len(load.Ints) - 2
	ints := append(slices.Clone(load.Ints[:row]), load.Ints[row].times(2, half), Number(load.In.Result().Type.Shape[0]), Number(2*load.In.Attrs.Step(row)))
	return f.fuse(n, "rows", "", ir.OpLoad, cast.Args, ints, bits, load, cast)
}

// strided reports whether a load takes whole rows with a stride from pairs of bf16 rows.
func (f *fuser) strided(load *Node) bool {
	x := load.Args[0].Item
	if !IsCast(x) || len(load.In.Args) != 1 || f.uses[x] != 1 || x.Maker.In.Args[0].Type.DType != ir.BF16 {
		return false
	}
	ref, block := load.In.Args[0].Type, load.In.Result().Type
	row, col := ref.Rank()-2, ref.Rank()-1
	return block.Rank() == 2 && block.Shape[1] == ref.Shape[col] && load.Ints[row].Div == 1 && load.In.Attrs.Step(row) > 1
}

// written reports whether a store or copy is between two nodes.
func (f *fuser) written(from, to *Node) bool {
	return slices.ContainsFunc(f.nodes[f.place[from]:f.place[to]], func(n *Node) bool { return len(n.Defs) == 0 || n.In.Body != nil })
}

// times returns k f + c.
func (f Form) times(k, c int) Form {
	f.C, f.T = k*f.C+c, slices.Clone(f.T)
	for i := range f.T {
		f.T[i].K *= k
	}
	return f
}

// finite finds x ^ (words(y - y) & bits), y being the halves of x: it flips bits of numbers that are NaN or infinite, to make them
// finite.
func (f *fuser) finite(n *Node) bool {
	if n.In.Op == ir.OpHalves { // of finite words of a value
		m := f.maker[n.Args[0].Item]
		if m == nil || m.Call != "finite" || f.uses[m.Defs[0]] != 1 || m.Stage != n.Stage {
			return false
		}
		words := f.by(m, 0, ir.OpWords, 2) // by the node itself, and by one of its operands
		return words != nil && f.fuse(n, "finite", m.Note, ir.OpXor, words.Args, nil, m, words)
	}
	if n.In.Op != ir.OpXor || len(n.Args) != 2 {
		return false
	}
	bits, note, last := f.by(n, 1, ir.OpAnd, 1), "", n
	if bits != nil {
		c, ok := Constant(bits.In.Args[1])
		if !ok {
			return false
		}
		last, note = bits, fmt.Sprintf("0x%08X", uint32(c))
	}
	arg := len(last.Args) - 1
	words := f.by(last, arg, ir.OpWords, 1)
	if words == nil {
		return false
	}
	rest := f.by(words, 0, ir.OpSub, 1)
	if rest == nil || len(rest.Args) != 2 || rest.Args[0].Item != rest.Args[1].Item {
		return false
	}
	halves := f.by(rest, 0, ir.OpHalves, 2)
	if halves == nil || halves.Args[0].Item != n.Args[0].Item {
		return false
	}
	parts := []*Node{words, rest, halves}
	if bits != nil {
		parts = append(parts, bits)
	}
	return f.fuse(n, "finite", note, ir.OpXor, n.Args[:1], nil, parts...)
}

// wordMask finds masks of words of two bf16: all ones in the low half by one condition, and in the high half by another.
func (f *fuser) wordMask(n *Node) bool {
	if n.In.Op != ir.OpOr {
		return false
	}
	low, upper := f.by(n, 0, ir.OpSelect, 1), f.by(n, 1, ir.OpSelect, 1)
	if !selects(low, ^high&math.MaxUint32) || !selects(upper, high) {
		return false
	}
	pos := n.In.Pos // its name comes from this
	f.fuse(n, "word_mask", "", ir.OpOr, []Ref{low.Args[0], upper.Args[0]}, nil, low, upper)
	n.In.Pos = pos
	return true
}

// selects reports whether a node is bits if a condition holds, and 0 otherwise.
func selects(n *Node, bits float64) bool {
	if n == nil || len(n.Args) != 1 {
		return false
	}
	x, some := Constant(n.In.Args[1])
	y, none := Constant(n.In.Args[2])
	return some && none && x == bits && y == 0
}

// union finds the bitwise or of four values or more.
func (f *fuser) union(n *Node) bool {
	if n.In.Op != ir.OpOr || len(n.Args) != 2 || n.In.Result().Type.Rank() == 0 {
		return false
	}
	for _, user := range f.nodes[f.place[n]+1:] { // only the last of a chain
		if user.In.Op == ir.OpOr && len(user.Args) == 2 && user.Args[0].Item == n.Defs[0] && f.by(user, 0, ir.OpOr, 1) != nil {
			return false
		}
	}
	args, parts := []Ref{n.Args[1]}, []*Node{}
	last := n
	for m := f.by(last, 0, ir.OpOr, 1); m != nil && len(m.Args) == 2; m = f.by(last, 0, ir.OpOr, 1) {
		args, parts, last = append(args, m.Args[1]), append(parts, m), m
	}
	if args = append(args, last.Args[0]); len(args) < 4 {
		return false
	}
	slices.Reverse(args)
	return f.fuse(n, "union", "", ir.OpOr, args, nil, parts...)
}

// feedback finds float32 rounded to bf16 in groups of rows, where each group adds the rounding error of the group before.
func (f *fuser) feedback(n *Node) bool {
	k := len(n.Args)
	if n.In.Op != ir.OpConcat || n.In.Attrs.Axis != 0 || k < 2 || n.In.Result().Type.DType != ir.BF16 {
		return false
	}
	first := f.by(n, 0, ir.OpSlice, 1)
	if first == nil {
		return false
	}
	rounded := f.by(first, 0, ir.OpConvert, 2)
	if rounded == nil {
		return false
	}
	x, rows := rounded.Args[0], first.In.Result().Type.Shape[0]
	parts := []*Node{first, rounded}
	lost := func(sum *Node, of Ref, rounded *Node) bool { // sum adds the rounding error of a rounded value
		add, arg := sum, 1
		if of.Item == x.Item { // of its first rows
			if add, arg = f.by(sum, 1, ir.OpSlice, 1), 0; add == nil || !add.from(0, rows) {
				return false
			}
			parts = append(parts, add)
		}
		rest := f.by(add, arg, ir.OpSub, 1)
		if rest == nil || rest.Args[0].Item != of.Item {
			return false
		}
		back := f.by(rest, 1, ir.OpConvert, 1)
		parts = append(parts, rest, back)
		return back != nil && back.Args[0].Item == rounded.Defs[0]
	}
	of := x
	for i := 1; i < k; i++ {
		uses := 2
		if i == k-1 {
			uses = 1
		}
		next := f.by(n, i, ir.OpConvert, uses)
		if next == nil {
			return false
		}
		sum := f.by(next, 0, ir.OpAdd, uses)
		if sum == nil || !lost(sum, of, rounded) {
			return false
		}
		rest := f.by(sum, 0, ir.OpSlice, 1)
		if rest == nil || rest.Args[0].Item != x.Item || !rest.from(i*rows, rows) {
			return false
		}
		parts, rounded, of = append(parts, next, sum, rest), next, sum.result()
	}
	if rows*k != n.In.Result().Type.Shape[0] || !first.from(0, rows) {
		return false
	}
	return f.fuse(n, "feedback", "", ir.OpConcat, []Ref{x}, []Form{Number(k)}, parts...)
}

// from reports whether a slice takes rows rows from first on.
func (n *Node) from(first, rows int) bool {
	return n.Ints[0].IsConst() && n.Ints[0].C == first && n.In.Result().Type.Shape[0] == rows && n.In.Attrs.Step(0) == 1
}

func (n *Node) result() Ref { return Ref{Item: n.Defs[0]} }
