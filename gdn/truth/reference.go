package truth

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/internal/vector"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Reference computes the rule token by token in float64; every kernel is judged by it. inputs must be exactly s.Inputs, by name. It returns s.Outputs by
// name, with element type F64. It fails for inputs that CheckInputs refuses and for values that overflow. Heads and sequences run in parallel.
func Reference(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	if err := CheckInputs(s, inputs); err != nil {
		return nil, err
	}
	apart := SplitQKV(s, inputs)
	r := newRecurrence(s, apart)
	r.run()
	results := r.results()
	if s.Direction != gdn.Forward {
		maps.Copy(results, gradient(r, apart))
	}
	out := map[string]*array.Array{}
	for _, p := range s.Outputs() {
		values := results[p.Name]
		if i := slices.IndexFunc(values, notFinite); i >= 0 {
			return nil, fmt.Errorf("reference: %s is %v at %v: the inputs make the recurrence overflow (|k| <= 1, g <= 0 and beta <= 2 keep it bounded)",
				p.Name, values[i], unflatten(i, p.Type.Shape))
		}
		out[p.Name] = array.FromFloat64s(ir.F64, p.Type.Shape, values)
	}
	return out, nil
}

// CheckInputs returns an error unless inputs are exactly s.Inputs: names, shapes and element types equal, values finite (g may be -Inf, a reset),
// cu_seqlens rising from 0 to the number of tokens, indices of states valid.
func CheckInputs(s gdn.Spec, inputs map[string]*array.Array) error {
	if err := s.Validate(); err != nil {
		return err
	}
	params := s.Inputs()
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	for name := range inputs {
		if !slices.Contains(names, name) {
			return fmt.Errorf("input %s: the spec %v has no such input%s (it has %v)", name, s, suggest.Name(name, names), names)
		}
	}
	for _, p := range params {
		a := inputs[p.Name]
		if a == nil {
			return fmt.Errorf("input %s: missing, the spec %v wants %v", p.Name, s, p.Type)
		}
		if err := a.Check(); err != nil {
			return fmt.Errorf("input %s: %w", p.Name, err)
		}
		if !a.IRType().Equal(p.Type) {
			return fmt.Errorf("input %s: is %v, the spec wants %v", p.Name, a, p.Type)
		}
		if p.Name == "cu_seqlens" {
			if err := checkBounds(a.Int64s(), s, inputs["distribution"]); err != nil {
				return fmt.Errorf("input cu_seqlens: %w", err)
			}
			continue
		}
		if p.Name == "state_indices" {
			list := a.Int64s()
			if s.Mixed > 0 {
				list = named(list, s, inputs["distribution"])
			}
			if err := checkIndices(list, s); err != nil {
				return fmt.Errorf("input state_indices: %w", err)
			}
			continue
		}
		if p.Name == "read_indices" {
			list, written := a.Int64s(), inputs["state_indices"].Int64s()
			if s.Mixed > 0 {
				list, written = foundIn(list, s.Pool), named(written, s, inputs["distribution"])
			}
			if err := checkReads(list, written, s); err != nil {
				return fmt.Errorf("input read_indices: %w", err)
			}
			continue
		}
		reset := p.Name == "g"
		if i, x, bad := first(a, func(x float64) bool { return notFinite(x) && !(reset && math.IsInf(x, -1)) }); bad {
			return fmt.Errorf("input %s: is %v at %v: values must be finite%s", p.Name, x, unflatten(i, a.Shape), map[bool]string{true: ", or -Inf for a reset"}[reset])
		}
	}
	return nil
}

// checkBounds checks cu_seqlens, in a mixed batch without the entries of padding.
func checkBounds(cu []int64, s gdn.Spec, distribution *array.Array) error {
	decodes, tokens := 0, s.Tokens
	if s.Mixed > 0 {
		var n int
		decodes, n = distributed(s, distribution)
		cu = cu[:n+1]
		if last := cu[n]; last < 0 || last > int64(tokens) {
			return fmt.Errorf("the sequences end at %d, beyond the %d tokens", last, tokens)
		}
		tokens = int(cu[n])
	}
	if cu[0] != 0 {
		return fmt.Errorf("starts at %d, must start at 0", cu[0])
	}
	for n := 1; n < len(cu); n++ {
		if cu[n] < cu[n-1] {
			return fmt.Errorf("falls from %d to %d at entry %d: sequence bounds must not fall", cu[n-1], cu[n], n)
		}
		if l := cu[n] - cu[n-1]; n <= decodes && (l > int64(s.Mixed) || s.Mixed == 1 && l != 1) {
			return fmt.Errorf("sequence %d has %d tokens: the first %d are decodes, of %d at most, and without windows of one each", n-1, l, decodes, s.Mixed)
		}
	}
	if last := cu[len(cu)-1]; last != int64(tokens) {
		return fmt.Errorf("ends at %d, must end at the number of tokens, %d", last, tokens)
	}
	return nil
}

