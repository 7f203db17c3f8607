package measure

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
)

// recorded is a compiler that answers with a recorded dump, or an error.
type recorded struct {
	dump  string // file in pjrt/llo/testdata
	err   error
	asked int
}

func (r *recorded) Compile(_ context.Context, q aot.Request) (*aot.Result, error) {
	r.asked++
	if r.err != nil {
		return nil, r.err
	}
	f, err := os.Open(filepath.Join("..", "..", "pjrt", "llo", "testdata", r.dump+".txtar.gz"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	for _, file := range txtar.Parse(text).Files {
		err = errors.Join(err, os.WriteFile(filepath.Join(q.DumpDir, file.Name), file.Data, 0o644))
	}
	return &aot.Result{CodeBytes: 7, Fingerprint: "f"}, err
}

func machine(t *testing.T, name string) *target.Target {
	x, err := target.Lookup(name)
	require.NoError(t, err)
	return x
}

func instrument(t *testing.T, c Compiler) *Instrument {
	return &Instrument{Compiler: c, Libtpu: "libtpu test", Cache: &Cache{Dir: t.TempDir()}, Scratch: t.TempDir()}
}

// What was measured once is the same the next time without a compile; another text, target, compiler or table is measured anew, and so
// is all where the cache is not asked. Schedules are removed.
func TestCache(t *testing.T) {
	c := &recorded{dump: "dot512_v6e_0.0.51"}
	x := instrument(t, c)
	v6e := machine(t, "v6e")
	p := Foreign("dot", "module @main {}")
	first, err := x.Static(t.Context(), p, v6e, Options{Scalars: map[string][]int64{"9": {1}}})
	require.NoError(t, err)
	require.False(t, first.Kept)
	require.Positive(t, first.Report.Cycles)
	require.Equal(t, []string{"9"}, first.Unread)
	again, err := x.Static(t.Context(), p, v6e, Options{Scalars: map[string][]int64{"9": {1}}})
	require.NoError(t, err)
	require.True(t, again.Kept)
	again.Kept = false
	require.Equal(t, first, again)
	require.Equal(t, 1, c.asked)

	other := *v6e
	other.HBM++
	for i, f := range []func() error{
		func() error {
			_, err := x.Static(t.Context(), Foreign("dot", "module @main {} "), v6e, Options{})
			return err
		},
		func() error { _, err := x.Static(t.Context(), p, v6e, Options{}); return err },
		func() error { _, err := x.Static(t.Context(), p, &other, Options{}); return err },
		func() error { _, err := x.Static(t.Context(), p, v6e, Options{Columns: 3}); return err },
		func() error { x.Libtpu = "another"; _, err := x.Static(t.Context(), p, v6e, Options{}); return err },
		func() error { x.Cache.Fresh = true; _, err := x.Static(t.Context(), p, v6e, Options{}); return err },
	} {
		require.NoError(t, f())
		require.Equal(t, 2+i, c.asked)
	}
	left, err := os.ReadDir(x.Scratch)
	require.NoError(t, err)
	require.Empty(t, left)

	dir := t.TempDir()
	kept, err := x.Static(t.Context(), p, v6e, Options{Dump: dir})
	require.NoError(t, err)
	require.Equal(t, dir, filepath.Dir(kept.Dump))
}

// A compile is announced with what programs of about its size took; larger and failed ones tell nothing.
func TestExpectedTime(t *testing.T) {
	c := &recorded{dump: "dot512_v6e_0.0.51"}
	x := instrument(t, c)
	var said []string
	x.Note = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	for _, text := range []string{"module @main {}", "module @main { }", strings.Repeat("module @main {}", 3)} {
		_, err := x.Static(t.Context(), Foreign("dot", text), machine(t, "v6e"), Options{})
		require.NoError(t, err)
	}
	require.Len(t, said, 3)
	for i, want := range []string{"minutes the first time", "such programs took 1 s here", "minutes the first time"} {
		require.Contains(t, said[i], want)
	}
	require.Equal(t, "such programs took 11 to 40 s here", expected([]took{{90, 11.5}, {120, 39.2}, {300, 100}}, 100))
}

// A damaged file of the cache counts as absent.
func TestDamagedCache(t *testing.T) {
	c := &recorded{dump: "dot512_v6e_0.0.51"}
	x := instrument(t, c)
	p := Foreign("dot", "module @main {}")
	_, err := x.Static(t.Context(), p, machine(t, "v6e"), Options{})
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(x.Cache.Dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.WriteFile(files[0], []byte("no gzip"), 0o644))
	_, err = x.Static(t.Context(), p, machine(t, "v6e"), Options{})
	require.NoError(t, err)
	require.Equal(t, 2, c.asked)
}

// A schedule that depends on a table without given values compiles, and has no cost: that is no refusal by the compiler.
func TestCostUnknown(t *testing.T) {
	x := instrument(t, &recorded{dump: "varlen_v6e_0.0.51"})
	p := Foreign("varlen", "module @main {}")
	made, err := x.Compile(t.Context(), p, machine(t, "v6e"), Options{})
	require.NoError(t, err)
	require.Nil(t, made.Report)
	require.Equal(t, int64(7), made.Result.CodeBytes)
	for range 2 { // from the cache too
		_, err = x.Static(t.Context(), p, machine(t, "v6e"), Options{})
		var r *Refusal
		require.ErrorAs(t, err, &r)
		require.Equal(t, CostUnknown, r.Verdict)
		require.ErrorContains(t, err, "on a predicate that only a run would tell")
	}
	made, err = x.Static(t.Context(), p, machine(t, "v6e"), Options{Scalars: map[string][]int64{"0": {0, 2, 2, 5, 8}, "1": {5}}})
	require.NoError(t, err)
	require.Positive(t, made.Report.Cycles)
}

// What the compiler answers is a verdict with its words, and what it would say again is kept; failures of the machinery are none, and
// what may be the machine's fault is asked again.
func TestVerdicts(t *testing.T) {
	for _, row := range []struct {
		err  error
		want Verdict
		kept bool
	}{
		{&aot.RejectError{Code: 3, Msg: "no"}, CompileReject, true},
		{&aot.VMEMError{Size: 5, Limit: 4, Msg: "more"}, VMEM, true},
		{&aot.TimeoutError{}, Timeout, false},
		{&aot.CrashError{Exit: "signal", Stderr: "stack"}, Crash, false},
		{&aot.MemoryError{Limit: 1 << 20}, Crash, false},
		{&aot.RequestError{Field: "Module"}, "", false},
		{&aot.InfraError{Op: "start", Err: errors.New("x")}, "", false},
	} {
		c := &recorded{err: row.err}
		x := instrument(t, c)
		for range 2 {
			_, err := x.Compile(t.Context(), Foreign("f", "text"), machine(t, "v6e"), Options{})
			require.ErrorContains(t, err, row.err.Error())
			var r *Refusal
			require.Equal(t, row.want != "", errors.As(err, &r), "%T", row.err)
			if r != nil {
				require.Equal(t, row.want, r.Verdict)
				require.True(t, r.FromCompiler())
			}
		}
		require.Equal(t, map[bool]int{true: 1, false: 2}[row.kept], c.asked, "%T", row.err)
	}
}

// A panic of a pass is our fault, with the place and the stack.
func TestInternal(t *testing.T) {
	m, b := ir.NewModule("f")
	x := b.Param("x", ir.T(ir.F32, 2))
	require.NoError(t, b.Finish(m, []string{"y"}, []*ir.Value{b.Add(x, x)}))
	route, err := route.Lookup("mosaic")
	require.NoError(t, err)
	route.Transform = func(*ir.Module) (*ir.Module, error) { var none []int; return nil, errors.New(string(rune(none[0]))) }
	_, err = OfModule(m, nil, gdn.Variant{}, route)
	var r *Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, Internal, r.Verdict)
	require.ErrorContains(t, err, "lowering panics: runtime error: index out of range")
	require.ErrorContains(t, err, "in measure.TestInternal")
	require.Contains(t, r.Log, "measure_test.go")
}

// A program that can not be built, emitted or held by the target is refused before a compiler is asked.
func TestRefusedPrograms(t *testing.T) {
	route, err := route.Lookup("mosaic")
	require.NoError(t, err)
	s, err := gdn.Parse("b=1,t=64,hk=1,hv=2,k=64,v=64,dtype=bf16")
	require.NoError(t, err)
	_, err = Make(s, "chunk=256,leaf=512", route, machine(t, "v6e"))
	var r *Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, Invalid, r.Verdict)

	p, err := Make(s, "merge-packed,prec=bf16x1", route, machine(t, "v6e"))
	require.NoError(t, err)
	small := *machine(t, "v6e")
	small.VMEM = 1 << 16
	_, err = p.Text(&small)
	require.ErrorAs(t, err, &r)
	require.Equal(t, VMEM, r.Verdict)
	text, err := p.Text(machine(t, "v6e"))
	require.NoError(t, err)
	require.Contains(t, text, "tpu_custom_call")
}

