package lm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/published"
)

// Config has the sizes, the layers and the tensor names of a model.
type Config struct {
	Type       string // model_type
	Vocabulary int
	Hidden     int
	Width      int    // width of a dense MLP
	Attention  []bool // per layer: attention instead of the rule
	Sparse     []bool // per layer: experts instead of a dense MLP
	Experts    Experts
	Heads      int     // query heads of attention
	KVHeads    int     // key and value heads of attention
	HeadDim    int     // head width of attention
	Latent     Latent  // replaces KVHeads and HeadDim if its rank is not 0
	Rotary     int     // channels of a head rotated by rope; 0: no rope
	Theta      float64 // base of rope
	Eps        float64 // epsilon of the norms
	Tied       bool    // the head shares the embedding
	Layer      layer.Config
	Compute    dtypes.DType // type of projections and rules in Logits: BFloat16 keeps weights and sums in float32; otherwise, and in sessions, all is float32
	style
}

// Experts are the sizes of a mixture of experts, which replaces an MLP.
type Experts struct {
	Count     int // number of experts
	Chosen    int // experts per token
	Width     int // width of an expert
	Shared    int // width of the shared expert
	Sigmoid   bool
	Normalise bool    // the weights of the chosen experts sum to one
	Scale     float64 // factor on these weights
}

// Latent is attention whose keys and values are projections of a latent shared by all heads (MLA), without rope.
type Latent struct {
	Rank  int // width of the latent
	Key   int // width of a head's keys from the latent
	Whole int // width of the keys shared by all heads
	Value int // width of a head's values
}

// style is how a family's graphs and tensor names differ.
type style struct {
	prefixes  []string // possible prefixes of tensors
	mixer     string   // prefix of a rule's tensors
	sparse    string   // prefix of the experts' weights
	expert    [3]string
	shared    string
	others    map[string]string // alternative names of tensors: OLMo's files differ, and transformers saves Kimi's dense layers under the names of sparse ones
	gate      bool              // attention has an output gate
	postNorm  bool              // attention and its MLP have norms after them, and norms of queries and keys are over all heads
	offset    float64           // norms scale by offset + weight
	rotary    float64           // default fraction of a head rotated by rope
	defaults  Experts
	firstFull bool // kimi counts attention layers from 1
}

// fields of config.json that package published does not read. A nil pointer is an absent field or null, not zero.
type fields struct {
	Type         string      `json:"model_type"`
	Vocabulary   int         `json:"vocab_size"`
	Layers       int         `json:"num_hidden_layers"`
	LayerTypes   []string    `json:"layer_types"`
	Every        int         `json:"full_attention_interval"`
	KVHeads      *int        `json:"num_key_value_heads"`
	HeadDim      int         `json:"head_dim"`
	Width        int         `json:"intermediate_size"`
	Act          string      `json:"hidden_act"`
	Bias         bool        `json:"attention_bias"`
	Tied         *bool       `json:"tie_word_embeddings"`
	Theta        float64     `json:"rope_theta"`
	Partial      float64     `json:"partial_rotary_factor"`
	Rope         *ropeFields `json:"rope_parameters"`
	RopeScaling  *ropeFields `json:"rope_scaling"`
	Quantization any         `json:"quantization_config"`
	Gate         *bool       `json:"attn_output_gate"`

	Experts     *int     `json:"num_experts"`
	Local       *int     `json:"num_local_experts"`
	Chosen      *int     `json:"num_experts_per_tok"`
	ChosenKimi  *int     `json:"num_experts_per_token"`
	ExpertWidth *int     `json:"moe_intermediate_size"`
	SharedWidth *int     `json:"shared_expert_intermediate_size"`
	Shared      *int     `json:"num_shared_experts"`
	SharedToo   *int     `json:"n_shared_experts"`
	Norm        *bool    `json:"norm_topk_prob"`
	NormKimi    *bool    `json:"moe_renormalize"`
	Scale       *float64 `json:"routed_scaling_factor"`
	Step        int      `json:"decoder_sparse_step"`
	Dense       []int    `json:"mlp_only_layers"`
	FirstDense  *int     `json:"first_k_dense_replace"`
	MLPTypes    []string `json:"mlp_layer_types"`
	Groups      *int     `json:"num_expert_group"`
	GroupsToo   *int     `json:"n_group"`
	Router      string   `json:"moe_router_activation_func"`
	Frequency   *int     `json:"moe_layer_freq"`

	QueryRank *int  `json:"q_lora_rank"`
	Rank      *int  `json:"kv_lora_rank"`
	Nope      *int  `json:"qk_nope_head_dim"`
	Whole     *int  `json:"qk_rope_head_dim"`
	Value     *int  `json:"v_head_dim"`
	UseNope   *bool `json:"mla_use_nope"`
	Linear    *struct {
		Full []int `json:"full_attn_layers"`
	} `json:"linear_attn_config"`
}