func checkIndices(list []int64, s gdn.Spec) error {
	pool := s.Pool / s.Checkpoints()
	if s.Window && slices.Max(list) < 0 {
		return fmt.Errorf("all %d sequences are skipped: of a window at least one has a state; make no call", len(list))
	}
	holder := map[int64]int{}
	for n, i := range list {
		if i < -1 || i >= int64(pool) {
			return fmt.Errorf("is %d at entry %d: want a state of the pool, 0 to %d, or -1 for a sequence that is skipped", i, n, pool-1)
		}
		if m, taken := holder[i]; taken && i >= 0 {
			return fmt.Errorf("is %d at entries %d and %d: two sequences can not share a state", i, m, n)
		}
		holder[i] = n
	}
	return nil
}

// checkReads returns an error if read_indices has a state outside of the pool, or one that another sequence writes in the same call, since the order
// of the two is undefined.
func checkReads(list, written []int64, s gdn.Spec) error {
	writer := map[int64]int{}
	for n, group := range written {
		writer[group] = n
	}
	for n, i := range list {
		if written[n] < 0 {
			continue
		}
		if i < -1 || i >= int64(s.Pool) {
			return fmt.Errorf("is %d at entry %d: want a state of the pool, 0 to %d, or -1 for a sequence that starts from zeros", i, n, s.Pool-1)
		}
		if m, taken := writer[i/int64(s.Checkpoints())]; taken && i >= 0 && m != n {
			return fmt.Errorf("is %d at entry %d: the sequence of entry %d leaves its state there in the same call; let one of them wait for the next", i, n, m)
		}
	}
	return nil
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// firstNotFinite returns the first NaN or infinity of an array.
func firstNotFinite(a *array.Array) (index int, value float64, found bool) {
	return first(a, notFinite)
}

// first returns the first value for which is holds.
func first(a *array.Array, is func(float64) bool) (index int, value float64, found bool) {
	values := a.Float64s()
	if i := slices.IndexFunc(values, is); i >= 0 {
		return i, values[i], true
	}
	return 0, 0, false
}

// unflatten converts a flat index to one index per axis.
func unflatten(i int, shape []int) []int {
	at := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = i % shape[d]
		i /= shape[d]
	}
	return at
}

// recurrence is the data of one run. Tokens of all sequences are concatenated; sequence n owns bounds[n] to bounds[n+1].
type recurrence struct {
	s    gdn.Spec
	q, k []float64 // [tokens, Hk, K], normalized; q scaled
	v, o []float64 // [tokens, Hv, V]
	g    []float64 // log decay, [tokens, Hv]; per-channel: [tokens, Hv, K]
	beta []float64 // [tokens, Hv]
	splitGates
	initial []float64 // in the layout of the spec; nil: zeros
	states  []float64 // final states, in the layout of the spec
	ends    []float64 // states after every s.Every tokens, in the layout of the spec
	bounds  []int
	windows int   // the first windows sequences write a state after each token
	slots   []int // the first state that each sequence writes; -1: the sequence is skipped
	reads   []int // the state that each sequence starts from; -1: zeros

	convs, convEnds []float64 // convolution caches: final ones, and ones after every s.Every tokens; nil without
}

func newRecurrence(s gdn.Spec, inputs map[string]*array.Array) *recurrence {
	values := func(name string) []float64 { return inputs[name].Float64s() }
	r := &recurrence{s: s, q: values("q"), k: values("k"), v: values("v")}
	r.find(inputs)
	r.g, r.beta = gateValues(s, inputs)
	r.convolve(inputs)
	if s.L2Norm {
		NormaliseRows(r.q, s.K)
		NormaliseRows(r.k, s.K)
	}
	r.weighBySplitGates(inputs)
	scale := s.EffectiveScale()
	for i := range r.q {
		r.q[i] *= scale
	}
	if s.Init {
		r.initial = values("initial_state")
	}
	r.o = make([]float64, len(r.v))
	r.states = make([]float64, s.States()*s.HeadsV*s.K*s.V)
	if s.Every > 0 {
		r.ends = make([]float64, s.Batch*(s.Tokens/s.Every)*s.HeadsV*s.K*s.V)
	}
	if s.Pool > 0 {
		copy(r.states, r.initial)
	}
	return r
}

