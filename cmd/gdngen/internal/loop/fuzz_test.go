package loop

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzPlan reads any bytes as what an agent wrote of its change: it becomes plain lines for logs, commits and prompts.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"hypothesis":"fewer launches","bottleneck":"launches","gain":"22%","risk":0.2,"shortlist":[{"change":"a","gain":0.2},{"change":"b"},"c"],"next":{"change":"b","gain":0.1,"risk":0.5,"command":"cat cost"}}`))
	f.Add([]byte(`{"blocked":{"command":"make\\nx","text":"\\u001b[2J"},"scaffold":"x","shortlist":["a"]}`))
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
	})
}