type ropeFields struct {
	Type    string   `json:"rope_type"`
	Theta   *float64 `json:"rope_theta"`
	Partial float64  `json:"partial_rotary_factor"`
}

var (
	projections = [3]string{"gate_proj", "up_proj", "down_proj"}
	qwenNext    = style{prefixes: []string{"model."}, mixer: "linear_attn.", sparse: "mlp.", expert: projections, shared: "shared_expert", gate: true, offset: 1,
		rotary: .25, defaults: Experts{Count: 512, Chosen: 10, Width: 512, Shared: 512, Normalise: true, Scale: 1}}
	qwen35    = with(qwenNext, func(s *style) { s.prefixes, s.defaults = append(s.prefixes, "model.language_model."), Experts{} })
	qwen35MoE = with(qwen35, func(s *style) {
		s.defaults = Experts{Count: 256, Chosen: 8, Width: 512, Shared: 512, Normalise: true, Scale: 1}
	})
	olmo = style{prefixes: []string{"model."}, mixer: "linear_attn.", postNorm: true, rotary: 1,
		others: map[string]string{"input_layernorm": "attention_layer_norm", "post_attention_layernorm": "feedforward_layer_norm"}}
	kimi = style{prefixes: []string{"model."}, mixer: "self_attn.", sparse: "block_sparse_moe.", expert: [3]string{"w1", "w3", "w2"}, shared: "shared_experts",
		others:    map[string]string{"mlp.gate_proj": "block_sparse_moe.gate_proj", "mlp.up_proj": "block_sparse_moe.up_proj", "mlp.down_proj": "block_sparse_moe.down_proj"},
		firstFull: true, defaults: Experts{Count: 256, Chosen: 8, Width: 1024, Sigmoid: true, Normalise: true, Scale: 2.446}}
)

func with(s style, f func(*style)) style { f(&s); return s }

// families maps the readable model types to their styles.
var families = map[string]style{"qwen3_next": qwenNext, "qwen3_5_text": qwen35, "qwen3_5": qwen35, "qwen3_5_moe": qwen35MoE, "qwen3_5_moe_text": qwen35MoE,
	"olmo_hybrid": olmo, "kimi_linear": kimi}

// ReadConfig reads the config.json of a model. Unknown types and unsupported fields are errors.
func ReadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("lm: config: %w", err)
	}
	c, err := parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("lm: config: %s: %w", path, err)
	}
	if c.Layer, err = layer.ReadConfig(path); err != nil {
		return Config{}, err
	}
	return c, nil
}