// find sets the tokens of each sequence and the indices of its initial and final state.
func (r *recurrence) find(inputs map[string]*array.Array) {
	s := r.s
	if s.Window {
		r.windows = s.Batch
	}
	if s.Mixed > 0 {
		r.findMixed(inputs)
		return
	}
	if s.Seqs > 0 {
		for _, b := range inputs["cu_seqlens"].Int64s() {
			r.bounds = append(r.bounds, int(b))
		}
	} else {
		for n := range s.Batch + 1 {
			r.bounds = append(r.bounds, n*s.Tokens)
		}
	}
	for n := range s.Sequences() {
		r.slots = append(r.slots, n)
	}
	if s.Pool > 0 {
		for n, i := range inputs["state_indices"].Int64s() {
			r.slots[n] = int(i) * s.Checkpoints()
		}
	}
	r.reads = r.slots
	if s.Read {
		r.reads = nil
		for _, i := range inputs["read_indices"].Int64s() {
			r.reads = append(r.reads, int(i))
		}
	}
}

// gateValues returns log decays, [tokens, Hv] or [tokens, Hv, K], and beta [tokens, Hv]; zeros and ones if the rule has none. Split gates are
// applied by weighBySplitGates instead.
func gateValues(s gdn.Spec, inputs map[string]*array.Array) (g, beta []float64) {
	values := map[string][]float64{}
	for _, p := range s.GateParams() {
		values[p.Name] = inputs[p.Name].Float64s()
	}
	g, beta = values["g"], values["beta"]
	if s.Gates == gdn.GatesFused {
		b := values["b"]
		if s.Rule.SplitGates() {
			b = nil
		}
		g, beta = FusedGates(s, values["A_log"], values["a"], values["dt_bias"], b)
	}
	n := s.Batch * s.Tokens * s.HeadsV
	if !s.Rule.Decays() {
		g = make([]float64, n)
	}
	if !s.Rule.Writes() || s.Rule.SplitGates() {
		beta = slices.Repeat([]float64{1}, n)
	}
	return g, beta
}

// FusedGates computes log decay and beta, both [tokens, Hv], from A_log [Hv], a [tokens, Hv], dt_bias [Hv], b [tokens, Hv]. An empty a or b gives an
// empty result. With per-channel decays a and the log decay are [tokens, Hv, K], and dt_bias is [Hv, K].
//
//	g = -exp(A_log) softplus(a + dt_bias), or bound sigmoid(exp(A_log) (a + dt_bias));  beta = sigmoid(b)
func FusedGates(s gdn.Spec, aLog, a, dtBias, b []float64) (g, beta []float64) {
	g, beta = make([]float64, len(a)), make([]float64, len(b))
	n := s.DecayWidth()
	for i := range a {
		rate, x := math.Exp(aLog[i/n%s.HeadsV]), a[i]+dtBias[i%len(dtBias)]
		if g[i] = -rate * softplus(x); s.Bound != 0 {
			g[i] = s.Bound * sigmoid(rate*x)
		}
	}
	for i := range b {
		beta[i] = s.Top() / (1 + math.Exp(-b[i]))
	}
	return g, beta
}