// The tables of packed sequences are part of the program: search and command line see the same.
func TestTables(t *testing.T) {
	route, err := route.Lookup("mosaic")
	require.NoError(t, err)
	s, err := gdn.Parse("t=260,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,packed")
	require.NoError(t, err)
	p, err := Make(s, "tpu-packed,chunks=2", route, machine(t, "v6e"))
	require.NoError(t, err)
	require.NotEmpty(t, p.Scalars)
	m, err := build.Module(s, p.Variant)
	require.NoError(t, err)
	q, err := OfModule(m, &s, p.Variant, route)
	require.NoError(t, err)
	require.Equal(t, p.Scalars, q.Scalars)
	text, err := p.Text(machine(t, "v6e"))
	require.NoError(t, err)
	other, err := q.Text(machine(t, "v6e"))
	require.NoError(t, err)
	require.Equal(t, text, other)
}

// Every way to a cost leads through this package: nothing else reads schedules.
func TestOneInstrument(t *testing.T) {
	var found []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		if dir := filepath.ToSlash(path); strings.HasPrefix(dir, "../../autotune/measure/") || strings.HasPrefix(dir, "../../pjrt/") { // it, and what it is on
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pack, ok := s.X.(*ast.Ident); ok && pack.Name == "llo" && (s.Sel.Name == "Analyze" || s.Sel.Name == "Options") {
					found = append(found, path)
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, found, "these read schedules themselves: ask measure.Instrument")
}