func parse(data []byte) (Config, error) {
	p, err := published.Read(data)
	if err != nil {
		return Config{}, err
	}
	var outer, f fields
	if err := errors.Join(json.Unmarshal(data, &outer), json.Unmarshal(p.Text, &f)); err != nil {
		return Config{}, gdn.JSONError(data, err)
	}
	s := families[p.Type]
	for _, kind := range []string{cmp.Or(outer.Type, p.Type), p.Type} {
		if _, ok := families[kind]; !ok {
			return Config{}, fmt.Errorf("model_type %q is no model of this package (known: %s); its layers can be used by package layer",
				kind, strings.Join(slices.Sorted(maps.Keys(families)), ", "))
		}
	}
	c := Config{Type: p.Type, Vocabulary: f.Vocabulary, Hidden: p.Hidden, Width: f.Width, Heads: p.Heads, KVHeads: or(f.KVHeads, p.Heads), HeadDim: f.HeadDim,
		Eps: or(p.Eps, 1e-6), Tied: or(f.Tied, or(outer.Tied, false)), style: s}
	if c.HeadDim == 0 && c.postNorm && p.Heads > 0 {
		c.HeadDim = p.Hidden / p.Heads
	}
	if c.firstFull {
		c.Eps = or(p.Eps, 1e-5)
		c.Latent = Latent{Rank: or(f.Rank, 512), Key: or(f.Nope, 128), Whole: or(f.Whole, 64), Value: or(f.Value, 128)}
		c.KVHeads, c.HeadDim = 1, c.Latent.Key+c.Latent.Whole
	}
	if err := c.rope(f); err != nil {
		return Config{}, err
	}
	if c.Attention, err = f.attention(c.firstFull); err != nil {
		return Config{}, err
	}
	if err := c.experts(f); err != nil {
		return Config{}, err
	}
	return c, c.check(f, outer)
}

// or returns the value of a field, or a default if it is absent.
func or[T any](field *T, otherwise T) T {
	if field == nil {
		return otherwise
	}
	return *field
}

// rope sets the fields of rope. Models with norms after their layers have none unless they state theta.
func (c *Config) rope(f fields) error {
	c.Theta = 1e4
	if c.postNorm {
		c.Theta = 0
	}
	for _, r := range []*ropeFields{{Theta: &f.Theta, Partial: f.Partial}, f.RopeScaling, f.Rope} {
		if r == nil {
			continue
		}
		if r.Type != "" && r.Type != "default" {
			return fmt.Errorf("rope_type %q is not computed here, only default is", r.Type)
		}
		c.Theta = cmp.Or(or(r.Theta, 0), c.Theta)
		c.rotary = cmp.Or(r.Partial, c.rotary)
	}
	if c.Theta != 0 && c.Latent.Rank == 0 {
		c.Rotary = int(float64(c.HeadDim) * c.rotary)
		if c.Rotary < 2 || c.Rotary%2 != 0 || c.Rotary > c.HeadDim {
			return fmt.Errorf("rope turns %d of %d channels: want an even number of them", c.Rotary, c.HeadDim)
		}
	}
	return nil
}

// attention returns, for each layer, whether it is attention.
func (f fields) attention(counted bool) ([]bool, error) {
	list := make([]bool, max(0, f.Layers))
	if f.LayerTypes == nil && counted && f.Linear != nil {
		for _, n := range f.Linear.Full {
			if n < 1 || n > len(list) {
				return nil, fmt.Errorf("linear_attn_config.full_attn_layers has layer %d, num_hidden_layers is %d", n, f.Layers)
			}
			list[n-1] = true
		}
		return list, nil
	}
	every := cmp.Or(f.Every, 4)
	for i := range list {
		list[i] = (i+1)%every == 0
		if counted {
			list[i] = i > 0 && i%every == 0
		}
	}
	if f.LayerTypes == nil {
		return list, nil
	}
	if len(f.LayerTypes) != f.Layers {
		return nil, fmt.Errorf("layer_types has %d layers, num_hidden_layers %d", len(f.LayerTypes), f.Layers)
	}
	for i, t := range f.LayerTypes {
		if t != "full_attention" && t != "linear_attention" {
			return nil, fmt.Errorf("layer_types: %q is no layer of this package, only linear_attention and full_attention are", t)
		}
		list[i] = t == "full_attention"
	}
	return list, nil
}

