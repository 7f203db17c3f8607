package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/golden"
)

// Programs of small specs are in goldens as text, so that a review shows what a change does to them. They are written anew by
//
//	go test ./tests/programs -run TestGoldens -update
var rewrite = flag.Bool("update", false, "write the goldens anew")

// goldens are a spec and a variant of each kind, as small as they show it.
var goldens = []struct{ name, spec, variant string }{
	{"token", "b=1,t=4,hk=1,hv=1,k=8,v=8,dtype=f32", "token"},
	{"naive", "b=1,t=8,hk=1,hv=1,k=8,v=8,dtype=f32", "naive"},
	{"merge-packed", "b=1,t=8,hk=1,hv=1,k=8,v=8,dtype=f32", "merge-packed,chunk=8"},
	{"split", "b=1,t=8,hk=1,hv=1,k=8,v=8,dtype=f32", "split,chunk=8"},
	{"overlap", "b=1,t=16,hk=1,hv=1,k=8,v=8,dtype=bf16", "tpu,chunk=8"}, // two chunks, so that phases overlap
	{"decode", "b=2,t=1,hk=1,hv=1,k=8,v=8,init", "decode"},
	{"packed", "b=1,t=8,hk=1,hv=1,k=8,v=8,seqs=2", "default,chunk=8"},
	{"train", "b=1,t=8,hk=1,hv=1,k=8,v=8,direction=train", "default,chunk=8"},
}

func TestGoldens(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			text := txtar.Format(levels(t, g.spec, g.variant))
			golden.Check(t, filepath.Join("goldens", g.name+".txtar"), text, *rewrite, "go test ./tests/programs -run TestGoldens -update")
		})
	}
}

// levels is a program at each level: tensors, kernels, Mosaic for v6e, StableHLO and Pallas.
func levels(t *testing.T, spec, variant string) *txtar.Archive {
	s, err := gdn.Parse(spec)
	require.NoError(t, err)
	v, err := gdn.ParseVariant(variant)
	require.NoError(t, err)
	f := route.NewForm(s, v)
	m, err := f.Build()
	require.NoError(t, err)
	k, err := f.Kernels()
	require.NoError(t, err)
	plain, err := emitted(m, "stablehlo")
	require.NoError(t, err)
	mosaic, err := kernels(k, "v6e")
	require.NoError(t, err)
	python, err := pallas.Source(s, v, route.Modules, pallas.Provenance{})
	require.NoError(t, err)
	a := &txtar.Archive{Comment: []byte(fmt.Sprintf("gdngen gen --spec %s --variant %s, values named after their ops, types of operands left out\n", spec, variant))}
	for _, file := range []struct{ name, text string }{
		{"tensor.ir", named(m.String())},
		{"kernel.ir", named(k.String())},
		{"v6e.mosaic.mlir", named(brief(mosaic))},
		{"stablehlo.mlir", named(brief(plain))},
		{"pallas.py", kernelsOf(python)},
	} {
		a.Files = append(a.Files, txtar.File{Name: file.name, Data: []byte(file.text)})
	}
	return a
}

var (
	operandTypes = regexp.MustCompile(`(?m) : \(.*\) (-> .*)$`)
	dialect      = regexp.MustCompile(`"stable_mosaic\.([\w.]+)"`)
)

// brief is MLIR without what follows from the lines before: types of operands. The dialects of a kernel are Mosaic's.
func brief(text string) string {
	return dialect.ReplaceAllString(operandTypes.ReplaceAllString(text, " $1"), "$1")
}

var (
	definition = regexp.MustCompile(`^\s*(%\d+(?::\d+)?(?:, %\d+)*) = "?([\w.]+)`)
	numbered   = regexp.MustCompile(`%\d+`)
)

// named gives values that have numbers names after their ops, %dot2 for the second dot, so that a new instruction does not rename all that
// follow. Parameters of blocks become %p1, %p2 and so on. A number that is defined again, in another kernel, is another value.
func named(text string) string {
	names, count := map[string]string{}, map[string]int{}
	name := func(id, op string) {
		count[op]++
		names[id] = fmt.Sprintf("%%%s%d", op, count[op])
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if m := definition.FindStringSubmatch(line); m != nil {
			use := line[len(m[0]):] // may read what the number meant before
			use = numbered.ReplaceAllStringFunc(use, func(id string) string {
				if names[id] == "" {
					name(id, "p")
				}
				return names[id]
			})
			for _, id := range numbered.FindAllString(m[1], -1) {
				name(id, m[2][strings.LastIndexByte(m[2], '.')+1:])
			}
			line = m[0] + use
		}
		b.WriteString(numbered.ReplaceAllStringFunc(line, func(id string) string {
			if names[id] == "" {
				name(id, "p")
			}
			return names[id]
		}))
	}
	return b.String()
}

func TestNamed(t *testing.T) {
	require.Equal(t, "  %3 = vector.load(%1) {a = 1} -> vector<8xf32>\n", brief("  %3 = \"stable_mosaic.vector.load\"(%1) {a = 1} : (memref<1x(2)>) -> vector<8xf32>\n"))
	require.Equal(t, "  %dot1 = dot %q, %p1 : f32\n  %add1 = add %dot1, %dot1\n  %dot2 = \"x.dot\"(%add1, %dot1)\n",
		named("  %4 = dot %q, %9 : f32\n  %5 = add %4, %4\n  %6 = \"x.dot\"(%5, %4)\n"))
	require.Equal(t, "%call1:2 = y.call\n%neg1 = neg %call1#1\n%neg2 = neg %neg1\n", named("%4:2 = y.call\n%5 = neg %4#1\n%5 = neg %5\n"))
}
