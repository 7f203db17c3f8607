// Package chains finds what of a kernel's work hangs together.
//
// Tile writes into a task the number of a tile: a head where an op has a tile for each, and a pair of heads once two of them are
// merged. So pair 1 is made of the tasks 2 and 3 and goes on as task 1, which is also what half of pair 0 was called. A kernel
// that is ordered by such numbers takes pairs apart, and no two of them look alike.
//
// A strand is what of one stage hands values on: an instruction, what it reads and what reads it, but for what serves several.
// Ordered by strands, the work on one pair stands together and repeats for the next, which is a loop.
//
//	task     h0 h1 h2 h3   h0 h1   as tiled: heads, then pairs
//	strand   0  0  1  1    0  1    that of pair 1 reads what was made of heads 2 and 3
package chains

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// Name writes the strand of each instruction of a kernel's body into its task, in place of the tile. A strand of one tile has its
// number, or that of its pair where its stage has pairs; others are numbered by stage, in the order in which they begin. The stages that
// are named here are one.
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

// work is a body, and who reads what within a stage.
type work struct {
	instrs       []*ir.Instr
	one          []string // stages that are one
	reads, users [][]int  // of each instruction
	parent       []int    // of union and find
	joined       []bool   // belongs to a strand
}

// Odd is the suffix of the names of the second of two heads that are computed together.
const Odd = "_odd"

// few is how many tiles a value serves that ties what reads it, and how many strands are tied by what has no tile.
const few = 2

// forward joins instructions with what they read. What has no tile goes with the one strand that it reads of; with two where what
// reads it has a tile, for then it is where two heads become a pair.
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

// back joins what reads of no strand, such as loads, with the strand that alone reads it.
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

// tiles counts those of some instructions, where none counts as one.
func (w *work) tiles(of []int) int {
	seen := map[int]bool{}
	for _, i := range of {
		seen[w.instrs[i].Task.Head] = true
	}
	return len(seen)
}

// stage is that of an instruction.
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

// shared tells what serves several strands and none by itself: it belongs to no tile, though it was made as a part of one.
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

// number writes the numbers of strands into tasks.
func (w *work) number() {
	mixed, first := map[int]bool{}, map[int]int{} // strands of several tiles; the first of each
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
	pairs := map[string]bool{} // stages with mixed strands
	for i, in := range w.instrs {
		pairs[w.stage(in)] = pairs[w.stage(in)] || w.joined[i] && !shared[i] && mixed[w.find(i)]
	}
	begun := map[string]int{} // mixed strands of a stage
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
