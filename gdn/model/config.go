package model

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/published"
	"github.com/gdngen/gdngen/ir"
)

// Config is a decoder: each layer is a token mixer and a SwiGLU, each after an RMSNorm. One layer in AttentionEvery mixes by causal attention, the
// others by the gated delta rule.
type Config struct {
	Name           string `json:"name"`
	Hidden         int    `json:"hidden"`
	Layers         int    `json:"layers"`
	AttentionEvery int    `json:"attention_every"` // 0: no layer is attention
	// AttentionLayers is the number of attention layers in a model without a fixed interval; AttentionEvery is 0 then.
	AttentionLayers int       `json:"attention_layers,omitempty"`
	MLP             int       `json:"mlp"`   // width inside the SwiGLU; 0: none
	Vocab           int       `json:"vocab"` // vocabulary size, with a shared embedding and head; 0: neither
	Batch           int       `json:"batch"` // sequences of a step on one core
	Tokens          int       `json:"tokens"`
	Rule            Rule      `json:"rule"`
	Attention       Attention `json:"attention"`
	// VMEM is the vector memory of a core in bytes that kernels may assume; 0: the smallest target's.
	VMEM int `json:"-"`
	// Notes list properties of a published model that this configuration omits.
	Notes []string `json:"notes,omitempty"`
}

// Rule is the token mixer by the gated delta rule or Kimi Delta Attention.
type Rule struct {
	HeadsK int `json:"heads_k"`
	HeadsV int `json:"heads_v"`
	K      int `json:"k"`
	V      int `json:"v"`
	Conv   int `json:"conv"` // taps of the short convolution
	// NegEigval allows beta up to 2.
	NegEigval bool `json:"neg_eigval,omitempty"`

	// Name is the rule: gdn (also for ""), or kda. Bound, DecayRank and GateRank are for kda only.
	Name      string  `json:"name,omitempty"`
	Bound     float64 `json:"bound,omitempty"`      // lower bound of a token's log decay; 0: none
	DecayRank int     `json:"decay_rank,omitempty"` // rank of the decay projection; 0: full
	GateRank  int     `json:"gate_rank,omitempty"`  // rank of the output gate projection; 0: full
	// SigmoidGate makes the output gate a sigmoid instead of SiLU.
	SigmoidGate bool `json:"sigmoid_gate,omitempty"`
}

// Attention is the token mixer by causal attention.
type Attention struct {
	Heads   int `json:"heads"`
	HeadsKV int `json:"heads_kv"`
	Dim     int `json:"dim"`
	// Gate multiplies the output by a gate as wide as the queries, from the input projection.
	Gate bool `json:"gate,omitempty"`
}

//go:embed presets/*.json
var presets embed.FS

