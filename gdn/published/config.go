package published

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Config is the part of a config.json that describes the layers with a rule of this project.
type Config struct {
	Type   string // model_type; if a model has several, the text part's
	Hidden int
	Heads  int      // query heads of attention; 0: not stated
	Eps    *float64 // epsilon of the model's norms; nil: not stated
	Mixer  Mixer
	// Text is the document with the fields of the text part: the whole one, or an inner one.
	Text json.RawMessage
}

// Mixer describes the layer around a rule.
type Mixer struct {
	Rule           gdn.Rule // the gated delta rule, or kda
	HeadsK, HeadsV int
	K, V           int // widths of a head
	Conv           int // taps of the short convolution; 0: none
	NegEigval      bool
	Bound          float64 // kda: lower bound of a token's log decay; 0: none
	DecayRank      int     // kda: rank of the decay projection; 0: full
	GateRank       int     // rank of the output gate projection; 0: full
	OutputGate     string  // activation of the output gate: SiLU or Sigmoid
	NormEps        float64 // epsilon of the output norm
}

// Activations of an output gate.
const (
	SiLU    = "silu"
	Sigmoid = "sigmoid"
)

// KDA is the rule of Kimi Delta Attention.
var KDA = gdn.Rule{Decay: gdn.DecayChannel}

// inside are fields that hold the document of a part of a model, the text part last.
var inside = []string{"thinker_config", "llm_config", "language_config", "text_config"}

// Is reports whether a document looks like the config.json of a published model.
func Is(data []byte) bool {
	var f map[string]json.RawMessage
	if json.Unmarshal(data, &f) != nil {
		return false
	}
	for _, field := range append([]string{"model_type", "hidden_size", "architectures"}, inside...) {
		if _, ok := f[field]; ok {
			return true
		}
	}
	return false
}

// Read parses a config.json. In a model of several parts it reads the text part, such as text_config. Unknown model types and unsupported values
// are errors that list the supported ones.
func Read(data []byte) (Config, error) {
	var c Config
	for c.Text = data; ; {
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(c.Text, &parts); err != nil {
			return c, gdn.JSONError(c.Text, err)
		}
		if t := parts["model_type"]; has(t) {
			if err := json.Unmarshal(t, &c.Type); err != nil {
				return c, fmt.Errorf("field model_type is %s, want a string", t)
			}
		}
		var next json.RawMessage
		for _, name := range inside {
			if has(parts[name]) {
				next = parts[name]
			}
		}
		if next == nil {
			break
		}
		c.Text = next
	}
	var f fields
	if err := json.Unmarshal(c.Text, &f); err != nil {
		return c, gdn.JSONError(c.Text, err)
	}
	words, err := wordsOf(c.Type, f)
	if err != nil {
		return c, err
	}
	if err := accepted(c.Text); err != nil {
		return c, err
	}
	if f.Hidden == nil {
		return c, errors.New("field hidden_size is missing")
	}
	c.Hidden, c.Heads, c.Eps = *f.Hidden, or(f.Heads, 0), f.Eps
	if c.Mixer, err = words(f); err == nil && !(c.Mixer.NormEps > 0) {
		err = fmt.Errorf("epsilon of the output norm is %g, want a positive number", c.Mixer.NormEps)
	}
	return c, err
}

// has reports whether a field is present and not null.
func has(field json.RawMessage) bool { return field != nil && !bytes.Equal(field, []byte("null")) }

// family is a group of models whose configurations use the same fields.
type family struct {
	name  string
	types string // model types, separated by spaces
	words func(f fields) (Mixer, error)
}

// families are the supported families.
var families = []family{
	{"Qwen3-Next", "qwen3_next", qwen},
	{"Qwen3.5", "qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text", qwen},
	{"OLMo-hybrid", "olmo_hybrid", olmo},
	{"Kimi Linear", "kimi_linear", kimi},
	{"Kimi-K3", "kimi_k3 kimi_k3_text", kimi},
	{"GLM-5", "glm5_next glm5_next_text", kimi},
	{"gated_deltanet of flash-linear-attention", "gated_deltanet", flaDelta},
	{"kda of flash-linear-attention", "kda", flaKDA},
}

// Names returns the model types that can be read.
func Names() []string {
	var names []string
	for _, m := range families {
		names = append(names, m.name)
	}
	return names
}

// wordsOf returns the reader for a model type. Without a type, the present fields decide.
func wordsOf(kind string, f fields) (func(f fields) (Mixer, error), error) {
	if kind == "" {
		switch {
		case f.Kimi != nil:
			return kimi, nil
		default:
			return untyped, nil
		}
	}
	var known []string
	for _, m := range families {
		for name := range strings.FieldsSeq(m.types) {
			if name == kind {
				return m.words, nil
			}
		}
		known = append(known, fmt.Sprintf("%s (%s)", m.name, strings.ReplaceAll(m.types, " ", ", ")))
	}
	return nil, fmt.Errorf("model_type %q has no layer that is known here; known are %s. If its layers are those of one of these, give it that model_type",
		kind, strings.Join(known, ", "))
}
