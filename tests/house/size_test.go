package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/uudashr/gocognit"
)

const (
	functionLines  = 100
	functionBranch = 40 // cognitive complexity
	wide           = 120
)

// A function is read in one go. Tests do not count.
func TestFunctions(t *testing.T) {
	files := token.NewFileSet()
	for _, name := range tracked(t) {
		if filepath.Ext(name) != ".go" || isTest(name) {
			continue
		}
		f, err := parser.ParseFile(files, filepath.Join(root, name), nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			require.LessOrEqual(t, files.Position(fn.End()).Line-files.Position(fn.Pos()).Line+1, functionLines, "lines of %s in %s", fn.Name.Name, name)
			require.LessOrEqual(t, gocognit.Complexity(fn), functionBranch, "complexity of %s in %s", fn.Name.Name, name)
		}
	}
}

// budgetRow is a row of the table of sizes: a folder, and its lines of Go, Python and templates.
var budgetRow = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([0-9,]+) \\| ([0-9,]+) \\| ([0-9,]+) \\|$")

// Each folder at the root has a budget of lines, in the table of docs/architecture.md. Only a feature raises a row, and its commit says which.
func TestBudget(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	budget := map[string][3]int{}
	for _, row := range budgetRow.FindAllStringSubmatch(string(page), -1) {
		var lines [3]int
		for i := range lines {
			lines[i], err = strconv.Atoi(strings.ReplaceAll(row[2+i], ",", ""))
			require.NoError(t, err)
		}
		budget[row[1]] = lines
	}
	count := map[string][3]int{}
	for _, name := range tracked(t) {
		kind, ok := map[string]int{".go": 0, ".py": 1, ".tmpl": 2, ".html": 2}[filepath.Ext(name)]
		folder, _, below := strings.Cut(name, "/")
		if !ok || !below || isTest(name) || folder == "docs" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		lines := count[folder]
		lines[kind] += length(text)
		count[folder] = lines
	}
	require.NotEmpty(t, count)
	for folder, lines := range count {
		most, known := budget[folder]
		require.True(t, known, "docs/architecture.md has no budget for %s, which has %v lines of Go, Python and templates", folder, lines)
		for i, kind := range []string{"Go", "Python", "templates"} {
			require.LessOrEqual(t, lines[i], most[i], "lines of %s in %s: delete some, or raise the row in docs/architecture.md and say in the commit for which feature", kind, folder)
		}
	}
	for folder := range budget {
		require.Contains(t, count, folder, "a budget for a folder without code")
	}
}

// length counts lines, one wider than 120 characters as two.
func length(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		n++
		if utf8.RuneCount(bytes.TrimRight(line, "\n")) > wide {
			n++
		}
	}
	return n
}

const root = "../.."

// isTest tells files of tests and their data.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tests/") || strings.Contains(name, "/testdata/")
}

// tracked lists the files of the repository, by paths from its root.
func tracked(t *testing.T) (names []string) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard").Output()
	require.NoError(t, err)
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	return names
}
