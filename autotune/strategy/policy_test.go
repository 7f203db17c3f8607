package strategy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// cellsOf are the cells of the judged candidates.
func (j *judged) cellsOf() map[string]bool {
	m := map[string]bool{}
	for _, c := range j.state.Now().Candidates() {
		m[c.Cell] = true
	}
	return m
}

// Whatever the strategy: after four structural iterations without a gain of 3 % and with the same
// hot spots, the next four proposals are of cells without a candidate; then four others decide
// again.
func TestEscalation(t *testing.T) {
	for _, text := range []string{"model", "elites", "random", "exhaustive"} {
		s := space(t, "naive")
		s.Axes = []string{"chunk", "heads", "kq", "beta", "form", "layout", "solve", "state_delay", "head_group"}
		st, err := Parse(text, s)
		require.NoError(t, err)
		j := newJudged(t, s)
		iterations, left, escalated := 0, 0, 0
		for i := range 40 {
			p := st.Next(t.Context(), j.state.Now(), nil)
			require.NotNil(t, p)
			require.Equal(t, left > 0, p.Escalated, "%s %d: %s", text, i, p.Hypothesis)
			cell := p.Variant.Fit(s.Spec).Cell()
			if p.Escalated {
				escalated++
				require.NotContains(t, j.cellsOf(), cell, text)
				require.Contains(t, p.Hypothesis, "the best gain of the last 4 structural iterations is 0.0 %, and the hot spots are the same (solve and products), so a cell that nobody has visited")
			}
			j.judge(p, int64(1000+i))
			c := j.state.Now().Candidate(j.state.Len())
			switch {
			case left > 0:
				left--
			case i > 0 && !c.Scalar:
				iterations++
			}
			if iterations == stalledAfter {
				iterations, left = 0, escalateFor
			}
		}
		require.GreaterOrEqual(t, escalated, 8, text)
	}
}

// Small gains with the same hot spots escalate; a larger one, or moved hot spots, do not, and
// neither does tuning.
func TestEscalates(t *testing.T) {
	for _, row := range []struct {
		name   string
		scores [4]int64
		hot    [4]string
		moves  [4]string
		due    bool
	}{
		{"gains of 1 %", [4]int64{990, 980, 970, 961}, [4]string{}, [4]string{}, true},
		{"one of 10 %", [4]int64{990, 890, 889, 888}, [4]string{}, [4]string{}, false},
		{"hot spots that move", [4]int64{990, 980, 970, 961}, [4]string{2: "state"}, [4]string{}, false},
		{"slower ones with other hot spots", [4]int64{2000, 2000, 2000, 2000}, [4]string{2: "state"}, [4]string{}, true},
		{"tuning among them", [4]int64{2000, 2000, 2000, 2000}, [4]string{}, [4]string{2: "chunk=32"}, false},
	} {
		s := space(t, "naive")
		j := newJudged(t, s)
		j.judge(&Proposal{Variant: s.Seeds[0].Variant}, 1000)
		p := newPolicy(s, &random{s})
		for i, m := range []string{"kq=joined", "beta=right", "heads=0", "form=uw"} {
			require.Nil(t, p.escalation(j.state.Now(), i+2))
			if row.moves[i] != "" {
				m = row.moves[i]
			}
			move := parseMove(m)
			v, err := s.Seeds[0].Variant.With(move.Axis, move.Value)
			require.NoError(t, err)
			j.hot = "solve"
			if row.hot[i] != "" {
				j.hot = row.hot[i]
			}
			j.judge(&Proposal{Variant: v, Parent: 1, Moves: []Move{move}}, row.scores[i])
		}
		require.Equal(t, row.due, p.escalation(j.state.Now(), 6) != nil, row.name)
		require.Nil(t, p.escalation(j.state.Now(), 10), "for four proposals")
	}
}

// With several candidates at a time those that were proposed before the series was known are left
// out: four escalate all the same.
func TestEscalationLooksAhead(t *testing.T) {
	s := space(t, "naive")
	j := newJudged(t, s)
	j.state.Header.Lookahead = 8
	p := newPolicy(s, &random{s})
	for range 30 {
		j.judge(p.Next(t.Context(), j.state.Now(), nil), 1000)
	}
	var due []int
	for id := 1; id <= 30; id++ {
		if p.escalation(j.state.At(max(0, id-8)), id) != nil {
			due = append(due, id)
		}
	}
	require.Equal(t, []int{13, 14, 15, 16, 28, 29, 30}, due, "known after 5, which is the fourth; after 20, again the fourth")
}