// experts sets the mixture of experts and the layers that have it.
func (c *Config) experts(f fields) error {
	e := c.defaults
	e.Count = or(f.Experts, or(f.Local, e.Count))
	e.Chosen = or(f.Chosen, or(f.ChosenKimi, e.Chosen))
	e.Width = or(f.ExpertWidth, e.Width)
	e.Shared = or(f.SharedWidth, e.Shared)
	e.Normalise = or(f.Norm, or(f.NormKimi, e.Normalise))
	e.Scale = or(f.Scale, e.Scale)
	if e.Sigmoid {
		e.Shared = e.Width * or(f.Shared, or(f.SharedToo, 1))
	}
	c.Sparse = make([]bool, len(c.Attention))
	if e.Count == 0 {
		return nil
	}
	for i := range c.Sparse {
		switch {
		case f.MLPTypes != nil && len(f.MLPTypes) != len(c.Sparse):
			return fmt.Errorf("mlp_layer_types has %d layers, num_hidden_layers %d", len(f.MLPTypes), f.Layers)
		case f.MLPTypes != nil:
			c.Sparse[i] = f.MLPTypes[i] == "sparse"
		case c.firstFull:
			c.Sparse[i] = i >= or(f.FirstDense, 1)
		default:
			c.Sparse[i] = !slices.Contains(f.Dense, i) && (i+1)%max(1, f.Step) == 0
		}
	}
	c.Experts = e
	switch {
	case c.sparse == "":
		return fmt.Errorf("num_experts is %d: models of type %s have no experts", e.Count, c.Type)
	case e.Count < 1 || e.Chosen < 1 || e.Chosen > e.Count:
		return fmt.Errorf("num_experts is %d and num_experts_per_tok %d: want from 1 to as many as there are", e.Count, e.Chosen)
	case e.Width < 1:
		return fmt.Errorf("field moe_intermediate_size is %d, want at least 1", e.Width)
	case e.Shared < 1:
		return errors.New("no shared expert: field shared_expert_intermediate_size or num_shared_experts is below 1, and all layers here have one")
	case or(f.Groups, or(f.GroupsToo, 1)) > 1:
		return fmt.Errorf("num_expert_group is %d: experts in groups are not computed here", or(f.Groups, or(f.GroupsToo, 1)))
	case f.Router != "" && (f.Router == "sigmoid") != e.Sigmoid:
		return fmt.Errorf("moe_router_activation_func %q is not computed here for models of type %s", f.Router, c.Type)
	case or(f.Frequency, 1) != 1:
		return fmt.Errorf("moe_layer_freq is %d, only 1 is computed here", *f.Frequency)
	}
	return nil
}

// check returns an error for unsupported layers and fields.
func (c *Config) check(f, outer fields) error {
	sizes := []struct {
		name string
		n    int
	}{{"vocab_size", c.Vocabulary}, {"num_hidden_layers", len(c.Attention)}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}}
	if slices.Contains(c.Sparse, false) {
		sizes = append(sizes, struct {
			name string
			n    int
		}{"intermediate_size", c.Width})
	}
	for _, s := range sizes {
		if s.n < 1 {
			return fmt.Errorf("field %s is %d, want at least 1", s.name, s.n)
		}
	}
	switch {
	case f.Act != "" && f.Act != "silu":
		return fmt.Errorf("hidden_act %q is not computed here, only silu is", f.Act)
	case f.Bias:
		return errors.New("attention_bias is true: projections with a bias are not computed here")
	case f.Quantization != nil || outer.Quantization != nil:
		return errors.New("quantization_config: quantised weights are not computed here")
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("num_attention_heads %d is no multiple of num_key_value_heads %d", c.Heads, c.KVHeads)
	case c.gate && !or(f.Gate, true):
		return errors.New("attn_output_gate is false: attention of these models has an output gate here")
	case f.QueryRank != nil:
		return fmt.Errorf("q_lora_rank is %d: queries through a rank are not computed here", *f.QueryRank)
	case c.firstFull && !or(f.UseNope, true):
		return errors.New("mla_use_nope is false: attention by a latent has no rope here")
	}
	return nil
}
