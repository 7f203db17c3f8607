package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// request is a sequence: the inputs of its tokens, prompt first, and the outputs so far. In a model the inputs of a decoded token
// depend on the token before; here all are drawn in advance, so that the whole can be checked as one sequence.
type request struct {
	id, prompt, tokens int
	shared             int                  // tokens of the prompt that are the cached prefix
	group              int                  // group of slots for its states
	at                 int                  // the slot of its state; -1: none yet
	done               int                  // tokens with outputs
	inputs             map[string][]float32 // q, k, v, a, b: [tokens, heads, width], rounded to bf16
	output             []float32            // [tokens, Hv, V]
	marks              []byte               // what happened to it in each step
	first, last        time.Duration        // when its prompt was done, and its last token
	windows            int                  // number of decode steps
}

// perToken returns the number of elements per token of each input.
func perToken(s gdn.Spec) map[string]int {
	return map[string]int{"q": s.HeadsK * s.K, "k": s.HeadsK * s.K, "v": s.HeadsV * s.V, "a": s.HeadsV, "b": s.HeadsV}
}

// tokenInputs are the inputs that a token has, in the order they are drawn.
var tokenInputs = []string{"q", "k", "v", "a", "b"}

func newRequest(s gdn.Spec, id, prompt, decode int, r *rand.Rand) *request {
	q := &request{id: id, prompt: prompt, tokens: prompt + decode, group: -1, at: -1, inputs: map[string][]float32{}}
	sizes := perToken(s)
	for _, name := range tokenInputs {
		x := make([]float64, q.tokens*sizes[name])
		for i := range x {
			x[i] = r.NormFloat64()
		}
		if name == "q" || name == "k" { // models normalise these to length 1
			for row := range slices.Chunk(x, s.K) {
				sum := 0.0
				for _, e := range row {
					sum += e * e
				}
				for i := range row {
					row[i] /= math.Sqrt(sum)
				}
			}
		}
		q.inputs[name] = array.FromFloat64s(ir.BF16, []int{len(x)}, x).Float32s()
	}
	q.output = make([]float32, q.tokens*s.HeadsV*s.V)
	return q
}

// beginWith puts the tokens and outputs of a cached prefix before the request, which then starts from its state.
func (q *request) beginWith(cached *request) {
	q.shared = cached.tokens
	q.prompt, q.tokens = q.prompt+q.shared, q.tokens+q.shared
	for name, x := range q.inputs {
		q.inputs[name] = slices.Concat(cached.inputs[name], x)
	}
	q.output = append(slices.Clone(cached.output), q.output...)
	q.at, q.done = cached.at, q.shared
}

// token returns an input of one token.
func (q *request) token(name string, at int) []float32 {
	size := len(q.inputs[name]) / q.tokens
	return q.inputs[name][at*size:][:size]
}

// drafts returns how many of a window's tokens are right, at least 1: after a right one, a draft is right in two of three cases.
func (q *request) drafts(window int, r *rand.Rand) int {
	n := 1
	for n < min(window, q.tokens-q.done) && r.IntN(3) > 0 {
		n++
	}
	return n
}

// poison puts NaN into v and infinity into k of the token in the middle of what the prompt has beyond a shared prefix.
func (q *request) poison() {
	at := func(name string) *float32 { return &q.token(name, (q.shared+q.prompt)/2)[0] }
	*at("v"), *at("k") = float32(math.NaN()), float32(math.Inf(1))
}

// bad reports whether the last token's output has NaN or infinity.
func (q *request) bad() bool {
	last := q.output[len(q.output)-len(q.output)/q.tokens:]
	return slices.ContainsFunc(last, func(x float32) bool { return x-x != 0 })
}

// headParams returns A_log and dt_bias, the same for all requests: weights of the layer.
func headParams(s gdn.Spec) map[string]*array.Array {
	r := rand.New(rand.NewPCG(7, 7))
	m := map[string]*array.Array{}
	for _, name := range []string{"A_log", "dt_bias"} {
		x := make([]float64, s.HeadsV)
		for i := range x {
			x[i] = .5 * r.NormFloat64()
		}
		m[name] = array.FromFloat64s(ir.F32, []int{s.HeadsV}, x)
	}
	return m
}

// check computes the request as one sequence in float64, and returns the largest error over the largest output.
func (q *request) check(layer gdn.Spec) (float64, error) {
	s := layer
	s.Tokens, s.Final = q.tokens, false
	s.State = gdn.StateKV
	inputs := headParams(s)
	for _, p := range s.Inputs() {
		if x, ok := q.inputs[p.Name]; ok {
			inputs[p.Name] = array.FromFloat32s(p.Type.DType, p.Type.Shape, x)
		}
	}
	want, err := truth.Reference(s, inputs)
	if err != nil {
		return 0, fmt.Errorf("request %d: %w", q.id, err)
	}
	return array.Compare(array.FromFloat32s(ir.F32, want["o"].Shape, q.output), want["o"]).RelMax, nil
}
