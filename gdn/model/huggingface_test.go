package model

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The sizes of published models, in the words of each family.
func TestHuggingFace(t *testing.T) {
	const qwen = `"hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16,
		"linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4`
	qwenRule := Rule{HeadsK: 16, HeadsV: 32, K: 128, V: 128, Conv: 4}
	for _, c := range []struct {
		text            string
		rule, attention int
		want            Rule
		mlp, notes      int
	}{
		{`{"model_type": "qwen3_next", ` + qwen + `, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512}`,
			36, 12, qwenRule, 5632, 2},
		{`{"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", "attn_output_gate": false, "intermediate_size": 7, "full_attention_interval": 6, ` + qwen + `}, "vision_config": {"hidden_size": 3}}`,
			40, 8, qwenRule, 7, 0},
		{`{"model_type": "olmo_hybrid", "hidden_size": 3840, "num_hidden_layers": 3, "num_attention_heads": 30, "intermediate_size": 11008, "linear_allow_neg_eigval": true,
			"layer_types": ["linear_attention", "full_attention", "linear_attention"],
			"linear_num_key_heads": 30, "linear_num_value_heads": 30, "linear_key_head_dim": 96, "linear_value_head_dim": 192, "linear_conv_kernel_dim": 4}`,
			2, 1, Rule{HeadsK: 30, HeadsV: 30, K: 96, V: 192, Conv: 4, NegEigval: true}, 11008, 0},
		{`{"model_type": "gated_deltanet", "hidden_size": 2048, "num_hidden_layers": 21, "num_heads": 6, "head_dim": 256, "expand_v": 2}`,
			21, 0, Rule{HeadsK: 6, HeadsV: 6, K: 256, V: 512, Conv: 4}, 5632, 0},
		{`{"model_type": "gated_deltanet", "hidden_size": 1024, "num_hidden_layers": 4, "num_heads": 4, "num_v_heads": 8, "head_dim": 128, "expand_v": 1, "conv_size": 3,
			"attn": {"layers": [1, 3], "num_heads": 8}, "intermediate_size": 99}`,
			2, 2, Rule{HeadsK: 4, HeadsV: 8, K: 128, V: 128, Conv: 3}, 99, 0},
	} {
		got, err := Read(strings.NewReader(c.text))
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got.Rule)
		require.Equal(t, []int{c.rule, c.attention, c.mlp}, []int{got.RuleLayers(), got.layersOf("attention"), got.MLP}, c.text)
		require.Len(t, got.Notes, c.notes, c.text)
		require.Equal(t, c.want.NegEigval, got.Spec().NegEigval)
	}
}

// A gate of attention widens the projection of queries.
func TestAttentionGate(t *testing.T) {
	wide := tiny
	wide.Attention.Gate = true
	require.Equal(t, tiny.Parameters()+int64(tiny.Hidden*tiny.Attention.Heads*tiny.Attention.Dim), wide.Parameters())
}

// Layers of every kind in published configurations, counted; the mixers themselves are tested where they are read.
func TestPublished(t *testing.T) {
	kimi := func(heads int, bound float64) Rule {
		return Rule{Name: "kda", HeadsK: heads, HeadsV: heads, K: 128, V: 128, Conv: 4, Bound: bound, DecayRank: 128, GateRank: 128, SigmoidGate: true}
	}
	latent := func(heads, dim int) string {
		return fmt.Sprintf("attention by latent vectors (kv_lora_rank) counts as attention of %d heads of width %d", heads, dim)
	}
	const noMLP = "no width of an MLP is given (intermediate_size, moe_intermediate_size): none is counted"
	for name, want := range map[string]struct {
		rule, attention, mlp int
		of                   Rule
		heads                Attention
		notes                []string
	}{
		"qwen3_5_27b":           {48, 16, 17408, Rule{HeadsK: 16, HeadsV: 48, K: 128, V: 128, Conv: 4}, Attention{24, 4, 256, true}, []string{"the product of attention's output with its gate is left out"}},
		"olmo_hybrid_nulls":     {24, 8, 11008, Rule{HeadsK: 30, HeadsV: 30, K: 96, V: 192, Conv: 4, NegEigval: true}, Attention{30, 30, 128, false}, nil},
		"olmo_hybrid_no_negeig": {24, 8, 11008, Rule{HeadsK: 30, HeadsV: 30, K: 96, V: 192, Conv: 4, NegEigval: true}, Attention{30, 30, 128, false}, nil},
		"kimi_linear_48b": {20, 7, 9216, kimi(32, 0), Attention{32, 32, 128, false}, []string{latent(32, 128),
			"8 of 256 experts count as one SwiGLU of width 9216: routing, and reading the weights of the others, are left out", "layers without experts count like those with"}},
		"kimi_k3":   {3, 61, 0, kimi(96, -5), Attention{96, 96, 128, false}, []string{"kda_layers and full_attn_layers name 4 of 64 layers: the others count as full attention", latent(96, 128), noMLP}},
		"glm5_next": {44, 1, 0, kimi(64, -5), Attention{64, 64, 64, false}, []string{"deepseek_sparse_attention counts as full attention", noMLP}},
		"fla_kda":   {24, 0, 5632, kimi(16, 0), Attention{}, nil},
	} {
		data, err := os.ReadFile(filepath.Join("..", "published", "testdata", name+".json"))
		require.NoError(t, err)
		got, err := Read(bytes.NewReader(data))
		require.NoError(t, err, name)
		require.Equal(t, want.of, got.Rule, name)
		require.Equal(t, []int{want.rule, want.attention, want.mlp}, []int{got.RuleLayers(), got.layersOf("attention"), got.MLP}, name)
		require.Equal(t, want.heads, got.Attention, name)
		require.Equal(t, want.notes, got.Notes, name)
		require.Equal(t, want.of.Name == "kda", got.Spec().Rule.Channels(), name)
		require.Equal(t, want.of.Bound, got.Spec().Bound, name)
	}
}

