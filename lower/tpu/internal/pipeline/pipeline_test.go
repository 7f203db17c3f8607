package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// Every step has exactly one body, and a body's steps use the same places of all rings.
func TestRuns(t *testing.T) {
	for _, mods := range [][]int{nil, {1}, {2, 1}, {1, 4, 2}} {
		l := &pipeline{rings: map[*ir.Value]*ring{}}
		turns := 1
		for _, m := range mods {
			l.rings[&ir.Value{}] = &ring{mod: m}
			turns = max(turns, m)
		}
		for lo := range 4 {
			for hi := lo; hi < lo+9; hi++ {
				bodies := map[int]int{}
				for _, r := range l.runs(lo, hi) {
					require.Equal(t, turns, r.turns)
					for c := r.lo; c <= r.hi; c++ {
						if c%r.turns == r.turn {
							bodies[c]++
						}
					}
				}
				require.Len(t, bodies, hi-lo+1)
				for c := lo; c <= hi; c++ {
					require.Equal(t, 1, bodies[c], "step %d of %d to %d by %d", c, lo, hi, turns)
				}
			}
		}
	}
}
