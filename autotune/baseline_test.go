package autotune

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/report"
)

// withBaseline is a search from naive on one target that judges auto first; what it tells is gathered.
func withBaseline(t *testing.T, candidates int, told *[]string) Config {
	c := quick(t, candidates)
	c.Targets, c.Seeds, c.Baseline = []string{"v6e"}, []string{"naive"}, true
	c.Evaluator = &fake{roomy: true}
	c.Told = func(text string) { *told = append(*told, text) }
	return c
}

func TestBaseline(t *testing.T) {
	var told []string
	c := withBaseline(t, 12, &told)
	c.Progress = func(p Progress) { require.Len(t, told, 2, "auto is told of before the first candidate") }
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Contains(t, told[0], "judging auto")
	require.Contains(t, told[1], "to beat on v6e")
	require.Equal(t, 12, sum.Candidates, "the baseline is no candidate")
	requireVerified(t, c.Dir)

	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	base := s.Baseline("v6e")
	require.NotNil(t, base)
	auto, err := champions(c.Spec, "auto", c.Targets)
	require.NoError(t, err)
	require.Equal(t, auto[0].String(), base.Variant)
	text, err := Object(c.Dir, base.Objects["ir"])
	require.NoError(t, err)
	require.Equal(t, base.Variant, string(text))

	// Decisions are those of a run without it, and a run that goes on judges it no second time.
	plain := withBaseline(t, 12, &told)
	plain.Baseline = false
	_, err = Search(t.Context(), plain)
	require.NoError(t, err)
	require.Equal(t, decisions(t, plain.Dir), decisions(t, c.Dir))
	told = nil
	c.Progress, c.Candidates = nil, 14
	_, err = Resume(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, told)
}

// TestBaselineWord takes each way a best candidate can compare with auto.
func TestBaselineWord(t *testing.T) {
	for _, x := range []struct {
		candidate int64
		word      string
	}{{300_000, "takes 25.00 % less: use it"}, {400_000, "takes the same: nothing better is known"}, {500_000, "takes 25.00 % more: use auto, nothing better is known"}} {
		var told []string
		c := withBaseline(t, 1, &told)
		first := true
		c.Evaluator = &fake{roomy: true, cost: func(k *journal.Cost) {
			k.Score = 400_000
			if !first {
				k.Score = x.candidate
			}
			first = false
		}}
		sum, err := Search(t.Context(), c)
		require.NoError(t, err)
		require.Contains(t, sum.Rankings[0].Base.Word, x.word)
		var text strings.Builder
		require.NoError(t, sum.Text(&text, 0))
		require.Contains(t, text.String(), "auto, the baseline, takes")
		s, _, err := journal.Read(c.Dir, nil)
		require.NoError(t, err)
		var page strings.Builder
		require.NoError(t, report.HTML(&page, c.Dir, s, nil))
		require.Contains(t, page.String(), `class="level"`)
		require.Contains(t, page.String(), x.word)
	}
}

// TestBaselineOfSeed leaves auto out where it is a candidate anyway, and TestBaselineFails goes on without it.
func TestBaselineOfSeed(t *testing.T) {
	var told []string
	c := withBaseline(t, 1, &told)
	c.Seeds = []string{"auto"}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Nil(t, sum.Rankings[0].Base)
	require.Empty(t, told)
}

func TestBaselineFails(t *testing.T) {
	var told, warned []string
	c := withBaseline(t, 2, &told)
	c.Warn = func(text string) { warned = append(warned, text) }
	c.Evaluator = &fake{roomy: true, fail: func(gate string, w *judge.Work) error {
		if w.Record.ID == 0 && gate == "compile" {
			return errors.New("out of discs")
		}
		return nil
	}}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, 2, sum.Candidates)
	require.Nil(t, sum.Rankings[0].Base)
	require.Contains(t, warned[len(warned)-1], "auto has no verdict")
}

func TestBaselineInterrupted(t *testing.T) {
	var told []string
	c := withBaseline(t, 2, &told)
	c.Evaluator = &fake{roomy: true, stuck: func(id int) bool { return id == 0 }}
	ctx, cancel := context.WithCancel(t.Context())
	c.Told = func(string) { cancel() }
	_, err := Search(ctx, c)
	require.NoError(t, err)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	require.Empty(t, s.Baselines(), "half of a judgement is none")
}
