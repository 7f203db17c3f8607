package judge_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/target"
)

// Searches of every kind of work begin, go on and are reported by the same gates: a training step; several shapes on several targets, of which
// one is guarded and one rotates by commit.
func TestRealKinds(t *testing.T) {
	l := judge.OpenLab(t, judge.LabOptions{})
	var rest []string
	for _, target := range target.All() {
		if target.Name != "v5e" && target.Name != "v6e" {
			rest = append(rest, target.Name)
		}
	}
	several := append([]string{"v6e", "v5e"}, rotate.Sample(6, rest, 1)...)
	small := judge.ParseSpec(t, "b=1,t=64,hk=1,hv=2,k=32,v=32,dtype=bf16")
	for name, c := range map[string]autotune.Config{
		"train":  {Spec: judge.ParseSpec(t, "b=1,t=64,hk=1,hv=2,k=32,v=32,dtype=bf16,direction=train"), Targets: []string{"v6e"}},
		"shapes": {Spec: small, Shapes: []judge.Shape{{Spec: small, Weight: 1}, {Spec: judge.ParseSpec(t, "b=2,t=32,hk=1,hv=2,k=32,v=32,dtype=bf16"), Weight: 20}}, Targets: several, Guards: map[string]float64{"v5e": .02}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Dir, c.Evaluator, c.Seeds, c.Generator, c.Candidates = t.TempDir(), l, []string{"naive"}, "test", 1
			_, err := autotune.Search(t.Context(), c)
			require.NoError(t, err)
			c.Candidates = 2
			sum, err := autotune.Resume(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, 2, sum.Candidates)
			champions := requireVerified(t, c.Dir)
			s, _, err := journal.Read(c.Dir, nil)
			require.NoError(t, err)
			require.Empty(t, journal.Lint(s))
			second := s.Now().Candidate(2)
			t.Log(second.Verdict, second.Variant, second.Reason)
			require.NotEmpty(t, second.Shortlist)
			var page bytes.Buffer
			require.NoError(t, report.HTML(&page, c.Dir, s, nil))
			for _, target := range c.Targets {
				best := s.Now().Candidate(champions[target])
				require.NotNil(t, best, target)
				cost := best.Cost(target)
				require.Positive(t, cost.Score)
				if len(c.Shapes) > 0 {
					require.Len(t, cost.Shapes, 2)
					require.InDelta(t, float64(cost.Shapes[0].Score+20*cost.Shapes[1].Score), float64(cost.Score), 1)
				}
				require.Contains(t, page.String(), "<h2>"+target+"</h2>")
			}
			require.Equal(t, len(c.Targets) > 1, len(sum.Portfolio) > 0 && bytes.Contains(page.Bytes(), []byte("<h2>Portfolio</h2>")))
		})
	}
}
