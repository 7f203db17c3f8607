package house

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// public are the packages that other programs import. What they export is a promise: a change of it is in CHANGELOG.md.
var public = []string{"ir/target", "ir", "ir/array", "ir/interp", "gdn", "gdn/build", "gdn/truth", "gdn/exam", "gdn/parallel", "gdn/layer", "gdn/layer/device", "gdn/layer/kernels",
	"codegen", "codegen/route", "autotune/measure", "autotune/ruler", "pjrt", "pjrt/plugins", "pjrt/trace"}

const apiFile = "api.txt"

var update = flag.Bool("update", false, "write "+apiFile+" anew")

// The exported names of public packages, with their types, are those of api.txt. What differs is named.
func TestAPI(t *testing.T) {
	var now []string
	for _, p := range public {
		lines, err := exported(p)
		require.NoError(t, err)
		now = append(now, lines...)
	}
	if *update {
		require.NoError(t, os.WriteFile(apiFile, []byte(strings.Join(now, "\n")+"\n"), 0o644))
		return
	}
	data, err := os.ReadFile(apiFile)
	require.NoError(t, err)
	had := strings.Split(strings.TrimSpace(string(data)), "\n")
	require.Empty(t, append(without("- ", had, now), without("+ ", now, had)...),
		"the public API has changed: say so in CHANGELOG.md, and run go test ./tests/house -run TestAPI -update")
}

// without lists what a has and b has not.
func without(mark string, a, b []string) (list []string) {
	known := map[string]bool{}
	for _, x := range b {
		known[x] = true
	}
	for _, x := range a {
		if !known[x] {
			list = append(list, mark+x)
		}
	}
	return list
}

// A change of a field, of a method or of a parameter is named, and an unexported name is none of the API.
func TestExported(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
type S struct { A, b int; C map[string]bool }
type hidden struct { A int }
type I interface { M(x int) error; n() }
type F func(int)
func (s *S) Do(n int) error { return nil }
func (h hidden) Do() {}
func New[T any](x T) *S { return nil }
const One, two = 1, 2
var Table []string
`, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"const One", "func (s *S) Do(n int) error", "func New[T any](x T) *S", "type F func(int)", "type I interface", "type I interface, M(x int) error",
		"type S struct", "type S struct, A int", "type S struct, C map[string]bool", "var Table []string"}, declared(f))
}

// exported lists what a package exports, a line each.
func exported(path string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(path), "*.go"))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, line := range declared(f) {
			list = append(list, path+": "+line)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil // a name that two systems declare is one
}

// declared lists the exported declarations of a file: values with their types, functions without bodies, each field and method of a type.
func declared(f *ast.File) (list []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || receiver(d.Recv.List[0].Type)) {
				list = append(list, source(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}))
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() {
							list = append(list, strings.TrimSpace(d.Tok.String()+" "+name.Name+" "+source(s.Type)))
						}
					}
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						list = append(list, typed(s)...)
					}
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// receiver reports whether methods of the type are seen outside.
func receiver(x ast.Expr) bool {
	name := strings.TrimPrefix(source(x), "*")
	return ast.IsExported(name)
}

// typed lists a type: of a struct or an interface what it exports, of others what they stand for.
func typed(s *ast.TypeSpec) []string {
	var fields *ast.FieldList
	kind := ""
	switch x := s.Type.(type) {
	case *ast.StructType:
		fields, kind = x.Fields, "struct"
	case *ast.InterfaceType:
		fields, kind = x.Methods, "interface"
	default:
		equals := " "
		if s.Assign.IsValid() {
			equals = " = "
		}
		return []string{"type " + s.Name.Name + equals + source(s.Type)}
	}
	head := "type " + s.Name.Name + " " + kind
	list := []string{head}
	for _, f := range fields.List {
		text := source(f.Type)
		if len(f.Names) == 0 {
			list = append(list, head+", "+text)
		}
		for _, name := range f.Names {
			switch {
			case !name.IsExported():
			case kind == "interface":
				list = append(list, head+", "+name.Name+strings.TrimPrefix(text, "func"))
			default:
				list = append(list, head+", "+name.Name+" "+text)
			}
		}
	}
	return list
}

// source prints a node in one line; nothing of none.
func source(n any) string {
	if x, ok := n.(ast.Expr); n == nil || ok && x == nil {
		return ""
	}
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
