package layer

import (
	"cmp"
	"errors"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/published"
)

// Hyperparameters that New reads from the context, so that they can be set from a command line. Methods of the builder and
// With override them.
const (
	// ParamHeadsK is the number of query and key heads (int). Default 4.
	ParamHeadsK = "gdn_heads_k"
	// ParamHeadsV is the number of value heads (int), a multiple of the key heads. Default: the number of key heads.
	ParamHeadsV = "gdn_heads_v"
	// ParamKeyDim is the width of a query or key (int). Default 64.
	ParamKeyDim = "gdn_key_dim"
	// ParamValueDim is the width of a value (int). Default: the width of a key.
	ParamValueDim = "gdn_value_dim"
	// ParamConvWidth is the number of taps of the short convolution (int). Default 4.
	ParamConvWidth = "gdn_conv_width"
	// ParamNegEigval allows negative eigenvalues of the state: beta is in (0,2) (bool). Default false.
	ParamNegEigval = "gdn_neg_eigval"
	// ParamNormEps is the epsilon of the gated RMS norm (float64). Default 1e-6.
	ParamNormEps = "gdn_norm_eps"
	// ParamInitGain is the gain of the Xavier-uniform initialisation of the projections (float64). Default 2^-2.5.
	ParamInitGain = "gdn_init_gain"
	// ParamVariant is the variant text for Builder.Variant (string), such as auto-fla. Default: auto.
	ParamVariant = "gdn_variant"
	// ParamRule is the rule, kda or gdn (string). Default gdn.
	ParamRule = "gdn_rule"
	// ParamBound is the lower bound of a token's log decay with rule kda (float64), below 0, such as -5. Default 0: none.
	ParamBound = "gdn_bound"
	// ParamRank is the rank of the projections of decay and output gate with rule kda (int). Default: the width of a key.
	ParamRank = "gdn_rank"
)

// Config has the sizes and options of a layer.
type Config struct {
	Hidden    int // features of the input, and of the output
	HeadsK    int // query and key heads
	HeadsV    int // value heads, a multiple of HeadsK
	KeyDim    int
	ValueDim  int
	ConvWidth int
	NormEps   float64
	NegEigval bool

	Rule      gdn.Rule // the gated delta rule, or kda
	Bound     float64  // kda: lower bound of a token's log decay, below 0; 0: none
	DecayRank int      // kda: rank of the decay projection; 0: full
	GateRank  int      // kda: rank of the output gate projection; 0: full

	OutputGate string // activation of the output gate, silu or sigmoid; "": silu, with kda sigmoid
}

// kda is the rule of Kimi Delta Attention.
var kda = published.KDA

// usualGates are the rules that have a layer, with the default activation of their output gate.
var usualGates = map[gdn.Rule]string{{}: published.SiLU, kda: published.Sigmoid}

// outputGates are the activations of an output gate.
var outputGates = map[string]func(*Node) *Node{published.SiLU: silu, published.Sigmoid: Sigmoid}

// outputGate returns the activation of the layer's output gate.
func (c Config) outputGate() func(*Node) *Node {
	return outputGates[cmp.Or(c.OutputGate, usualGates[c.Rule])]
}

// configOf reads the hyperparameters.
func configOf(scope *model.Scope, hidden int) Config {
	c := Config{Hidden: hidden,
		HeadsK:    model.GetParamOr(scope, ParamHeadsK, 4),
		KeyDim:    model.GetParamOr(scope, ParamKeyDim, 64),
		ConvWidth: model.GetParamOr(scope, ParamConvWidth, 4),
		NormEps:   model.GetParamOr(scope, ParamNormEps, 1e-6),
		NegEigval: model.GetParamOr(scope, ParamNegEigval, false),
	}
	c.HeadsV = model.GetParamOr(scope, ParamHeadsV, c.HeadsK)
	c.ValueDim = model.GetParamOr(scope, ParamValueDim, c.KeyDim)
	rule, err := gdn.ParseRule(model.GetParamOr(scope, ParamRule, gdn.Rule{}.String()))
	if err != nil {
		panic(fmt.Errorf("layer: hyperparameter %s: %w", ParamRule, err))
	}
	if rule != (gdn.Rule{}) {
		c.Rule, c.Bound = rule, model.GetParamOr(scope, ParamBound, 0.)
		c.DecayRank = model.GetParamOr(scope, ParamRank, c.KeyDim)
		c.GateRank = c.DecayRank
	}
	return c
}

// Check returns an error for the first invalid size or option.
func (c Config) Check() error {
	var errs []error
	for _, f := range []struct {
		name string
		n    int
	}{{"hidden size", c.Hidden}, {"key heads", c.HeadsK}, {"value heads", c.HeadsV}, {"key width", c.KeyDim}, {"value width", c.ValueDim}, {"convolution width", c.ConvWidth}} {
		if f.n < 1 {
			errs = append(errs, fmt.Errorf("%s is %d, want at least 1", f.name, f.n))
		}
	}
	if c.HeadsK > 0 && c.HeadsV%c.HeadsK != 0 {
		errs = append(errs, fmt.Errorf("%d value heads over %d key heads: the value heads must be a multiple", c.HeadsV, c.HeadsK))
	}
	if _, ok := usualGates[c.Rule]; !ok {
		errs = append(errs, fmt.Errorf("rule %s has no layer, only %s and %s have", c.Rule, gdn.Rule{}, kda))
	} else if c.outputGate() == nil {
		errs = append(errs, fmt.Errorf("output gate %q is unknown, want %s or %s", c.OutputGate, published.SiLU, published.Sigmoid))
	}
	if !c.Rule.Channels() && (c.Bound != 0 || c.DecayRank != 0 || c.GateRank != 0) {
		errs = append(errs, fmt.Errorf("bound %g and ranks %d and %d are of rule %s, the rule is %s", c.Bound, c.DecayRank, c.GateRank, kda, c.Rule))
	}
	if c.Bound > 0 {
		errs = append(errs, fmt.Errorf("bound of the log decay is %g, want a number below 0, or 0 for no bound", c.Bound))
	}
	if c.DecayRank < 0 || c.GateRank < 0 {
		errs = append(errs, fmt.Errorf("ranks of the gates are %d and %d, want none below 0", c.DecayRank, c.GateRank))
	}
	if !(c.NormEps > 0) {
		errs = append(errs, fmt.Errorf("epsilon of the norm is %g, want a positive number", c.NormEps))
	}
	if len(errs) > 0 {
		return fmt.Errorf("layer: %w", errors.Join(errs...))
	}
	return nil
}

// KeyWidth returns the width of all queries, or all keys, of a token.
func (c Config) KeyWidth() int { return c.HeadsK * c.KeyDim }

// ValueWidth returns the width of all values of a token.
func (c Config) ValueWidth() int { return c.HeadsV * c.ValueDim }

// DecayWidth returns the number of decays of a token: one per value head, with rule kda one per value head and key channel.
func (c Config) DecayWidth() int {
	n := 1
	for _, d := range c.decayShape() {
		n *= d
	}
	return n
}

// decayShape returns the shape of the decays of a token.
func (c Config) decayShape() []int {
	if c.Rule.Channels() {
		return []int{c.HeadsV, c.KeyDim}
	}
	return []int{c.HeadsV}
}

// Channels returns the number of convolved channels: queries, keys, values.
func (c Config) Channels() int { return 2*c.KeyWidth() + c.ValueWidth() }
