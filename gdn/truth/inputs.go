package truth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/suggest"
)

// Class is a distribution of test inputs. Its limits bound, per output tensor, the largest error divided by the largest magnitude of
// the reference.
type Class struct {
	Name        string
	Doc         string
	Adversarial bool

	keys    *keyKind
	decay   gate
	beta    gate
	doubles bool                                           // with negative eigenvalues, beta and the limits are doubled
	Beyond  bool                                           // beta exceeds 1; the spec must have negative eigenvalues
	writes  bool                                           // only for rules with beta
	still   string                                         // only for rules with decay; the equivalent class without
	channel func(r *rand.Rand, token, channel int) float64 // log decay of a channel; only for rules with per-channel decays
	bounded bool                                           // all channels are at the spec's bound, which must be set
	limits  limits
}

// Classes lists the input classes, realistic ones first.
var Classes = []Class{
	{Name: "random", Doc: "normal q, v, unit keys, log-sigmoid decay, sigmoid beta",
		keys: normal, decay: logSigmoid(4), beta: sigmoidBeta, doubles: true, limits: realistic},
	{Name: "slow", Doc: "as random, decay from U(-.01, 0): long memory",
		keys: normal, decay: uniformDecay(.01), beta: sigmoidBeta, doubles: true, limits: realistic},
	{Name: "cos.75", Doc: "q, k, v from U(0,1), q and k unit: keys at cosine .75, the data of flash-linear-attention's own tests",
		keys: flat, decay: flatLogSigmoid(1), beta: flatBeta, doubles: true, still: "u01nodecay", limits: realistic},
	{Name: "beta0", Doc: "beta is zero, decay from U(-.001, 0): the state only decays, and is zero without an initial one",
		keys: normal, decay: uniformDecay(.001), beta: constant(0), writes: true, limits: realistic},
	{Name: "u01nodecay", Doc: "as cos.75 without decay", Adversarial: true,
		keys: flat, decay: constant(0), beta: flatBeta, doubles: true, limits: limits{3e-6, 3e-4, 2e-2}},
	{Name: "cos.9", Doc: "keys at cosine .9, beta 1, no decay", Adversarial: true,
		keys: cosine9, decay: constant(0), beta: constant(1), limits: adversarial},
	{Name: "cos.99", Doc: "keys at cosine .99, beta 1, no decay", Adversarial: true,
		keys: cosine99, decay: constant(0), beta: constant(1), limits: cancelling},
	{Name: "identical", Doc: "one key for all tokens of a head, beta 1, no decay", Adversarial: true,
		keys: oneKey, decay: constant(0), beta: constant(1), limits: cancelling},
	{Name: "resets", Doc: "as random, with a log decay of -20 or -1e4 at 3 % of the tokens", Adversarial: true,
		keys: normal, decay: resets(logSigmoid(4), .03, -20, -1e4), beta: sigmoidBeta, doubles: true, limits: adversarial},
	{Name: "reset.cos.9", Doc: "keys at cosine .9, beta 1, a log decay of -1e4 at 2 % of the tokens", Adversarial: true,
		keys: cosine9, decay: resets(logSigmoid(4), .02, -1e4), beta: constant(1), still: "cos.9", limits: adversarial},
	{Name: "beta2", Doc: "one key for all tokens of a head, beta from U(1,2), decay from U(-.02, 0); needs neg_eigval", Adversarial: true,
		keys: oneKey, decay: uniformDecay(.02), beta: func(r *rand.Rand, _ int) float64 { return 1 + r.Float64() }, Beyond: true, limits: reflecting},
	{Name: "fla.01", Doc: "as cos.75 with the gate normaliser .01 of flash-linear-attention's tests: nothing is left of a token after the next", Adversarial: true,
		keys: flat, decay: flatLogSigmoid(.01), beta: flatBeta, doubles: true, still: "u01nodecay", limits: limits{3e-6, 3e-4, 2e-2}},
	{Name: "fla10", Doc: "as cos.75 with the gate normaliser 10", Adversarial: true,
		keys: flat, decay: flatLogSigmoid(10), beta: flatBeta, doubles: true, still: "u01nodecay", limits: limits{3e-6, 3e-4, 2e-2}},
	{Name: "masked", Doc: "as cos.75 with the log decay of half of the tokens masked: 0", Adversarial: true,
		keys: flat, decay: resets(flatLogSigmoid(1), .5, 0), beta: flatBeta, doubles: true, still: "u01nodecay", limits: limits{3e-6, 3e-4, 2e-2}},
	{Name: "drift", Doc: "keys that drift, neighbours at cosine .95, log decay -.001", Adversarial: true,
		keys: drifting, decay: constant(-1e-3), beta: sigmoidBeta, doubles: true, limits: adversarial},
	{Name: "faint", Doc: "keys at cosine .99, beta .02, no decay: what the state holds is in small differences", Adversarial: true,
		keys: cosine99, decay: constant(0), beta: constant(.02), limits: adversarial},
	{Name: "hold", Doc: "as slow for 128 of 512 tokens, then beta 0 and decay from U(-.00002, 0): the state is held, and loses .13 % in 128 tokens", Adversarial: true,
		keys: normal, decay: holding(uniformDecay(.01), uniformDecay(2e-5)), beta: holding(sigmoidBeta, constant(0)), limits: adversarial},
	{Name: "cut", Doc: "as slow for 32 of 64 tokens, then a log decay from U(-8, -4) and beta 0: the state that is left is .03 to 1.8 % of what was there, and a clamp shows", Adversarial: true,
		keys: normal, decay: cutting, beta: func(r *rand.Rand, token int) float64 {
			if token%64 < 32 {
				return sigmoidBeta(r, token)
			}
			return 0
		}, limits: adversarial},
	{Name: "zeros", Doc: "as slow, with rows of zeros in q and k", Adversarial: true,
		keys: withZeros, decay: uniformDecay(.01), beta: sigmoidBeta, doubles: true, limits: adversarial},
	{Name: "reflect", Doc: "random keys, beta 2, no decay: each token turns the state, and errors grow with the length; needs neg_eigval", Adversarial: true,
		keys: normal, decay: constant(0), beta: constant(2), Beyond: true, limits: reflecting},
	{Name: "mixed", Doc: "random keys, a log decay of 0 in some channels and of -30 in others, by chance at each token in every fourth: no sum of decays holds both", Adversarial: true,
		keys: normal, channel: mixedChannels, beta: sigmoidBeta, doubles: true, limits: adversarial},
	{Name: "bound", Doc: "random keys, the log decay of all channels at the bound of the spec", Adversarial: true,
		keys: normal, channel: func(*rand.Rand, int, int) float64 { return math.Inf(-1) }, bounded: true, beta: sigmoidBeta, doubles: true, limits: adversarial},
	{Name: "cleared", Doc: "as random, with a log decay of -1e4 in 3 % of the channels of a token, and in half of them at one token of 64", Adversarial: true,
		keys: normal, channel: clearedChannels, beta: sigmoidBeta, doubles: true, limits: adversarial},
}

