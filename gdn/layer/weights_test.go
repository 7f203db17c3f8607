package layer_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

func shape(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }

const prefix = "model.layers.3.linear_attn."

// stored draws the tensors of a layer in a format.
func stored(t testing.TB, c layer.Config, f layer.Format, d ir.DType) map[string]*array.Array {
	t.Helper()
	file, err := layer.Save(weights(t, c, 9), prefix, c, f, dtypes.Float32)
	require.NoError(t, err)
	for name, a := range file.Tensors {
		file.Tensors[name] = a.Convert(d)
	}
	return file.Tensors
}

// All formats, in each element type, come back bit for bit, and those of one rule hold the same layer.
func TestFormats(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	x := normal(rand.New(rand.NewPCG(8, 8)), 1, 1, 9, small.Hidden)
	for _, d := range []struct {
		ir ir.DType
		d  dtypes.DType
	}{{ir.F32, dtypes.Float32}, {ir.BF16, dtypes.BFloat16}, {ir.F16, dtypes.Float16}} {
		var outputs []*array.Array
		for _, f := range layer.Formats {
			c := small
			if f == layer.KimiLinear {
				c = kimi
			}
			tensors := stored(t, c, f, d.ir)
			scope := model.NewStore().RootScope().In("layer")
			found, err := layer.Load(scope, layer.WeightsOf(tensors), prefix, c, d.d)
			require.NoError(t, err)
			require.Equal(t, f, found)
			again, err := layer.Save(scope, prefix, c, f, d.d)
			require.NoError(t, err)
			require.Equal(t, tensors, again.Tensors, "%s %s", f, d.ir)
			outputs = append(outputs, run(t, b, scope, func(scope *model.Scope, in []*Node) []*Node {
				return []*Node{layer.New(scope, in[0]).With(c).Done()}
			}, x)[0])
		}
		require.Len(t, outputs, 4)
		require.Equal(t, outputs[0].Float32s(), outputs[1].Float32s(), d.ir)
		require.Equal(t, outputs[0].Float32s(), outputs[2].Float32s(), d.ir)
	}
}

// Weights come from a file, or from shards by an index; what is missing, extra or of another shape is named.
func TestLoadErrors(t *testing.T) {
	load := func(m map[string]*array.Array) error {
		_, err := layer.Load(model.NewStore().RootScope(), layer.WeightsOf(m), prefix, small, dtypes.Float32)
		return err
	}
	tensors := stored(t, small, layer.Qwen3Next, ir.F32)
	edit := func(f func(m map[string]*array.Array)) map[string]*array.Array {
		m := maps.Clone(tensors)
		f(m)
		return m
	}
	require.NoError(t, load(tensors))
	require.ErrorContains(t, load(edit(func(m map[string]*array.Array) { delete(m, prefix+"A_log") })), "tensor "+prefix+"A_log is missing")
	require.ErrorContains(t, load(edit(func(m map[string]*array.Array) { m[prefix+"bias"] = array.New(ir.F32, 3) })),
		"tensor "+prefix+"bias belongs to no layer of format qwen3-next")
	require.ErrorContains(t, load(edit(func(m map[string]*array.Array) { m[prefix+"in_proj_ba.weight"] = array.New(ir.F32, 8, 25) })),
		prefix+"in_proj_ba.weight is f32[8,25], want the shape [8 24]")
	require.ErrorContains(t, load(edit(func(m map[string]*array.Array) { m[prefix+"dt_bias"] = array.New(ir.I32, 4) })), "want f32, bf16 or f16")
	require.ErrorContains(t, load(map[string]*array.Array{"other": array.New(ir.F32, 1)}), "is the prefix right?")
	_, err := layer.Load(model.NewStore().RootScope(), layer.WeightsOf(tensors), prefix, small, dtypes.Int8)
	require.ErrorContains(t, err, "can not be held as")
	_, err = layer.Save(model.NewStore().RootScope(), prefix, small, layer.Qwen35, dtypes.Float32)
	require.ErrorContains(t, err, "no variable qkv")
	_, err = layer.Save(weights(t, small, 1), prefix, small, "gguf", dtypes.Float32)
	require.ErrorContains(t, err, `unknown format "gguf"`)
	_, err = layer.Save(weights(t, kimi, 1), prefix, kimi, layer.Qwen35, dtypes.Float32)
	require.ErrorContains(t, err, "format qwen3.5 has layers of rule gdn, this one is of rule kda")
	_, err = layer.Load(model.NewStore().RootScope(), layer.WeightsOf(stored(t, kimi, layer.KimiLinear, ir.F32)), prefix, small, dtypes.Float32)
	require.ErrorContains(t, err, "format kimi-linear has layers of rule kda, this one is of rule gdn")

	dir := t.TempDir()
	_, err = layer.OpenWeights(dir)
	require.ErrorContains(t, err, layer.IndexName)
	shards := []map[string]*array.Array{{}, {}}
	index := map[string]string{}
	i := 0
	for name, a := range tensors {
		shards[i%2][name] = a
		index[name] = []string{"a.safetensors", "b.safetensors"}[i%2]
		i++
	}
	require.NoError(t, array.WriteSafetensors(filepath.Join(dir, "a.safetensors"), &array.File{Tensors: shards[0]}))
	write := func() {
		text, err := json.Marshal(map[string]any{"weight_map": index})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, layer.IndexName), text, 0o644))
	}
	write()
	open := func() error {
		w, err := layer.OpenWeights(dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, w.Close()) }()
		_, err = layer.Load(model.NewStore().RootScope(), w, prefix, small, dtypes.Float32)
		return err
	}
	require.ErrorContains(t, open(), "b.safetensors")
	require.Equal(t, 1, strings.Count(open().Error(), "no such file"), "one error for all tensors of a shard")
	require.NoError(t, array.WriteSafetensors(filepath.Join(dir, "b.safetensors"), &array.File{Tensors: shards[1]}))
	require.NoError(t, open())
	for name := range shards[1] {
		index[name] = "a.safetensors"
	}
	write()
	require.ErrorContains(t, open(), "where the index says it is")
	index["x"] = "../up.safetensors"
	write()
	_, err = layer.OpenWeights(dir)
	require.ErrorContains(t, err, "leads out of the folder")

	twice := filepath.Join(t.TempDir(), "model.safetensors.index.json")
	require.NoError(t, os.WriteFile(twice, []byte(`{"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "x": "b.safetensors"}}`), 0o644))
	_, err = layer.OpenWeights(twice)
	require.ErrorContains(t, err, "weight_map has tensor x twice, in a.safetensors and in b.safetensors: keep one")
}

