package truth

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Shares are parts of the forward outputs, with the outputs' names and shapes.
type Shares struct {
	// Carried is the part that comes from the state at the last boundary. Outputs are linear in state and values together, so it is the output
	// for this state with zero values from the boundary on.
	Carried map[string]*array.Array
	// Decay is the derivative by a relative change x of all log decays: outputs for g(1+x) are about outputs for g plus x Decay.
	Decay map[string]*array.Array
	// Expected [B, T, Hv] is the mean square of o over queries of all directions with the query's own length. An output can be far smaller if its query
	// is nearly orthogonal to its few keys. It is nil for FewTokens tokens or more.
	Expected []float64
}

// FewTokens is the number of tokens below which an output may nearly vanish by chance, as q.k of one token does.
const FewTokens = 32

// ReferenceShares is Reference for a forward spec, and also returns shares of its outputs. Boundaries lie every so many tokens from the
// start of each sequence. It fails for another direction and for every < 1.
func ReferenceShares(s gdn.Spec, inputs map[string]*array.Array, every int) (map[string]*array.Array, Shares, error) {
	if s.Direction != gdn.Forward || every < 1 {
		return nil, Shares{}, fmt.Errorf("reference: shares of %s every %d tokens: a forward spec and a positive number are needed", s, every)
	}
	if err := CheckInputs(s, inputs); err != nil {
		return nil, Shares{}, err
	}
	r := newRecurrence(s, SplitQKV(s, inputs))
	carried, decay := r.shadow(), r.shadow()
	copy(carried.states, r.states) // pool states without a sequence
	var expected []float64
	if s.Tokens < FewTokens {
		expected = make([]float64, s.Batch*s.Tokens*s.HeadsV)
	}
	r.each(func() func(n, h int) {
		p := sharesOf{every: every, u: make([]float64, s.V), expected: expected}
		for i := range p.state {
			p.state[i] = make([]float64, s.K*s.V)
		}
		return func(n, h int) { r.headShares(n, h, &p, carried, decay) }
	})
	name := func(r *recurrence) map[string]*array.Array {
		out := map[string]*array.Array{}
		for _, p := range s.Outputs() {
			out[p.Name] = array.FromFloat64s(ir.F64, p.Type.Shape, r.results()[p.Name])
		}
		return out
	}
	for _, l := range [][]float64{r.o, r.states} {
		if slices.ContainsFunc(l, notFinite) {
			return nil, Shares{}, fmt.Errorf("reference: the inputs make the recurrence overflow (|k| <= 1, g <= 0 and beta <= 2 keep it bounded)")
		}
	}
	return name(r), Shares{name(carried), name(decay), expected}, nil
}

// shadow returns a recurrence with its own arrays for outputs.
func (r *recurrence) shadow() *recurrence {
	return &recurrence{s: r.s, slots: r.slots, bounds: r.bounds, windows: r.windows, o: make([]float64, len(r.o)), states: make([]float64, len(r.states)), ends: make([]float64, len(r.ends)),
		convs: make([]float64, len(r.convs)), convEnds: make([]float64, len(r.convEnds))}
}

// sharesOf is the scratch of one processor: states [K, V] of the whole, of the carried part, and of the derivative.
type sharesOf struct {
	every    int
	state    [3][]float64
	u        []float64
	expected []float64 // shared by all processors
}

// headShares is head for the outputs and their shares.
func (r *recurrence) headShares(n, h int, p *sharesOf, carried, decay *recurrence) {
	s := r.s
	begin, end := r.bounds[n], r.bounds[n+1]
	if r.slots[n] < 0 {
		return
	}
	whole, held, slope := p.state[0], p.state[1], p.state[2]
	r.start(n, h, whole)
	copy(held, whole)
	clear(slope)
	zero := make([]float64, s.V)
	for t := begin; t < end; t++ {
		if t > begin && (t-begin)%p.every == 0 {
			copy(held, whole)
		}
		k, q, v := r.token(t, h)
		row := t*s.HeadsV + h
		read := r.reading(row, k)
		at, g := row*s.V, r.decay(row)
		// d(e^g S) = e^g (dS + g S); values do not depend on decays.
		width := len(whole) / len(g)
		for i, x := range g {
			floats.AddScaled(slope[i*width:][:width], x, whole[i*width:][:width])
		}
		step(s.Rule, slope, k, read, q, zero, g, r.beta[row], decay.o[at:][:s.V], p.u)
		step(s.Rule, held, k, read, q, zero, g, r.beta[row], carried.o[at:][:s.V], p.u)
		step(s.Rule, whole, k, read, q, v, g, r.beta[row], r.o[at:][:s.V], p.u)
		if p.expected != nil { // o is q S; averaged over directions of q, the squares of S add up evenly over its K rows and V columns
			p.expected[row] = floats.Dot(q, q) * floats.Dot(whole, whole) / float64(s.K*s.V)
		}
		r.passed(n, h, t-begin, whole)
		carried.passed(n, h, t-begin, held)
		decay.passed(n, h, t-begin, slope)
	}
	r.ended(n, h, whole)
	carried.ended(n, h, held)
	decay.ended(n, h, slope)
}
