package truth

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Class is a distribution of test inputs. Its limits are on the largest error over the largest magnitude of the
// reference, per output tensor.
type Class struct {
	Name        string
	Doc         string
	Adversarial bool

	keys    *keyKind
	decay   gate
	beta    gate
	doubles bool                                           // beta and the limits are doubled where the spec has negative eigenvalues
	Beyond  bool                                           // beta exceeds 1: the spec must have negative eigenvalues
	writes  bool                                           // the class says nothing where the rule has no beta
	still   string                                         // the class that it is without its decay
	channel func(r *rand.Rand, token, channel int) float64 // the log decay of a channel: the class is for rules that have those
	bounded bool                                           // all channels are at the bound of the spec, which must have one
	limits  limits
}

// gate draws the log decay or beta of a token.
type gate func(r *rand.Rand, token int) float64

// limits are the bounds at each precision of the matrix products.
type limits struct{ f32, bf16x3, bf16x1 float64 }

// The limits are set from the largest errors of float32 and of emulated low-precision runs of the chunkwise form (merge from
// a 16 leaf by substitution; chunks of 64 and 128, K = V = 128, 512 and 2048 tokens, four seeds; chunks of 16 and 32,
// K = V = 16, 32 tokens, six seeds; each with and without an initial state):
//
//	            f32     bf16x3  bf16x1
//	realistic   6.1e-7  1.7e-5  7.3e-3
//	adversarial 1.3e-6  5.4e-5  1.9e-2
//	u01nodecay  2.3e-6  4.9e-5  1.8e-2
//	cancelling  7.2e-6  1.4e-4  3.6e-2  outputs of nearly identical keys are a small remainder of what cancels
//	reflecting  8.1e-6  7.4e-4  7.6e-2  beta beyond 1 turns the sign of the state at each token
//
// Power series across a chunk miss them by orders of magnitude.
var (
	realistic   = limits{1e-6, 2e-5, 1e-2}
	adversarial = limits{3e-6, 3e-4, 4e-2}
	cancelling  = limits{1.5e-5, 3e-4, 4e-2}
	reflecting  = limits{1.6e-5, 1.5e-3, .15}
)

// Classes lists the distributions, realistic ones first.
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

// OfChannels says whether the class is about decays of channels, AtBound whether the spec must bound them.
func (c Class) OfChannels() bool { return c.channel != nil }

// AtBound is described with OfChannels.
func (c Class) AtBound() bool { return c.bounded }

// LookupClass finds a class by name.
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

// Doubles says whether beta is doubled where the spec has negative eigenvalues.
func (c Class) Doubles() bool { return c.doubles }

// WithKeys is the class with the keys of another, WithDecay with one log decay for all tokens, WithBeta with one beta. They have the name and
// the limits of the class.
func (c Class) WithKeys(of Class) Class {
	c.keys = of.keys
	return c
}

// WithDecay is described with WithKeys.
func (c Class) WithDecay(g float64) Class {
	c.decay = constant(g)
	return c
}

// WithBeta is described with WithKeys; beyond 1 the spec must have negative eigenvalues.
func (c Class) WithBeta(beta float64) Class {
	c.beta, c.doubles, c.Beyond = constant(beta), false, beta > 1
	return c
}

// Supports says whether the class can be drawn for a spec.
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

// Limit is the bound for a spec at a precision of the matrix products (f32, bf16x6, bf16x3, bf16x1), for an output of the
// given element type: the error of computing plus that of rounding the output once.
func (c Class) Limit(s gdn.Spec, precision string, out ir.DType) (float64, error) {
	byPrecision := map[string]float64{"f32": c.limits.f32, "bf16x6": c.limits.f32, "bf16x3": c.limits.bf16x3, "bf16x1": c.limits.bf16x1}
	limit, ok := byPrecision[precision]
	if !ok {
		return 0, fmt.Errorf("unknown precision %q (known: f32 bf16x6 bf16x3 bf16x1)", precision)
	}
	if c.doubles && s.NegEigval {
		limit *= 2
	}
	return limit + map[ir.DType]float64{ir.BF16: 0x1p-8, ir.F16: 0x1p-11}[out], nil
}

