package ruler

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]Ruler{"": InOrder, "in-order": InOrder, "issue": Issue, "wall": InOrder, "throughput": Issue} {
		r, err := Parse(name)
		require.NoError(t, err)
		require.Equal(t, want, r, name)
	}
	require.Equal(t, Issue, InOrder.On("v5p"))
	for _, name := range []string{"cycles", "modelled"} {
		_, err := Parse(name)
		require.EqualError(t, err, `unknown ruler "`+name+`" (known: in-order issue)`)
	}
}

func TestFormerNames(t *testing.T) {
	var read struct{ A, B, C, D Ruler }
	require.NoError(t, json.Unmarshal([]byte(`{"A":"wall","B":"throughput","C":"modelled"}`), &read))
	require.Equal(t, struct{ A, B, C, D Ruler }{InOrder, Issue, Modelled, ""}, read)
	written, err := json.Marshal(read)
	require.NoError(t, err)
	require.JSONEq(t, `{"A":"in-order","B":"issue","C":"modelled","D":""}`, string(written))
}
