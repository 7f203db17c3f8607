package mosaic_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/internal/golden"
	"github.com/gdngen/gdngen/ir"
)

var update = flag.Bool("update", false, "write the goldens of ops anew")

// frame is what each kernel has around its body, and what follows from the lines before: types of operands, and locations.
var frame = regexp.MustCompile(`(?m)^.*"(builtin\.module|func\.func|stable_mosaic\.func\.func)".*\n|^ *(\^bb0|module).*\n| : \([^)]*\)(?: -> \(\))?$| : \([^)\n]*\)|^ +| loc\([^)]*\)|stable_mosaic\.`)

// end is where the windows of the operands follow.
var end = regexp.MustCompile(`(?m)^.*func\.return`)

// smallest are the shortest cases of each op of a kernel.
func smallest(t *testing.T) map[ir.Op]kernelCase {
	of := map[ir.Op]kernelCase{}
	for _, c := range cases() {
		parse(t, module([]kernelCase{c})).Body.Walk(func(in *ir.Instr) {
			if had, ok := of[in.Op]; !ok || len(c.body)+40*len(c.in) < len(had.body)+40*len(had.in) {
				of[in.Op] = c
			}
		})
	}
	delete(of, ir.OpKernel)
	return of
}

// Each op of a kernel has a golden of a few lines: the body of the smallest case that has the op, and what Mosaic gets for it on v6e. They are
// written anew by
//
//	go test ./codegen/mosaic -run TestOpGoldens -update
func TestOpGoldens(t *testing.T) {
	tg := machine(t, "v6e")
	for op, c := range smallest(t) {
		a, err := mosaic.Backend{}.Emit(parse(t, module([]kernelCase{c})), tg)
		require.NoError(t, err)
		end := end.FindStringIndex(a.Kernels[0].Text)[0]
		text := frame.ReplaceAllString(a.Kernels[0].Text[:end], "")
		got := txtar.Format(&txtar.Archive{Comment: fmt.Appendf(nil, "%s: %%v0, %%v1 .. are loaded from %s; %%r0 .. are stored to %s\n", op, strings.Join(c.in, ", "), strings.Join(c.out, ", ")),
			Files: []txtar.File{{Name: "kernel.ir", Data: []byte(strings.TrimSpace(c.body) + "\n")}, {Name: "v6e.mosaic.mlir", Data: []byte(text)}}})
		file := filepath.Join("testdata", "ops", op.String()+".txtar")
		golden.Check(t, file, got, *update, "go test ./codegen/mosaic -run TestOpGoldens -update")
	}
	if *update {
		return
	}
	files, err := os.ReadDir(filepath.Join("testdata", "ops"))
	require.NoError(t, err)
	require.Len(t, files, len(smallest(t)), "a golden of an op that is no more")
}
