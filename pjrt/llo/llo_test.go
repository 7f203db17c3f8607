package llo

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo/hlo"
)

// archive reads a dump folder kept as a gzipped txtar.
func archive(t testing.TB, name string) *txtar.Archive {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".txtar.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return txtar.Parse(text)
}

// unpack writes the files of a dump to a fresh folder.
func unpack(t testing.TB, a *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range a.Files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644))
	}
	return dir
}

func lookup(t testing.TB, name string) *target.Target {
	t.Helper()
	target, err := target.Lookup(name)
	require.NoError(t, err)
	return target
}

var offsets = Options{Scalars: map[string][]int64{"0": {0, 2, 2, 5, 8}, "1": {5}}}

// golden holds what an independent model of the same machine (llosim.py and ana.py, in Python) says of each dump:
//
//	ana.ana(dir, generation, smem={"varlen": {0: [0, 2, 2, 5, 8], 1: [5]}})
//
// HBM bytes are computed by hand from the shapes: each operand read once, each result written once, one granule (v5e: 16) of parameters.
var golden = []struct {
	dump, target                       string
	cycles, bundles, top               int64
	static                             int
	stall, busy, spills, fills, matmul int64 // matmul: slot MATMUL or MXU
	hbm                                int64
}{
	{"dot512_v5e_0.0.42", "v5e", 2341, 1978, 152, 1826, 363, 2048, 191, 357, 6740, 3 * 512 * 512 * 2},
	{"dot512_v6e_0.0.42", "v6e", 941, 847, 152, 695, 94, 512, 0, 0, 848, 3 * 512 * 512 * 2},
	{"dot512_v6e_0.0.51", "v6e", 942, 848, 153, 695, 94, 512, 0, 0, 848, 3 * 512 * 512 * 2},
	{"dot512_tpu7x_0.0.51", "tpu7x", 906, 573, 150, 423, 333, 512, 0, 0, 382, 3 * 512 * 512 * 2},
	{"varlen_v6e_0.0.42", "v6e", 1299, 1251, 163, 206, 48, 128, 0, 0, 160, 852512},
	{"varlen_v6e_0.0.51", "v6e", 1307, 1259, 164, 207, 48, 128, 0, 0, 160, 852512},
	{"varlen_tpu7x_0.0.42", "tpu7x", 1076, 964, 207, 153, 112, 128, 0, 0, 160, 852512},
	{"varlen_tpu7x_0.0.51", "tpu7x", 1085, 973, 208, 155, 112, 128, 0, 0, 160, 852512},
	{"p6_v6e_0.0.42", "v6e", 63609, 63102, 133, 8913, 507, 37736, 18399, 27182, 65380, p6Bytes},
	{"p6_v6e_0.0.51", "v6e", 63688, 63176, 134, 8942, 512, 37736, 15041, 23771, 65373, p6Bytes},
	{"p6_tpu7x_0.0.51", "tpu7x", 62139, 61564, 248, 9028, 575, 37016, 15069, 23484, 65354, p6Bytes},
}

// p6Bytes: q and k of 4 heads, v and o of 8, 4096 tokens, 128 wide, bf16; two gates and the final state in f32; parameters.
const p6Bytes = 2*4096*4*128*2 + 2*4096*8*128*2 + 2*4096*8*4 + 8*128*128*4 + granule

func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.dump, func(t *testing.T) {
			r, err := offsets.Analyze(unpack(t, archive(t, g.dump)), lookup(t, g.target))
			require.NoError(t, err)
			require.Len(t, r.Ops, 1)
			op := r.Ops[0]
			require.Equal(t, g.target, r.Target)
			require.Equal(t, g.cycles, r.Cycles)
			require.Equal(t, g.bundles, r.Bundles)
			require.Equal(t, g.top, r.TopLevel)
			require.EqualValues(t, 1, op.Calls)
			require.Equal(t, g.cycles-g.top, op.Cycles)
			require.Equal(t, g.static, op.Static)
			require.Equal(t, g.stall, op.Stall)
			require.Equal(t, g.busy, op.MXUBusy)
			require.Equal(t, g.spills, op.Spills)
			require.Equal(t, g.fills, op.Fills)
			require.Contains(t, []string{"MXU", "MATMUL"}, op.Slots[0].Name)
			require.Equal(t, g.matmul, op.Slots[0].Used)
			require.Equal(t, g.hbm, r.HBMBytes)
			require.Positive(t, op.VMEM)
			for _, s := range op.Slots {
				require.LessOrEqual(t, s.Used, s.Capacity, s.Name)
			}
			if len(op.Locations) > 0 {
				var sum int64
				for _, l := range op.Locations {
					require.GreaterOrEqual(t, l.Cycles, int64(0))
					sum += l.Cycles
				}
				require.Equal(t, op.Cycles, sum)
			}
			require.NotEmpty(t, op.Hot)
		})
	}
}

