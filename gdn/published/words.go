package published

import (
	"cmp"
	"fmt"

	"github.com/gdngen/gdngen/gdn"
)

// usualConv is the default number of taps.
const usualConv = 4

// or returns the value of a field, or a default if it is absent.
func or[T any](field *T, otherwise T) T {
	if field == nil {
		return otherwise
	}
	return *field
}

// outputGate returns the activation in output_gate_type, or usual.
func (f fields) outputGate(usual string) string {
	if gate := cmp.Or(f.GateType, usual); gate != "swish" {
		return gate
	}
	return SiLU
}

// transformers reads Qwen's fields, with the given defaults; a default of 0 makes the field required.
func (f fields) transformers(headsK, headsV, k, v int, neg bool) (Mixer, error) {
	m := Mixer{Conv: or(f.Conv, usualConv), NegEigval: or(f.Neg, neg), OutputGate: f.outputGate(SiLU), NormEps: or(f.Eps, 1e-6)}
	for _, size := range []struct {
		name  string
		to    *int
		from  *int
		usual int
	}{
		{"linear_num_key_heads", &m.HeadsK, f.HeadsK, headsK}, {"linear_num_value_heads", &m.HeadsV, f.HeadsV, headsV},
		{"linear_key_head_dim", &m.K, f.K, k}, {"linear_value_head_dim", &m.V, f.V, v},
	} {
		if *size.to = or(size.from, size.usual); size.from == nil && size.usual == 0 {
			return m, fmt.Errorf("field %s is missing", size.name)
		}
	}
	return m, nil
}

// qwen uses the defaults of transformers, since saved files omit fields with default values.
func qwen(f fields) (Mixer, error) { return f.transformers(16, 32, 128, 128, false) }

// untyped has no defaults.
func untyped(f fields) (Mixer, error) { return f.transformers(0, 0, 0, 0, false) }

// olmo has attention's number of heads, keys 3/4 as wide as attention's, values twice as wide as keys, and beta up to 2 unless stated otherwise.
func olmo(f fields) (Mixer, error) {
	heads := or(f.Heads, 0)
	if heads == 0 && (f.HeadsK == nil || f.HeadsV == nil) {
		return Mixer{}, fmt.Errorf("field num_attention_heads is missing: linear_num_key_heads and linear_num_value_heads follow from it")
	}
	k := or(f.K, or(f.Hidden, 0)*3/(4*max(1, or(f.HeadsK, heads))))
	m, err := f.transformers(heads, heads, k, 2*k, true)
	m.NormEps = 1e-5 // independent of the model's norms
	return m, err
}

// kimi reads Kimi Delta Attention from linear_attn_config.
func kimi(f fields) (Mixer, error) {
	k := f.Kimi
	if k == nil && f.LinearHeads != nil && f.LinearDim != nil { // the form that transformers saves
		k = &kimiFields{Heads: f.LinearHeads, Dim: f.LinearDim, Conv: f.Conv}
	}
	if k == nil {
		return Mixer{}, fmt.Errorf("field linear_attn_config is missing: it has the sizes of Kimi Delta Attention")
	}
	switch {
	case k.Heads == nil:
		return Mixer{}, fmt.Errorf("field linear_attn_config.num_heads is missing")
	case k.Dim == nil:
		return Mixer{}, fmt.Errorf("field linear_attn_config.head_dim is missing")
	case k.Safe && k.Bound == nil:
		return Mixer{}, fmt.Errorf("linear_attn_config.safe_gate bounds the decay, but linear_attn_config.gate_lower_bound is missing")
	}
	heads, dim := *k.Heads, *k.Dim
	m := Mixer{Rule: KDA, HeadsK: heads, HeadsV: heads, K: dim, V: dim, Conv: or(k.Conv, usualConv), NegEigval: or(f.Neg, false), Bound: or(k.Bound, 0), DecayRank: dim, GateRank: dim,
		OutputGate: f.outputGate(Sigmoid), NormEps: or(f.Eps, 1e-6)}
	if k.FullRank {
		m.GateRank = 0
	}
	return m, nil
}

// fla reads the fields of flash-linear-attention.
func (f fields) fla(rule gdn.Rule, expandV float64) (Mixer, error) {
	m := Mixer{Rule: rule, HeadsK: or(f.FLAHeads, 0), K: or(f.FLADim, 0), Conv: or(f.FLAConv, usualConv), NegEigval: f.FLANeg, NormEps: or(f.FLAEps, 1e-6)}
	m.HeadsV = or(f.FLAHeadsV, m.HeadsK)
	switch {
	case f.FLAHeads == nil:
		return m, fmt.Errorf("field num_heads is missing")
	case f.FLADim == nil:
		return m, fmt.Errorf("field head_dim is missing")
	}
	expandV = or(f.FLAExpandV, expandV)
	width := float64(m.K) * expandV
	if m.V = int(width); float64(m.V) != width {
		return m, fmt.Errorf("expand_v is %g: values of %g times keys of %d are no whole width", expandV, expandV, m.K)
	}
	if !or(f.FLAUseConv, true) {
		m.Conv = 0
	}
	return m, nil
}

func flaDelta(f fields) (Mixer, error) {
	m, err := f.fla(gdn.Rule{}, 2)
	m.OutputGate = f.outputGate(SiLU)
	return m, err
}

func flaKDA(f fields) (Mixer, error) {
	m, err := f.fla(KDA, 1)
	if err == nil && f.FLASafe && f.FLABound == nil {
		err = fmt.Errorf("safe_gate bounds the decay, but lower_bound is missing")
	}
	m.DecayRank, m.GateRank, m.Bound, m.OutputGate = m.V, m.V, or(f.FLABound, 0), f.outputGate(Sigmoid)
	return m, err
}
