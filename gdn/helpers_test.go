package gdn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func mustParse(t testing.TB, text string) Spec {
	t.Helper()
	s, err := Parse(text)
	require.NoError(t, err)
	return s
}

func parseVariant(t testing.TB, text string) Variant {
	t.Helper()
	v, err := ParseVariant(text)
	require.NoError(t, err)
	return v
}
