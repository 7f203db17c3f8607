package lm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/lm"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// The models of testdata, with their answers, are transformers' own (tests/peers/hybrid.py).
var models = []string{"qwen3_5", "qwen3_next", "qwen3_next_experts", "qwen3_5_moe", "olmo_hybrid", "kimi_linear"}

const prompt = 23 // tokens before the single steps and the greedy tokens

func open(t *testing.T, b compute.Backend, name string, d dtypes.DType) (*lm.Model, *array.File) {
	t.Helper()
	m, err := lm.Open(b, filepath.Join("testdata", name), d)
	require.NoError(t, err)
	t.Cleanup(m.Finalize)
	f, err := array.ReadSafetensors(filepath.Join("testdata", name, "answers.safetensors"))
	require.NoError(t, err)
	return m, f
}

// rows cuts [rows, n] of whole numbers into rows.
func rows(a *array.Array, from, to int) [][]int32 {
	v, n := a.Float64s(), a.Shape[1]
	out := make([][]int32, a.Shape[0])
	for i := range out {
		for _, x := range v[i*n+from : i*n+to] {
			out[i] = append(out[i], int32(x))
		}
	}
	return out
}

// close compares logits of tokens from to to with those of all.
func close(t *testing.T, got []float32, want *array.Array, from, to int, limit float64) {
	t.Helper()
	n, v := want.Shape[1], want.Shape[2]
	var part []float32
	for i := range want.Shape[0] {
		part = append(part, want.Float32s()[(i*n+from)*v:(i*n+to)*v]...)
	}
	shape := []int{want.Shape[0], to - from, v}
	s := array.Compare(array.FromFloat32s(ir.F32, shape, got), array.FromFloat32s(ir.F32, shape, part))
	require.Less(t, s.Ratio, limit)
}

// Logits are transformers', of all tokens at once, of a prompt in pieces and of single tokens after it, and so are greedy tokens.
func TestTransformers(t *testing.T) {
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		list := models
		if b.Name() == device.XLA { // it compiles for half a minute
			list = rotate.Sample(64, models, 2)
		}
		for _, name := range list {
			t.Run(name, func(t *testing.T) {
				m, want := open(t, b, name, dtypes.Float32)
				tokens, logits := want.Tensors["tokens"], want.Tensors["logits"]
				all := tokens.Shape[1]
				got, err := m.Session().Step(rows(tokens, 0, all))
				require.NoError(t, err)
				close(t, got, logits, 0, all, 2e-5)

				s := m.Session()
				at := 0
				for _, n := range []int{11, 11, 1} {
					got, err = s.Step(rows(tokens, at, at+n))
					require.NoError(t, err)
					close(t, got, logits, at, at+n, 2e-5)
					at += n
				}
				require.Equal(t, prompt, s.Tokens())
				fork := s.Fork()
				greedy, err := fork.Generate(64)
				require.NoError(t, err)
				require.Equal(t, rows(want.Tensors["greedy"], 0, 64), greedy)
				for i := range all - prompt { // the session is where it was, whatever its fork did
					got, err = s.Step(rows(tokens, prompt+i, prompt+i+1))
					require.NoError(t, err)
					close(t, got, want.Tensors["steps"], i, i+1, 2e-5)
				}
			})
		}
	})
}

// Weights held in bfloat16 are the file's, rounded: all is computed in float32, and so are the stored logits of rounded weights. On xla single
// tokens are computed another way than pieces.
func TestBFloat16(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	for _, name := range models {
		m, answers := open(t, b, name, dtypes.BFloat16)
		tokens := answers.Tensors["tokens"]
		got, err := m.Session().Step(rows(tokens, 0, tokens.Shape[1]))
		require.NoError(t, err)
		close(t, got, answers.Tensors["bfloat16"], 0, tokens.Shape[1], 2e-5)
	}
	for _, name := range []string{"qwen3_5", "qwen3_5_moe"} {
		m, answers := open(t, layertest.Backend(t, device.XLA), name, dtypes.BFloat16)
		s, tokens := m.Session(), answers.Tensors["tokens"]
		for at := 0; at < prompt+3; {
			n := prompt
			if at > 0 {
				n = 1
			}
			got, err := s.Step(rows(tokens, at, at+n))
			require.NoError(t, err)
			close(t, got, answers.Tensors["bfloat16"], at, at+n, 2e-5)
			at += n
		}
	}
}

