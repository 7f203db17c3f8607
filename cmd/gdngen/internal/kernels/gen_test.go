package kernels

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
)

// Each backend of the table has what writes its programs.
func TestWriters(t *testing.T) {
	require.Len(t, writers, len(route.Routes)+1)
	for _, r := range route.Routes {
		require.NotNil(t, writers[r.Name()].program, r.Name())
	}
}
