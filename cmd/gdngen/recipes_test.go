package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/stretchr/testify/require"
)

var quotedWords = regexp.MustCompile(`'[^']*'`)

var codeSpan = regexp.MustCompile("`([^`]*)`")

// Every row of docs/data/recipes.md names commands and flags that exist, and tests that do.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile("../../docs/data/recipes.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || strings.Contains(line, "| there |") {
			require.False(t, strings.HasPrefix(line, "| ") && !strings.Contains(line, "| there |"), "not three columns: %s", line)
			continue
		}
		rows++
		for _, m := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			if command, ok := strings.CutPrefix(m[1], "gdngen "); ok {
				requireCommand(t, command)
			}
		}
		for _, name := range strings.Split(strings.TrimSuffix(cells[2], " |"), ", ") {
			requireTest(t, name)
		}
	}
	require.Greater(t, rows, 60)
}

// requireCommand finds a command with its flags. What follows -- is another's.
func requireCommand(t *testing.T, text string) {
	t.Helper()
	text, _, _ = strings.Cut(text, " -- ")
	root := CLI{&app.App{}}.root()
	words := strings.Fields(quotedWords.ReplaceAllString(strings.TrimPrefix(text, "help "), "x"))
	c, rest, err := root.Find(words)
	require.NoError(t, err, text)
	require.NotEqual(t, root, c, text)
	c.InheritedFlags()
	for _, word := range rest {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			require.NotNil(t, c.Flags().Lookup(name), "%s has no --%s", c.CommandPath(), name)
		}
	}
}

// requireTest finds a script, or a test of a package, which a recipe names without the folder above it.
func requireTest(t *testing.T, name string) {
	t.Helper()
	if strings.HasSuffix(name, ".txtar") {
		found, err := filepath.Glob(filepath.Join("testdata", "*", name))
		require.NoError(t, err)
		require.NotEmpty(t, found, name)
		return
	}
	dir, test, ok := strings.Cut(name, " ")
	require.True(t, ok, "%q is neither a script nor a package with a test", name)
	var files []string
	for _, above := range []string{"", "autotune", "internal", "pjrt", "cmd/gdngen/internal"} {
		found, err := filepath.Glob(filepath.Join("..", "..", above, dir, "*_test.go"))
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+test+"(") {
			return
		}
	}
	require.Fail(t, "no such test", name)
}
