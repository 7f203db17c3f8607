package naming

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNames: forms and lists of a value keep its name, and whose it is.
func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Plain("growth_wide_odd"), "growth"},
		{Plain("left_t"), "left_t"},
		{Form("u", "bf"), "u_bf"},
		{Form("u_odd", "bf"), "u_bf_odd"},
		{Form("growth_part", "wide"), "growth_wide"},
		{Form("growth_wide", "halves"), "growth_wide"},
		{Form("u_words", "halves"), "u_words"},
		{Plural("u", 1), "us"},
		{Plural("u_bf_odd", 1), "us_bf_odd"},
		{Plural("kept_s", 1), "kept_s"},
		{Plural("us", 2), "all_us"},
		{Plural("a", 1), "all_a"},
		{Plural("a_bf", 2), "all_a_bf"},
		{Plural("all_us", 2), "all_us"},
		{Singular("us_bf_odd"), "u_bf_odd"},
		{Singular("all_us"), "us"},
	} {
		require.Equal(t, c.want, c.got)
	}
}

func TestBoth(t *testing.T) {
	for want, names := range map[string][]string{
		"k":          {"k"},
		"q_k":        {"q", "k"},
		"k_q_grown":  {"k_grown", "q_grown"},
		"p_t_k_left": {"p_t", "k_left"},
	} {
		require.Equal(t, want, Both(names))
	}
	for _, names := range [][]string{nil, {""}, {"q", ""}, {"q", "k", "v"}} {
		require.Empty(t, Both(names), names)
	}
}
