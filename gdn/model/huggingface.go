package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/published"
)

// usualTokens is the default sequence length.
const usualTokens = 4096

// huggingFace has the fields of a config.json that determine a Config, without the mixer's. A pointer distinguishes an absent field from a zero.
type huggingFace struct {
	Layers   *int  `json:"num_hidden_layers"`
	Vocab    int   `json:"vocab_size"`
	Inner    int   `json:"intermediate_size"`
	HeadsKV  int   `json:"num_key_value_heads"`
	HeadDim  int   `json:"head_dim"`
	Gate     *bool `json:"attn_output_gate"`
	Interval *int  `json:"full_attention_interval"`

	LayerTypes []string `json:"layer_types"`
	MLA        *int     `json:"kv_lora_rank"`
	ValueDim   int      `json:"v_head_dim"`

	Experts     int   `json:"num_experts"`
	ExpertsUsed int   `json:"num_experts_per_tok"`
	ExpertInner int   `json:"moe_intermediate_size"`
	SharedInner int   `json:"shared_expert_intermediate_size"`
	DenseLayers []int `json:"mlp_only_layers"`
	SparseStep  int   `json:"decoder_sparse_step"`

	// Kimi Linear's family uses other names, and counts layers from 1 or from 0.
	ExpertsUsedKimi int `json:"num_experts_per_token"`
	ExpertsShared   int `json:"num_shared_experts"`
	DenseFirst      int `json:"first_k_dense_replace"`
	Kimi            *struct {
		Layers []int `json:"kda_layers"`
		Full   []int `json:"full_attn_layers"`
	} `json:"linear_attn_config"`

	// flash-linear-attention derives the MLP width from a ratio, and lists its attention layers.
	FLARatio  int `json:"hidden_ratio"`
	FLAHybrid *struct {
		Layers  []int `json:"layers"`
		Heads   int   `json:"num_heads"`
		HeadsKV int   `json:"num_kv_heads"`
	} `json:"attn"`
}

// readHuggingFace reads the config.json of a published model (package published). Properties without a field in Config become Notes.
func readHuggingFace(data []byte) (Config, error) {
	of, err := published.Read(data)
	if err != nil {
		return Config{}, fmt.Errorf("model: %w", err)
	}
	f := &huggingFace{}
	if err := json.Unmarshal(of.Text, f); err != nil {
		return Config{}, fmt.Errorf("model: %w", gdn.JSONError(of.Text, err))
	}
	m := of.Mixer
	c := Config{Name: of.Type, Hidden: of.Hidden, Batch: 1, Tokens: usualTokens, Vocab: f.Vocab,
		Rule: Rule{HeadsK: m.HeadsK, HeadsV: m.HeadsV, K: m.K, V: m.V, Conv: m.Conv, NegEigval: m.NegEigval, DecayRank: m.DecayRank, GateRank: m.GateRank, Bound: m.Bound}}
	if m.Rule != (gdn.Rule{}) {
		c.Rule.Name = m.Rule.String()
	}
	c.Rule.SigmoidGate = m.OutputGate == published.Sigmoid
	if m.Conv == 0 {
		c.Rule.Conv = 1
		c.Notes = append(c.Notes, "without a short convolution one of a single tap counts")
	}
	if f.Layers == nil {
		return c, errors.New("model: field num_hidden_layers is missing")
	}
	c.Layers = *f.Layers
	switch c.Name {
	case "gated_deltanet", "kda":
		f.flashLinearAttention(&c)
	default:
		if err := f.layers(&c); err != nil {
			return c, err
		}
		f.attention(&c, of.Heads)
		f.experts(&c)
	}
	return c, c.Validate()
}

// otherAttention lists values of layer_types that count as full attention.
var otherAttention = []string{"deepseek_sparse_attention"}

