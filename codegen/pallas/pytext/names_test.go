package pytext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A function numbers what it sets from its first name on, and leaves attributes and what it does not set alone.
func TestOwnNames(t *testing.T) {
	text := "def _state(x_3: Tiles, place: int) -> Tiles:\n    \"\"\"Reads x_3.\"\"\"\n    y_7, x = refs.x_3[place], x_3[0]\n    for i in range(2):\n        y_9 = y_7 + x + z_2\n    return y_9"
	require.Equal(t, "def _state(x_2: Tiles, place: int) -> Tiles:\n    \"\"\"Reads x_2.\"\"\"\n    y, x = refs.x_3[place], x_2[0]\n    for i in range(2):\n        y_2 = y + x + z_2\n    return y_2", OwnNames(text))
}
