package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
)

func read(t *testing.T, name string) model.Config {
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	c, err := model.Read(f)
	require.NoError(t, err)
	return c
}

// byAuto is what auto stands for.
func byAuto(s gdn.Spec, t *target.Target) (*route.Form, error) {
	return route.Resolve(s, gdn.Auto, t, nil)
}

func loads(t *testing.T, text string) []Load {
	list, err := ParseLoads(text)
	require.NoError(t, err)
	return list
}

func TestWorks(t *testing.T) {
	c := read(t, "qwen3-next-80b-a3b.json")
	const layer = "hk=16,hv=32,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm"
	for _, x := range []struct {
		work string
		z    Sizes
		want string
	}{
		{"prefill", Sizes{}, "b=1,t=4096," + layer},
		{"prefill", Sizes{Tokens: 100, Batch: 3, Seqs: 9}, "b=3,t=100," + layer},
		{"packed", Sizes{Seqs: 5, Batch: 7}, "b=1,t=8192," + layer + ",seqs=5,init"},
		{"decode", Sizes{Tokens: 100}, "b=64,t=1," + layer + ",init"},
		{"train", Sizes{Batch: 2}, "b=2,t=4096," + layer + ",final=false,direction=train"},
		{"serve", Sizes{Loads: loads(t, "3x1+20,40"), Slots: 9}, "b=1,t=40," + layer + ",seqs=4,rows=qkv,init,statedtype=bf16,packed,pool=9,inplace,read,mixed=1,conv=4,convstate"},
	} {
		list, err := ParseWorks(x.work)
		require.NoError(t, err)
		s, err := list[0].Spec(c, x.z)
		require.NoError(t, err)
		require.Equal(t, x.want, s.String())
	}
	_, err := ParseWorks("prefill,step")
	require.ErrorContains(t, err, `unknown work "step"`)
	list, err := ParseWorks("all")
	require.NoError(t, err)
	require.Len(t, list, len(Works))
}

// A stored cost is taken for exactly its program on its target, and gives what a compile would.
func TestStored(t *testing.T) {
	c := model.Config{Hidden: 64, Layers: 3, Batch: 1, Tokens: 1, Rule: model.Rule{HeadsK: 1, HeadsV: 2, K: 32, V: 32, Conv: 1}}
	targets, err := target.Parse("v5e,v6e,v4")
	require.NoError(t, err)
	make := func(tokens int) *Result {
		r, err := New(c, Works[:1], Sizes{Tokens: tokens}, targets, byAuto)
		require.NoError(t, err)
		return r
	}
	r := make(64)
	r.Rows[0].Source = "libtpu 1"
	r.Rows[0].set(1280, 1000)
	require.Equal(t, 10.0, r.Rows[0].PerToken)
	var text bytes.Buffer
	for _, row := range r.Rows {
		require.NoError(t, json.NewEncoder(&text).Encode(row))
	}
	stored, err := parseStored(text.Bytes())
	require.NoError(t, err)
	require.Len(t, stored, 1) // rows without a cost tell nothing
	require.False(t, r.Known(stored))

	again := make(64)
	require.NoError(t, again.Cost(context.Background(), stored, nil))
	row := again.Rows[0]
	require.Equal(t, []int64{1280, 1000, 3840}, []int64{row.Cycles, row.Issue, row.All})
	require.Equal(t, "stored, libtpu 1", row.Source)
	require.Zero(t, again.Rows[1].Cycles)
	require.Equal(t, row, again.Best())
	var table bytes.Buffer
	again.Write(&table)
	require.Regexp(t, `v5e +1280 +10.00 +3840 +in-order +stored, libtpu 1 `, table.String())
	require.Regexp(t, `v4 +- +- +- +issue +- `, table.String())

	other := make(65)
	require.NoError(t, other.Cost(context.Background(), stored, nil))
	require.Zero(t, other.Rows[0].Cycles)
	_, err = parseStored([]byte("{"))
	require.Error(t, err)
	_, err = ReadStored()
	require.NoError(t, err)
}

