package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a paragraph is joined, then broken", "one two\nthree four", "one two three\nfour"},
		{"paragraphs stay apart", "one\n\ntwo", "one\n\ntwo"},
		{"rows of a list go on under their text", "List:\n  ab  one two three", "List:\n  ab  one two\n      three"},
		{"a word longer than the line stays whole", "abcdefghijklmnopq rs", "abcdefghijklmnopq\nrs"},
	} {
		require.Equal(t, c.want, wrap(c.text, 14), c.name)
	}
}

// No help that is prose goes beyond the width, and the tree has about fifteen verbs.
func TestHelpWidth(t *testing.T) {
	root := CLI{&app.App{}}.root()
	walk(root, func(c *cobra.Command) {
		for line := range strings.Lines(wrap(c.Long, 80)) {
			if words := strings.Fields(line); len(words) > 1 {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, "%s: %s", c.CommandPath(), line)
			}
		}
	})
	shown := 0
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			shown++
		}
	}
	require.LessOrEqual(t, shown, 16)
}

// Every command of the version before still parses, hidden, and says its name of today.
func TestFormerNames(t *testing.T) {
	for _, old := range []string{"backends", "bench", "cache show", "calibrate", "compile", "handover", "journal show", "journal lint", "journal verify", "journal export", "journal render", "journal ablate", "journal note", "ladder",
		"man", "mfu", "pack", "profile", "report", "results", "search status", "search best", "search resume", "search simulate", "selftest", "split", "targets", "trace top", "unpack", "variants", "worker", "completion", "version"} {
		c, rest, err := CLI{&app.App{}}.root().Find(strings.Fields(old))
		require.NoError(t, err, old)
		require.Empty(t, rest, old)
		hidden := false
		for at := c; at != nil; at = at.Parent() {
			hidden = hidden || at.Hidden
		}
		require.True(t, hidden, old)
	}
}
