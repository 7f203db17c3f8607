package pipeline

import (
	"container/heap"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// order rearranges the body of a kernel: by stage, within a stage by level (the number of dots before), and within a level by groups of
// width heads. Dots of all heads then follow one another and hide their latency, while the work between two dots keeps only the tiles of
// few heads live. Only the order changes: values are defined before use, and accesses to the same memory keep their order.
//
// Two dots d1 and d2 with vector work v between them, four heads, width 2:
//
//	built     d1.h0 d1.h1 d1.h2 d1.h3  v.h0 v.h1 v.h2 v.h3  d2.h0 d2.h1 d2.h2 d2.h3
//	level 0   d1.h0 d1.h1 d1.h2 d1.h3
//	level 1   v.h0 v.h1 d2.h0 d2.h1  v.h2 v.h3 d2.h2 d2.h3
//
// v and d2 have the same level, since one dot precedes both. So the tiles of a group are made, used and dead before the next group's are
// made.
//
// The schedule's Waves form one stage, in which a group comes Stagger groups later in each level than in the level before:
//
//	stagger 1   level 0 of group 0; level 0 of group 1 and level 1 of group 0; ...
//
// A key is (stage, level, group, number as built). Of the instructions whose operands are ready, the least key comes next.
func order(b *ir.Block, sched *ir.Sched) {
	n, width := len(b.Instrs), max(sched.Lock, 1)
	ranks := map[string]int{}
	heads := affinity(b)
	groups := slices.Max(append(heads, 0))/width + 1
	stage := func(in *ir.Instr) string {
		if slices.Contains(sched.Waves, in.Task.Stage) {
			return sched.Waves[0]
		}
		return in.Task.Stage
	}
	keys := make([][4]int, n)
	index := map[*ir.Value]int{}
	after := make([]int, n)   // dots on the path to the results
	within := make([]bool, n) // some of these dots are in this stage
	// Stages rank by their first instruction as built, the builder's order of the algorithm.
	for i, in := range b.Instrs {
		s := stage(in)
		if _, ok := ranks[s]; !ok {
			ranks[s] = len(ranks)
		}
		group := -1
		if heads[i] >= 0 {
			group = heads[i] / width
		}
		depth := 0
		for _, a := range in.Args {
			if j, ok := index[a]; ok {
				depth = max(depth, after[j])
				within[i] = within[i] || stage(b.Instrs[j]) == s && (within[j] || b.Instrs[j].Op == ir.OpDot)
			}
		}
		keys[i] = [4]int{ranks[s], depth, group, i}
		if in.Op == ir.OpDot {
			depth++
		}
		after[i] = depth
		for _, r := range in.Results {
			index[r] = i
		}
	}
	wait(b, index, keys, within, stage)
	for i, in := range b.Instrs {
		if slices.Contains(sched.Waves, in.Task.Stage) {
			group := keys[i][2]
			if group < 0 {
				group = groups - 1
			}
			keys[i][1] = keys[i][1]*sched.Stagger + group
		}
	}
	b.Instrs = topological(b, func(i, j int) bool { return slices.Compare(keys[i][:], keys[j][:]) < 0 })
}

// wait moves work on a stage's inputs to the level at which the stage needs it, so that it is not live until then. Lane moves (OpTake),
// whose latency is that of a dot, go one level earlier. Without it, all conversions and masks of a stage are at level 0, since no dot
// precedes them.
//
// A stage has dots d1, d2 and d3, each reading the one before. d3 also reads a mask m, and t, which moves lanes of an input:
//
//	level      0         1         2
//	built      d1 m t    d2        d3
//	waiting    d1        d2 t      d3 m
//
// A use in another stage needs level 0: results of a stage are made as early as possible.
func wait(b *ir.Block, index map[*ir.Value]int, keys [][4]int, within []bool, stage func(*ir.Instr) string) {
	const never = 1 << 30
	need := make([]int, len(b.Instrs))
	for i := range need {
		need[i] = never
	}
	for i := len(b.Instrs) - 1; i >= 0; i-- {
		in := b.Instrs[i]
		if in.Op != ir.OpDot && in.Body == nil && len(in.Results) > 0 && !within[i] && need[i] != never {
			d := need[i]
			if in.Op == ir.OpTake {
				d--
			}
			keys[i][1] = max(keys[i][1], d)
		}
		uses(in, func(v *ir.Value) {
			if j, ok := index[v]; ok {
				d := keys[i][1]
				if stage(b.Instrs[j]) != stage(in) {
					d = 0
				}
				need[j] = min(need[j], d)
			}
		})
	}
}

// affinity returns the head that each instruction works for, -1 for several: its task's head, else the common head of its operands, else
// of its users. Tile sets heads in tasks only for ops of several tiles. Without affinity, a cast of one head's tile to words would have
// no head, and be placed far from the tile.
//
//	k0 = load of head 0's rows   no head in its task or operands: 0, since only d0 uses it
//	m  = a mask                  used by heads 0 and 1: -1
//	d0 = dot k0, m @head 0       0
//	d1 = dot k1, m @head 1       1
func affinity(b *ir.Block) []int {
	index := map[*ir.Value]int{}
	for i, in := range b.Instrs {
		for _, r := range in.Results {
			index[r] = i
		}
	}
	heads := make([]int, len(b.Instrs))
	common := func(h, g int) int {
		switch {
		case h == -2:
			return g
		case h != g:
			return -1
		}
		return h
	}
	for i, in := range b.Instrs {
		h := -2 // nothing known
		if in.Task.Head >= 0 {
			h = in.Task.Head
		} else {
			for _, a := range in.Args {
				if j, ok := index[a]; ok && heads[j] != -2 {
					h = common(h, heads[j])
				}
			}
		}
		heads[i] = h
	}
	// Instructions without operands that have a head, such as loads, get the head of their users.
	users := make([]int, len(b.Instrs))
	for i := range users {
		users[i] = -2
	}
	for i := len(b.Instrs) - 1; i >= 0; i-- {
		if heads[i] == -2 {
			heads[i] = users[i]
		}
		for _, a := range b.Instrs[i].Args {
			if j, ok := index[a]; ok {
				users[j] = common(users[j], heads[i])
			}
		}
	}
	for i, h := range heads {
		heads[i] = max(h, -1)
	}
	return heads
}

// topological lists a block's instructions in an order that keeps dependences; of the ready ones, the least by less comes first.
func topological(b *ir.Block, less func(i, j int) bool) []*ir.Instr {
	deps := dependences(b)
	n := len(b.Instrs)
	waits := make([]int, n)
	next := make([][]int, n)
	for i, ds := range deps {
		waits[i] = len(ds)
		for _, d := range ds {
			next[d] = append(next[d], i)
		}
	}
	h := &ready{less: less}
	for i := range n {
		if waits[i] == 0 {
			heap.Push(h, i)
		}
	}
	out := make([]*ir.Instr, 0, n)
	for h.Len() > 0 {
		i := heap.Pop(h).(int)
		out = append(out, b.Instrs[i])
		for _, j := range next[i] {
			if waits[j]--; waits[j] == 0 {
				heap.Push(h, j)
			}
		}
	}
	return out
}

// ready is a heap of the instructions whose dependences are all listed.
type ready struct {
	items []int
	less  func(i, j int) bool
}

func (r *ready) Len() int           { return len(r.items) }
func (r *ready) Less(i, j int) bool { return r.less(r.items[i], r.items[j]) }
func (r *ready) Swap(i, j int)      { r.items[i], r.items[j] = r.items[j], r.items[i] }
func (r *ready) Push(x any)         { r.items = append(r.items, x.(int)) }
func (r *ready) Pop() any {
	x := r.items[len(r.items)-1]
	r.items = r.items[:len(r.items)-1]
	return x
}

// dependences returns, for each instruction of a block, the earlier ones that must precede it: definitions of its operands, and
// overlapping accesses to memory of which one is a store. A store also follows the users of the loads that it overwrites: so a load can
// be repeated at each use (findLazy) and still reads the same value.
//
//	s = load S           u needs s
//	u = dot s, k
//	store n to S         needs s by memory, and u because u uses s: before u, a load of S
//	                     repeated at u would read n
func dependences(b *ir.Block) [][]int {
	def := map[*ir.Value]int{}
	root := map[*ir.Value]*ir.Value{} // the memory behind a reference
	type access struct {
		at    int
		store bool
		box   *box
		as    string // type of the reference, after a cast
	}
	seen := map[*ir.Value][]access{}
	users := map[int][]int{} // of a load
	deps := make([][]int, len(b.Instrs))
	for i, in := range b.Instrs {
		ds := map[int]bool{}
		uses(in, func(v *ir.Value) {
			if j, ok := def[v]; ok {
				ds[j] = true
				if b.Instrs[j].Op == ir.OpLoad {
					users[j] = append(users[j], i)
				}
			}
		})
		if in.Op == ir.OpRefCast {
			root[in.Result()] = memory(root, in.Args[0])
		}
		// Boxes of different casts have different units, such as bf16 rows and words of two rows, so they are assumed to overlap.
		accesses(in, func(ref *ir.Value, store bool, bx *box) {
			r, as := memory(root, ref), ref.Type.String()
			for _, a := range seen[r] {
				if (a.store || store) && (a.as != as || a.box.overlaps(bx)) && a.at != i {
					ds[a.at] = true
					for _, u := range users[a.at] { // so that a load can be repeated at its uses
						if u != i {
							ds[u] = true
						}
					}
				}
			}
			seen[r] = append(seen[r], access{i, store, bx, as})
		})
		for _, r := range in.Results {
			def[r] = i
		}
		for d := range ds {
			deps[i] = append(deps[i], d)
		}
		slices.Sort(deps[i])
	}
	return deps
}

// memory returns the reference behind a cast, or ref itself.
func memory(root map[*ir.Value]*ir.Value, ref *ir.Value) *ir.Value {
	if r := root[ref]; r != nil {
		return r
	}
	return ref
}

// uses calls f for the operands of an instruction and of its body.
func uses(in *ir.Instr, f func(*ir.Value)) {
	for _, a := range in.Args {
		f(a)
	}
	if in.Body != nil {
		in.Body.Walk(func(x *ir.Instr) {
			for _, a := range x.Args {
				f(a)
			}
		})
		for _, y := range in.Body.Yield {
			f(y)
		}
	}
}

// accesses calls f for each reference that an instruction touches, with b nil inside bodies, where any part may be touched. A copy also
// stores to its semaphore, so that copies and waits keep their order.
func accesses(in *ir.Instr, f func(ref *ir.Value, store bool, b *box)) {
	switch in.Op {
	case ir.OpLoad:
		f(in.Args[0], false, newBox(in, in.Args[0], in.Result().Type, len(in.Args) > 1))
	case ir.OpStore:
		f(in.Args[1], true, newBox(in, in.Args[1], in.Args[0].Type, len(in.Args) > 2))
	case ir.OpDMAStart, ir.OpDMAWait:
		f(in.Args[0], false, nil)
		f(in.Args[1], true, nil)
		f(in.Args[2], true, nil)
	}
	if in.Body != nil {
		in.Body.Walk(func(x *ir.Instr) {
			accesses(x, func(ref *ir.Value, store bool, _ *box) { f(ref, store, nil) })
		})
	}
}

// box is the part of a reference that a load or store touches; nil means any part.
//
//	load of [8, 128] from [4, 64, 128] at (1, 16, 0):   lo 1 16 0, count 1 8 128, step 1 1 1
type box struct{ lo, count, step []int }

// newBox returns the box of a load or store of type val; nil if its position is known only at run time.
func newBox(in *ir.Instr, ref *ir.Value, val ir.Type, dynamic bool) *box {
	if dynamic {
		return nil
	}
	n := ref.Type.Rank()
	b := &box{lo: in.Attrs.Starts, count: make([]int, n), step: make([]int, n)}
	for i := range n {
		b.count[i], b.step[i] = 1, in.Attrs.Step(i)
		if k := i - (n - val.Rank()); k >= 0 {
			b.count[i] = val.Shape[k]
		}
	}
	return b
}

// overlaps reports whether two boxes may share an element: their ranges meet along every dimension, and if both have the same stride, at
// the same remainder. Rows 0, 2, 4 and rows 1, 3, 5 do not overlap.
//
// Interleaved boxes of different strides count as overlapping: that restricts the order, and changes no result.
func (a *box) overlaps(b *box) bool {
	if a == nil || b == nil {
		return true
	}
	for i := range a.lo {
		alast, blast := a.lo[i]+(a.count[i]-1)*a.step[i], b.lo[i]+(b.count[i]-1)*b.step[i]
		if alast < b.lo[i] || blast < a.lo[i] {
			return false
		}
		if a.step[i] == b.step[i] && (a.lo[i]-b.lo[i])%a.step[i] != 0 {
			return false
		}
	}
	return true
}
