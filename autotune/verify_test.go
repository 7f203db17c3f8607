package autotune

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
)

// rewritten is a run like another whose records were changed before they were written.
func rewritten(t *testing.T, from string, change func(*journal.Header, *journal.Candidate)) string {
	dir := t.TempDir()
	j, _, err := journal.Open(dir)
	require.NoError(t, err)
	_, _, err = journal.Read(from, func(r journal.Record) error {
		var body any = r.Body
		switch r.Kind {
		case journal.KindHeader:
			h := new(journal.Header)
			require.NoError(t, json.Unmarshal(r.Body, h))
			change(h, nil)
			body = h
		case journal.KindCandidate:
			c := new(journal.Candidate)
			require.NoError(t, json.Unmarshal(r.Body, c))
			change(nil, c)
			body = c
		}
		return j.Append(r.Kind, body)
	})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	require.NoError(t, os.CopyFS(objectsDir(dir), os.DirFS(objectsDir(from))))
	return dir
}

// A journal that another version of the strategy or of the rules made is no faulty one: a note says what can not be recomputed, and what can
// be is. It is not gone on with.
func TestVerifyOtherVersions(t *testing.T) {
	c := quick(t, 20)
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	var told []int
	v, err := Verify(c.Dir, func(done, total int) { told = append(told, done, total) })
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	require.Empty(t, v.Notes)
	require.Len(t, told, 40)
	require.Equal(t, []int{19, 20}, told[38:])

	bare := rewritten(t, c.Dir, func(*journal.Header, *journal.Candidate) {})
	require.NoError(t, os.RemoveAll(objectsDir(bare)))
	v, err = Verify(bare, nil)
	require.NoError(t, err)
	require.Len(t, v.Faults, 1, "a folder that was not copied is one fault")
	require.Contains(t, v.Faults[0], "copy it with the journal")

	old := rewritten(t, c.Dir, func(h *journal.Header, k *journal.Candidate) {
		switch {
		case h != nil:
			h.Proposer = "beam 0, choices 00000000"
		case k.ID == 7:
			k.Hypothesis = "as an older version said it"
		}
	})
	v, err = Verify(old, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	require.Len(t, v.Notes, 1)
	require.Contains(t, v.Notes[0], "proposed by beam 0, choices 00000000, and this program has ")
	c.Dir, c.Candidates = old, 25
	_, err = Resume(t.Context(), c)
	require.ErrorContains(t, err, "proposer beam 0")

	gone := rewritten(t, c.Dir, func(h *journal.Header, _ *journal.Candidate) {
		if h != nil {
			h.Strategy = "beam:4"
		}
	})
	v, err = Verify(gone, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	require.Contains(t, v.Notes[0], "is still shown and verified, and can not go on")
	_, err = Resume(t.Context(), Config{Dir: gone, Candidates: 25, Evaluator: &fake{}, Generator: "test"})
	require.ErrorContains(t, err, "can not go on; begin one with model")

	rules := rewritten(t, old, func(h *journal.Header, k *journal.Candidate) {
		switch {
		case h != nil:
			h.Rules = 0
		case k.Verdict == journal.Worse:
			k.Reason, k.Evidence = "slow", "as an older version put it"
		}
	})
	v, err = Verify(rules, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	require.Len(t, v.Notes, 2)
	require.Contains(t, v.Notes[0], "made by rules 0")

	wrong := rewritten(t, rules, func(_ *journal.Header, k *journal.Candidate) {
		if k != nil && k.Verdict == journal.Worse {
			k.Verdict = journal.Improved
		}
	})
	v, err = Verify(wrong, nil)
	require.NoError(t, err)
	require.NotEmpty(t, v.Faults, "a verdict that the scores do not give is one under any rules")

	for says, change := range map[string]func(*journal.Cost){
		"candidate 3: cost on v5e: score 1, and": func(c *journal.Cost) { c.Score = 1 },
		"candidate 3: cost on v5e: score -":      func(c *journal.Cost) { c.Score = -c.Score },
		".001 cycles a token, and score":         func(c *journal.Cost) { c.PerToken = .001 },
	} {
		lies := rewritten(t, rules, func(_ *journal.Header, k *journal.Candidate) {
			if k != nil && k.ID == 3 {
				require.NotEmpty(t, k.Costs)
				change(&k.Costs[0])
			}
		})
		v, err := Verify(lies, nil)
		require.NoError(t, err)
		require.Contains(t, strings.Join(v.Faults, "\n"), says)
	}
}
