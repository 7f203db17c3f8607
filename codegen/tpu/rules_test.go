package tpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// Every op has a form in tiles or a reason why not.
func TestRulesAreTotal(t *testing.T) {
	for op := range ir.NumOps {
		require.NotEqual(t, tileRules[op] == nil, noTiles[op] == "", "%s has a row in tileRules, or one in noTiles", op)
	}
}
