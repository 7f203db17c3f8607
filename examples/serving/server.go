package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
)

// maxPrompts is the most prompts of one prefill; one more sequence takes the tokens beyond them.
const maxPrompts = 4

// server holds the states of the active sequences.
type server struct {
	engine *pjrt.Engine
	layer  gdn.Spec
	config config
	params map[string]*array.Array
	pool   *pjrt.Buffer // [states, Hv, V, K], passed from call to call; each sequence has a group of them, one for each token of a window
	free   []int        // groups
	cached *request     // the prefix with a stored state, in its own group; nil: none
	draw   *rand.Rand   // decides which drafts are right

	waiting, prefilling, decoding, done []*request

	programs map[gdn.Spec]*pjrt.Program
	clock    clock
}

func newServer(e *pjrt.Engine, layer gdn.Spec, c config) (*server, error) {
	layer.Init, layer.Final, layer.InPlace, layer.Read, layer.Pool = true, true, true, true, (c.slots+1)*c.window
	s := &server{engine: e, layer: layer, config: c, params: headParams(layer), draw: rand.New(rand.NewPCG(c.seed, 1)), programs: map[gdn.Spec]*pjrt.Program{}, clock: clock{start: time.Now()}}
	for group := range c.slots {
		s.free = append(s.free, group)
	}
	var err error
	s.pool, err = e.Put(array.New(layer.StateDType, layer.StateType().Shape...))
	return s, err
}

// keep prefills a shared prefix, and stores its state in the last group of slots.
func (s *server) keep(q *request) error {
	q.group = s.config.slots
	for s.prefilling = []*request{q}; len(s.prefilling) > 0; {
		if _, err := s.prefill(); err != nil {
			return err
		}
	}
	s.cached, s.decoding = q, nil
	return nil
}

func (s *server) busy() bool { return len(s.waiting)+len(s.prefilling)+len(s.decoding) > 0 }

// stepResult counts the tokens of a step, and the time of its two calls.
type stepResult struct {
	promptTokens, decoded int
	prefill, decode       time.Duration
}

// step admits requests, continues their prompts in one packed prefill, and decodes a window of every sequence with a
// complete prompt in one batch.
func (s *server) step() (r stepResult, err error) {
	s.admit()
	decoding := slices.Clone(s.decoding) // sequences whose prompt ends in this step decode from the next on
	for _, q := range slices.Concat(s.waiting, s.prefilling) {
		q.marks = append(q.marks, markWaits)
	}
	for _, q := range decoding {
		q.marks = append(q.marks, markWaits)
	}
	begin := s.clock.now()
	if len(s.prefilling) > 0 {
		if r.promptTokens, err = s.prefill(); err != nil {
			return r, fmt.Errorf("prefill: %w", err)
		}
	}
	between := s.clock.now()
	if len(decoding) > 0 {
		if r.decoded, err = s.decode(decoding); err != nil {
			return r, fmt.Errorf("decode: %w", err)
		}
	}
	r.prefill, r.decode = between-begin, s.clock.now()-between
	return r, nil
}

// admit gives free slots to waiting requests. Old content does not matter: no request starts from it.
func (s *server) admit() {
	for len(s.waiting) > 0 && len(s.free) > 0 {
		q := s.waiting[0]
		q.group = s.free[0]
		s.waiting, s.free = s.waiting[1:], s.free[1:]
		s.prefilling = append(s.prefilling, q)
	}
}

// roundUp returns the smallest power of two that is at least n.
func roundUp(n int) int {
	top := 1
	for top < n {
		top *= 2
	}
	return top
}

// prefill continues prompts by as many tokens as the budget of a step allows, in one packed call.
func (s *server) prefill() (tokens int, err error) {
	spec := s.layer
	spec.Packed, spec.Seqs = true, maxPrompts+1
	indices, reads, bounds := slices.Repeat([]int64{-1}, spec.Seqs), slices.Repeat([]int64{-1}, spec.Seqs), make([]int64, spec.Seqs+1)
	type piece struct {
		*request
		n int
	}
	var batch []piece
	for _, q := range s.prefilling[:min(len(s.prefilling), maxPrompts)] {
		n := min(q.prompt-q.done, s.config.budget-tokens)
		if n == 0 {
			break
		}
		indices[len(batch)], reads[len(batch)] = int64(q.group*s.config.window), int64(q.at)
		batch = append(batch, piece{q, n})
		tokens += n
		bounds[len(batch)] = int64(tokens)
	}
	for i := len(batch) + 1; i < spec.Seqs; i++ {
		bounds[i] = int64(tokens) // no prompt: an empty sequence
	}
	spec.Tokens = max(16, roundUp(tokens))
	bounds[spec.Seqs] = int64(spec.Tokens) // the last sequence has the tokens beyond the prompts
	inputs := map[string]*array.Array{
		"state_indices": array.FromInt64s(ir.I32, []int{spec.Seqs}, indices),
		"read_indices":  array.FromInt64s(ir.I32, []int{spec.Seqs}, reads),
		"cu_seqlens":    array.FromInt64s(ir.I64, []int{spec.Seqs + 1}, bounds),
	}
	sizes := perToken(spec)
	for name, size := range sizes {
		var x []float32
		for _, p := range batch {
			x = append(x, p.inputs[name][p.done*size:][:p.n*size]...)
		}
		inputs[name] = padded(spec, name, x)
	}
	o, err := s.call(spec, inputs)
	if err != nil {
		return 0, err
	}
	at := 0
	for _, p := range batch {
		at += copy(p.output[p.done*sizes["v"]:], o[at:][:p.n*sizes["v"]])
		p.done, p.at = p.done+p.n, p.group*s.config.window
		if len(p.marks) > 0 {
			p.marks[len(p.marks)-1] = markPrefill
		}
	}
	var left []*request
	for _, q := range s.prefilling {
		if q.done < q.prompt {
			left = append(left, q)
		} else {
			q.first = s.clock.now()
			s.decoding = append(s.decoding, q)
		}
	}
	s.prefilling = left
	return tokens, nil
}