func TestHuggingFaceFaults(t *testing.T) {
	const qwen = `{"model_type": "qwen3_next", "hidden_size": 8`
	const kimi = `{"model_type": "kimi_linear", "hidden_size": 8, "num_hidden_layers": 4, "linear_attn_config": {"num_heads": 1, "head_dim": 8, `
	for text, want := range map[string]string{
		`{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2}`:     `model: model_type "llama" has no layer that is known here; known are Qwen3-Next`,
		`{"model_type": "qwen3_next"}`:                                          "field hidden_size is missing",
		qwen + `}`:                                                              "field num_hidden_layers is missing",
		`{"model_type": "qwen3_next", "hidden_size": "8"}`:                      "field hidden_size is a string, want",
		qwen + `, "num_hidden_layers": 2, "layer_types": ["linear_attention"]}`: "layer_types has 1 entries, num_hidden_layers is 2",
		qwen + `, "num_hidden_layers": 1, "layer_types": ["mamba"]}`:            `layer_types\[0\] is "mamba"; want linear_attention, full_attention or deepseek_sparse_attention`,
		qwen + `, "num_hidden_layers": 1, "layer_types": ["full_attention"]}`:   "all 1 layers are attention: there is no layer of a rule",
		qwen + `, "num_hidden_layers": 1, "full_attention_interval": 9}`:        "attention_every is 9",
		qwen + `, "num_hidden_layers": 1, "full_attention_interval": 1}`:        "all 1 layers are attention",
		qwen + `, "num_hidden_layers": 4, "full_attention_interval": 0}`:        "full_attention_interval is 0; want 1 or more",
		kimi + `"kda_layers": [1, 2, 999]}}`:                                    "kda_layers and full_attn_layers have layer 999, num_hidden_layers is 4",
		kimi + `"kda_layers": [0, 1, 4]}}`:                                      "have layer 4, num_hidden_layers is 4",
		kimi + `"kda_layers": [-1]}}`:                                           "have layer -1, num_hidden_layers is 4",
		kimi + `"kda_layers": [1, 2, 1]}}`:                                      "have layer 1 twice",
		kimi + `"kda_layers": [1, 2], "full_attn_layers": [2]}}`:                "have layer 2 twice",
		qwen + `, "num_hidden_layers": 4, "rms_norm_eps": -1e-6}`:               "epsilon of the output norm is -1e-06, want a positive number",
		qwen + "}\n{}": "line 2: invalid character '{' after top-level value",
		qwen + `, "num_hidden_layers": 4, "linear_num_value_heads": 17}`:                          "hv",
		`{"hidden": 8, "layers": 1, "batch": 1, "tokens": 9, "rule": {"name": "gla", "conv": 1}}`: `rule.name is "gla"; want gdn or kda`,
		`{"hidden": 8, "layers": 1, "batch": 1, "tokens": 9, "rule": {"conv": 1, "bound": -5}}`:   "are of kda: set rule.name",
	} {
		_, err := Read(strings.NewReader(text))
		require.Error(t, err, text)
		require.Regexp(t, want, err.Error(), text)
	}
}
