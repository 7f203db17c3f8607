package published

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	qwen80b = Mixer{HeadsK: 16, HeadsV: 32, K: 128, V: 128, Conv: 4, OutputGate: SiLU, NormEps: 1e-6}
	qwen27b = Mixer{HeadsK: 16, HeadsV: 48, K: 128, V: 128, Conv: 4, OutputGate: SiLU, NormEps: 1e-6}
	olmo7b  = Mixer{HeadsK: 30, HeadsV: 30, K: 96, V: 192, Conv: 4, OutputGate: SiLU, NormEps: 1e-5, NegEigval: true}
)

func kimiOf(heads int, bound, eps float64) Mixer {
	return Mixer{Rule: KDA, HeadsK: heads, HeadsV: heads, K: 128, V: 128, Conv: 4, Bound: bound, DecayRank: 128, GateRank: 128, OutputGate: Sigmoid, NormEps: eps}
}

// Configurations as they are published, and what their layers are.
func TestPublished(t *testing.T) {
	with := func(m Mixer, f func(m *Mixer)) Mixer { f(&m); return m }
	const unknown = "has no layer that is known here; known are Qwen3-Next (qwen3_next)"
	want := map[string]any{ // a Config without its text, or an error
		"qwen3next_80b":           Config{Type: "qwen3_next", Hidden: 2048, Mixer: qwen80b},
		"qwen3next_fp8":           Config{Type: "qwen3_next", Hidden: 2048, Mixer: qwen80b},
		"qwen3next_dense":         Config{Type: "qwen3_next", Hidden: 2048, Mixer: qwen80b},
		"text_config_null":        Config{Type: "qwen3_next", Hidden: 2048, Mixer: qwen80b},
		"qwen3_5_27b":             Config{Type: "qwen3_5_text", Hidden: 5120, Mixer: qwen27b},
		"qwen3_5_no_layer_types":  Config{Type: "qwen3_5_text", Hidden: 5120, Mixer: qwen27b},
		"qwen3_omni_like":         Config{Type: "qwen3_5_text", Hidden: 5120, Mixer: qwen27b},
		"llm_config":              Config{Type: "qwen3_5_text", Hidden: 5120, Mixer: qwen27b},
		"qwen3_5_397b_a17b":       Config{Type: "qwen3_5_moe_text", Hidden: 4096, Mixer: with(qwen80b, func(m *Mixer) { m.HeadsV = 64 })},
		"qwen3_5_flat_92l_128v":   Config{Type: "qwen3_5_moe_text", Hidden: 8192, Mixer: with(qwen80b, func(m *Mixer) { m.HeadsV = 128 })},
		"olmo_hybrid_7b":          Config{Type: "olmo_hybrid", Hidden: 3840, Mixer: olmo7b},
		"olmo_hybrid_nulls":       Config{Type: "olmo_hybrid", Hidden: 3840, Mixer: olmo7b},
		"olmo_hybrid_no_negeig":   Config{Type: "olmo_hybrid", Hidden: 3840, Mixer: olmo7b},
		"kimi_linear_48b":         Config{Type: "kimi_linear", Hidden: 2304, Mixer: kimiOf(32, 0, 1e-5)},
		"kimi_k3":                 Config{Type: "kimi_linear", Hidden: 7168, Mixer: kimiOf(96, -5, 1e-5)},
		"glm5_next":               Config{Type: "glm5_next_text", Hidden: 4096, Mixer: kimiOf(64, -5, 1e-6)},
		"fla_kda":                 Config{Type: "kda", Hidden: 2048, Mixer: kimiOf(16, 0, 1e-6)},
		"fla_gated_deltanet_1b":   Config{Type: "gated_deltanet", Hidden: 2048, Mixer: Mixer{HeadsK: 6, HeadsV: 6, K: 256, V: 512, Conv: 4, OutputGate: SiLU, NormEps: 1e-6}},
		"fla_gated_deltaproduct":  `model_type "gated_deltaproduct" ` + unknown,
		"fla_deltanet":            `model_type "delta_net" ` + unknown,
		"dflash_drafter_all_full": `model_type "qwen3" ` + unknown,
		"dflash_drafter_sliding":  `model_type "qwen3" ` + unknown,
		"dflash_drafter_no_types": `model_type "qwen3" ` + unknown,
		"minicpm_sala":            `model_type "minicpm_sala" ` + unknown,
		"jet_nemotron":            `model_type "jet_nemotron" ` + unknown,
		"float_sizes":             "field hidden_size is 2048.0, want an integer",
	}
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, Is(data), name)
		got, err := Read(data)
		if refusal, ok := want[name].(string); ok {
			require.ErrorContains(t, err, refusal, name)
			continue
		}
		require.NoError(t, err, name)
		got.Text, got.Heads, got.Eps = nil, 0, nil
		require.Equal(t, want[name], got, name)
	}
}