// What a step can not take is refused.
func TestStepErrors(t *testing.T) {
	m, _ := open(t, layertest.Backend(t, device.Go), models[0], dtypes.Float32)
	s := m.Session()
	for want, tokens := range map[string][][]int32{
		"at least one token":                      {{}},
		"2 tokens of sequence 1, 1 of the first":  {{1}, {1, 2}},
		"token 64 is not in the vocabulary of 64": {{64}},
		"token -1 is not in the vocabulary of 64": {{-1}},
	} {
		_, err := s.Step(tokens)
		require.ErrorContains(t, err, want)
	}
	_, err := s.Generate(1)
	require.ErrorContains(t, err, "give a prompt to Step first")
	_, err = s.Step([][]int32{{1, 2}})
	require.NoError(t, err)
	_, err = s.Step([][]int32{{1}, {2}})
	require.ErrorContains(t, err, "tokens of 2 sequences, the session has 1")
}

// What a configuration has that is not computed is refused by its field.
func TestRefused(t *testing.T) {
	for want, change := range map[string][3]string{
		"attention_bias is true":          {"qwen3_next", `"attention_bias": false`, `"attention_bias": true`},
		"field intermediate_size is 0":    {"qwen3_next", `"intermediate_size": 48`, `"intermediate_size": 0`},
		"no multiple of num_key_value":    {"qwen3_next", `"num_key_value_heads": 2`, `"num_key_value_heads": 3`},
		`rope_type "yarn"`:                {"qwen3_next", `"rope_type": "default"`, `"rope_type": "yarn"`},
		`"sliding_attention" is no layer`: {"qwen3_next", `"full_attention"`, `"sliding_attention"`},
		"attn_output_gate is false":       {"qwen3_5", `"attention_bias": false`, `"attn_output_gate": false`},
		"num_experts is 4: models of":     {"olmo_hybrid", `"attention_bias": false`, `"num_experts": 4`},
		"num_experts_per_tok 9":           {"qwen3_next_experts", `"num_experts_per_tok": 2`, `"num_experts_per_tok": 9`},
		"moe_intermediate_size is 0":      {"qwen3_5_moe", `"moe_intermediate_size": 16`, `"moe_intermediate_size": 0`},
		"num_expert_group is 2":           {"kimi_linear", `"num_expert_group": 1`, `"num_expert_group": 2`},
		"q_lora_rank is 8":                {"kimi_linear", `"q_lora_rank": null`, `"q_lora_rank": 8`},
		"mla_use_nope is false":           {"kimi_linear", `"attention_bias": false`, `"mla_use_nope": false`},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", change[0], "config.json"))
		require.NoError(t, err)
		text := strings.Replace(string(data), change[1], change[2], 1)
		require.NotEqual(t, string(data), text, "the configuration has no %s", change[1])
		path := filepath.Join(t.TempDir(), "config.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err = lm.ReadConfig(path)
		require.ErrorContains(t, err, want)
	}
}

// Published configurations give whole models, or are refused by a field.
func TestPublished(t *testing.T) {
	const none, unknown = "is no model of this package", "has no layer that is known here"
	want := map[string]string{ // layers, of them attention, with experts; or an error
		"kimi_linear_48b": "27 7 26", "olmo_hybrid_7b": "32 8 0", "olmo_hybrid_nulls": "32 8 0", "olmo_hybrid_no_negeig": "32 8 0",
		"qwen3_5_27b": "64 16 0", "qwen3_5_no_layer_types": "64 16 0", "qwen3_5_397b_a17b": "60 15 60", "qwen3_5_flat_92l_128v": "92 23 92",
		"qwen3next_80b": "48 12 48", "qwen3next_dense": "48 12 0", "text_config_null": "48 12 48",
		"qwen3next_fp8": "quantization_config", "float_sizes": "field hidden_size is 2048.0",
		"kimi_k3": `model_type "kimi_k3" ` + none, "glm5_next": `model_type "glm5_next" ` + none, "fla_kda": `model_type "kda" ` + none,
		"fla_gated_deltanet_1b": `model_type "gated_deltanet" ` + none, "llm_config": `model_type "internvl_chat" ` + none,
		"qwen3_omni_like": `model_type "qwen3_5_omni" ` + none,
		"jet_nemotron":    `model_type "jet_nemotron" ` + unknown, "minicpm_sala": `model_type "minicpm_sala" ` + unknown,
		"fla_deltanet": `model_type "delta_net" ` + unknown, "fla_gated_deltaproduct": `model_type "gated_deltaproduct" ` + unknown,
		"dflash_drafter_all_full": `model_type "qwen3" ` + unknown, "dflash_drafter_sliding": `model_type "qwen3" ` + unknown,
		"dflash_drafter_no_types": `model_type "qwen3" ` + unknown,
	}
	files, err := filepath.Glob(filepath.Join("..", "published", "testdata", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		c, err := lm.ReadConfig(file)
		if err != nil {
			require.ErrorContains(t, err, want[name], name)
			continue
		}
		count := func(list []bool) (n int) {
			for _, x := range list {
				if x {
					n++
				}
			}
			return n
		}
		require.Equal(t, want[name], fmt.Sprint(len(c.Attention), count(c.Attention), count(c.Sparse)), name)
	}
}

// Experts whose names have no number are refused, and the experts of a layer may be in one tensor.
func TestExpertTensors(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	m, answers := open(t, b, "qwen3_5_moe", dtypes.Float32)
	from := filepath.Join("testdata", "qwen3_5_moe")
	f, err := array.ReadSafetensors(filepath.Join(from, "model.safetensors"))
	require.NoError(t, err)
	folder := t.TempDir()
	config, err := os.ReadFile(filepath.Join(from, "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), config, 0o644))
	for i := range m.Attention {
		at := fmt.Sprintf("model.layers.%d.mlp.experts.", i)
		for name, parts := range map[string][]string{"gate_up_proj": {"gate_proj", "up_proj"}, "down_proj": {"down_proj"}} {
			var one *array.Array
			for n := range m.Experts.Count {
				for _, p := range parts {
					key := fmt.Sprintf("%s%d.%s.weight", at, n, p)
					a := f.Tensors[key]
					delete(f.Tensors, key)
					if one == nil {
						one = array.New(ir.F32, m.Experts.Count, len(parts)*a.Shape[0], a.Shape[1])
						one.Data = one.Data[:0]
					}
					one.Data = append(one.Data, a.Data...)
				}
			}
			f.Tensors[at+name] = one
		}
	}
	f.Names = nil
	path := filepath.Join(folder, "model.safetensors")
	require.NoError(t, array.WriteSafetensors(path, f))
	stacked, err := lm.Open(b, folder, dtypes.Float32)
	require.NoError(t, err)
	defer stacked.Finalize()
	tokens := answers.Tensors["tokens"]
	got, err := stacked.Session().Step(rows(tokens, 0, prompt))
	require.NoError(t, err)
	close(t, got, answers.Tensors["logits"], 0, prompt, 2e-5)

	name := "model.layers.2.mlp.experts.down_proj"
	f.Tensors[name] = array.New(ir.I32, f.Tensors[name].Shape...)
	require.NoError(t, array.WriteSafetensors(path, f))
	_, err = lm.Open(b, folder, dtypes.Float32)
	require.ErrorContains(t, err, "tensor "+name+" is i32")
}

// A model made by training is saved, and opened again: the same logits. Its loss falls.
func TestTrain(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	for _, name := range models {
		folder := copied(t, t.TempDir(), name+"/config.json")
		c, err := lm.ReadConfig(filepath.Join(folder, "config.json"))
		require.NoError(t, err)
		store := model.NewStore()
		require.NoError(t, store.SetRNGStateFromSeed(3))
		adam := optimizer.Adam().LearningRate(.01).Done()
		exec, err := model.NewExec1(b, store, func(scope *model.Scope, x *Node) *Node {
			logits := lm.Logits(scope, c, SliceAxis(x, 1, AxisRange(0, -1)))
			labels := InsertAxes(SliceAxis(x, 1, AxisRangeToEnd(1)), -1)
			l := ReduceAllMean(loss.SparseCategoricalCrossEntropyLogits([]*Node{labels}, []*Node{logits}))
			adam.UpdateGraph(scope, x.Graph(), l)
			return l
		})
		require.NoError(t, err)
		defer exec.Finalize()
		text := []int32{3, 1, 4, 1, 5, 9, 2, 6, 3, 1, 4, 1, 5, 9, 2, 6}
		var losses []float32
		for range 8 {
			l, err := exec.Call([][]int32{text})
			require.NoError(t, err)
			losses = append(losses, tensors.ToScalar[float32](l))
		}
		require.Less(t, losses[7], losses[0]-.5, name)
		require.NoError(t, lm.Save(folder, store.RootScope(), c, dtypes.Float32))
		trained, err := lm.New(b, store.RootScope(), c)
		require.NoError(t, err)
		defer trained.Finalize()
		opened, err := lm.Open(b, folder, dtypes.Float32)
		require.NoError(t, err, name)
		defer opened.Finalize()
		want, err := trained.Session().Step([][]int32{text})
		require.NoError(t, err)
		got, err := opened.Session().Step([][]int32{text})
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}
