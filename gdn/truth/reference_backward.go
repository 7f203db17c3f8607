package truth

import (
	"math"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// segment is the number of tokens with states in memory at once; only the state before each segment is kept.
const segment = 64

// tangent is the data of one backward run. Gradients of q and k are per value head until keyHeads sums them.
type tangent struct {
	*recurrence
	do      []float64 // [tokens, Hv, V]
	dfinal  []float64 // in the spec's layout of states; nil: zeros
	dq, dk  []float64 // [tokens, Hv, K]
	dv      []float64 // [tokens, Hv, V]
	dg      []float64 // [tokens, Hv]; per-channel: [tokens, Hv, K]
	db      []float64 // [tokens, Hv]
	initial []float64 // gradients of the initial states, in the spec's layout
}

// gradient differentiates the loss sum(o do) + sum(final_state dfinal_state) token by token from the last to the first, and
// returns the gradients of the inputs by name.
func gradient(r *recurrence, inputs map[string]*array.Array) map[string][]float64 {
	s := r.s
	t := &tangent{recurrence: r, do: inputs["do"].Float64s()}
	if s.Final {
		t.dfinal = inputs["dfinal_state"].Float64s()
	}
	n := len(r.beta)
	t.dq, t.dk, t.dv = make([]float64, n*s.K), make([]float64, n*s.K), make([]float64, n*s.V)
	t.dg, t.db = make([]float64, len(r.g)), make([]float64, n)
	t.initial, t.dread = make([]float64, len(r.states)), make([]float64, len(r.read))
	r.each(func() func(n, h int) {
		return newReverse(t).head
	})
	out := map[string][]float64{"dv": t.dv, "dinitial_state": t.initial}
	t.splitGateGradients(out)
	dq, dk := t.keyHeads(t.dq), t.keyHeads(t.dk)
	for i := range dq {
		dq[i] *= s.EffectiveScale()
	}
	out["dq"], out["dk"] = dq, dk
	if s.L2Norm {
		normGradient(dq, inputs["q"].Float64s(), s.K)
		normGradient(dk, inputs["k"].Float64s(), s.K)
	}
	if s.Gates == gdn.GatesFused {
		t.rawGates(out, inputs)
	} else {
		out["dg"], out["dbeta"] = t.dg, t.db
	}
	return out
}

// keyHeads sums [tokens, Hv, K] over the value heads of each key head.
func (t *tangent) keyHeads(x []float64) []float64 {
	s := t.s
	sum := make([]float64, len(x)/s.Groups())
	for i, row := 0, 0; i < len(x); i, row = i+s.K, row+1 {
		into := sum[row/s.Groups()*s.K:][:s.K]
		for j := range into {
			into[j] += x[i+j]
		}
	}
	return sum
}

// normGradient converts dy, the gradient of the rows normalized from x, to the gradient of x.
func normGradient(dy, x []float64, width int) {
	for i := 0; i < len(x); i += width {
		row, d := x[i:i+width], dy[i:i+width]
		sum, dot := gdn.L2Eps, 0.0
		for j, e := range row {
			sum += e * e
			dot += e * d[j]
		}
		r := 1 / math.Sqrt(sum)
		for j, e := range row {
			d[j] = r*d[j] - r*r*r*dot*e
		}
	}
}

// rawGates converts gradients of log decay and beta to gradients of A_log, a, dt_bias and b.
func (t *tangent) rawGates(out map[string][]float64, inputs map[string]*array.Array) {
	s := t.s
	if s.Rule.Decays() {
		t.rawDecay(out, inputs)
	}
	if !s.Rule.Writes() || s.Rule.SplitGates() {
		return
	}
	out["db"] = rawSigmoid(t.beta, t.db, s.Top())
}

// rawSigmoid converts the gradient of gate = top sigmoid(x) to the gradient of x.
func rawSigmoid(gate, d []float64, top float64) []float64 {
	raw := make([]float64, len(d))
	for i, x := range gate {
		raw[i] = d[i] * x * (1 - x/top)
	}
	return raw
}

// rawDecay converts the gradient of the log decay to gradients of A_log, a and dt_bias.
func (t *tangent) rawDecay(out map[string][]float64, inputs map[string]*array.Array) {
	s := t.s
	aLog, a, bias := inputs["A_log"].Float64s(), inputs["a"].Float64s(), inputs["dt_bias"].Float64s()
	da := make([]float64, len(t.dg))
	dLog, dBias := make([]float64, s.HeadsV), make([]float64, len(bias))
	n := s.DecayWidth()
	for i, dg := range t.dg {
		h, c := i/n%s.HeadsV, i%len(bias)
		rate, x := math.Exp(aLog[h]), a[i]+bias[c]
		byLog, slope := t.g[i], -rate // derivatives by A_log and by a
		switch {
		case s.Bound != 0:
			p := sigmoid(rate * x)
			slope = s.Bound * p * (1 - p) * rate
			byLog = slope * x
		case x <= gdn.SoftplusLimit:
			slope *= sigmoid(x)
		}
		da[i] = dg * slope
		dBias[c] += da[i]
		dLog[h] += dg * byLog
	}
	out["dA_log"], out["da"], out["ddt_bias"] = dLog, da, dBias
}

// reverse is one worker's scratch: the states of a segment and the gradient of the state, all [K, V].
type reverse struct {
	*tangent
	starts [][]float64 // before each segment
	states [][]float64 // before each token of a segment, and after the last
	ds     []float64
	u      [][]float64 // beta (v - S'^T k) of each token of a segment
	rest   []float64   // v - S'^T k
	decays []float64   // exp(g) of each row of the state
	du     []float64
	o      []float64
}

func newReverse(t *tangent) *reverse {
	s := t.s
	rows := func(n, width int) [][]float64 {
		return slices.Collect(slices.Chunk(make([]float64, n*width), width))
	}
	return &reverse{tangent: t, states: rows(segment+1, s.K*s.V), ds: make([]float64, s.K*s.V), u: rows(segment, s.V), rest: make([]float64, s.V), decays: make([]float64, s.K),
		du: make([]float64, s.V), o: make([]float64, s.V)}
}

// head computes one value head of one sequence backwards.
func (r *reverse) head(n, h int) {
	s := r.s
	begin, end := r.bounds[n], r.bounds[n+1]
	at := (n*s.HeadsV + h) * s.K * s.V
	clear(r.ds)
	if r.dfinal != nil && (begin < end || s.Empty == gdn.EmptyKeep) {
		eachState(s, func(kv, own int) { r.ds[kv] = r.dfinal[at+own] })
	}
	segments := (end - begin + segment - 1) / segment
	for len(r.starts) < segments {
		r.starts = append(r.starts, make([]float64, s.K*s.V))
	}
	state := r.states[0]
	r.start(n, h, state)
	for i := range segments {
		copy(r.starts[i], state)
		for t := begin + i*segment; t < min(begin+(i+1)*segment, end); t++ {
			k, q, v := r.token(t, h)
			row := t*s.HeadsV + h
			step(s.Rule, state, k, r.reading(row, k), q, v, r.decay(row), r.beta[row], r.o, r.u[0])
		}
	}
	for i := segments - 1; i >= 0; i-- {
		lo, hi := begin+i*segment, min(begin+(i+1)*segment, end)
		copy(r.states[0], r.starts[i])
		for t := lo; t < hi; t++ {
			k, q, v := r.token(t, h)
			row := t*s.HeadsV + h
			copy(r.states[t-lo+1], r.states[t-lo])
			step(s.Rule, r.states[t-lo+1], k, r.reading(row, k), q, v, r.decay(row), r.beta[row], r.o, r.u[t-lo])
		}
		for t := hi - 1; t >= lo; t-- {
			r.step(t, h, r.states[t-lo], r.states[t-lo+1], r.u[t-lo])
		}
	}
	eachState(s, func(kv, own int) { r.tangent.initial[at+own] = r.ds[kv] })
}

// step converts the gradient of the state after token t to the gradient of the state before it. With S' = exp(g) S, the token computed S' + k u^T and
// o = (S' + k u^T)^T q, where u = beta (v - S'^T r), or u = v in an additive rule. r is the key that reads: k, or b k with split gates.
func (r *reverse) step(t, h int, before, after, u []float64) {
	s := r.s
	k, q, v := r.token(t, h)
	row := t*s.HeadsV + h
	do, dv := r.do[row*s.V:][:s.V], r.dv[row*s.V:][:s.V]
	dq, dk := r.dq[row*s.K:][:s.K], r.dk[row*s.K:][:s.K]
	read, dread := r.reading(row, k), r.dreading(row, dk)
	beta, decay := r.beta[row], r.decays
	for i := range decay {
		decay[i] = math.Exp(r.decay(row)[i%s.DecayWidth()])
	}
	clear(r.du)
	for i := range k {
		ds, now := r.ds[i*s.V:][:s.V], after[i*s.V:][:s.V]
		for j := range ds {
			dq[i] += now[j] * do[j]
			ds[j] += q[i] * do[j]
			r.du[j] += k[i] * ds[j]
			dk[i] += ds[j] * u[j]
		}
	}
	if s.Rule.Update == gdn.UpdateAdditive {
		copy(dv, r.du)
		r.decayed(row, before, decay)
		return
	}
	rest := r.rest
	copy(rest, v)
	for i := range k {
		was := before[i*s.V:][:s.V]
		for j := range rest {
			rest[j] -= decay[i] * read[i] * was[j]
		}
	}
	for j := range dv {
		dv[j] = beta * r.du[j]
		r.db[row] += r.du[j] * rest[j]
	}
	for i := range k {
		ds, was := r.ds[i*s.V:][:s.V], before[i*s.V:][:s.V]
		for j := range ds {
			dread[i] -= decay[i] * was[j] * dv[j]
			ds[j] -= read[i] * dv[j]
		}
	}
	r.decayed(row, before, decay)
}

// decayed converts the gradient of exp(g) S to gradients of S, the state before a token, and of g.
func (r *reverse) decayed(row int, before, decay []float64) {
	n := r.s.DecayWidth()
	dg := r.dg[row*n:][:n]
	for i := range r.ds {
		channel := i / r.s.V
		r.ds[i] *= decay[channel]
		dg[channel%n] += r.ds[i] * before[i]
	}
}
