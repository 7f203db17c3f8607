package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One meaning of never, in every flag that counts failures.
func TestLimit(t *testing.T) {
	for text, want := range map[string]Limit{"never": -1, "0": -1, "-1": -1, "3": 3} {
		var l Limit
		require.NoError(t, l.Set(text))
		require.Equal(t, want, l, text)
	}
	var l Limit
	require.Equal(t, "never", l.String())
	for _, text := range []string{"-2", "often", ""} {
		require.ErrorContains(t, l.Set(text), "or never (also 0 and -1)")
	}
}
