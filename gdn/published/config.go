package published

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Config is the part of a config.json about the layers that mix tokens by a rule.
type Config struct {
	Type   string // model_type, that of the text where a model has more
	Hidden int
	Heads  int      // of queries in attention; 0: the document does not say
	Eps    *float64 // of the norms of the model; nil: the document does not say
	Mixer  Mixer
	// Text is the document that has the fields of the text: the whole one, or one inside it.
	Text json.RawMessage
}

// Mixer is the layer around a rule.
type Mixer struct {
	Rule           gdn.Rule // the gated delta rule, or kda
	HeadsK, HeadsV int
	K, V           int // widths of a head
	Conv           int // taps of the short convolution; 0: there is none
	NegEigval      bool
	Bound          float64 // kda: the lowest log decay of a token; 0: none
	DecayRank      int     // kda: the width through which the decay is projected; 0: at once
	GateRank       int     // the same for the output gate
	OutputGate     string  // what the output gate passes through: SiLU or Sigmoid
	NormEps        float64 // of the norm of the output
}

// What an output gate passes through.
const (
	SiLU    = "silu"
	Sigmoid = "sigmoid"
)

// KDA is the rule of Kimi Delta Attention.
var KDA = gdn.Rule{Decay: gdn.DecayChannel}

// inside are the fields that hold a document of a part of a model, the text last.
var inside = []string{"thinker_config", "llm_config", "language_config", "text_config"}

// Is says whether a document is a config.json of a published model.
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

// Read reads a config.json. A model of several parts has its text in one of them, such as text_config.
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
	c.Mixer, err = words(f)
	return c, err
}

// has says whether a field is there and not null.
func has(field json.RawMessage) bool { return field != nil && !bytes.Equal(field, []byte("null")) }

// A family is the models that say the same in the same words.
type family struct {
	name  string
	types string // of its models, separated by spaces
	words func(f fields) (Mixer, error)
}

// families are all whose layers are computed here.
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

// Names lists the families of models that are read.
func Names() []string {
	var names []string
	for _, m := range families {
		names = append(names, m.name)
	}
	return names
}

// wordsOf finds how a type of model says what its layers are. A document without a type is read by the fields that it has.
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