// OfChannels reports whether the class needs per-channel decays.
func (c Class) OfChannels() bool { return c.channel != nil }

// AtBound reports whether the class needs a spec with a bound of the log decay.
func (c Class) AtBound() bool { return c.bounded }

// LookupClass returns the class with this name, or an error that lists the names.
func LookupClass(name string) (Class, error) {
	names := make([]string, len(Classes))
	for i, c := range Classes {
		if c.Name == name {
			return c, nil
		}
		names[i] = c.Name
	}
	return Class{}, fmt.Errorf("unknown input class %q%s (known: %s)", name, suggest.Name(name, names), strings.Join(names, " "))
}

// Doubles reports whether beta is doubled for specs with negative eigenvalues.
func (c Class) Doubles() bool { return c.doubles }

// WithKeys returns the class with the key distribution of another class. Like the other With methods it keeps name and limits.
func (c Class) WithKeys(of Class) Class {
	c.keys = of.keys
	return c
}

// WithCosine returns the class with unit keys at a mean pairwise cosine, from 0 to 1.
func (c Class) WithCosine(cosine float64) Class {
	c.keys = &keyKind{draw: correlatedKeys(cosine)}
	return c
}

// WithDecay returns the class with log decay g at every token.
func (c Class) WithDecay(g float64) Class {
	c.decay = constant(g)
	return c
}

// WithBeta returns the class with one beta at every token; above 1 the spec must have negative eigenvalues.
func (c Class) WithBeta(beta float64) Class {
	c.beta, c.doubles, c.Beyond = constant(beta), false, beta > 1
	return c
}

// Supports returns nil if the class can be drawn for s, or an error with the missing property.
func (c Class) Supports(s gdn.Spec) error {
	if c.Beyond && !s.NegEigval {
		return fmt.Errorf("input class %s has beta beyond 1: the spec must allow it with negeig", c.Name)
	}
	if c.channel != nil && !s.Rule.Channels() {
		return fmt.Errorf("input class %s is about decays of channels, and rule=%s has one a head", c.Name, s.Rule)
	}
	if c.bounded && s.Bound == 0 {
		return fmt.Errorf("input class %s is at the bound of log decays: the spec must have one (bound)", c.Name)
	}
	if c.still != "" && !s.Rule.Decays() {
		return fmt.Errorf("input class %s is about decay, which rule=%s has not: without it take class %s", c.Name, s.Rule, c.still)
	}
	if c.writes && !s.Rule.Writes() {
		return fmt.Errorf("input class %s is about beta, which rule=%s has not", c.Name, s.Rule)
	}
	return nil
}