// The program of the stored costs holds for kernels of today. Where champions or facts of targets changed, they are made anew:
// gdngen tune cmd/gdngen/internal/tune/testdata/MODEL.json --work prefill,decode --target v5e,v6e,tpu7x -o jsonl > cmd/gdngen/internal/tune/stored/MODEL.jsonl.
func TestStoredToday(t *testing.T) {
	stored, err := ReadStored()
	require.NoError(t, err)
	targets, err := target.Parse("v6e")
	require.NoError(t, err)
	works, err := ParseWorks("prefill,decode")
	require.NoError(t, err)
	r, err := New(read(t, "qwen3-next-80b-a3b.json"), works, Sizes{}, targets, byAuto)
	require.NoError(t, err)
	require.NoError(t, r.Cost(context.Background(), stored, nil))
	known := 0
	for _, row := range r.Rows {
		if row.Cycles > 0 {
			known++
		}
	}
	require.Positive(t, known, "no program of today has a stored cost: make cmd/gdngen/internal/tune/stored anew")
}

// Each load of a server's steps is a row of the same program, with its own cost a token.
func TestLoads(t *testing.T) {
	targets, err := target.Parse("v6e")
	require.NoError(t, err)
	works, err := ParseWorks("serve")
	require.NoError(t, err)
	c := model.Config{Hidden: 64, Layers: 3, Batch: 1, Tokens: 4, Rule: model.Rule{HeadsK: 1, HeadsV: 2, K: 128, V: 128, Conv: 4}}
	z := Sizes{Loads: loads(t, "2x1+30,40"), Slots: 9}
	r, err := New(c, works, z, targets, byAuto)
	require.NoError(t, err)
	require.Len(t, r.Rows, 2)
	a, b := r.Rows[0], r.Rows[1]
	require.Equal(t, []string{"2x1+30", "40"}, []string{a.Load, b.Load})
	require.Equal(t, a.Program, b.Program)
	require.NotEqual(t, a.program.Scalars, b.program.Scalars, "tables of the kernels are those of the load")
	require.NotEqual(t, a.key(), b.key())
	a.set(6400, 6000)
	b.set(8000, 7000)
	require.Equal(t, []float64{100, 100}, []float64{a.PerToken, b.PerToken})
	var table bytes.Buffer
	r.Write(&table)
	require.Regexp(t, `v6e +2x1\+30 +6400 +100.00 +19200 +in-order`, table.String())
	require.NoError(t, r.WriteFiles(t.TempDir(), map[string]bool{Mosaic: true}, "v0", func(string) {}, func(err error) { t.Error(err) }))
	require.Len(t, a.Files, 1)
	require.Empty(t, b.Files)
}

func TestFiles(t *testing.T) {
	c := model.Config{Hidden: 64, Layers: 3, Batch: 1, Tokens: 1, Rule: model.Rule{HeadsK: 1, HeadsV: 2, K: 32, V: 32, Conv: 1}}
	targets, err := target.Parse("v5e,v6e")
	require.NoError(t, err)
	r, err := New(c, Works[:1], Sizes{Tokens: 64}, targets, byAuto)
	require.NoError(t, err)
	dir := t.TempDir()
	kinds, err := ParseKinds("mosaic,pallas,stablehlo")
	require.NoError(t, err)
	var told []string
	require.NoError(t, r.WriteFiles(dir, kinds, "v0", func(file string) { told = append(told, file) }, func(err error) { t.Error(err) }))
	var wrote []string
	for _, row := range r.Rows {
		wrote = append(wrote, row.Files...)
	}
	require.Equal(t, wrote, told, "each file is told of")
	for name, want := range map[string]string{"prefill-v5e.mlir": "tpu_custom_call", "prefill-v6e.mlir": "tpu_custom_call", "prefill_v6e.py": "def gated_delta_rule(",
		"prefill-cpu.mlir": "stablehlo.", "tune.json": `"work": "prefill"`} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(text), want)
	}
	_, err = ParseKinds("onnx")
	require.ErrorContains(t, err, `unknown kind of file "onnx"`)
	c.Layers, c.AttentionLayers, c.Attention = 1, 1, model.Attention{Heads: 1, HeadsKV: 1, Dim: 8}
	_, err = New(c, Works[:1], Sizes{}, targets, byAuto)
	require.ErrorContains(t, err, "no layer mixes by the gated delta rule")
}
