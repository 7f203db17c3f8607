package loop

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop/logbook"
)

// FuzzPlan reads any bytes as what an agent wrote of its change: it becomes plain lines for logs, commits and prompts.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"hypothesis":"fewer launches","bottleneck":"launches","gain":"22%","risk":0.2,"shortlist":[{"change":"a","gain":0.2},{"change":"b"},"c"],"next":{"change":"b","gain":0.1,"risk":0.5,"command":"cat cost"}}`))
	f.Add([]byte(`{"blocked":{"command":"make\\nx","text":"\\u001b[2J"},"scaffold":"x","shortlist":["a"]}`))
	f.Add([]byte(`{"hypothesis":"To be determined","next":{"change":"a Todo, <to be filled in>","command":"PeNDING"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := new(Plan)
		if json.Unmarshal(text, p) != nil {
			return
		}
		p.tidy()
		require.Equal(t, clip(p.Hypothesis, 600), p.Hypothesis)
		require.LessOrEqual(t, len(p.Shortlist), 10)
		for _, i := range p.Shortlist {
			require.Equal(t, clip(i.Change, 600), i.Change)
		}
		log := Log(Defaults(), []Record{{Iteration: 1, Verdict: Keep, Commit: "0123456789", Plan: p, Reason: p.Scaffold, Figures: &Figures{Before: 2, After: 1}}})
		require.Empty(t, logbook.Lint(logbook.Parse(log), logbook.Rules{Fields: logFields, Last: true}), "it would stop the night")
	})
}