func softplus(x float64) float64 {
	if x > gdn.SoftplusLimit {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// NormaliseRows scales each row of the given width by rsqrt(sum x^2 + eps).
func NormaliseRows(x []float64, width int) {
	for row := range slices.Chunk(x, width) {
		sum := gdn.L2Eps
		for _, e := range row {
			sum += e * e
		}
		for i := range row {
			row[i] /= math.Sqrt(sum)
		}
	}
}

// run computes every head of every sequence, on all processors.
func (r *recurrence) run() {
	r.each(func() func(n, h int) {
		state, u := make([]float64, r.s.K*r.s.V), make([]float64, r.s.V)
		return func(n, h int) { r.head(n, h, state, u) }
	})
}

// each calls a function for all heads n, h of all sequences; worker makes that function for one processor.
func (r *recurrence) each(worker func() func(n, h int)) {
	work := int64(r.s.Sequences() * r.s.HeadsV)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(int64(runtime.GOMAXPROCS(0)), work) {
		wg.Go(func() {
			visit := worker()
			for w := next.Add(1) - 1; w < work; w = next.Add(1) - 1 {
				visit(int(w)/r.s.HeadsV, int(w)%r.s.HeadsV)
			}
		})
	}
	wg.Wait()
}

// head computes one value head of one sequence; state [K, V] and u [V] are scratch.
func (r *recurrence) head(n, h int, state, u []float64) {
	s := r.s
	begin, end := r.bounds[n], r.bounds[n+1]
	if r.slots[n] < 0 {
		return
	}
	r.start(n, h, state)
	for t := begin; t < end; t++ {
		k, q, v := r.token(t, h)
		row := t*s.HeadsV + h
		step(s.Rule, state, k, r.reading(row, k), q, v, r.decay(row), r.beta[row], r.o[row*s.V:][:s.V], u)
		r.passed(n, h, t-begin, state)
	}
	r.ended(n, h, state)
}

// windowed reports whether a sequence writes a state after each token.
func (r *recurrence) windowed(n int) bool { return n < r.windows }

// results returns the computed values by output name.
func (r *recurrence) results() map[string][]float64 {
	return map[string][]float64{"o": r.o, "final_state": r.states, "states": r.ends, "final_conv": r.convs, "convs": r.convEnds}
}

// passed stores the state after token i of a sequence if it is an output.
func (r *recurrence) passed(n, h, i int, state []float64) {
	switch s := r.s; {
	case r.windowed(n):
		r.store(r.slots[n]+i, h, state)
	case s.Every > 0 && (i+1)%s.Every == 0:
		r.put(r.ends, n*(s.Tokens/s.Every)+i/s.Every, h, state)
	}
}

// ended stores the state after the last token.
func (r *recurrence) ended(n, h int, state []float64) {
	if !r.windowed(n) {
		r.store(r.slots[n], h, state)
	}
	for i := r.bounds[n+1] - r.bounds[n]; r.s.Mixed > 0 && r.windowed(n) && i < r.s.Mixed; i++ { // fill tokens do not change the state
		r.store(r.slots[n]+i, h, state)
	}
}

// store writes a state [K, V] of a value head to a slot.
func (r *recurrence) store(slot, h int, state []float64) { r.put(r.states, slot, h, state) }

// put is store for another array of states.
func (r *recurrence) put(states []float64, slot, h int, state []float64) {
	at := (slot*r.s.HeadsV + h) * r.s.K * r.s.V
	eachState(r.s, func(kv, own int) { states[at+own] = state[kv] })
}

// start sets state [K, V] to the initial state.
func (r *recurrence) start(n, h int, state []float64) {
	clear(state)
	if at := (r.reads[n]*r.s.HeadsV + h) * r.s.K * r.s.V; r.initial != nil && r.reads[n] >= 0 && (r.bounds[n] < r.bounds[n+1] || r.s.Empty == gdn.EmptyKeep) {
		eachState(r.s, func(kv, own int) { state[kv] = r.initial[at+own] })
	}
}

// token returns the key and query [K] and the value [V] of a value head.
func (r *recurrence) token(t, h int) (k, q, v []float64) {
	s := r.s
	key, row := (t*s.HeadsK+h/s.Groups())*s.K, t*s.HeadsV+h
	return r.k[key:][:s.K], r.q[key:][:s.K], r.v[row*s.V:][:s.V]
}

// decay returns the log decay of a row of tokens x heads: one number, or K with per-channel decays.
func (r *recurrence) decay(row int) []float64 {
	n := r.s.DecayWidth()
	return r.g[row*n:][:n]
}

// step computes one token with log decay g: it updates state [K, V] and writes o [V]. u [V] receives the vector that is written with key k. Row i of the
// state belongs to k[i], and to g[i] with per-channel decays. read is the key that reads the state: k, or b k with split gates.
func step(r gdn.Rule, state, k, read, q, v, g []float64, beta float64, o, u []float64) {
	decay := math.Exp(g[0])
	if r.Channels() {
		scaleRows(state, g)
		decay = 1
	}
	vector.DecayedSum(u, state, read, decay)
	for j := range u {
		switch r.Update {
		case gdn.UpdateDelta, gdn.UpdateSplit:
			u[j] = beta * (v[j] - u[j])
		case gdn.UpdateAdditive:
			u[j] = v[j]
		}
	}
	vector.UpdatedSum(o, state, k, q, u)
}

// scaleRows multiplies row i of a state [K, V] by exp(g[i]).
func scaleRows(state, g []float64) {
	width := len(state) / len(g)
	for i, x := range g {
		floats.Scale(math.Exp(x), state[i*width:][:width])
	}
}

// eachState iterates over one head's state: index in [K, V] order, and index in the spec's layout.
func eachState(s gdn.Spec, visit func(kv, own int)) {
	for i := range s.K {
		for j := range s.V {
			if s.State == gdn.StateVK {
				visit(i*s.V+j, j*s.K+i)
			} else {
				visit(i*s.V+j, i*s.V+j)
			}
		}
	}
}