// Presets returns the names of the built-in configurations.
func Presets() []string {
	entries, err := presets.ReadDir("presets")
	if err != nil {
		panic(err) // of an embedded folder
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Preset returns a built-in configuration; an unknown name is an error.
func Preset(name string) (Config, error) {
	data, err := presets.ReadFile("presets/" + name + ".json")
	if err != nil {
		return Config{}, fmt.Errorf("unknown model %q (known: %s)", name, strings.Join(Presets(), " "))
	}
	return Read(bytes.NewReader(data))
}

// Read reads and checks a configuration in JSON: this package's, with unknown fields refused, or the config.json of a published model.
func Read(r io.Reader) (Config, error) {
	var c Config
	data, err := io.ReadAll(r)
	if err != nil {
		return c, fmt.Errorf("model: %w", err)
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil { // refuses text after the end, too
		return c, fmt.Errorf("model: %w", gdn.JSONError(data, err))
	}
	if published.Is(data) {
		return readHuggingFace(data)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
			err = fmt.Errorf("%w; a model is JSON, such as the config.json that it is published with", gdn.JSONError(data, err))
			return c, fmt.Errorf("model: %w", err)
		}
		return c, fmt.Errorf("model: %w", gdn.JSONError(data, err))
	}
	if reflect.ValueOf(c).IsZero() {
		return c, errors.New("model: the document says nothing: want model_type and sizes, as in the config.json of a published model, or hidden, layers, rule and so on, as a file of gdngen model cost has them")
	}
	return c, c.Validate()
}

// Validate returns an error for the first invalid field.
func (c Config) Validate() error {
	for _, f := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"hidden", c.Hidden, 1, 1 << 16}, {"layers", c.Layers, 1, 1 << 10}, {"attention_every", c.AttentionEvery, 0, c.Layers},
		{"attention_layers", c.AttentionLayers, 0, c.Layers},
		{"mlp", c.MLP, 0, 1 << 18}, {"vocab", c.Vocab, 0, 1 << 20}, {"batch", c.Batch, 1, 1 << 12}, {"tokens", c.Tokens, 1, 1 << 20},
		{"rule.conv", c.Rule.Conv, 1, 16}, {"rule.decay_rank", c.Rule.DecayRank, 0, 1 << 16}, {"rule.gate_rank", c.Rule.GateRank, 0, 1 << 16},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("model: %s is %d; want %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	if c.AttentionEvery > 0 && c.AttentionLayers > 0 {
		return errors.New("model: give attention_every or attention_layers, not both")
	}
	if c.Tokens < c.Rule.Conv {
		return fmt.Errorf("model: tokens is %d, fewer than the %d taps of rule.conv", c.Tokens, c.Rule.Conv)
	}
	if n := c.Rule.Name; n != "" && n != (gdn.Rule{}).String() && !c.Rule.channels() {
		return fmt.Errorf("model: rule.name is %q; want %s or %s", n, gdn.Rule{}, published.KDA)
	}
	if r := c.Rule; !r.channels() && (r.Bound != 0 || r.DecayRank != 0 || r.GateRank != 0) {
		return fmt.Errorf("model: rule.bound, rule.decay_rank and rule.gate_rank are of %s: set rule.name", published.KDA)
	}
	if c.layersOf("rule") > 0 {
		if err := c.Spec().Validate(); err != nil {
			return fmt.Errorf("model: rule: %w", err)
		}
	}
	if a := c.Attention; c.layersOf("attention") > 0 {
		if a.Heads < 1 || a.HeadsKV < 1 || a.Heads%a.HeadsKV != 0 {
			return fmt.Errorf("model: attention.heads %d is no multiple of attention.heads_kv %d", a.Heads, a.HeadsKV)
		}
		if a.Dim < 1 {
			return errors.New("model: attention.dim is missing")
		}
	}
	return nil
}

// Spec returns the spec of the rule in one layer: raw gates, l2norm, no state in or out.
func (c Config) Spec() gdn.Spec {
	s, err := gdn.Parse("bench,gates=fused,l2norm")
	if err != nil {
		panic(err) // of a constant
	}
	s.Batch, s.Tokens = c.Batch, c.Tokens
	s.HeadsK, s.HeadsV, s.K, s.V = c.Rule.HeadsK, c.Rule.HeadsV, c.Rule.K, c.Rule.V
	s.Final, s.NegEigval, s.Rows = false, c.Rule.NegEigval, gdn.RowsFlat
	if c.Rule.channels() {
		s.Rule, s.Bound, s.GateDType = published.KDA, c.Rule.Bound, ir.BF16 // per-channel gates are as wide as keys and have the projection's type
	}
	return s
}

// RuleLayers returns the number of layers with the gated delta rule.
func (c Config) RuleLayers() int { return c.layersOf("rule") }

// layersOf returns the number of layers with a mixer; "mlp" counts all layers, "model" is 1.
func (c Config) layersOf(kind string) int {
	attention := c.AttentionLayers
	if c.AttentionEvery > 0 {
		attention = c.Layers / c.AttentionEvery
	}
	return map[string]int{"rule": c.Layers - attention, "attention": attention, "mlp": c.Layers, "model": 1}[kind]
}

// Parameters returns the number of weights of the model, with the shared embedding once.
func (c Config) Parameters() int64 {
	var n int64
	for _, p := range Parts(c) {
		n += int64(p.Layers) * p.Weights
	}
	return n
}

// StepFlops returns the model flops of a training step, or of its forward pass alone.
func (c Config) StepFlops(forward bool) float64 {
	var sum float64
	for _, p := range Parts(c) {
		sum += float64(p.Layers) * p.Flops
	}
	if !forward {
		sum *= 3 // the backward pass has twice as many
	}
	return sum
}

// qkv, z and decays return widths of the rule's input projection.
func (r Rule) qkv() int { return 2*r.HeadsK*r.K + r.HeadsV*r.V }
func (r Rule) z() int   { return r.HeadsV * r.V }
func (r Rule) decays() int {
	if r.channels() {
		return r.HeadsV * r.K
	}
	return r.HeadsV
}

// Title returns the rule in words.
func (r Rule) Title() string {
	switch {
	case r.channels() && r.Bound != 0:
		return fmt.Sprintf("Kimi Delta Attention with log decays from %g", r.Bound)
	case r.channels():
		return "Kimi Delta Attention"
	}
	return "the gated delta rule"
}

// channels reports whether each key channel has its own decay.
func (r Rule) channels() bool { return r.Name == published.KDA.String() }

// Kinds returns the kinds of layers in parts, each once, in order.
func Kinds(parts []Part) []string {
	var kinds []string
	for _, p := range parts {
		if !slices.Contains(kinds, p.Kind) {
			kinds = append(kinds, p.Kind)
		}
	}
	return kinds
}
