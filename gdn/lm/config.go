package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/published"
)

// Config is what a model is made of.
type Config struct {
	Vocabulary int
	Hidden     int
	Width      int      // of the MLP
	Attention  []bool   // of each layer: attention, or the rule
	Heads      int      // of queries, in attention
	KVHeads    int      // of keys and values
	HeadDim    int      // of attention
	Rotary     int      // channels of a head that rope turns
	Theta      float64  // of rope
	Eps        float64  // of the norms
	Tied       bool     // the head is the embedding
	Prefixes   []string // under which the tensors may stand
	Layer      layer.Config
}

// fields are those of config.json that package published does not read.
type fields struct {
	ModelType    string      `json:"model_type"`
	Vocabulary   int         `json:"vocab_size"`
	Layers       int         `json:"num_hidden_layers"`
	LayerTypes   []string    `json:"layer_types"`
	Every        int         `json:"full_attention_interval"`
	Heads        int         `json:"num_attention_heads"`
	KVHeads      int         `json:"num_key_value_heads"`
	HeadDim      int         `json:"head_dim"`
	Width        int         `json:"intermediate_size"`
	Act          string      `json:"hidden_act"`
	Bias         bool        `json:"attention_bias"`
	Eps          *float64    `json:"rms_norm_eps"`
	Tied         *bool       `json:"tie_word_embeddings"`
	Experts      int         `json:"num_experts"`
	Theta        float64     `json:"rope_theta"`
	Partial      float64     `json:"partial_rotary_factor"`
	Rope         *ropeFields `json:"rope_parameters"`
	RopeScaling  *ropeFields `json:"rope_scaling"`
	Quantization any         `json:"quantization_config"`
}

type ropeFields struct {
	Type    string  `json:"rope_type"`
	Theta   float64 `json:"rope_theta"`
	Partial float64 `json:"partial_rotary_factor"`
}

// families are the types of models that can be read.
var families = []string{"qwen3_next", "qwen3_5_text", "qwen3_5"}

// ReadConfig reads the config.json of a model.
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
	if !slices.Contains(families, p.Type) {
		return Config{}, fmt.Errorf("model_type %q is no model of this package (known: %v); its layers can be used by package layer", p.Type, families)
	}
	c := Config{Vocabulary: f.Vocabulary, Hidden: p.Hidden, Width: f.Width, Heads: f.Heads, KVHeads: f.KVHeads, HeadDim: f.HeadDim, Theta: 1e4, Eps: 1e-6,
		Prefixes: []string{"model.", "model.language_model."}}
	partial := .25
	for _, r := range []*ropeFields{{Theta: f.Theta, Partial: f.Partial}, f.RopeScaling, f.Rope} {
		if r == nil {
			continue
		}
		if r.Type != "" && r.Type != "default" {
			return Config{}, fmt.Errorf("rope_type %q is not computed here, only default is", r.Type)
		}
		if r.Theta != 0 {
			c.Theta = r.Theta
		}
		if r.Partial != 0 {
			partial = r.Partial
		}
	}
	if f.Eps != nil {
		c.Eps = *f.Eps
	}
	for _, tied := range []*bool{outer.Tied, f.Tied} {
		if tied != nil {
			c.Tied = *tied
		}
	}
	if c.Attention, err = f.attention(); err != nil {
		return Config{}, err
	}
	return c, c.check(f, outer, partial)
}

// attention tells of each layer whether it is attention.
func (f fields) attention() ([]bool, error) {
	every := f.Every
	if every == 0 {
		every = 4
	}
	list := make([]bool, f.Layers)
	for i := range list {
		list[i] = (i+1)%every == 0
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

// check refuses what is not computed, and finishes the rotary channels.
func (c *Config) check(f, outer fields, partial float64) error {
	for _, s := range []struct {
		name string
		n    int
	}{{"vocab_size", c.Vocabulary}, {"intermediate_size", c.Width}, {"num_hidden_layers", len(c.Attention)}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}} {
		if s.n < 1 {
			return fmt.Errorf("field %s is %d, want at least 1", s.name, s.n)
		}
	}
	c.Rotary = int(float64(c.HeadDim) * partial)
	switch {
	case f.Experts > 0:
		return fmt.Errorf("num_experts is %d: mixtures of experts are not computed here", f.Experts)
	case f.Act != "" && f.Act != "silu":
		return fmt.Errorf("hidden_act %q is not computed here, only silu is", f.Act)
	case f.Bias:
		return errors.New("attention_bias is true: projections with a bias are not computed here")
	case f.Quantization != nil || outer.Quantization != nil:
		return errors.New("quantization_config: quantised weights are not computed here")
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("num_attention_heads %d is no multiple of num_key_value_heads %d", c.Heads, c.KVHeads)
	case c.Rotary < 2 || c.Rotary%2 != 0 || c.Rotary > c.HeadDim:
		return fmt.Errorf("rope turns %d of %d channels: want an even number of them", c.Rotary, c.HeadDim)
	}
	return nil
}
