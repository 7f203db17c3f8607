package judge

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// A cost that does not follow from its record, or from the schedule that is kept with it, is told by the figure that differs.
func TestContradictions(t *testing.T) {
	v6e, s := mustTarget(t, "v6e"), spec(t, "bench")
	g := Grounds{Shapes: []Shape{{s, 1}}, Targets: []*target.Target{v6e}}
	hbm := measure.Score(0, 1, s, v6e)
	wall := 10 * hbm
	r := &llo.Report{Cycles: 6558, HBMBytes: 1, Schedule: "abc", Wall: llo.Wall{Cycles: wall}}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	kept := map[string][]byte{"schedule/v6e": text}
	sound := journal.Cost{Target: "v6e", Ruler: ruler.InOrder, Cycles: 6558, Wall: wall, HBM: hbm, Score: wall, PerToken: journal.Figure(float64(wall) / float64(s.Work())), Schedule: "abc"}
	faults := func(c journal.Cost) []string {
		return g.Faults(&journal.Candidate{Costs: []journal.Cost{c}}, func(role string) []byte { return kept[role] })
	}
	require.Empty(t, faults(sound))
	for says, change := range map[string]func(*journal.Cost){
		"score 1, and the larger of its cycles and of HBM is": func(c *journal.Cost) { c.Score = 1 },
		"score -3":                                func(c *journal.Cost) { c.Score = -3 },
		"0.001 cycles a token, and score":         func(c *journal.Cost) { c.PerToken = .001 },
		"NaN cycles a token":                      func(c *journal.Cost) { c.PerToken = journal.Figure(math.NaN()) },
		"hbm -1":                                  func(c *journal.Cost) { c.HBM = -1 },
		"cycles 7, and its schedule says 6558":    func(c *journal.Cost) { c.Cycles = 7 },
		"hbm 1, and its schedule says":            func(c *journal.Cost) { c.HBM = 1 },
		"schedule x, and the one that is kept is": func(c *journal.Cost) { c.Schedule = "x" },
		"in-order 7, and its schedule says ": func(c *journal.Cost) {
			c.Wall, c.HBM, c.Score, c.PerToken = 7, 5, 7, journal.Figure(7/float64(s.Work()))
		},
	} {
		c := sound
		change(&c)
		l := faults(c)
		require.Len(t, l, 1, says)
		require.Contains(t, l[0], "cost on v6e: ")
		require.Contains(t, l[0], says)
	}
	kept["schedule/v6e"] = []byte("{")
	require.Contains(t, faults(sound)[0], "its schedule can not be read")
}