// Error is how far an output of the spec is off, and the limit: for the outputs of the forward pass the largest error over
// the largest magnitude, for gradients the root mean square of the error over that of the reference, as in the field. What is
// zero throughout in a training step, as the gradients of v and k are where beta is, may be as large as the floor of beta makes it.
// The gradient of the decay may be a remainder of what cancels (remainderSize), that of A_log of what channels have (channelSize).
func (c Class) Error(s gdn.Spec, precision string, p gdn.Param, got, want map[string]*array.Array) (off, limit float64, err error) {
	if limit, err = c.Limit(s, precision, p.Type.DType); err != nil {
		return 0, 0, err
	}
	diff := array.Compare(got[p.Name], want[p.Name])
	if s.Direction != gdn.Forward && diff.MaxAbs < 1e-15 {
		return diff.MaxAbs, limit, nil
	}
	if s.IsResult(p.Name) {
		return diff.RelMax, limit, nil
	}
	limit, err = c.GradientLimit(s, precision, p)
	if partner, ok := map[string]string{"dg": "dbeta", "da": "db", "ddt_bias": "db", "dA_log": "db"}[p.Name]; ok {
		if s.Rule.Apart() { // its size does not depend on what the state holds
			partner = map[string]string{"dbeta": "dwrite", "db": "dw"}[partner]
		}
		own := want[p.Name].Float64s()
		var terms float64
		if s.Rule.Writes() {
			terms = rms(want[partner].Float64s())
		} else { // v . dv stands for the gradient of a beta, of values of size 1
			terms = math.Sqrt(float64(s.V)) * rms(want["dv"].Float64s())
		}
		size := rms(own)
		if p.Name == "dA_log" && s.Rule.Channels() {
			size = max(size, channelSize(s, want["ddt_bias"].Float64s()))
		}
		for i, x := range got[p.Name].Float64s() {
			own[i] -= x
		}
		return rms(own) / max(size, remainderSize(s, limit, size, terms)), limit, err
	}
	return diff.Ratio, limit, err
}

// remainderSize is what an error of the gradient of the decay is measured by where that is only a remainder; size is its own, terms that of
// the gradient of beta.
//
// Where one key overwrites all that the state has, the gradient is what bf16 leaves of 1 - |k|^2, at most 2^-8 of the terms that cancel, which
// are as large as the gradient of beta, or of the write gate. The error is from rounding these terms, summed over the tokens that follow. So it is measured by
// them, times the root of the number of tokens, and may be at most as large as one of them. Above 2^-8 this falls by the square: from some 2^-4 on
// the gradient's own size counts, and nothing is granted. Of all classes dg has more than .06 of dbeta, or less than .004.
//
// Example: 80 tokens of one key have 7e-4 of the gradient of beta; float32 is off by 4e-6 of it and may be by 9e-5.
func remainderSize(s gdn.Spec, limit, size, terms float64) float64 {
	share := 1.0
	if size > terms/256 {
		share = math.Pow(terms/256/size, 2)
	}
	return min(math.Sqrt(float64(s.Tokens)), 1/limit) * terms * share
}

// channelSize is what the channels of a head amount to in dA_log, whatever their signs; dBias is [Hv, K].
//
// Where each channel has a decay, dA_log sums over them what ddt_bias holds of each, by factors that are mostly above 1. They have either
// sign: by chance little is left of them, and what rounding did to each is beyond any share of it. The root of the sum of
// squares is what such a sum is on average.
//
// Example: heads of 128 channels of .3 amount to 3.4. With one seed of cos.75 they leave -.44 and .20, and one pass is off by .016; with
// others they leave 1.4 to 3, and it is off by .004 to .010.
func channelSize(s gdn.Spec, dBias []float64) float64 { return math.Sqrt(float64(s.K)) * rms(dBias) }

