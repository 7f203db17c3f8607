package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	pageLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor   = regexp.MustCompile("[^a-z0-9 _-]")
	codeBlock   = regexp.MustCompile("(?s)```.*?```")
)

// There are at most 20 pages of at most 250 lines, each with what it is for behind its title and what comes next at its end. Tables that are
// generated, or were printed, are below docs/data.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	require.LessOrEqual(t, len(pages), 20)
	for _, name := range pages {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		require.LessOrEqual(t, len(lines), 250, name)
		require.Regexp(t, `\n\nNext: [^\n]+(\n[^\n]+)?\n$`, string(data), "%s ends with what to read next", name)
		require.True(t, strings.HasPrefix(lines[0], "# ") && lines[1] == "" && strings.HasPrefix(lines[2], "For "), "%s begins with what it is for", name)
	}
}

// Links between pages lead to files and headings.
func TestLinks(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/data/*.md", "docs/journal/README.md", "examples/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	links := 0
	for _, name := range pages {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(data), ""), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			at := name
			if file != "" {
				at = filepath.Join(filepath.Dir(name), file)
			}
			_, err := os.Stat(at)
			require.NoError(t, err, "%s: %s", name, m[1])
			if anchor != "" && strings.HasSuffix(at, ".md") {
				require.Contains(t, anchors(t, at), anchor, "%s: %s", name, m[1])
			}
			links++
		}
	}
	require.Greater(t, links, 100)
}

// anchors are the names that headings of a page have in links.
func anchors(t *testing.T, page string) []string {
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	var list []string
	for _, m := range pageHeading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(data), ""), -1) {
		list = append(list, strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return slices.Compact(list)
}
