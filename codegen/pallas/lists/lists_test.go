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