func rms(l []float64) float64 {
	sum := 0.0
	for _, x := range l {
		sum += x * x
	}
	return math.Sqrt(sum / float64(max(len(l), 1)))
}

// gradientLimit bounds the ratio of gradients at a precision, on realistic and on adversarial inputs.
type gradientLimit struct{ realistic, adversarial float64 }

// In bf16x1 realistic inputs are held to the limits of flash-linear-attention, which do not depend on the class; what
// correlated keys cost in single bf16 products is bounded by measurement, as for the forward pass.
var gradientLimits = map[string]gradientLimit{
	"f32": {1e-5, 1e-5}, "bf16x6": {1e-5, 1e-5}, "bf16x3": {5e-5, 5e-4}, "bf16x1": {math.Inf(1), 8e-2},
}

// FieldLimit is the limit of flash-linear-attention on the ratio of a gradient in low precision, whatever the inputs.
func FieldLimit(p gdn.Param) float64 {
	switch p.Name {
	case "dq", "dk", "dv", "dinitial_state":
		return 8e-3
	}
	return 2e-2
}

// GradientLimit is the bound on the ratio of a gradient.
func (c Class) GradientLimit(s gdn.Spec, precision string, p gdn.Param) (float64, error) {
	l, ok := gradientLimits[precision]
	if !ok {
		return 0, fmt.Errorf("unknown precision %q (known: f32 bf16x6 bf16x3 bf16x1)", precision)
	}
	limit := min(l.realistic, FieldLimit(p))
	if c.Adversarial {
		limit = l.adversarial
	}
	if s.NegEigval && (c.doubles || c.Beyond) {
		limit *= 2
	}
	if precision != "bf16x1" {
		limit += map[ir.DType]float64{ir.BF16: 0x1p-8, ir.F16: 0x1p-11}[p.Type.DType]
	}
	return limit, nil
}

// Generate draws the inputs of a spec. The same class, spec and seed give the same arrays; each tensor has its own random
// stream, so an option of the spec does not change the tensors it does not concern. Gates that are fused are inverted
// from the class's decay and beta. Of three or more packed sequences the second is empty. Of four or more sequences with
// states in a pool the third has none; so have those for which the pool has no state left. Where states that sequences start from are named,
// every third one is fresh, and every third one starts from a state that none writes. With L2 norm, rows of q and k have
// random lengths. Gradients of the outputs are normal.
func (c Class) Generate(s gdn.Spec, seed uint64) (map[string]*array.Array, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := c.Supports(s); err != nil {
		return nil, err
	}
	d := draw{c, s, seed}
	values := map[string][]float64{"q": d.queries(), "k": d.keys(), "v": d.values(), "initial_state": d.normal("initial_state", d.stateSize(s.Init))}
	if s.Direction != gdn.Forward {
		values["do"], values["dfinal_state"] = d.normal("do", len(values["v"])), d.normal("dfinal_state", d.stateSize(s.Final))
	}
	if s.Gates == gdn.GatesFused {
		d.fusedGates(values)
	} else {
		values["g"], values["beta"] = d.gates()
	}
	if s.Rule.Apart() {
		values["erase"], values["write"] = d.erases(), d.writes()
		d.apartRaw(values)
	}
	out := map[string]*array.Array{}
	for _, p := range s.Inputs() {
		if list := d.naming(p.Name, d.bounds); list != nil {
			out[p.Name] = array.FromInt64s(p.Type.DType, p.Type.Shape, list)
		} else {
			out[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, values[p.Name])
		}
	}
	return out, nil
}

// draw is one call of Generate.
type draw struct {
	c    Class
	s    gdn.Spec
	seed uint64
}

// stream is the random stream of one tensor.
func (d draw) stream(tensor string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(d.c.Name + "/" + tensor))
	return rand.New(rand.NewPCG(d.seed, h.Sum64()))
}

func (d draw) tokens() int { return d.s.Batch * d.s.Tokens }

func (d draw) stateSize(has bool) int {
	if !has {
		return 0
	}
	return d.s.States() * d.s.HeadsV * d.s.K * d.s.V
}

