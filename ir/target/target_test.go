package target

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Targets have the names of this project and of the field, in any case; every other name has its target.
func TestParse(t *testing.T) {
	list, err := Parse("V6E, trillium-,")
	require.Nil(t, list)
	require.EqualError(t, err, `unknown target "trillium-" (known: v4 v5e v5p v6e tpu7x; GPUs: h100 h200 gh200 h20 b200 gb200 b300 gb300)`)
	list, err = Parse("Trillium,ironwood,v5litepod,")
	require.NoError(t, err)
	var names []string
	for _, x := range list {
		names = append(names, x.Name)
	}
	require.Equal(t, []string{"v6e", "tpu7x", "v5e"}, names)
	_, err = Parse("v6e,trillium")
	require.EqualError(t, err, "target v6e is given twice")
	for _, row := range All() {
		for _, other := range row.OtherNames {
			x, err := Lookup(strings.ToUpper(other))
			require.NoError(t, err)
			require.Same(t, row, x)
		}
	}
	for _, text := range []string{"", ",", "v6e,,v5e"} {
		_, err = Parse(text)
		require.Error(t, err, text)
	}
}
