package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// A stored case of no tokens, or of no rows, is computed by no program: outputs are empty, and states are as they came.
func TestNoTokens(t *testing.T) {
	state := array.FromFloat64s(ir.F32, []int{1, 2, 4, 4}, make([]float64, 32))
	state.Data[3] = 64
	for _, c := range []struct {
		row   string
		batch int
	}{
		{`"op": "gated_delta_rule", "scale": 0.5, "flags": {}`, 1},
		{`"op": "spec", "spec": "t=0,hk=2,k=4,init"`, 1},
		{`"op": "spec", "spec": "b=0,t=8,hk=2,k=4,init"`, 0},
	} {
		tokens := 8 * (1 - c.batch)
		dir, out := t.TempDir(), t.TempDir()
		f := &array.File{Tensors: map[string]*array.Array{}, Names: []string{"q", "k", "v", "g", "beta", "initial_state"}}
		for _, name := range f.Names[:3] {
			f.Tensors[name] = array.New(ir.F32, c.batch, tokens, 2, 4)
		}
		f.Tensors["g"], f.Tensors["beta"] = array.New(ir.F32, c.batch, tokens, 2), array.New(ir.F32, c.batch, tokens, 2)
		f.Tensors["initial_state"] = state
		if c.batch == 0 {
			f.Tensors["initial_state"] = array.New(ir.F32, 0, 2, 4, 4)
		}
		require.NoError(t, array.WriteSafetensors(filepath.Join(dir, "c.safetensors"), f))
		require.True(t, json.Valid([]byte("{"+c.row+"}")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, truth.ManifestName), []byte(`{"cases": [{"name": "c", "file": "c.safetensors", `+c.row+`, "tolerance": {"o": {"f32_ratio": 1e-5}, "final_state": {"f32_ratio": 1e-5}}}]}`), 0o644))
		cases, err := truth.ReadCases(dir)
		require.NoError(t, err, c.row)
		r := &Cases{Counts: map[string]int{}}
		require.NoError(t, r.Run(t.Context(), Engine{}, cases, out, func(string, ...any) {}))
		require.Equal(t, Computed, r.Results[0].Status, r.Results[0].Reason)
		got, err := array.ReadSafetensors(filepath.Join(out, "c.safetensors"))
		require.NoError(t, err)
		require.Equal(t, []int{c.batch, tokens, 2, 4}, got.Tensors["o"].Shape)
		require.Equal(t, f.Tensors["initial_state"].Data, got.Tensors["final_state"].Data)

		for _, name := range got.Names { // and judged
			f.Names, f.Tensors[name] = append(f.Names, name), got.Tensors[name]
		}
		require.NoError(t, array.WriteSafetensors(filepath.Join(dir, "c.safetensors"), f))
		cases, err = truth.ReadCases(dir)
		require.NoError(t, err, c.row)
		r = &Cases{Counts: map[string]int{}}
		require.NoError(t, r.Run(t.Context(), Engine{}, cases, out, func(string, ...any) {}))
		require.Equal(t, Pass, r.Results[0].Status, "%+v", r.Results[0])
	}
}