func (d draw) normal(tensor string, n int) []float64 {
	return fill(n, d.stream(tensor).NormFloat64)
}

func (d draw) queries() []float64 {
	r := d.stream("q")
	draw := d.c.keys.queries
	if draw == nil {
		draw = normalKeys
	}
	return d.stretch(r, draw(r, d.s.HeadsK, d.s.K, d.tokens()))
}

func (d draw) keys() []float64 {
	r := d.stream("k")
	return d.stretch(r, d.c.keys.draw(r, d.s.HeadsK, d.s.K, d.tokens()))
}

// stretch gives unit rows random lengths where the kernel normalises them again.
func (d draw) stretch(r *rand.Rand, x []float64) []float64 {
	if d.s.L2Norm {
		for row := range slices.Chunk(x, d.s.K) {
			length := .5 + 4*r.Float64()
			for i := range row {
				row[i] *= length
			}
		}
	}
	return x
}

func (d draw) values() []float64 {
	r := d.stream("v")
	n := d.tokens() * d.s.HeadsV * d.s.V
	if d.c.keys == flat {
		return fill(n, r.Float64)
	}
	return fill(n, r.NormFloat64)
}

// gates draws log decay, for each channel where each has one, and beta: [tokens, Hv], or [tokens, Hv, K]. None is below the bound of the spec.
func (d draw) gates() (g, beta []float64) {
	n, channels := d.tokens()*d.s.HeadsV, d.s.DecayWidth()
	rg, rb := d.stream("g"), d.stream("beta")
	g, beta = make([]float64, n*channels), make([]float64, n)
	for i := range n {
		t := i / d.s.HeadsV % d.s.Tokens
		for c := range channels {
			if d.c.channel != nil {
				g[i*channels+c] = d.c.channel(rg, t, c)
			} else {
				g[i*channels+c] = d.c.decay(rg, t)
			}
		}
		beta[i] = d.c.beta(rb, t)
	}
	if d.s.Bound != 0 {
		for i := range g {
			g[i] = max(g[i], d.s.Bound)
		}
	}
	if d.c.doubles && d.s.NegEigval {
		for i := range beta {
			beta[i] *= 2
		}
	}
	return g, beta
}

// gateReach bounds raw gates: well before it sigmoid is 1 and softplus 0 in float32. What is zero in a class needs ClosedGate, where both are
// zero in float64 too. Else a head that begins without a state would end with one of 1e-18, and outputs would have a derivative by decays of 1e-17:
// errors relative to these say nothing of a kernel.
const gateReach = 40

// fusedGates draws the gates in the form from which a kernel computes the class's decay and beta.
func (d draw) fusedGates(values map[string][]float64) {
	g, beta := d.gates()
	d.invertGates(values, g, beta)
}

// invertGates draws A_log and dt_bias, and solves for a and b.
func (d draw) invertGates(values map[string][]float64, g, beta []float64) {
	channels := d.s.DecayWidth()
	aLog, dtBias := d.normal("A_log", d.s.HeadsV), d.normal("dt_bias", d.s.HeadsV*channels)
	a, b := make([]float64, len(g)), make([]float64, len(beta))
	for i := range g {
		rate, bias := math.Exp(aLog[i/channels%d.s.HeadsV]), dtBias[i%len(dtBias)]
		if d.s.Bound != 0 {
			p := min(g[i]/d.s.Bound, 1-0x1p-24)
			a[i] = max(-gateReach, min(gateReach, math.Log(p)-math.Log1p(-p)))/rate - bias
		} else {
			a[i] = max(-gateReach, inverseSoftplus(-g[i]/rate)-bias)
		}
		if g[i] == 0 {
			a[i] = gdn.ClosedGate
		}
	}
	for i := range beta {
		b[i] = inverseSigmoid(beta[i] / d.s.Top())
	}
	values["A_log"], values["dt_bias"], values["a"], values["b"] = aLog, dtBias, a, b
}

