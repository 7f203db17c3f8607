package plan

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// byStage groups a phase's instructions by stage, if the schedule mixes stages. Pure values go to their first user. Instructions keep
// their order if grouping would reorder accesses to the same memory.
func (k *Plan) byStage(instrs []*ir.Instr) []*ir.Instr {
	rank, place := map[string]int{}, map[*ir.Instr]int{}
	def := map[*ir.Value]*ir.Instr{}
	for i, in := range instrs {
		if s := k.tasks[in].Task.Stage; rank[s] == 0 {
			rank[s] = len(rank) + 1
		}
		place[in] = i
		for _, r := range in.Results {
			def[r] = in
		}
	}
	sorted := slices.Clone(instrs)
	slices.SortStableFunc(sorted, func(a, b *ir.Instr) int { return rank[k.tasks[a].Task.Stage] - rank[k.tasks[b].Task.Stage] })
	var out []*ir.Instr
	stage := map[*ir.Instr]string{}
	done := map[*ir.Instr]bool{}
	var put func(in *ir.Instr, s string) bool
	put = func(in *ir.Instr, s string) bool {
		if done[in] {
			return true
		}
		for _, a := range in.Args {
			if d := def[a]; d != nil && !put(d, s) {
				return false
			}
		}
		if in.Body != nil {
			return false
		}
		done[in], stage[in] = true, s
		out = append(out, in)
		return true
	}
	for _, in := range sorted {
		if !put(in, k.tasks[in].Task.Stage) {
			return instrs
		}
	}
	// The order of stores, and of loads around them, must not change.
	root := func(v *ir.Value) *ir.Value {
		for v.Def != nil && v.Def.Op == ir.OpRefCast {
			v = v.Def.Args[0]
		}
		return v
	}
	lastStore, lastAny := map[*ir.Value]int{}, map[*ir.Value]int{}
	for _, in := range out {
		switch in.Op {
		case ir.OpLoad:
			r := root(in.Args[0])
			if place[in] < lastStore[r] {
				return instrs
			}
			lastAny[r] = max(lastAny[r], place[in])
		case ir.OpStore:
			r := root(in.Args[1])
			if place[in] < lastAny[r] {
				return instrs
			}
			lastAny[r], lastStore[r] = place[in], place[in]
		case ir.OpDMAStart, ir.OpDMAWait:
			return instrs
		}
	}
	for in, s := range stage {
		t := k.tasks[in]
		t.Task.Stage = s
		k.tasks[in] = t
	}
	return out
}
