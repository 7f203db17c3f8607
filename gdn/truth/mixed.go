package truth

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// distributed returns the number of decodes or windows of a mixed batch, and of all its sequences.
func distributed(s gdn.Spec, distribution *array.Array) (decodes, all int) {
	list := distribution.Int64s()
	all = int(max(0, min(list[2], int64(s.Seqs))))
	return int(max(0, min(list[0], int64(all)))), all
}

// foundIn returns the indices, with -1 for indices outside of the pool of n states.
func foundIn(list []int64, n int) []int64 {
	list = slices.Clone(list)
	for i, x := range list {
		if x < 0 || x >= int64(n) {
			list[i] = -1
		}
	}
	return list
}

// named returns state_indices of a mixed batch, with -1 for padding and for indices outside of the pool.
func named(list []int64, s gdn.Spec, distribution *array.Array) []int64 {
	list = foundIn(list, s.Pool/s.Checkpoints())
	_, all := distributed(s, distribution)
	for i := all; i < len(list); i++ {
		list[i] = -1
	}
	return list
}

// findMixed is find for a mixed batch. Padding sequences have no tokens, and sequences without tokens no state.
func (r *recurrence) findMixed(inputs map[string]*array.Array) {
	s := r.s
	decodes, all := distributed(s, inputs["distribution"])
	if s.Mixed > 1 {
		r.windows = decodes
	}
	cu := inputs["cu_seqlens"].Int64s()
	for n, b := range cu {
		r.bounds = append(r.bounds, int(b))
		if n > all {
			r.bounds[n] = int(cu[all])
		}
	}
	names := named(inputs["state_indices"].Int64s(), s, inputs["distribution"])
	reads := foundIn(inputs["read_indices"].Int64s(), s.Pool)
	for n := range s.Seqs {
		slot := int(names[n]) * s.Checkpoints()
		if names[n] < 0 || r.bounds[n] == r.bounds[n+1] {
			slot = -1
		}
		r.slots, r.reads = append(r.slots, slot), append(r.reads, int(reads[n]))
	}
}

// mixed draws cu_seqlens and distribution of a mixed batch. One of five sequences is padding (with cu_seqlens 1), half of the others
// are decodes, and an eighth of the tokens is padding. Of two prompts the first is empty; of three or more, another has
// one token.
func (d draw) mixed() (cu, distribution []int64) {
	s, r := d.s, d.stream("cu_seqlens")
	all := max(1, s.Seqs-(s.Seqs+2)/5)
	decodes := min((all+int(d.seed%2))/2, s.Tokens/(2*s.Mixed))
	cu = append(cu, 0)
	add := func(l int64) { cu = append(cu, cu[len(cu)-1]+l) }
	for range decodes {
		l := int64(1)
		if s.Mixed > 1 {
			l = r.Int64N(int64(s.Mixed)) + 1
		}
		add(l)
	}
	prompts := all - decodes
	rest := int64(s.Tokens-s.Tokens/8) - cu[decodes]
	for i := range prompts {
		left := rest - (cu[len(cu)-1] - cu[decodes])
		switch {
		case i == 0 && prompts > 1:
			add(0)
		case i == prompts-1:
			add(left)
		case i == 1:
			add(min(1, left))
		default:
			add(r.Int64N(left + 1))
		}
	}
	for len(cu) <= s.Seqs {
		cu = append(cu, 1)
	}
	distribution = []int64{int64(decodes), int64(decodes), int64(all)}
	if all == s.Seqs {
		distribution[2] += 2 // more sequences than there are: the same as all
	}
	return cu, distribution
}