// inverseSigmoid is the raw gate, in reach, whose sigmoid is p.
func inverseSigmoid(p float64) float64 {
	if p == 0 {
		return gdn.ClosedGate
	}
	return max(-gateReach, min(gateReach, math.Log(p)-math.Log1p(-p)))
}

func inverseSoftplus(y float64) float64 {
	if y > gdn.SoftplusLimit {
		return y
	}
	return math.Log(math.Expm1(y))
}

// bounds draws cu_seqlens.
func (d draw) bounds() []int64 {
	r := d.stream("cu_seqlens")
	cu := make([]int64, d.s.Seqs+1)
	for i := 1; i < d.s.Seqs; i++ {
		cu[i] = r.Int64N(int64(d.s.Tokens) + 1)
	}
	cu[d.s.Seqs] = int64(d.s.Tokens)
	slices.Sort(cu)
	if d.s.Seqs > 2 {
		cu[2] = cu[1]
	}
	return cu
}

// naming draws an input that names sequences or states, with bounds of packed ones; nil where it names none.
func (d draw) naming(input string, bounds func() []int64) []int64 {
	switch input {
	case "cu_seqlens":
		return bounds()
	case "state_indices":
		return d.indices()
	case "read_indices":
		return d.reads()
	}
	return nil
}

// indices draws state_indices.
func (d draw) indices() []int64 {
	perm := d.stream("state_indices").Perm(d.s.Pool / d.s.Checkpoints())
	list := make([]int64, d.s.Sequences())
	for n := range list {
		list[n] = -1
		if n < len(perm) && (n != 2 || len(list) < 4) {
			list[n] = int64(perm[n])
		}
	}
	return list
}

// reads draws read_indices: of three sequences one goes on from what is its own, one is fresh, and one starts from a state that no
// sequence writes, the same for all.
func (d draw) reads() []int64 {
	r, group := d.stream("read_indices"), int64(d.s.Checkpoints())
	written := d.indices()
	list := make([]int64, len(written))
	free := int64(-1)
	for _, g := range r.Perm(d.s.Pool / int(group)) {
		if !slices.Contains(written, int64(g)) {
			free = int64(g)
		}
	}
	for n, own := range written {
		at := r.Int64N(group)
		switch {
		case own < 0 || n%3 == 1:
			list[n] = -1
		case n%3 == 2 && free >= 0:
			list[n] = free * group
		default:
			list[n] = own*group + at
		}
	}
	return list
}

func fill(n int, next func() float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = next()
	}
	return x
}

// unit scales a row to length 1.
func unit(row []float64) {
	sum := 0.0
	for _, e := range row {
		sum += e * e
	}
	if sum == 0 {
		return
	}
	for i := range row {
		row[i] /= math.Sqrt(sum)
	}
}

func unitRows(x []float64, width int) []float64 {
	for row := range slices.Chunk(x, width) {
		unit(row)
	}
	return x
}

// keyKind is a distribution of keys, and of queries where those are not normal. Classes of one kind can share a key head.
type keyKind struct {
	draw, queries func(r *rand.Rand, heads, width, tokens int) []float64
}

var (
	normal    = &keyKind{draw: normalKeys}
	flat      = &keyKind{draw: flatKeys, queries: flatKeys} // and values from U(0,1)
	cosine9   = &keyKind{draw: correlatedKeys(.9)}
	cosine99  = &keyKind{draw: correlatedKeys(.99)}
	oneKey    = &keyKind{draw: correlatedKeys(1)}
	drifting  = &keyKind{draw: driftingKeys(.95)}
	withZeros = &keyKind{draw: zeroRows(5), queries: zeroRows(7)}
)

func normalKeys(r *rand.Rand, heads, width, tokens int) []float64 {
	return unitRows(fill(tokens*heads*width, r.NormFloat64), width)
}

func flatKeys(r *rand.Rand, heads, width, tokens int) []float64 {
	return unitRows(fill(tokens*heads*width, r.Float64), width)
}

