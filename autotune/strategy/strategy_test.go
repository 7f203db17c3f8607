package strategy

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

func space(t *testing.T, seeds ...string) Space {
	s, err := gdn.LookupPreset("bench")
	require.NoError(t, err)
	sp := Space{Spec: s, Least: "bf16x1"}
	for _, text := range seeds {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		sp.Seeds = append(sp.Seeds, Seed{Variant: v, Doc: text})
	}
	return sp
}

// judged is a state whose candidates have the given scores.
type judged struct {
	t     *testing.T
	state *journal.State
	space Space
}

func newJudged(t *testing.T, s Space) *judged {
	j := &judged{t, journal.NewState(), s}
	j.add(journal.KindHeader, journal.Header{Format: journal.Format, Targets: []string{"v6e"}, Lookahead: 1})
	return j
}

func (j *judged) add(kind journal.Kind, body any) {
	text, err := json.Marshal(body)
	require.NoError(j.t, err)
	require.NoError(j.t, j.state.Add(journal.Record{Kind: kind, Body: text}))
}

func (j *judged) judge(p Proposal, score int64) {
	f := p.Variant.Fit(j.space.Spec)
	c := journal.Candidate{ID: j.state.Len() + 1, Parent: p.Parent, Variant: p.Variant.String(), Fitted: f.String(), Cell: f.Cell(),
		Verdict: journal.Slower, Costs: []journal.Cost{{Target: "v6e", Score: score}}}
	if parent := j.state.Now().Candidate(p.Parent); parent != nil {
		c.Scalar = parent.Cell == c.Cell
	}
	j.add(journal.KindCandidate, c)
}

// Beam tunes the scalars of the best cells, and takes turns among their neighbours; every proposal is new.
func TestBeam(t *testing.T) {
	s := space(t, "default", "split", "naive")
	st, err := Parse("beam:2", s)
	require.NoError(t, err)
	j := newJudged(t, s)
	seen := map[gdn.Variant]bool{}
	parents := map[int]int{}
	scalars := 0
	for i := range 60 {
		p, ok := st.Next(j.state.Now(), nil)
		require.True(t, ok)
		f := p.Variant.Fit(s.Spec)
		require.False(t, seen[f], p.Variant.String())
		seen[f] = true
		require.NotEmpty(t, p.Hypothesis)
		score := int64(1000 + i)
		switch i {
		case 0:
			score = 100
		case 1:
			score = 90
		}
		if i >= 3 {
			require.Contains(t, []int{1, 2}, p.Parent, "the two best")
			if j.state.Now().Candidate(p.Parent).Cell == f.Cell() {
				scalars++
				require.Contains(t, p.Hypothesis, "tune")
			} else {
				parents[p.Parent]++
			}
		}
		j.judge(p, score)
	}
	require.NotZero(t, scalars)
	require.InDelta(t, parents[1], parents[2], 1)
}

// What is pending is not proposed again.
func TestPending(t *testing.T) {
	for _, text := range []string{"beam", "exhaustive"} {
		s := space(t, "default", "split", "naive")
		st, err := Parse(text, s)
		require.NoError(t, err)
		j := newJudged(t, s)
		var pending []gdn.Variant
		for range 3 {
			p, ok := st.Next(j.state.Now(), pending)
			require.True(t, ok)
			require.NotContains(t, pending, p.Variant)
			pending = append(pending, p.Variant)
		}
		_, ok := st.Next(j.state.Now(), pending)
		require.Equal(t, text == "exhaustive", ok, "beam needs a judged candidate")
	}
}

func TestFocusAndPrecision(t *testing.T) {
	s := space(t, "default", "token")
	s.Focus, s.Least = map[string]string{"flow": "split", "solve": "ladder"}, "f32"
	for _, text := range []string{"beam:3", "exhaustive"} {
		st, err := Parse(text, s)
		require.NoError(t, err)
		j := newJudged(t, s)
		for i := range 50 {
			p, ok := st.Next(j.state.Now(), nil)
			require.True(t, ok)
			if p.Variant.Algo == gdn.AlgoChunk {
				require.Equal(t, gdn.FlowSplit, p.Variant.Flow)
				require.Equal(t, gdn.SolveLadder, p.Variant.Solve)
			}
			require.True(t, Reaches(p.Variant.Precision().String(), "f32"), p.Variant.String())
			j.judge(p, int64(100+i))
		}
	}
}
