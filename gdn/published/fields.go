package published

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// fields are the fields that determine a Mixer. A pointer distinguishes an absent or null field from a zero.
type fields struct {
	Hidden   *int     `json:"hidden_size"`
	Heads    *int     `json:"num_attention_heads"`
	Eps      *float64 `json:"rms_norm_eps"`
	GateType string   `json:"output_gate_type"`

	HeadsK *int  `json:"linear_num_key_heads"`
	HeadsV *int  `json:"linear_num_value_heads"`
	K      *int  `json:"linear_key_head_dim"`
	V      *int  `json:"linear_value_head_dim"`
	Conv   *int  `json:"linear_conv_kernel_dim"`
	Neg    *bool `json:"linear_allow_neg_eigval"`

	Kimi        *kimiFields `json:"linear_attn_config"`
	LinearHeads *int        `json:"linear_num_heads"`
	LinearDim   *int        `json:"linear_head_dim"`

	FLAHeads   *int     `json:"num_heads"`
	FLAHeadsV  *int     `json:"num_v_heads"`
	FLADim     *int     `json:"head_dim"`
	FLAExpandV *float64 `json:"expand_v"`
	FLAConv    *int     `json:"conv_size"`
	FLANeg     bool     `json:"allow_neg_eigval"`
	FLAUseConv *bool    `json:"use_short_conv"`
	FLAEps     *float64 `json:"norm_eps"`
	FLASafe    bool     `json:"safe_gate"`
	FLABound   *float64 `json:"lower_bound"`
}

type kimiFields struct {
	Heads    *int     `json:"num_heads"`
	Dim      *int     `json:"head_dim"`
	Conv     *int     `json:"short_conv_kernel_size"`
	Bound    *float64 `json:"gate_lower_bound"`
	Safe     bool     `json:"safe_gate"`
	FullRank bool     `json:"use_full_rank_gate"` // of the output gate
}

// limited lists fields that affect a layer's numbers and support only the given values, in JSON. The first value is the default in
// all models.
var limited = []struct {
	name   string
	values string // separated by spaces
	why    string
}{
	{"hidden_act", `"silu" "swish"`, "the short convolution is followed by SiLU"},
	{"output_gate_type", `"silu" "swish" "sigmoid"`, "the output gate passes through one of these"},
	{"use_gate", "true", "the output has a gate"},
	{"linear_use_gate", "true", "the output has a gate"},
	{"num_householder", "1", "a token is one step of the delta rule"},
	{"use_forget_gate", "true", "the state decays"},
	{"use_mamba_gate", "true", "the decay is -exp(A_log) softplus(a + dt_bias)"},
	{"use_beta", "true", "a token is written with a weight"},
	{"conv_bias", "false", "the short convolution has no bias"},
	{"linear_conv_bias", "false", "the short convolution has no bias"},
	{"short_conv_bias", "false", "the short convolution has no bias"},
}

// accepted returns an error for a value of limited that no layer here supports.
func accepted(text json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for _, prefix := range []string{"", "linear_attn_config."} {
		values := all
		if prefix != "" && json.Unmarshal(all["linear_attn_config"], &values) != nil { // absent, or no object
			continue
		}
		for _, f := range limited {
			if v := values[f.name]; has(v) && !slices.Contains(strings.Fields(f.values), string(v)) {
				return fmt.Errorf("field %s%s is %s; a layer here has %s alone: %s", prefix, f.name, v, strings.ReplaceAll(f.values, " ", " or "), f.why)
			}
		}
	}
	return nil
}