// layers sets the attention layers.
func (f *huggingFace) layers(c *Config) error {
	switch {
	case f.LayerTypes != nil && len(f.LayerTypes) != c.Layers:
		return fmt.Errorf("model: layer_types has %d entries, num_hidden_layers is %d", len(f.LayerTypes), c.Layers)
	case f.LayerTypes != nil:
		for i, kind := range f.LayerTypes {
			switch {
			case kind == "linear_attention":
				continue
			case slices.Contains(otherAttention, kind):
				if note := kind + " counts as full attention"; !slices.Contains(c.Notes, note) {
					c.Notes = append(c.Notes, note)
				}
			case kind != "full_attention":
				return fmt.Errorf("model: layer_types[%d] is %q; want linear_attention, full_attention or %s", i, kind, strings.Join(otherAttention, ", "))
			}
			c.AttentionLayers++
		}
	case f.Kimi != nil:
		c.AttentionLayers = c.Layers - len(f.Kimi.Layers)
		named := slices.Sorted(slices.Values(slices.Concat(f.Kimi.Layers, f.Kimi.Full)))
		for i, n := range named {
			switch {
			case n < 0 || n > c.Layers || n == c.Layers && named[0] == 0:
				return fmt.Errorf("model: kda_layers and full_attn_layers have layer %d, num_hidden_layers is %d", n, c.Layers)
			case i > 0 && n == named[i-1]:
				return fmt.Errorf("model: kda_layers and full_attn_layers have layer %d twice", n)
			}
		}
		if len(named) != c.Layers {
			c.Notes = append(c.Notes, fmt.Sprintf("kda_layers and full_attn_layers name %d of %d layers: the others count as full attention", len(named), c.Layers))
		}
	case f.Interval != nil && *f.Interval < 1:
		return fmt.Errorf("model: full_attention_interval is %d; want 1 or more", *f.Interval)
	case f.Interval != nil:
		c.AttentionEvery = *f.Interval
	default:
		c.AttentionEvery = 4 // the default of transformers
	}
	if c.RuleLayers() == 0 {
		return fmt.Errorf("model: all %d layers are attention: there is no layer of a rule", c.Layers)
	}
	return nil
}

// attention sets the sizes of attention. Qwen3-Next gates its output; Qwen3.5 too, unless configured otherwise.
func (f *huggingFace) attention(c *Config, heads int) {
	a := &c.Attention
	a.Heads, a.HeadsKV, a.Dim = heads, f.HeadsKV, f.HeadDim
	if a.HeadsKV == 0 {
		a.HeadsKV = a.Heads
	}
	if a.Dim == 0 && a.Heads > 0 {
		a.Dim = c.Hidden / a.Heads
	}
	if f.MLA != nil { // keys and values come from a narrower latent; heads are as wide as values
		a.HeadsKV, a.Dim = a.Heads, cmp.Or(f.ValueDim, a.Dim)
		c.Notes = append(c.Notes, fmt.Sprintf("attention by latent vectors (kv_lora_rank) counts as attention of %d heads of width %d", a.Heads, a.Dim))
	}
	a.Gate = strings.HasPrefix(c.Name, "qwen3")
	if f.Gate != nil {
		a.Gate = *f.Gate
	}
	if a.Gate {
		c.Notes = append(c.Notes, "the product of attention's output with its gate is left out")
	}
}

// experts replaces a mixture of experts by one SwiGLU as wide as a token's experts together.
func (f *huggingFace) experts(c *Config) {
	c.MLP = f.Inner
	if used := cmp.Or(f.ExpertsUsed, f.ExpertsUsedKimi); f.Experts > 0 && used > 0 && f.ExpertInner > 0 {
		c.MLP = used*f.ExpertInner + f.SharedInner + f.ExpertsShared*f.ExpertInner
		c.Notes = append(c.Notes, fmt.Sprintf("%d of %d experts count as one SwiGLU of width %d: routing, and reading the weights of the others, are left out", used, f.Experts, c.MLP))
		if len(f.DenseLayers) > 0 || f.SparseStep > 1 || f.DenseFirst > 0 {
			c.Notes = append(c.Notes, "layers without experts count like those with")
		}
	}
	if c.MLP == 0 {
		c.Notes = append(c.Notes, "no width of an MLP is given (intermediate_size, moe_intermediate_size): none is counted")
	}
}

// flashLinearAttention sets the MLP and the attention layers of flash-linear-attention.
func (f *huggingFace) flashLinearAttention(c *Config) {
	if c.MLP = f.Inner; c.MLP == 0 {
		const block = 256 // the width is 2/3 of the ratio times hidden, rounded up to a multiple of this
		c.MLP = (c.Hidden*cmp.Or(f.FLARatio, 4)*2/3 + block - 1) / block * block
	}
	if h := f.FLAHybrid; h != nil {
		c.AttentionLayers = len(h.Layers)
		c.Attention = Attention{Heads: h.Heads, HeadsKV: cmp.Or(h.HeadsKV, h.Heads)}
		if h.Heads > 0 {
			c.Attention.Dim = c.Hidden / h.Heads
		}
	}
}