// The figure that the cost method was published with: 1.94 cycles per token and value head.
func TestPublishedFigure(t *testing.T) {
	for _, version := range []string{"0.0.42", "0.0.51"} {
		r, err := Options{}.Analyze(unpack(t, archive(t, "p6_v6e_"+version)), lookup(t, "v6e"))
		require.NoError(t, err)
		require.InEpsilon(t, 1.94, float64(r.Cycles)/(4096*8), 0.03)
	}
}

func TestDeterministic(t *testing.T) {
	a := archive(t, "p6_v6e_0.0.51")
	first, err := Options{}.Analyze(unpack(t, a), lookup(t, "v6e"))
	require.NoError(t, err)
	again, err := Options{}.Analyze(unpack(t, a), lookup(t, "v6e"))
	require.NoError(t, err)
	require.Equal(t, first, again)
	text, err := json.Marshal(first)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, *first, back)
}

// Names, comments, locations and the numbering of virtual registers and allocations do not change a schedule; an instruction does.
func TestScheduleHash(t *testing.T) {
	hash := func(change func(string) string) string {
		a := archive(t, "varlen_v6e_0.0.51")
		for i := range a.Files {
			a.Files[i].Name = strings.ReplaceAll(a.Files[i].Name, "varlen.1", change("varlen.1"))
			if strings.HasSuffix(a.Files[i].Name, ".txt") {
				a.Files[i].Data = []byte(change(string(a.Files[i].Data)))
			}
		}
		r, err := offsets.Analyze(unpack(t, a), lookup(t, "v6e"))
		require.NoError(t, err)
		return r.Schedule
	}
	same := hash(func(s string) string { return s })
	require.Equal(t, same, hash(strings.NewReplacer("varlen", "other", "kernel.py", "leaf", "#allocation", "#allocation9", "%s10", "%s77", "materialized constant", "").Replace))
	require.NotEqual(t, same, hash(strings.NewReplacer("vadd.f32", "vsub.f32").Replace))
	require.NotEqual(t, same, hash(strings.NewReplacer("sm:$0xff", "sm:$0x0f").Replace))
}

func TestScalarOperands(t *testing.T) {
	dir := unpack(t, archive(t, "varlen_v6e_0.0.51"))
	target := lookup(t, "v6e")
	_, err := Options{}.Analyze(dir, target)
	require.ErrorContains(t, err, "schedule not understood: ")
	require.ErrorContains(t, err, "varlen.1-02-final_bundles.txt:0x42: branch to 0x82 on a predicate that only a run would tell; give the values of operands (Options.Scalars, explain --scalars): varlen.1/0 (s32[5]), varlen.1/1 (s32[1])")

	cost := func(offsets []int64, n int64) int64 {
		r, err := Options{Scalars: map[string][]int64{"0": offsets, "1": {100}, "varlen.1/1": {n}, "9": {0}}}.Analyze(dir, target)
		require.NoError(t, err)
		require.Equal(t, []string{"1", "9"}, r.Unread)
		return r.Ops[0].Cycles
	}
	none, one, two, eight := cost([]int64{0, 0, 0, 0, 0}, 0), cost([]int64{3, 4, 4, 4, 4}, 0), cost([]int64{0, 1, 2, 2, 2}, 0), cost([]int64{0, 2, 4, 6, 8}, 0)
	require.Equal(t, one-none, two-one, "each tile costs the same")
	require.Equal(t, 8*(one-none), eight-none)
	require.Greater(t, cost([]int64{0, 0, 0, 0, 0}, 4), none, "the predicated part runs for n > 3")
}

func TestLocations(t *testing.T) {
	r, err := offsets.Analyze(unpack(t, archive(t, "varlen_v6e_0.0.51")), lookup(t, "v6e"))
	require.NoError(t, err)
	byLine := map[int]int64{}
	for _, l := range r.Ops[0].Locations {
		require.Contains(t, []string{"", "kernel.py"}, l.File)
		byLine[l.Line] += l.Cycles
	}
	for line, cycles := range byLine {
		require.LessOrEqual(t, cycles, byLine[22], "line %d: the dot in the loop costs most", line)
	}
	stages := r.Stages()
	require.Len(t, stages, 2)
	require.Equal(t, "kernel.py", stages[0].File)
	require.Equal(t, r.Ops[0].Cycles, stages[0].Cycles+stages[1].Cycles)
}

