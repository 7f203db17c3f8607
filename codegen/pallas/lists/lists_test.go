package lists_test

import (
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/stretchr/testify/require"
)

// Lists are slices, woven or repeated where they can be.
func TestText(t *testing.T) {
	for want, l := range map[string]string{
		"a":                     "a[0] a[1] a[2] a[3] a[4] a[5]",
		"a[::2]":                "a[0] a[2] a[4]",
		"a[1:4]":                "a[1] a[2] a[3]",
		"_woven(a[:3], b[1:4])": "a[0] b[1] a[1] b[2] a[2] b[3]",
		"[x] * 3":               "x x x",
		"[a[0], b, c[1]]":       "a[0] b c[1]",
		"[*a[1:5], f(a[0])]":    "a[1] a[2] a[3] a[4] f(a[0])",
	} {
		require.Equal(t, want, lists.Text(strings.Fields(l), func(string) int { return 6 }, func() {}))
	}
}

// A dict has as many items in a statement as a line holds, or those of one value.
func TestDict(t *testing.T) {
	var items []lists.Pair
	for _, name := range strings.Fields("q k v g beta initial_state cu_seqlens o") {
		items = append(items, lists.Pair{Key: `"` + name + `"`, Value: `"BTQK"`})
	}
	require.Equal(t, `A = {"q": "BTQK", "k": "BTQK", "v": "BTQK", "g": "BTQK", "beta": "BTQK"}
A |= {"initial_state": "BTQK", "cu_seqlens": "BTQK", "o": "BTQK"}`, lists.Dict("A", items))
	items[3].Value = "f32"
	require.Equal(t, `A = dict.fromkeys(("q", "k", "v"), "BTQK")
A |= dict.fromkeys(("g",), f32)
A |= dict.fromkeys(("beta",), "BTQK")`, lists.FromKeys("A", items[:5]))
}