// refused is a candidate without a rank.
func (j *judged) refuse(p *Proposal) {
	f := p.Variant.Fit(j.space.Spec)
	j.add(journal.KindCandidate, journal.Candidate{ID: j.state.Len() + 1, Parent: p.Parent, Variant: p.Variant.String(), Fitted: f.String(), Cell: f.Cell(),
		Change: texts(p.Moves), Gate: "numerics", Verdict: journal.Numerics, Reason: "dg is off"})
}

// A refused start leads on to its neighbours and the seeds in reserve, in turn, with one warning;
// once something has a rank the strategy goes on from there.
func TestRefusedStart(t *testing.T) {
	for _, text := range []string{"model", "elites"} {
		s := space(t, "naive")
		s.Reserve = space(t, "default", "split").Seeds
		st, err := Parse(text, s)
		require.NoError(t, err)
		j := newJudged(t, s)
		require.Nil(t, st.Next(t.Context(), j.state.Now(), []string{s.Seeds[0].Variant.String()}), "it waits for the seed")
		j.refuse(st.Next(t.Context(), j.state.Now(), nil))
		moved, warnings, reserve := map[string]bool{}, 0, 0
		for i := range 10 {
			p := st.Next(t.Context(), j.state.Now(), nil)
			require.NotNil(t, p, text)
			if p.Warning != "" {
				warnings++
				require.Contains(t, p.Warning, "no seed has a rank (candidate 1: numerics, dg is off)")
			}
			switch {
			case i%2 == 0 || i >= 4:
				require.Equal(t, 1, p.Parent)
				require.True(t, Reaches(p.Variant.Precision().String(), "f32"), "wrong numbers ask for no less precision: %s", p.Variant)
				change := strings.Join(texts(p.Moves), ",")
				require.False(t, change == "" || moved[change], change)
				moved[change] = true
				require.Contains(t, p.Hypothesis, "candidate 1 was refused (numerics)")
			default:
				require.Equal(t, s.Reserve[i/2].Variant, p.Variant)
				reserve++
			}
			j.refuse(p)
		}
		require.Equal(t, 1, warnings)
		require.Equal(t, 2, reserve)
		p := st.Next(t.Context(), j.state.Now(), nil)
		j.judge(p, 100)
		p = st.Next(t.Context(), j.state.Now(), nil)
		require.Equal(t, j.state.Len(), p.Parent, "%s goes on from what has a rank", text)
	}
}

// A proposer is told when the search escalates, of which group each axis is, and whether it is
// structural.
func TestProposerIsTold(t *testing.T) {
	s := space(t, "naive")
	s.Targets = []string{"v6e"}
	s.Directive, s.Words = "dataflow", "No new axes."
	dir := t.TempDir()
	st, err := Parse(`exec:while read -r line; do printf '%s\n' "$line" >> `+dir+`/asked; echo '{"done": true}'; done`, s)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	j := newJudged(t, s)
	j.judge(st.Next(t.Context(), j.state.Now(), nil), 1000)
	require.Nil(t, st.Next(t.Context(), j.state.Now(), nil))
	for _, m := range []string{"kq=joined", "beta=right", "heads=0", "form=uw"} {
		move := parseMove(m)
		v, err := s.Seeds[0].Variant.With(move.Axis, move.Value)
		require.NoError(t, err)
		j.judge(&Proposal{Variant: v, Parent: 1, Moves: []Move{move}}, 2000)
	}
	require.Nil(t, st.Next(t.Context(), j.state.Now(), nil))
	text, err := os.ReadFile(filepath.Join(dir, "asked"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 2)
	var first, second Question
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &second))
	require.Nil(t, first.Escalation)
	require.Equal(t, "dataflow", first.Directive.Name)
	require.True(t, strings.HasSuffix(first.Directive.Words, "No new axes."), "the words of the preset, then those of the session")
	require.Nil(t, second.Directive, "a process is told once")
	require.Equal(t, &Escalation{Since: 5, Gain: 0, Hot: []string{"solve", "products"}}, second.Escalation)
	for _, c := range first.Axes {
		a, err := gdn.LookupAxis(c.Name)
		require.NoError(t, err)
		require.Equal(t, a.Group, c.Group)
		require.Equal(t, a.Structural(), c.Structural)
	}
}

// Each directive has words for whoever changes code, and each file of words a directive.
func TestDirectiveWords(t *testing.T) {
	for _, d := range Directives {
		require.Contains(t, d.Words(), "**Limits**", d.Name)
	}
	files, err := directiveWords.ReadDir("directives")
	require.NoError(t, err)
	require.Len(t, files, len(Directives))
}
