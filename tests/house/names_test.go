package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// privateWords are words that nobody of the field has for what they named here; docs and comments may have them in their common sense.
var privateWords = words("apart hasten hastens ago soon said stray strays nobody suit suits sheet sheets paper papers strand strands beside grown " +
	"visit visits deliver delivers delivered leave leaves lockstep glue glued")

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// part is a word of a name in camel case or with underscores: awaitDelivered has await and Delivered, PTXError PTX and Error.
var part = regexp.MustCompile(`[A-Z]+(?:[a-z]+|\b|_|\d)|[A-Z]+$|[A-Z]?[a-z]+|[A-Z]+`)

// privateWord gives the word of a name that no name should have; empty where there is none.
func privateWord(name string) string {
	for _, w := range part.FindAllString(name, -1) {
		if w = strings.ToLower(strings.Trim(w, "_0123456789")); privateWords[w] {
			return w
		}
	}
	return ""
}

// Names of packages, files, types, functions, methods, fields, package variables and constants have the field's words.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{"awaitDelivered": "delivered", "PerVisit": "visit", "TestStrayNames": "stray", "glueIn": "glue", "Leaf": "", "suitable": "", "agoX2": "ago"} {
		require.Equal(t, want, privateWord(name), name)
	}
	files := token.NewFileSet()
	for _, file := range tracked(t) {
		if filepath.Ext(file) != ".go" {
			continue
		}
		check := func(kind, name string) {
			if word := privateWord(name); word != "" {
				t.Errorf("%s: %s of a %s has %q: take a word of the field", file, name, kind, word)
			}
		}
		check("file", filepath.Base(file))
		f, err := parser.ParseFile(files, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		check("package", f.Name.Name)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				check("function", d.(*ast.FuncDecl).Name.Name)
				continue
			}
			for _, spec := range g.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					check("type", spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						check(g.Tok.String(), name.Name)
					}
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			var fields *ast.FieldList
			switch n := n.(type) {
			case *ast.StructType:
				fields = n.Fields
			case *ast.InterfaceType:
				fields = n.Methods
			default:
				return true
			}
			for _, field := range fields.List {
				for _, name := range field.Names {
					check("field", name.Name)
				}
			}
			return true
		})
	}
}
