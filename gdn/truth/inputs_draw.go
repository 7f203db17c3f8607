package truth

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// Generate draws the inputs of s. Equal class, spec and seed give equal arrays. Each tensor has its own random stream, so a spec option only changes
// the tensors that it concerns. Raw gates are solved from the class's decay and beta. Gradients of the outputs are normal. With L2 norm, rows of q and k
// have random lengths.
//
// Edge cases are included. Of three or more packed sequences the second is empty. Of four or more sequences with a pool the third has no state, and
// so have sequences beyond the pool's size. With read_indices, every third sequence starts from zeros, and every third from a state that none writes.
// It fails if s is invalid or the class does not support it.
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
	d.convolution(values)
	if s.Rule.SplitGates() {
		values["erase"], values["write"] = d.erases(), d.writes()
		d.rawSplitGates(values)
	}
	project(s, values)
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

// stream returns the random stream of one tensor.
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

// stretch gives unit rows random lengths if the kernel normalizes them again.
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

// gates draws log decays [tokens, Hv] (per-channel: [tokens, Hv, K]), at least the spec's bound, and beta [tokens, Hv].
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

// gateReach bounds raw gates: at 40 sigmoid is 1 and at -40 softplus is 0 in float32. Exact zeros use ClosedGate, where both are also zero in float64.
// Otherwise a head without a state would end with values of 1e-18 and derivatives by decays of 1e-17, and errors relative to these would be
// meaningless.
const gateReach = 40

// fusedGates draws raw gates that give the class's decay and beta.
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

// inverseSigmoid returns the raw gate whose sigmoid is p, clamped to gateReach.
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

// naming draws an index input (bounds of sequences, states, distribution); nil for other inputs. bounds draws cu_seqlens.
func (d draw) naming(input string, bounds func() []int64) []int64 {
	switch input {
	case "cu_seqlens":
		if d.s.Mixed > 0 {
			cu, _ := d.mixed()
			return cu
		}
		return bounds()
	case "distribution":
		_, list := d.mixed()
		return list
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

// reads draws read_indices in turn: a sequence's own state, -1 (zeros), and one state that no sequence writes, the same for all of these.
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