// correlatedKeys gives unit keys any two of which, within a head, are at the given cosine in the mean.
func correlatedKeys(cosine float64) func(r *rand.Rand, heads, width, tokens int) []float64 {
	return func(r *rand.Rand, heads, width, tokens int) []float64 {
		base := normalKeys(r, heads, width, 1)
		x := fill(tokens*heads*width, r.NormFloat64)
		for i := range tokens * heads {
			row, common := x[i*width:][:width], base[i%heads*width:][:width]
			dot := 0.0
			for j := range row {
				dot += row[j] * common[j]
			}
			for j := range row {
				row[j] -= dot * common[j]
			}
			unit(row)
			for j := range row {
				row[j] = math.Sqrt(cosine)*common[j] + math.Sqrt(1-cosine)*row[j]
			}
		}
		return x
	}
}

// driftingKeys gives unit keys whose directions change slowly: normal rows, autoregressive with the given factor.
func driftingKeys(factor float64) func(r *rand.Rand, heads, width, tokens int) []float64 {
	return func(r *rand.Rand, heads, width, tokens int) []float64 {
		x := fill(tokens*heads*width, r.NormFloat64)
		for i := heads * width; i < len(x); i++ {
			x[i] = factor*x[i-heads*width] + math.Sqrt(1-factor*factor)*x[i]
		}
		return unitRows(x, width)
	}
}

// zeroRows gives normal keys of which those of every n-th token are zero.
func zeroRows(n int) func(r *rand.Rand, heads, width, tokens int) []float64 {
	return func(r *rand.Rand, heads, width, tokens int) []float64 {
		x := normalKeys(r, heads, width, tokens)
		for t := n / 2; t < tokens; t += n {
			clear(x[t*heads*width:][:heads*width])
		}
		return x
	}
}

func constant(x float64) gate { return func(*rand.Rand, int) float64 { return x } }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func sigmoidBeta(r *rand.Rand, _ int) float64 { return sigmoid(r.NormFloat64()) }

func flatBeta(r *rand.Rand, _ int) float64 { return sigmoid(r.Float64()) }

// flatLogSigmoid and logSigmoid are the log of the sigmoid of a number from U(0,1), or a normal one, over the gate normaliser.
func flatLogSigmoid(normaliser float64) gate {
	return func(r *rand.Rand, _ int) float64 { return math.Log(sigmoid(r.Float64())) / normaliser }
}

func logSigmoid(normaliser float64) gate {
	return func(r *rand.Rand, _ int) float64 { return math.Log(sigmoid(r.NormFloat64())) / normaliser }
}

func uniformDecay(most float64) gate {
	return func(r *rand.Rand, _ int) float64 { return -most * r.Float64() }
}

// cutting is nearly 1, but at one of 64 tokens.
func cutting(r *rand.Rand, token int) float64 {
	if token%64 == 32 {
		return -4 - 4*r.Float64()
	}
	return -.01 * r.Float64()
}

// holding is a gate of 128 of 512 tokens, and another for those after them.
func holding(first, then gate) gate {
	return func(r *rand.Rand, token int) float64 {
		if token%512 < 128 {
			return first(r, token)
		}
		return then(r, token)
	}
}

// mixedChannels forgets by channel: every fourth one by chance, of the others those that are odd.
func mixedChannels(r *rand.Rand, _, channel int) float64 {
	odd := channel%2 == 1
	if channel%4 == 3 {
		odd = r.IntN(2) == 1
	}
	if odd {
		return -30
	}
	return 0
}

// clearedChannels is a decay that clears some channels.
func clearedChannels(r *rand.Rand, token, channel int) float64 {
	g := logSigmoid(4)(r, token)
	if r.Float64() < .03 || token%64 == 40 && channel%2 == 0 {
		return -1e4
	}
	return g
}

// resets replaces a share of the log decays by one of the given values.
func resets(decay gate, share float64, values ...float64) gate {
	return func(r *rand.Rand, token int) float64 {
		g := decay(r, token)
		if r.Float64() < share {
			g = values[r.IntN(len(values))]
		}
		return g
	}
}
