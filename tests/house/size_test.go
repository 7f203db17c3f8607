package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uudashr/gocognit"
)

// Sizes up to which code is read in one go. Tests do not count.
const (
	packageLines   = 4000
	typeMethods    = 60
	functionLines  = 100
	functionBranch = 40 // cognitive complexity
)

// larger are what is larger, by kind and name: a size may fall, and none may be added. Today nothing is.
var larger = map[string]int{}

// What is read in one go stays so: packages, types and functions keep to the sizes above, and what does not yet may only shrink.
func TestSizes(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}\t{{.ImportPath}}", module+"...").Output()
	require.NoError(t, err)
	sizes := map[string]int{}
	limit := map[string]int{}
	note := func(what, name string, n, most int) {
		key := fmt.Sprintf("%s of %s", what, name)
		sizes[key], limit[key] = max(sizes[key], n), most
	}
	for line := range strings.Lines(string(out)) {
		dir, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		path = strings.TrimPrefix(path, module)
		files := token.NewFileSet()
		lines, methods := 0, map[string]int{}
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(files, name, nil, 0)
			require.NoError(t, err)
			lines += files.File(f.FileStart).LineCount()
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				note("lines", path+"."+fn.Name.Name, files.Position(fn.End()).Line-files.Position(fn.Pos()).Line+1, functionLines)
				note("branches", path+"."+fn.Name.Name, gocognit.Complexity(fn), functionBranch)
				if fn.Recv != nil {
					methods[receiverName(fn.Recv.List[0].Type)]++
				}
			}
		}
		note("lines", path, lines, packageLines)
		for name, n := range methods {
			note("methods", path+"."+name, n, typeMethods)
		}
	}
	for key, n := range sizes {
		most, known := larger[key]
		if !known {
			require.LessOrEqual(t, n, limit[key], "%s", key)
			continue
		}
		require.LessOrEqual(t, n, most, "%s: it was large before, and has grown", key)
		require.Greater(t, n, limit[key], "%s: it is small now, take its row away", key)
	}
	for key := range larger {
		require.Contains(t, sizes, key, "nothing has this name any more")
	}
}

// receiverName names the type of a method.
func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.IndexListExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return fmt.Sprint(x)
}
