package thunk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/stablehlo/eval"
	"github.com/gdngen/gdngen/ir/target"
)

func h100(t *testing.T) *target.GPU {
	g, err := target.LookupGPU("h100")
	require.NoError(t, err)
	return g
}

// testdata/loop is what the CUDA plugin 0.11.2 dumped of testdata/loop.mlir for an h100 on 23 November 2026: three turns around a loop
// that adds a row of 4 KiB in place.
func TestRead(t *testing.T) {
	p, err := Read("testdata/loop")
	require.NoError(t, err)
	text, err := os.ReadFile("testdata/loop.mlir")
	require.NoError(t, err)
	turns, err := eval.Turns(string(text), map[int][]int64{0: {5}})
	require.NoError(t, err)
	r := p.Count(turns, h100(t))
	require.Empty(t, r.Unknown)
	require.Equal(t, []Loop{{Line: 6, Turns: 3, Launches: 3, Bytes: r.Loops[0].Bytes}, {Line: 11, Depth: 1, Turns: 15, Launches: 3, Bytes: r.Loops[1].Bytes}}, r.Loops)
	// a turn reads a row and the operand that is added to it, and writes the row
	require.InDelta(t, 3*4096, r.Loops[1].Bytes, 64)
	rows := map[string]Row{}
	for _, x := range r.Rows {
		rows[x.Name] = x
	}
	update := rows["loop_dynamic_update_slice_fusion"]
	require.Equal(t, [3]int{8, 1, 1}, update.Grid)
	require.Equal(t, [3]int{128, 1, 1}, update.Block)
	require.EqualValues(t, 15, update.Turns)
	require.EqualValues(t, 4096, update.Written)
	require.EqualValues(t, 18, rows["wrapped_compare"].Turns, "a condition runs once more than its body, each time that the loop begins")
	require.InDelta(t, h100(t).Timing.Launch*float64(r.Launches), r.Modelled, 1e-9, "all of these are shorter than the shortest kernel")
	require.Len(t, r.Names(), 4)

	// without the values the inner loop is not known, and the outer is
	r = p.Count(nil, h100(t))
	require.Equal(t, "the turns of the loop at line 11 of the StableHLO depend on values that are not known", r.Unknown)
	require.EqualValues(t, []int64{3, -1}, []int64{r.Loops[0].Turns, r.Loops[1].Turns})
	var b strings.Builder
	r.Write(&b, 2)
	require.Contains(t, b.String(), "and 6 more")
}

// A file that is missing, cut or of another form is an error that says so, never a count.
func TestUnreadable(t *testing.T) {
	for name, damage := range map[string]struct {
		file string
		to   func(string) string
		want string
	}{
		"no sequence": {"*.thunk_sequence.txt", func(string) string { return "" }, "the thunk sequence is empty"},
		"other form":  {"*.thunk_sequence.txt", func(s string) string { return "thunks:\n" + s }, `"thunks:" is not understood`},
		"no names":    {"*.thunk_metadata.txt", func(string) string { return "" }, "names no instruction of the module"},
		"no module":   {"*gpu_after_optimizations.txt", func(string) string { return "" }, "the module has no instructions"},
		"new type":    {"*gpu_after_optimizations.txt", func(s string) string { return strings.ReplaceAll(s, "f32[64,1024]", "f7[64,1024]") }, "elements of unknown size"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/loop")))
			found, err := filepath.Glob(filepath.Join(dir, damage.file))
			require.NoError(t, err)
			require.Len(t, found, 1)
			text, err := os.ReadFile(found[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(found[0], []byte(damage.to(string(text))), 0o644))
			_, err = Read(dir)
			require.ErrorContains(t, err, damage.want)
		})
	}
	_, err := Read(t.TempDir())
	require.ErrorContains(t, err, "the dump has no file")
}