func TestDumpFolderErrors(t *testing.T) {
	target := lookup(t, "v6e")
	fails := func(want string, change func(f *txtar.File) bool) {
		t.Helper()
		a := archive(t, "dot512_v6e_0.0.51")
		var kept []txtar.File
		for _, f := range a.Files {
			if change(&f) {
				kept = append(kept, f)
			}
		}
		_, err := Options{}.Analyze(unpack(t, &txtar.Archive{Files: kept}), target)
		require.ErrorContains(t, err, want)
	}
	bundles := func(f *txtar.File) bool { return strings.HasSuffix(f.Name, "fusion-02-final_bundles.txt") }
	use := func(f *txtar.File) bool { return strings.Contains(f.Name, "fusion-00-final_hlo-static") }

	_, err := Options{}.Analyze(filepath.Join(t.TempDir(), "absent"), target)
	require.ErrorIs(t, err, os.ErrNotExist)
	fails("no top-level program", func(f *txtar.File) bool { return !strings.Contains(f.Name, "TLP") })
	fails(`op "fusion" is called but its final_bundles or utilization file is missing`, func(f *txtar.File) bool { return !bundles(f) })
	fails(`op "fusion" is called but its final_bundles or utilization file is missing`, func(f *txtar.File) bool { return !use(f) })
	replace := func(match func(*txtar.File) bool, edit func(string) string) func(*txtar.File) bool {
		return func(f *txtar.File) bool {
			if match(f) {
				f.Data = []byte(edit(string(f.Data)))
			}
			return true
		}
	}
	fails("no bundles", replace(bundles, func(string) string { return "" }))
	fails("no bundles", replace(bundles, func(string) string { return "\x00\xff garbage {\n" }))
	fails("no slot capacities", replace(use, func(string) string { return "== \n" }))
	fails("cut short", replace(bundles, func(s string) string { return s[:len(s)/2] }))
	fails("one is cut short", replace(bundles, func(s string) string { return s[:strings.Index(s, "  0x40 ")] }))
	fails("one is cut short", replace(use, func(s string) string { return s[:strings.LastIndex(s[:len(s)/2], "\n")] }))
	fails(`"x" is not a count`, replace(use, func(s string) string { return s + "0 0 0 0 0 x 0 0 0 0 0\n" }))
	fails("3 columns for 11 slots", replace(use, func(s string) string { return s + "0 0 0\n" }))
	fails("no data: not a vmem_report page", replace(func(f *txtar.File) bool { return strings.HasSuffix(f.Name, ".html") }, func(string) string { return "<html>" }))

	a := archive(t, "dot512_v6e_0.0.51")
	for _, f := range a.Files {
		a.Files = append(a.Files, txtar.File{Name: "9" + f.Name, Data: f.Data})
	}
	_, err = Options{}.Analyze(unpack(t, a), target)
	require.ErrorContains(t, err, "holds more than one compile")
}

func TestTargetWithoutFacts(t *testing.T) {
	_, err := Options{}.Analyze(t.TempDir(), &target.Target{Name: "v99"})
	require.ErrorContains(t, err, `target "v99" lacks matmul cycles`)
}

func BenchmarkAnalyze(b *testing.B) {
	dir, target := unpack(b, archive(b, "p6_v6e_0.0.51")), lookup(b, "v6e")
	for b.Loop() {
		_, err := Options{}.Analyze(dir, target)
		require.NoError(b, err)
	}
}

// A table of narrow elements is in memory several to a word: a kernel turns as often as the table says, which is a constant, or is given. What has no
// value is named.
func TestNarrowTables(t *testing.T) {
	table := make([]int64, 64)
	for i := range table {
		table[i] = int64((i/8 + 2*(i%8)) % 5)
	}
	v6e := lookup(t, "v6e")
	constant, err := Options{}.Analyze(unpack(t, archive(t, "narrow_v6e_0.0.51")), v6e)
	require.NoError(t, err)
	dir := unpack(t, archive(t, "narrow_arg_v6e_0.0.51"))
	_, err = Options{}.Analyze(dir, v6e)
	require.ErrorContains(t, err, "give the values of operands (Options.Scalars, explain --scalars): name.1/0 (s8[8,8])")
	turns := func(table []int64) int64 {
		r, err := Options{Scalars: map[string][]int64{"0": table}}.Analyze(dir, v6e)
		require.NoError(t, err)
		require.Empty(t, r.Unread)
		return r.Cycles
	}
	given := turns(table)
	require.InDelta(t, constant.Cycles, given, 4, "but for what the top-level program does")
	// Each further turn costs the same, wherever its step stands.
	for _, at := range []int{3, 7, 33, 62} {
		more := slices.Clone(table)
		more[at] += 10
		require.Equal(t, turns(more)-given, 10*(turns(bump(table, 1))-given), "step %d", at)
	}
	require.Greater(t, turns(bump(table, 1)), given)
}

// bump is a table with one more turn in a step that turns already.
func bump(table []int64, at int) []int64 {
	more := slices.Clone(table)
	more[at]++
	return more
}

// A conditional, all of whose branches count, is named.
func TestConditionals(t *testing.T) {
	r, err := Options{}.Analyze(unpack(t, archive(t, "cond_v6e_0.0.51")), lookup(t, "v6e"))
	require.NoError(t, err)
	require.Equal(t, []hlo.Conditional{{Name: "cond.1.clone", Op: "jit(<lambda>)/cond", Branches: 2}}, r.Conditionals)
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(data), `"conditionals":[{"name":"cond.1.clone"`)
	r, err = offsets.Analyze(unpack(t, archive(t, "varlen_v6e_0.0.51")), lookup(t, "v6e"))
	require.NoError(t, err)
	require.Empty(t, r.Conditionals)
}