// A layer of bf16 with quantised experts in the same shard is read; a quantised tensor of the layer itself is refused with its type. Files that are
// something else say what they begin with.
func TestPublishedShards(t *testing.T) {
	c := layer.Config{Hidden: 8, HeadsK: 1, HeadsV: 2, KeyDim: 4, ValueDim: 4, ConvWidth: 4, NormEps: 1e-6}
	const prefix = "model.layers.0.linear_attn."
	for name, more := range map[string]string{"moe_fp8_experts": "F8_E4M3 [4 8]", "moe_nvfp4_experts": "U8 [4 4]"} {
		w, err := layer.OpenWeights(filepath.Join("testdata", name+".safetensors"))
		require.NoError(t, err, name)
		defer func() { require.NoError(t, w.Close()) }()
		f, err := layer.Load(model.NewStore().RootScope(), w, prefix, c, dtypes.Float32)
		require.NoError(t, err, name)
		require.Equal(t, layer.Qwen35, f)
		var quantised []string
		for _, n := range w.Names() {
			if _, err := w.Read(n); err != nil {
				require.ErrorContains(t, err, "is "+more+", an element type that is not read")
				quantised = append(quantised, n)
			}
		}
		require.Len(t, quantised, 1, name)
		_, err = layer.Load(model.NewStore().RootScope(), w, "model.layers.0.mlp.", c, dtypes.Float32)
		require.ErrorContains(t, err, "is the prefix right?")
	}
	w, err := layer.OpenWeights("testdata/meta_null.safetensors")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, w.Names())
	require.NoError(t, w.Close())
	_, err = layer.OpenWeights("testdata/lfs.safetensors")
	require.ErrorContains(t, err, "a pointer of Git LFS in place of the file: fetch it by git lfs pull")
}

// Weights held as float16 serve a layer whose x is float32; x of float16 is refused where it is given.
func TestFloat16Weights(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	x := normal(rand.New(rand.NewPCG(8, 8)), 1, 1, 9, small.Hidden)
	var out [2]*array.Array
	for i, d := range []dtypes.DType{dtypes.Float32, dtypes.Float16} {
		scope := model.NewStore().RootScope().In("layer")
		_, err := layer.Load(scope, layer.WeightsOf(stored(t, small, layer.Qwen35, ir.F16)), prefix, small, d)
		require.NoError(t, err)
		s, err := layer.NewSession(b, scope, small, "")
		require.NoError(t, err)
		defer s.Finalize()
		out[i], err = s.Run(x, nil)
		require.NoError(t, err)
		_, err = s.Run(x.Convert(ir.F16), nil)
		require.ErrorContains(t, err, "want Float32 or BFloat16, whatever the type of the weights")
	}
	require.Equal(t, out[0].Float32s(), out[1].Float32s())
}

func TestReadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	fields := `"hidden_size": 2048, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4`
	for _, text := range []string{"{" + fields + "}", `{"text_config": {` + fields + `, "rms_norm_eps": 1e-6}}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		c, err := layer.ReadConfig(path)
		require.NoError(t, err)
		require.Equal(t, layer.Config{Hidden: 2048, HeadsK: 16, HeadsV: 32, KeyDim: 128, ValueDim: 128, ConvWidth: 4, NormEps: 1e-6}, c)
	}
	require.NoError(t, os.WriteFile(path, []byte(`{"hidden_size": 8}`), 0o644))
	_, err := layer.ReadConfig(path)
	require.ErrorContains(t, err, "linear_num_key_heads is missing")

	want := layer.Config{Hidden: 2304, HeadsK: 32, HeadsV: 32, KeyDim: 128, ValueDim: 128, ConvWidth: 4, NormEps: 1e-5,
		Rule: gdn.Rule{Decay: gdn.DecayChannel}, DecayRank: 128, GateRank: 128}
	full := want
	full.Bound, full.GateRank = -5, 0
	for more, want := range map[string]layer.Config{``: want, `, "gate_lower_bound": -5.0, "use_full_rank_gate": true`: full} {
		text := `{"hidden_size": 2304, "rms_norm_eps": 1e-05, "linear_attn_config": {"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4` + more + `}}`
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		c, err := layer.ReadConfig(path)
		require.NoError(t, err)
		require.Equal(t, want, c)
	}
	require.NoError(t, os.WriteFile(path, []byte(`{"hidden_size": 8, "linear_attn_config": {"num_heads": 2}}`), 0o644))
	_, err = layer.ReadConfig(path)
	require.ErrorContains(t, err, "linear_attn_config.head_dim is missing")

	// Models, by name: what package published reads arrives.
	of := func(text string) (layer.Config, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return layer.ReadConfig(path)
	}
	olmo, err := of(`{"model_type": "olmo_hybrid", "hidden_size": 3840, "num_attention_heads": 30, "linear_num_key_heads": null}`)
	require.NoError(t, err)
	require.Equal(t, layer.Config{Hidden: 3840, HeadsK: 30, HeadsV: 30, KeyDim: 96, ValueDim: 192, ConvWidth: 4, NormEps: 1e-5, NegEigval: true}, olmo)
	next, err := of(`{"model_type": "qwen3_next", "output_gate_type": "sigmoid", ` + fields + `}`)
	require.NoError(t, err)
	require.Equal(t, "sigmoid", next.OutputGate)
	_, err = of(`{"model_type": "gated_deltanet", "hidden_size": 8, "num_heads": 2, "head_dim": 4, "use_short_conv": false}`)
	require.ErrorContains(t, err, "use_short_conv is false; a layer here has a short convolution")
	_, err = of(`{"model_type": "gated_deltaproduct", "hidden_size": 8, "num_heads": 2, "head_dim": 4}`)
	require.ErrorContains(t, err, `model_type "gated_deltaproduct" has no layer that is known here`)
}

// The output gate is that of the configuration: where its projection gives zeros, SiLU lets nothing through and a sigmoid half of all.
func TestOutputGate(t *testing.T) {
	x := normal(rand.New(rand.NewPCG(8, 8)), 1, 1, 9, small.Hidden)
	for _, d := range designs[:2] {
		scope := weights(t, d.c, 3)
		z := scope.GetVariable(layer.VarZ)
		zeros, err := device.Tensor(array.New(ir.F32, z.Shape().Dimensions...))
		require.NoError(t, err)
		require.NoError(t, z.SetValue(zeros))
		out := run(t, layertest.Backend(t, device.Go), scope, func(scope *model.Scope, in []*Node) (out []*Node) {
			for _, gate := range []string{"", "silu", "sigmoid"} {
				c := d.c
				c.OutputGate = gate
				out = append(out, layer.New(scope, in[0]).With(c).Done())
			}
			return out
		}, x)
		usual := 1
		if d.c.Rule.Channels() {
			usual = 2
		}
		require.Equal(t, out[usual].Float32s(), out[0].Float32s(), d.name)
		require.Zero(t, out[1].Float64s()[0], d.name)
		require.NotZero(t, out[2].Float64s()[0], d.name)
	}
}

// A tensor that is read again is the same: its pages were let go, not lost.
func TestReadAgain(t *testing.T) {
	v := make([]float32, 1<<16)
	for i := range v {
		v[i] = float32(i)
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	want := array.FromFloat32s(ir.F32, []int{len(v)}, v)
	require.NoError(t, array.WriteSafetensors(path, &array.File{Tensors: map[string]*array.Array{"x": want, "y": want}, Names: []string{"x", "y"}}))
	w, err := layer.OpenWeights(path)
	require.NoError(t, err)
	defer w.Close()
	for _, name := range []string{"x", "y", "x", "y"} {
		got, err := w.Read(name)
		require.NoError(t, err)
		require.Equal(t, want.Data, got.Data)
	}
}
