package loops

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// arranger groups the work of a stage by head.
type arranger struct {
	nodes  []*Node
	inputs map[*Item]bool // references that are only read
	maker  map[*Item]int  // the node that makes an item
	users  [][]int        // per node
}

// Arrange groups the work of a stage by head. Work for several heads comes before the heads' work, and nodes that begin a level of the
// order are marked. inputs are the references that are only read.
func Arrange(nodes []*Node, inputs map[*Item]bool) []*Node {
	a := &arranger{nodes: nodes, inputs: inputs, maker: map[*Item]int{}, users: make([][]int, len(nodes))}
	for i, n := range nodes {
		a.operands(n, func(j int) { a.users[j] = append(a.users[j], i) })
		for _, d := range n.Defs {
			a.maker[d] = i
		}
		if n.In.Op == ir.OpRefCast && inputs[n.Args[0].Item] {
			inputs[n.Defs[0]] = true
		}
	}
	a.byUsers()
	a.byOperands()
	for range 3 {
		a.share()
	}
	a.late()
	a.chunks()
	return a.levels()
}

// operands calls f with each node that makes an operand of n.
func (a *arranger) operands(n *Node, f func(int)) {
	EachRef(n, func(r *Ref) {
		if j, ok := a.maker[r.Item]; ok {
			f(j)
		}
	})
}

// byUsers gives a node without a head the head that all of its users have.
func (a *arranger) byUsers() {
	for i, n := range slices.Backward(a.nodes) {
		if n.Head.C >= 0 || len(n.Defs) == 0 || len(a.users[i]) == 0 {
			continue
		}
		h := a.nodes[a.users[i][0]].Head.C
		for _, u := range a.users[i] {
			if a.nodes[u].Head.C != h || a.nodes[u].Stage != n.Stage {
				h = -1
			}
		}
		n.Head.C = h
	}
}

// byOperands gives a node still without a head the head that all of its operands have.
func (a *arranger) byOperands() {
	for _, n := range a.nodes {
		if n.Head.C >= 0 {
			continue
		}
		h, any := -1, false
		a.operands(n, func(j int) {
			if g := a.nodes[j].Head.C; !any {
				h, any = g, true
			} else if g != h {
				h = -1
			}
		})
		if any {
			n.Head.C = h
		}
	}
}

// share removes the head of work that one head does for others with no operand of a head's own, and of work that only such work reads.
func (a *arranger) share() {
	for i, n := range a.nodes {
		if n.Head.C < 0 || len(a.users[i]) == 0 {
			continue
		}
		some, all := false, true
		for _, u := range a.users[i] {
			h := a.nodes[u].Head.C
			some = some || h >= 0 && h != n.Head.C
			all = all && h < 0
		}
		all = all && n.In.Op != ir.OpLoad
		shared := some || all
		a.operands(n, func(j int) { shared = shared && a.nodes[j].Head.C < 0 })
		if shared {
			n.Head.C = -1
		}
	}
}

// late moves a transpose for two heads to the first of them that reads it, and makes it part of that head's work. Halves of words that
// another stage reads move too, since they cost nothing.
func (a *arranger) late() {
	wait := map[*Node][]*Node{} // nodes to put before a node
	moved := map[*Node]bool{}
	for i, n := range a.nodes {
		heads := map[int]bool{}
		for _, u := range a.users[i] {
			heads[a.nodes[u].Head.C] = true
		}
		if n.In.Op == ir.OpHalves && n.Call == "" && len(a.users[i]) == 1 && a.nodes[a.users[i][0]].Stage != n.Stage && a.nodes[a.users[i][0]].In.Body == nil {
			user := a.nodes[a.users[i][0]]
			n.Stage, n.Head, moved[n] = user.Stage, user.Head, true
			wait[user] = append(wait[user], n)
			continue
		}
		if n.In.Op != ir.OpTranspose || len(heads) != 2 || heads[-1] || heads[n.Head.C] && a.nodes[a.users[i][0]].Head.C == n.Head.C {
			continue
		}
		user := a.nodes[a.users[i][0]]
		n.Head, moved[n] = user.Head, true
		for j := a.users[i][0]; j > i && a.nodes[j-1].Head.C == user.Head.C && a.nodes[j-1].Stage == user.Stage; j-- {
			user = a.nodes[j-1]
		}
		wait[user] = append(wait[user], n)
	}
	var out []*Node
	for _, n := range a.nodes {
		out = append(out, wait[n]...)
		if !moved[n] {
			out = append(out, n)
		}
	}
	a.nodes = out
}

// levels splits the nodes where the stage changes or the head number falls, and orders each part.
func (a *arranger) levels() []*Node {
	var out []*Node
	for lo := 0; lo < len(a.nodes); {
		hi, top := lo+1, a.nodes[lo].Head.C
		for hi < len(a.nodes) && a.nodes[hi].Stage == a.nodes[lo].Stage && !a.nodes[hi].begins {
			h := a.nodes[hi].Head.C
			if h >= 0 && h < top {
				break
			}
			top = max(top, h)
			hi++
		}
		level := a.sharedFirst(a.nodes[lo:hi])
		level[0].begins = true
		out = append(out, level...)
		lo = hi
	}
	return out
}

// sharedFirst puts nodes that serve several heads, and need none of them, first, in the schedule's order. Nodes after the heads' work
// stay there.
func (a *arranger) sharedFirst(level []*Node) []*Node {
	mine := map[*Item]bool{}
	last := len(level) - 1 // the last node of a single head
	for last >= 0 && level[last].Head.C < 0 {
		last--
	}
	serves := map[*Item]bool{} // values that a head reads, directly or through others
	for _, n := range slices.Backward(level) {
		if n.Head.C >= 0 || slices.ContainsFunc(n.Defs, func(d *Item) bool { return serves[d] }) {
			EachRef(n, func(r *Ref) { serves[r.Item] = true })
		}
	}
	begin := numbers(level)
	first, rest := slices.Clone(level[:begin]), []*Node{}
	for i, n := range level[begin:] {
		free := begin+i < last && n.Head.C < 0 && slices.ContainsFunc(n.Defs, func(d *Item) bool { return serves[d] }) && n.In.Body == nil && (n.In.Op != ir.OpLoad || a.inputs[n.Args[0].Item])
		EachRef(n, func(r *Ref) { free = free && !mine[r.Item] })
		if free {
			first = append(first, n)
			continue
		}
		for _, d := range n.Defs {
			mine[d] = true
		}
		rest = append(rest, n)
	}
	return slices.Concat(first, rest)
}

// numbers returns how many nodes at the start of a level depend only on row and column numbers.
func numbers(level []*Node) int {
	made := map[*Item]bool{}
	for i, n := range level {
		of := len(n.Defs) == 1 && n.In.Op.Pure() && n.In.Body == nil
		EachRef(n, func(r *Ref) { of = of && made[r.Item] })
		if !of {
			return i
		}
		made[n.Defs[0]] = true
	}
	return len(level)
}
