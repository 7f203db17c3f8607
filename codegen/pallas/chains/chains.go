// Package chains groups a kernel's instructions into independent chains of work.
//
// Tile writes the number of a tile into a task: the head, or the pair of heads once two heads are merged. Pair 1 is made from tasks 2
// and 3 and continues as task 1, a number that half of pair 0 had before. Ordered by these numbers, pairs would be mixed, and no two
// would look alike.
//
// A chain is a connected part of one stage: an instruction, its operands and its users, except values that several chains share.
// Ordered by chains, the work on one pair is contiguous and repeats for the next pair: a loop.
//
//	task     h0 h1 h2 h3   h0 h1   as tiled: heads, then pairs
//	chain    0  0  1  1    0  1    pair 1 reads the results of heads 2 and 3
package chains

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// Name replaces the tile in each instruction's task by the number of its chain. A chain of one tile has the tile's number, or its
// pair's number if its stage has pairs. Other chains are numbered per stage, in the order in which they begin. The stages in one count
// as a single stage.
func Name(b *ir.Block, one ...string) {
	n := len(b.Instrs)
	w := &work{instrs: b.Instrs, one: one, reads: make([][]int, n), users: make([][]int, n), parent: make([]int, n), joined: make([]bool, n)}
	def := map[*ir.Value]int{}
	for i, in := range b.Instrs {
		w.parent[i] = i
		for _, a := range in.Args {
			if j, ok := def[a]; ok && w.stage(b.Instrs[j]) == w.stage(in) {
				w.reads[i], w.users[j] = append(w.reads[i], j), append(w.users[j], i)
			}
		}
		for _, r := range in.Results {
			def[r] = i
		}
	}
	w.forward()
	w.back()
	w.number()
}

// work is a body with its dependences within stages.
type work struct {
	instrs       []*ir.Instr
	one          []string // stages that count as one
	reads, users [][]int  // of each instruction
	parent       []int    // of union-find
	joined       []bool   // it belongs to a chain
}

// Odd is the suffix of the names of the second of two heads that are computed together.
const Odd = "_odd"

// few is the most tiles among the users of a value that joins them, and the most chains that an instruction without a tile joins.
const few = 2

// forward joins instructions with their operands. An instruction without a tile joins the one chain that it reads. It joins two if its
// users have a tile, for then two heads become a pair.
func (w *work) forward() {
	for i, in := range w.instrs {
		var from []int
		for _, j := range w.reads[i] {
			if w.tiles(w.users[j]) <= few && w.joined[j] && !slices.Contains(from, w.find(j)) {
				from = append(from, w.find(j))
			}
		}
		pair := len(from) == few && len(w.users[i]) > 0 && !slices.ContainsFunc(w.users[i], func(u int) bool { return w.instrs[u].Task.Head < 0 })
		if w.joined[i] = in.Task.Head >= 0 || len(from) == 1 || pair; w.joined[i] {
			for _, s := range from {
				w.parent[w.find(i)] = s
			}
		}
	}
}

// back joins an instruction that reads no chain, such as a load, with the only chain that reads it.
func (w *work) back() {
	strand := func(i int) bool { return w.joined[i] }
	for i, users := range slices.Backward(w.users) {
		if w.joined[i] || len(users) == 0 || slices.ContainsFunc(w.reads[i], strand) {
			continue
		}
		s := w.find(users[0])
		if !slices.ContainsFunc(users, func(u int) bool { return !w.joined[u] || w.find(u) != s }) {
			w.joined[i], w.parent[i] = true, s
		}
	}
}

// tiles counts the distinct tiles of some instructions; no tile counts as one.
func (w *work) tiles(of []int) int {
	seen := map[int]bool{}
	for _, i := range of {
		seen[w.instrs[i].Task.Head] = true
	}
	return len(seen)
}

// stage returns the stage of an instruction.
func (w *work) stage(in *ir.Instr) string {
	if slices.Contains(w.one, in.Task.Stage) {
		return w.one[0]
	}
	return in.Task.Stage
}

func (w *work) find(i int) int {
	for w.parent[i] != i {
		w.parent[i] = w.parent[w.parent[i]]
		i = w.parent[i]
	}
	return i
}

// shared returns the instructions that serve several chains and not their own: they belong to no tile, though made as part of one.
func (w *work) shared() []bool {
	out := make([]bool, len(w.instrs))
	for i, users := range slices.Backward(w.users) {
		strands, own := map[int]bool{}, false
		all := len(users) > 0
		for _, u := range users {
			strands[w.find(u)] = true
			own = own || !out[u] && w.find(u) == w.find(i)
			all = all && out[u]
		}
		out[i] = all || !own && len(strands) > few
	}
	return out
}

// number writes the numbers of chains into tasks.
func (w *work) number() {
	mixed, first := map[int]bool{}, map[int]int{} // whether a chain has several tiles; its first tile
	for i, in := range w.instrs {
		if s := w.find(i); w.joined[i] && in.Task.Head >= 0 {
			h, ok := first[s]
			if !ok {
				first[s] = in.Task.Head
			}
			mixed[s] = mixed[s] || ok && h != in.Task.Head
		}
	}
	shared := w.shared()
	pairs := map[string]bool{} // stages with mixed chains
	for i, in := range w.instrs {
		pairs[w.stage(in)] = pairs[w.stage(in)] || w.joined[i] && !shared[i] && mixed[w.find(i)]
	}
	begun := map[string]int{} // mixed chains of a stage
	number := map[int]int{}
	for i, in := range w.instrs {
		if shared[i] {
			in.Task.Head = -1
		}
		if !w.joined[i] || shared[i] {
			continue
		}
		s := w.find(i)
		n, ok := number[s]
		if !ok {
			if n = first[s]; mixed[s] {
				n = begun[w.stage(in)]
				begun[w.stage(in)]++
			} else if pairs[w.stage(in)] {
				n /= few
			}
			number[s] = n
		}
		if in.Task.Head%few == 1 && pairs[w.stage(in)] && len(in.Results) == 1 {
			in.Result().Called(in.Called() + Odd)
		}
		in.Task.Head = n
	}
}
