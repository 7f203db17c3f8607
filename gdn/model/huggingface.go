package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// usualTokens is the length of a sequence where a configuration leaves it to whoever runs the model.
const usualTokens = 4096

// huggingFace are the fields of a config.json that a Config follows from. A pointer tells a field that is absent from a zero.
type huggingFace struct {
	Type     string `json:"model_type"`
	Hidden   *int   `json:"hidden_size"`
	Layers   *int   `json:"num_hidden_layers"`
	Vocab    int    `json:"vocab_size"`
	Inner    int    `json:"intermediate_size"`
	Heads    int    `json:"num_attention_heads"`
	HeadsKV  int    `json:"num_key_value_heads"`
	HeadDim  int    `json:"head_dim"`
	Gate     *bool  `json:"attn_output_gate"`
	Interval int    `json:"full_attention_interval"`

	LayerTypes []string `json:"layer_types"`

	RuleHeadsK *int `json:"linear_num_key_heads"`
	RuleHeadsV *int `json:"linear_num_value_heads"`
	RuleK      *int `json:"linear_key_head_dim"`
	RuleV      *int `json:"linear_value_head_dim"`
	RuleConv   *int `json:"linear_conv_kernel_dim"`
	RuleNeg    bool `json:"linear_allow_neg_eigval"`

	Experts     int   `json:"num_experts"`
	ExpertsUsed int   `json:"num_experts_per_tok"`
	ExpertInner int   `json:"moe_intermediate_size"`
	SharedInner int   `json:"shared_expert_intermediate_size"`
	DenseLayers []int `json:"mlp_only_layers"`
	SparseStep  int   `json:"decoder_sparse_step"`

	// flash-linear-attention names its own layer in other words.
	FLAHeads   *int     `json:"num_heads"`
	FLAHeadsV  *int     `json:"num_v_heads"`
	FLAExpandV *float64 `json:"expand_v"`
	FLAConv    *int     `json:"conv_size"`
	FLARatio   int      `json:"hidden_ratio"`
	FLANeg     bool     `json:"allow_neg_eigval"`
	FLAUseConv *bool    `json:"use_short_conv"`
	FLAHybrid  *struct {
		Layers  []int `json:"layers"`
		Heads   int   `json:"num_heads"`
		HeadsKV int   `json:"num_kv_heads"`
	} `json:"attn"`

	Kimi json.RawMessage `json:"linear_attn_config"`
}

// isHuggingFace says whether a document is a config.json of the transformers library.
func isHuggingFace(data []byte) bool {
	var f map[string]json.RawMessage
	if json.Unmarshal(data, &f) != nil {
		return false
	}
	for _, field := range []string{"model_type", "hidden_size", "text_config", "architectures"} {
		if _, ok := f[field]; ok {
			return true
		}
	}
	return false
}

// ruled are the model types with layers of the gated delta rule; a file without a type may be one.
var ruled = regexp.MustCompile(`^(qwen3_next|qwen3_5|olmo|gated_delta|$)`)

// readHuggingFace reads the config.json of a model with layers of the gated delta rule, or the text_config in it: Qwen3-Next, Qwen3.5,
// OLMo-hybrid and gated_deltanet of flash-linear-attention. What a Config has no word for becomes a line of Notes.
func readHuggingFace(data []byte) (Config, error) {
	var whole struct {
		Text json.RawMessage `json:"text_config"`
	}
	f := &huggingFace{}
	err := json.Unmarshal(data, &whole)
	if err == nil && whole.Text != nil { // a model with more than text
		data = whole.Text
	}
	if err == nil {
		err = json.Unmarshal(data, f)
	}
	if err != nil {
		return Config{}, fmt.Errorf("model: %w", gdn.JSONError(data, err))
	}
	c := Config{Name: f.Type, Batch: 1, Tokens: usualTokens, Vocab: f.Vocab}
	sizes := []need{{"hidden_size", f.Hidden, &c.Hidden}, {"num_hidden_layers", f.Layers, &c.Layers}}
	err = wanted(sizes)
	switch {
	case err != nil && f.Kimi == nil && !ruled.MatchString(f.Type): // whatever else is missing
		err = fmt.Errorf("model: %q has no layer of the gated delta rule; known are Qwen3-Next, Qwen3.5, OLMo-hybrid and gated_deltanet", f.Type)
	case err != nil:
	case f.RuleHeadsK != nil || f.RuleHeadsV != nil:
		err = f.transformers(&c)
	case f.FLAHeads != nil && strings.HasPrefix(f.Type, "gated_delta"):
		err = f.flashLinearAttention(&c)
	case f.Kimi != nil:
		err = errors.New("model: linear_attn_config is Kimi Delta Attention, whose decay is one a channel: there is no layer of it yet. Its kernels are rule=kda in a spec: " +
			"gdngen explain --spec b=1,t=4096,hk=8,hv=8,k=128,v=128,dtype=bf16,rule=kda")
	default:
		err = fmt.Errorf("model: %q has no layer of the gated delta rule: linear_num_key_heads and linear_num_value_heads (Qwen3-Next, Qwen3.5, OLMo-hybrid) are missing", f.Type)
	}
	if err != nil {
		return c, err
	}
	return c, c.Validate()
}

