package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam/accuracy"
)

// aimed is a candidate with a cost under an objective.
func aimed(t *testing.T, variant, aim string, perToken journal.Figure) *Work {
	w := workOn(t, spec(t, "bench"), variant)
	var err error
	w.Objective, err = objective.Parse(aim)
	require.NoError(t, err)
	state := journal.NewState()
	require.NoError(t, state.Add(journal.Record{Kind: journal.KindHeader, Body: []byte(`{"format":2,"targets":["v6e"],"lookahead":1}`)}))
	w.Known = state.Now()
	w.Record.Costs = []journal.Cost{{Target: "v6e", Score: int64(32768 * perToken), PerToken: perToken}}
	return w
}

// A class of accuracy refuses what errs more, and lets pass what does not, by the errors of docs/accuracy.md.
func TestAccuracyGate(t *testing.T) {
	l := &Lab{}
	w := aimed(t, "tpu-long", "cost@error=fla", 2)
	r, err := l.accuracy(t.Context(), w)
	require.NoError(t, err)
	require.NotNil(t, r)
	require.Equal(t, journal.Numerics, r.Verdict)
	require.Contains(t, r.Reason, "class fla allows")
	require.Len(t, w.Record.Errors, len(accuracy.Short()))

	fla, err := route.Resolve(w.Spec, gdn.AccuracyFLA.Text(), mustTarget(t, "v6e"), nil)
	require.NoError(t, err)
	w = aimed(t, fla.Variant.String(), "cost@error=fla", 2)
	r, err = l.accuracy(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, r, "%v", r)
	require.EqualValues(t, 65536, w.Record.Costs[0].Score, "it is ranked by cost")
	for _, e := range w.Record.Errors {
		known, _ := accuracy.Of("gdngen, fla", e.Class)
		want := known.O
		if e.Output == "final_state" {
			want = known.State
		}
		require.InEpsilon(t, want, float64(e.Error), .01, "%s: as the table of docs/accuracy.md", e.Class)
	}

	w = aimed(t, fla.Variant.String(), "cost", 2)
	r, err = l.accuracy(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, r)
	require.Empty(t, w.Record.Errors, "nothing is measured where cost is all")

	w = aimed(t, "tpu-long", "cost@error=fla", 2)
	w.Text = "module"
	r, err = l.accuracy(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, journal.Invalid, r.Verdict)
}

// Within the bound the score is a measure of error, beyond it of cycles, and an error is better than any cost.
func TestErrorAtCost(t *testing.T) {
	require.EqualValues(t, 500, score(1000, 1))
	require.EqualValues(t, 750, score(1000, 3))
	require.EqualValues(t, 1, score(1000, 0))
	require.Less(t, score(1000, 900), int64(1000))

	l := &Lab{}
	w := aimed(t, "merge-packed", "error@cost=2.5", 2)
	r, err := l.accuracy(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, r)
	require.Less(t, w.Record.Costs[0].Score, int64(100), "some ten-thousandths of flash-linear-attention's error")

	w = aimed(t, "merge-packed", "error@cost=1.5", 2)
	r, err = l.accuracy(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, r)
	require.EqualValues(t, 65536, w.Record.Costs[0].Score)
	require.Empty(t, w.Record.Errors, "what costs too much is ranked by cost")

	for perToken, want := range map[journal.Figure]int64{2: 2.5 * 32768, 3: 3 * 32768} {
		w = aimed(t, "merge-packed", "error@cost=2.5", perToken)
		best := w.Record.Costs[0]
		if w.Objective.Meets(&best) {
			best.Score = 7 // an error
		}
		require.Equal(t, want, w.beats(&best), "a candidate of fewer cycles may be better")
	}
}
