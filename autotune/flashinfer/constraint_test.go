package flashinfer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConstraints(t *testing.T) {
	scalars := map[string]int{"a": 7, "b": 3, "zero": 0}
	vectors := map[string][]int64{"cu": {0, 4, 9}}
	for text, want := range map[string]bool{
		"a == 7": true, "a != 7": false, "a >= b": true, "a < b": false, "a <= 7 and b > 3": false, "a > 0 or b == 99": true,
		"not a == 7": false, "a % b == 1": true, "-a % b == 2": true, "a // b == 2": true, "-a // b == -3": true,
		"a - b - 1 == 3": true, "2 * (a + b) == 20": true, "1 < b < a": true, "1 < a < b": false, "b + 1": true, "zero": false,
		"cu[-1].item() == 9": true, "cu[1] == a - b": true, "a == 7 or 1 // zero == 1 and cu[0] == 0": true,
	} {
		got, err := holds(text, scalars, vectors)
		if text == "a == 7 or 1 // zero == 1 and cu[0] == 0" {
			require.ErrorContains(t, err, "divides by zero")
			require.NotErrorIs(t, err, errUnknown)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "a ==", "len(cu) == 3", "cu[5] == 1", "c == 1", "(a == 7", "a == 7)", "a ** 2 == 49", "a in (1, 7)", "cu == 1", "'x' == a", "a / b == 2"} {
		_, err := holds(text, scalars, vectors)
		require.ErrorIs(t, err, errUnknown, text)
	}
}
