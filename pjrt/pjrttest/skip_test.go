package pjrttest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// No test of the module may be skipped where CI is set: a function that skips reads that variable, to fail in place of skipping.
func TestNoSilentSkip(t *testing.T) {
	var silent []string
	skips := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			at, asks := token.NoPos, false
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					on, _ := n.X.(*ast.Ident)
					if on != nil && skipping[on.Name+"."+n.Sel.Name] {
						at = n.Pos()
						skips++
					}
				case *ast.BasicLit:
					asks = asks || n.Value == strconv.Quote("CI")
				}
				return true
			})
			if at.IsValid() && !asks && path != shortening {
				silent = append(silent, files.Position(at).String())
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, silent, "these skip a test in CI too: fail where the variable CI is set")
	require.Greater(t, skips, 5, "the walk has missed them")
}

// shortening takes fewer of a kind where -short asks, and never none.
const shortening = "../../internal/rotate/rotate.go"

// skipping are the ways to leave a test out.
var skipping = map[string]bool{"t.Skip": true, "t.Skipf": true, "t.SkipNow": true, "b.Skip": true, "b.Skipf": true, "b.SkipNow": true, "testing.Short": true}