// need is a field that must be there, and where it goes.
type need struct {
	name string
	from *int
	to   *int
}

func wanted(list []need) error {
	for _, n := range list {
		if n.from == nil {
			return fmt.Errorf("model: field %s is missing", n.name)
		}
		*n.to = *n.from
	}
	return nil
}

// transformers fills a Config from the words of Qwen3-Next, which Qwen3.5 and OLMo-hybrid share.
func (f *huggingFace) transformers(c *Config) error {
	r := &c.Rule
	if err := wanted([]need{{"linear_num_key_heads", f.RuleHeadsK, &r.HeadsK}, {"linear_num_value_heads", f.RuleHeadsV, &r.HeadsV},
		{"linear_key_head_dim", f.RuleK, &r.K}, {"linear_value_head_dim", f.RuleV, &r.V}, {"linear_conv_kernel_dim", f.RuleConv, &r.Conv}}); err != nil {
		return err
	}
	r.NegEigval = f.RuleNeg
	switch {
	case f.LayerTypes != nil && len(f.LayerTypes) != c.Layers:
		return fmt.Errorf("model: layer_types has %d entries, num_hidden_layers is %d", len(f.LayerTypes), c.Layers)
	case f.LayerTypes != nil:
		for i, kind := range f.LayerTypes {
			switch kind {
			case "full_attention":
				c.AttentionLayers++
			case "linear_attention":
			default:
				return fmt.Errorf("model: layer_types[%d] is %q; want linear_attention or full_attention", i, kind)
			}
		}
	case f.Interval > 0:
		c.AttentionEvery = f.Interval
	default:
		c.AttentionEvery = 4 // as transformers has it
	}
	f.attention(c)
	f.experts(c)
	return nil
}

// attention fills the sizes of attention. Qwen3-Next gates its output, and so does Qwen3.5 unless it says otherwise.
func (f *huggingFace) attention(c *Config) {
	a := &c.Attention
	a.Heads, a.HeadsKV, a.Dim = f.Heads, f.HeadsKV, f.HeadDim
	if a.HeadsKV == 0 {
		a.HeadsKV = a.Heads
	}
	if a.Dim == 0 && a.Heads > 0 {
		a.Dim = c.Hidden / a.Heads
	}
	a.Gate = strings.HasPrefix(f.Type, "qwen3")
	if f.Gate != nil {
		a.Gate = *f.Gate
	}
	if a.Gate {
		c.Notes = append(c.Notes, "the product of attention's output with its gate is left out")
	}
}

// experts takes a mixture of experts as one SwiGLU of the width that a token uses.
func (f *huggingFace) experts(c *Config) {
	c.MLP = f.Inner
	if f.Experts == 0 || f.ExpertsUsed == 0 || f.ExpertInner == 0 {
		return
	}
	c.MLP = f.ExpertsUsed*f.ExpertInner + f.SharedInner
	c.Notes = append(c.Notes, fmt.Sprintf("%d of %d experts count as one SwiGLU of width %d: routing, and reading the weights of the others, are left out", f.ExpertsUsed, f.Experts, c.MLP))
	if len(f.DenseLayers) > 0 || f.SparseStep > 1 {
		c.Notes = append(c.Notes, "layers without experts count like those with")
	}
}

// flashLinearAttention fills a Config from the words of gated_deltanet.
func (f *huggingFace) flashLinearAttention(c *Config) error {
	r := &c.Rule
	r.HeadsK, r.HeadsV, r.K, r.Conv, r.NegEigval = *f.FLAHeads, *f.FLAHeads, f.HeadDim, 4, f.FLANeg
	if f.FLAHeadsV != nil {
		r.HeadsV = *f.FLAHeadsV
	}
	if r.K == 0 {
		return errors.New("model: field head_dim is missing")
	}
	expand := 2.0
	if f.FLAExpandV != nil {
		expand = *f.FLAExpandV
	}
	r.V = int(float64(r.K) * expand)
	if f.FLAConv != nil {
		r.Conv = *f.FLAConv
	}
	if f.FLAUseConv != nil && !*f.FLAUseConv {
		r.Conv = 1
		c.Notes = append(c.Notes, "without a short convolution one of a single tap counts")
	}
	if c.MLP = f.Inner; c.MLP == 0 {
		ratio := f.FLARatio
		if ratio == 0 {
			ratio = 4
		}
		const block = 256 // the width is two thirds of the ratio's, up to a multiple of this
		c.MLP = (c.Hidden*ratio*2/3 + block - 1) / block * block
	}
	if h := f.FLAHybrid; h != nil {
		c.AttentionLayers = len(h.Layers)
		c.Attention = Attention{Heads: h.Heads, HeadsKV: h.HeadsKV}
		if h.HeadsKV == 0 {
			c.Attention.HeadsKV = h.Heads
		}
		if h.Heads > 0 {
			c.Attention.Dim = c.Hidden / h.Heads
		}
	}
	return nil
}