// Fields that change numbers are read, or refused with their name and what a layer has.
func TestFields(t *testing.T) {
	const qwen, fla = `"model_type": "qwen3_next", "hidden_size": 2048`, `"model_type": "gated_deltanet", "hidden_size": 8, "num_heads": 2, "head_dim": 4`
	const kimi = `"model_type": "kimi_linear", "hidden_size": 8, "linear_attn_config": {"num_heads": 2, "head_dim": 4`
	for text, want := range map[string]string{
		"{" + qwen + `}`: "gdn 16/32 128/128 conv 4 silu",
		"{" + qwen + `, "linear_conv_kernel_dim": null}`:                                                    "gdn 16/32 128/128 conv 4 silu",
		"{" + qwen + `, "output_gate_type": "swish"}`:                                                       "gdn 16/32 128/128 conv 4 silu",
		"{" + qwen + `, "output_gate_type": "sigmoid"}`:                                                     "gdn 16/32 128/128 conv 4 sigmoid",
		"{" + qwen + `, "output_gate_type": "tanh"}`:                                                        `field output_gate_type is "tanh"; a layer here has "silu" or "swish" or "sigmoid" alone`,
		"{" + qwen + `, "hidden_act": "gelu"}`:                                                              `field hidden_act is "gelu"; a layer here has "silu" or "swish" alone: the short convolution is followed by SiLU`,
		"{" + qwen + `, "linear_allow_neg_eigval": true}`:                                                   "gdn 16/32 128/128 conv 4 silu, beta to 2",
		"{" + qwen + `, "model_type": "qwen9"}`:                                                             `model_type "qwen9" has no layer that is known here`,
		"{" + qwen + `, "model_type": 3}`:                                                                   "field model_type is 3, want a string",
		`{"model_type": "qwen3_5", "text_config": {"hidden_size": 5}, "vision_config": {"hidden_size": 3}}`: "gdn 16/32 128/128 conv 4 silu",
		`{"hidden_size": 8}`:                                                                                "field linear_num_key_heads is missing",
		`{"model_type": "olmo_hybrid", "hidden_size": 3840, "num_attention_heads": 30, "linear_allow_neg_eigval": false}`: "gdn 30/30 96/192 conv 4 silu",
		`{"model_type": "olmo_hybrid", "hidden_size": 3840, "num_attention_heads": 30, "linear_key_head_dim": 64}`:        "gdn 30/30 64/128 conv 4 silu, beta to 2",
		`{"model_type": "olmo_hybrid", "hidden_size": 3840, "num_attention_heads": 30, "linear_use_gate": false}`:         "field linear_use_gate is false",
		`{"model_type": "olmo_hybrid", "hidden_size": 3840}`:                                                              "field num_attention_heads is missing",
		"{" + fla + `}`: "gdn 2/2 4/8 conv 4 silu",
		"{" + fla + `, "num_v_heads": 4, "expand_v": 1.5, "conv_size": 2, "allow_neg_eigval": true}`: "gdn 2/4 4/6 conv 2 silu, beta to 2",
		"{" + fla + `, "expand_v": 1.3}`:                                      "expand_v is 1.3: values of 1.3 times keys of 4 are no whole width",
		"{" + fla + `, "use_gate": false}`:                                    "field use_gate is false; a layer here has true alone: the output has a gate",
		"{" + fla + `, "use_short_conv": false}`:                              "gdn 2/2 4/8 conv 0 silu",
		"{" + fla + `, "num_householder": 3}`:                                 "field num_householder is 3; a layer here has 1 alone",
		"{" + fla + `, "use_forget_gate": false}`:                             "field use_forget_gate is false; a layer here has true alone: the state decays",
		"{" + fla + `, "conv_bias": true}`:                                    "field conv_bias is true; a layer here has false alone",
		"{" + fla + `, "head_dim": null}`:                                     "field head_dim is missing",
		"{" + kimi + `}}`:                                                     "kda 2/2 4/4 conv 4 sigmoid, ranks 4 4",
		"{" + kimi + `, "gate_lower_bound": -5, "use_full_rank_gate": true}}`: "kda 2/2 4/4 conv 4 sigmoid, ranks 4 0, bound -5",
		"{" + kimi + `, "safe_gate": true}}`:                                  "linear_attn_config.gate_lower_bound is missing",
		"{" + kimi + `, "conv_bias": true}}`:                                  "field linear_attn_config.conv_bias is true",
		`{"model_type": "kimi_linear", "hidden_size": 8}`:                     "field linear_attn_config is missing",
		`{"model_type": "kimi_linear", "hidden_size": 8, "linear_num_heads": 2, "linear_head_dim": 4}`:                                "kda 2/2 4/4 conv 4 sigmoid, ranks 4 4",
		`{"model_type": "kda", "hidden_size": 8, "num_heads": 2, "head_dim": 4, "safe_gate": true}`:                                   "lower_bound is missing",
		`{"model_type": "kda", "hidden_size": 8, "num_heads": 2, "head_dim": 4, "safe_gate": true, "lower_bound": -5, "expand_v": 2}`: "kda 2/2 4/8 conv 4 sigmoid, ranks 8 8, bound -5",
		`[]`: "want",
	} {
		c, err := Read(json.RawMessage(text))
		if err != nil {
			require.ErrorContains(t, err, want, text)
			continue
		}
		m := c.Mixer
		got := fmt.Sprintf("%s %d/%d %d/%d conv %d %s", m.Rule, m.HeadsK, m.HeadsV, m.K, m.V, m.Conv, m.OutputGate)
		if m.NegEigval {
			got += ", beta to 2"
		}
		if m.Rule == KDA {
			got += fmt.Sprintf(", ranks %d %d", m.DecayRank, m.GateRank)
		}
		if m.Bound != 0 {
			got += fmt.Sprintf(", bound %g", m.Bound)
		}
		require.Equal(t, want, got, text)
	}
}
