package model

import (
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

func TestHuggingFaceFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2}`:                                 `"llama" has no layer of the gated delta rule: linear_num_key_heads`,
		`{"model_type": "llama", "hidden_size": 8}`:                                                         `"llama" has no layer of the gated delta rule; known are Qwen3-Next`,
		`{"model_type": "qwen3_next"}`:                                                                      "field hidden_size is missing",
		`{"model_type": "qwen3_next", "hidden_size": 8}`:                                                    "field num_hidden_layers is missing",
		`{"model_type": "x", "hidden_size": 8, "num_hidden_layers": 2, "linear_num_key_heads": 2}`:          "field linear_num_value_heads is missing",
		`{"model_type": "x", "hidden_size": "8"}`:                                                           "field hidden_size is a string, want",
		`{"model_type": "kimi_linear", "hidden_size": 8, "num_hidden_layers": 2, "linear_attn_config": {}}`: "Kimi Delta Attention.*one a channel.*rule=kda",
		`{"model_type": "x", "hidden_size": 8, "num_hidden_layers": 2, "layer_types": ["linear_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 2,
			"linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 4}`: "layer_types has 1 entries, num_hidden_layers is 2",
		`{"model_type": "x", "hidden_size": 8, "num_hidden_layers": 1, "layer_types": ["mamba"], "linear_num_key_heads": 2, "linear_num_value_heads": 2,
			"linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 4}`: `layer_types\[0\] is "mamba"; want linear_attention or full_attention`,
		`{"model_type": "x", "hidden_size": 8, "num_hidden_layers": 1, "full_attention_interval": 9, "linear_num_key_heads": 2, "linear_num_value_heads": 3,
			"linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 4}`: "attention_every is 9",
		`{"model_type": "gated_deltanet", "hidden_size": 8, "num_hidden_layers": 1, "num_heads": 2}`: "head_dim is missing",
	} {
		_, err := Read(strings.NewReader(text))
		require.Error(t, err, text)
		require.Regexp(t, want, err.Error(), text)
	}
}
