package strategy

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
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
	hot   string // the stage that takes most
}

func newJudged(t *testing.T, s Space) *judged {
	j := &judged{t, journal.NewState(), s, "solve"}
	j.add(journal.KindHeader, journal.Header{Format: journal.Format, Targets: []string{"v6e"}, Lookahead: 1})
	return j
}

func (j *judged) add(kind journal.Kind, body any) {
	text, err := json.Marshal(body)
	require.NoError(j.t, err)
	require.NoError(j.t, j.state.Add(journal.Record{Kind: kind, Body: text}))
}

func (j *judged) judge(p *Proposal, score int64) {
	f := p.Variant.Fit(j.space.Spec)
	c := journal.Candidate{ID: j.state.Len() + 1, Parent: p.Parent, Variant: p.Variant.String(), Fitted: f.String(), Cell: f.Cell(),
		Change: texts(p.Moves), Verdict: journal.Worse, Costs: []journal.Cost{{Target: "v6e", Score: score, Cycles: score, Stages: []journal.Stage{{Name: j.hot, Cycles: score / 2}, {Name: "products", Cycles: score / 4}}}}}
	if parent := j.state.Now().Candidate(p.Parent); parent != nil {
		c.Scalar = parent.Cell == c.Cell
	}
	j.add(journal.KindCandidate, c)
}

// Each strategy is a function of what it is given, and random draws and elites stay inside the
// space.
func TestDrawn(t *testing.T) {
	for _, text := range []string{"random", "elites:4", "model"} {
		s := space(t, "naive")
		s.Focus = map[string]string{"flow": "fused"}
		a, err := Parse(text, s)
		require.NoError(t, err)
		b, err := Parse(text, s)
		require.NoError(t, err)
		j := newJudged(t, s)
		seen := map[gdn.Variant]bool{}
		for i := range 40 {
			p := a.Next(t.Context(), j.state.Now(), nil)
			require.NotNil(t, p)
			require.Equal(t, p, b.Next(t.Context(), j.state.Now(), nil))
			require.True(t, s.admits(p.Variant), p.Variant.String())
			require.Equal(t, gdn.FlowFused, p.Variant.Fit(s.Spec).Flow)
			require.False(t, seen[p.Variant.Fit(s.Spec)])
			seen[p.Variant.Fit(s.Spec)] = true
			j.judge(p, int64(100+(i*37)%50))
		}
	}
}

// Each axis is in a directive, each directive names axes and stages that exist, and unknown names
// are refused.
func TestDirectives(t *testing.T) {
	stages := map[string]bool{"step": true, "init": true} // of passes; the others are a builder's
	for _, text := range []string{"tiny", "tiny,direction=train", "contest-prefill,t=300,seqs=3"} {
		s, err := gdn.Parse(text)
		require.NoError(t, err)
		for _, name := range []string{"naive", "token", "split-uw", "tpu-packed", "tpu-train"} {
			if m, err := build.Module(s, parsed(t, name)); err == nil {
				m.Body.Walk(func(in *ir.Instr) { stages[in.Task.Stage] = true })
			}
		}
	}
	held := map[string]bool{}
	for _, d := range Directives {
		got, err := LookupDirective(d.Name)
		require.NoError(t, err)
		require.NotEmpty(t, got.Axes())
		for _, name := range got.Axes() {
			_, err := gdn.LookupAxis(name)
			require.NoError(t, err)
			held[name] = true
		}
		for _, stage := range d.Stages {
			require.Contains(t, stages, stage, d.Name)
		}
	}
	for _, a := range gdn.Axes {
		require.Contains(t, held, a.Name)
	}
	_, err := LookupDirective("speed")
	require.ErrorContains(t, err, "triangular-inversion")
}

// What is pending is not proposed again.
func TestPending(t *testing.T) {
	for _, text := range []string{"elites", "model", "exhaustive"} {
		s := space(t, "default", "split", "naive")
		st, err := Parse(text, s)
		require.NoError(t, err)
		j := newJudged(t, s)
		var pending []string
		for range 3 {
			p := st.Next(t.Context(), j.state.Now(), pending)
			require.NotNil(t, p)
			require.NotContains(t, pending, p.Text.Variant)
			pending = append(pending, p.Text.Variant)
		}
		p := st.Next(t.Context(), j.state.Now(), pending)
		require.Equal(t, text == "exhaustive", p != nil, "elites and model need a judged candidate")
	}
}

func TestFocusAndPrecision(t *testing.T) {
	s := space(t, "default", "token")
	s.Focus, s.Least = map[string]string{"flow": "split", "solve": "ladder"}, "f32"
	for _, text := range []string{"elites:3", "model:3", "exhaustive"} {
		st, err := Parse(text, s)
		require.NoError(t, err)
		j := newJudged(t, s)
		for i := range 50 {
			p := st.Next(t.Context(), j.state.Now(), nil)
			require.NotNil(t, p)
			if p.Variant.Algo == gdn.AlgoChunk {
				require.Equal(t, gdn.FlowSplit, p.Variant.Flow)
				require.Equal(t, gdn.SolveLadder, p.Variant.Inverse.Solve)
			}
			require.True(t, Reaches(p.Variant.Precision().String(), "f32"), p.Variant.String())
			j.judge(p, int64(100+i))
		}
	}
}

// A walk leaves out axes that change nothing for its spec, and meets each program once.
func TestExhaustiveWalk(t *testing.T) {
	s := space(t, "default")
	s.Axes = []string{"kq", "bwd.head_skew", "grads", "pack", "beta", "bwd.decay_bf16"}
	require.Equal(t, []string{"kq", "beta"}, s.moving(s.Axes))
	st, err := Parse("exhaustive", s)
	require.NoError(t, err)
	j := newJudged(t, s)
	seen := map[gdn.Variant]bool{}
	for {
		p := st.Next(t.Context(), j.state.Now(), nil)
		if p == nil {
			break
		}
		require.False(t, seen[p.Variant.Fit(s.Spec)])
		seen[p.Variant.Fit(s.Spec)] = true
		j.judge(p, 100)
	}
	require.Len(t, seen, 2*3)
}

// Every axis changes something for a training step or for packed sequences.
func TestAxesChange(t *testing.T) {
	for _, a := range gdn.Axes {
		changes := false
		for _, text := range []string{"train,init", "contest-prefill,t=300,seqs=3", "contest-decode,b=8", "bench,rule=kda,bound=-2"} {
			s, err := gdn.Parse(text)
			require.NoError(t, err)
			changes = changes || a.Changes(s)
		}
		require.True(t, changes, a.Name)
	}
}
