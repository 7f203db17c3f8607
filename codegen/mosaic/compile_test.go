package mosaic_test

import (
	"os"
	"slices"
	"testing"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

func compile(t *testing.T, c *aot.Compiler, m *ir.Module, tg *target.Target) {
	t.Helper()
	a, err := mosaic.Backend{}.Emit(m, tg)
	require.NoError(t, err)
	_, err = c.Compile(t.Context(), aot.Request{Topology: tg.Topology, Module: a.Text})
	require.NoError(t, err, tg.Name)
}

// covering keeps the cases that use an op for the first time.
func covering(t *testing.T, cs []kernelCase) (kept []kernelCase) {
	seen := map[ir.Op]bool{}
	for _, c := range cs {
		n := len(seen)
		parse(t, module([]kernelCase{c})).Body.Walk(func(in *ir.Instr) { seen[in.Op] = true })
		if len(seen) > n {
			kept = append(kept, c)
		}
	}
	return kept
}

// TestCompile: the TPU compiler accepts the golden kernels and every op for every target, and every case for one that rotates by commit.
func TestCompile(t *testing.T) {
	c := pjrttest.TPU(t)
	whole := rotate.Sample(10, target.All(), 1)
	for _, tg := range target.All() {
		cs := slices.DeleteFunc(cases(), func(k kernelCase) bool { return tg.Name == "v4" && k.name == "take_rows" })
		if !slices.ContainsFunc(whole, func(w *target.Target) bool { return w == tg }) {
			cs = covering(t, cs)
		}
		compile(t, c, parse(t, module(cs)), tg)
	}
	for _, f := range []string{"testdata/windows.txtar", "testdata/step.txtar"} {
		ar, err := txtar.ParseFile(f)
		require.NoError(t, err)
		m := parse(t, string(ar.Files[0].Data))
		for _, tg := range target.All() {
			compile(t, c, m, tg)
		}
	}
}