// decode continues sequences by a window of tokens, drops wrong drafts, and frees the slots of finished sequences. It
// returns the number of right tokens.
func (s *server) decode(batch []*request) (tokens int, err error) {
	spec := s.layer
	spec.Batch, spec.Tokens, spec.Window = roundUp(len(batch)), s.config.window, s.config.window > 1
	indices, reads := slices.Repeat([]int64{-1}, spec.Batch), slices.Repeat([]int64{-1}, spec.Batch)
	right := make([]int, len(batch))
	for i, q := range batch {
		indices[i], reads[i] = int64(q.group), int64(q.at)
		right[i] = q.drafts(spec.Tokens, s.draw)
	}
	inputs := map[string]*array.Array{
		"state_indices": array.FromInt64s(ir.I32, []int{spec.Batch}, indices),
		"read_indices":  array.FromInt64s(ir.I32, []int{spec.Batch}, reads),
	}
	sizes := perToken(spec)
	for name := range sizes {
		var x []float32
		for i, q := range batch {
			for t := range spec.Tokens {
				at := q.done + t
				if t >= right[i] {
					at = s.draw.IntN(q.tokens) // a wrong draft is some other token
				}
				x = append(x, q.token(name, at)...)
			}
		}
		inputs[name] = padded(spec, name, x)
	}
	o, err := s.call(spec, inputs)
	if err != nil {
		return 0, err
	}
	for i, q := range batch {
		n := right[i]
		copy(q.output[q.done*sizes["v"]:], o[i*spec.Tokens*sizes["v"]:][:n*sizes["v"]])
		q.done, q.at, q.windows = q.done+n, q.group*spec.Tokens+n-1, q.windows+1
		q.marks[len(q.marks)-1] = markDecode(n, spec.Tokens)
		tokens += n
	}
	s.decoding = slices.DeleteFunc(s.decoding, func(q *request) bool {
		if q.done < q.tokens {
			return false
		}
		q.last = s.clock.now()
		s.free = append(s.free, q.group)
		s.done = append(s.done, q)
		return true
	})
	return tokens, nil
}

// padded returns an input of the spec with values for its first tokens; the others are zero.
func padded(spec gdn.Spec, name string, x []float32) *array.Array {
	for _, p := range spec.Inputs() {
		if p.Name == name {
			return array.FromFloat32s(p.Type.DType, p.Type.Shape, append(x, make([]float32, p.Type.Size()-len(x))...))
		}
	}
	panic("the spec has no input " + name)
}

// call runs the program of a spec on the pool and inputs, and returns the values of the output.
func (s *server) call(spec gdn.Spec, inputs map[string]*array.Array) ([]float32, error) {
	program, err := s.program(spec)
	if err != nil {
		return nil, err
	}
	var args []*pjrt.Buffer
	for _, p := range spec.Inputs() {
		if p.Name == "initial_state" {
			args = append(args, s.pool)
			continue
		}
		a := inputs[p.Name]
		if a == nil {
			a = s.params[p.Name]
		}
		b, err := s.engine.Put(a)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		args = append(args, b)
	}
	results, err := program.Call(args...)
	if err != nil {
		return nil, err
	}
	defer results[0].Close()
	s.pool = results[1] // in place of the old pool
	o, err := results[0].Get()
	if err != nil {
		return nil, err
	}
	return o.Float32s(), nil
}

// program compiles the program of a spec, once.
func (s *server) program(spec gdn.Spec) (*pjrt.Program, error) {
	if p := s.programs[spec]; p != nil {
		return p, nil
	}
	defer s.clock.compiles()()
	text, err := s.text(spec)
	if err != nil {
		return nil, err
	}
	p, err := s.engine.Compile(text)
	if err != nil {
		return nil, err
	}
	s.programs[spec] = p
	return p, nil
}

// text returns the program of a spec: Triton kernels inside of StableHLO if the device takes them, else plain ops.
// Triton kernels write one state per sequence, so windows use plain ops.
func (s *server) text(spec gdn.Spec) (string, error) {
	if s.config.ptx != nil && !spec.Window {
		return s.config.ptx.Text(context.Background(), spec)
	}
	v := s.config.decode
	if spec.Seqs > 0 {
		v = s.config.prefill
	}
	a, err := route.Program(spec, v, "stablehlo", nil)
	if err != nil {
		return "", err
	}
	return a.Text, nil
}
