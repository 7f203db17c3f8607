package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
)

// maxPrompts is the most prompts of one prefill; one more sequence takes the tokens beyond them.
const maxPrompts = 4

// server keeps the states of the sequences under way.
type server struct {
	engine *pjrt.Engine
	layer  gdn.Spec
	config config
	params map[string]*array.Array
	pool   *pjrt.Buffer // [slots, Hv, V, K], passed from call to call
	free   []int

	waiting, prefilling, decoding, done []*request

	programs map[gdn.Spec]*pjrt.Program
	clear    *pjrt.Program
	clock    clock
}

func newServer(e *pjrt.Engine, layer gdn.Spec, c config) (*server, error) {
	layer.Init, layer.Final, layer.InPlace, layer.Pool = true, true, true, c.slots
	s := &server{engine: e, layer: layer, config: c, params: headParams(layer), programs: map[gdn.Spec]*pjrt.Program{}, clock: clock{start: time.Now()}}
	for slot := range c.slots {
		s.free = append(s.free, slot)
	}
	t := ir.T(layer.StateDType, c.slots, layer.HeadsV, layer.V, layer.K)
	var err error
	if s.pool, err = e.Put(array.New(t.DType, t.Shape...)); err != nil {
		return nil, err
	}
	s.clear, err = clearProgram(e, t)
	return s, err
}

// clearProgram makes the program that zeroes the states of a pool whose flag is 0: slots are handed on from one request to another.
func clearProgram(e *pjrt.Engine, pool ir.Type) (*pjrt.Program, error) {
	m, b := ir.NewModule("clear")
	x, keep := b.Param("pool", pool), b.Param("keep", ir.T(ir.F32, pool.Shape[0]))
	held := b.Compare(ir.GT, keep, b.Like(keep, 0))
	cleared := b.Select(b.Broadcast(held, pool.Shape, 0), x, b.Like(x, 0))
	if err := b.Finish(m, []string{"cleared"}, []*ir.Value{cleared}); err != nil {
		return nil, err
	}
	route, err := lower.Lookup("stablehlo")
	if err != nil {
		return nil, err
	}
	a, err := route.Emit(m, nil)
	if err != nil {
		return nil, err
	}
	return e.Compile(a.Text)
}

func (s *server) busy() bool { return len(s.waiting)+len(s.prefilling)+len(s.decoding) > 0 }

// stepResult is what a step did: tokens, and the time of the two calls.
type stepResult struct {
	promptTokens, decoded int
	prefill, decode       time.Duration
}

// step admits requests, takes their prompts a part further in one packed prefill, and every sequence whose prompt is done one token
// further in one batched decode.
func (s *server) step() (r stepResult, err error) {
	if err := s.admit(); err != nil {
		return r, err
	}
	decoding := slices.Clone(s.decoding) // those whose prompt ends in this step decode from the next on
	for _, q := range slices.Concat(s.waiting, s.prefilling) {
		q.marks = append(q.marks, markWaits)
	}
	for _, q := range decoding {
		q.marks = append(q.marks, markDecode)
	}
	begin := s.clock.now()
	if len(s.prefilling) > 0 {
		if r.promptTokens, err = s.prefill(); err != nil {
			return r, fmt.Errorf("prefill: %w", err)
		}
	}
	between := s.clock.now()
	if len(decoding) > 0 {
		if err := s.decode(decoding); err != nil {
			return r, fmt.Errorf("decode: %w", err)
		}
		r.decoded = len(decoding)
	}
	r.prefill, r.decode = between-begin, s.clock.now()-between
	return r, nil
}

// admit gives free slots to waiting requests, and zeroes them.
func (s *server) admit() error {
	keep := slices.Repeat([]float32{1}, s.config.slots)
	admitted := false
	for len(s.waiting) > 0 && len(s.free) > 0 {
		q := s.waiting[0]
		q.slot = s.free[0]
		s.waiting, s.free = s.waiting[1:], s.free[1:]
		s.prefilling = append(s.prefilling, q)
		keep[q.slot], admitted = 0, true
	}
	if !admitted {
		return nil
	}
	flags, err := s.engine.Put(array.FromFloat32s(ir.F32, []int{s.config.slots}, keep))
	if err != nil {
		return err
	}
	defer flags.Close()
	out, err := s.clear.Call(s.pool, flags)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	s.pool = out[0]
	return nil
}

// roundUp is the power of two that holds n.
func roundUp(n int) int {
	top := 1
	for top < n {
		top *= 2
	}
	return top
}

// prefill takes prompts further by as many tokens as the budget of a step has, in one packed call.
func (s *server) prefill() (tokens int, err error) {
	spec := s.layer
	spec.Packed, spec.Seqs = true, maxPrompts+1
	indices, bounds := slices.Repeat([]int64{-1}, spec.Seqs), make([]int64, spec.Seqs+1)
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
		indices[len(batch)] = int64(q.slot)
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
		p.done += p.n
		p.marks[len(p.marks)-1] = markPrefill
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

// decode takes sequences one token further, and frees the slots of those that end.
func (s *server) decode(batch []*request) error {
	spec := s.layer
	spec.Batch = roundUp(len(batch))
	indices := slices.Repeat([]int64{-1}, spec.Batch)
	for i, q := range batch {
		indices[i] = int64(q.slot)
	}
	inputs := map[string]*array.Array{"state_indices": array.FromInt64s(ir.I32, []int{spec.Batch}, indices)}
	sizes := perToken(spec)
	for name, size := range sizes {
		var x []float32
		for _, q := range batch {
			x = append(x, q.inputs[name][q.done*size:][:size]...)
		}
		inputs[name] = padded(spec, name, x)
	}
	o, err := s.call(spec, inputs)
	if err != nil {
		return err
	}
	for i, q := range batch {
		copy(q.output[q.done*sizes["v"]:], o[i*sizes["v"]:][:sizes["v"]])
		q.done++
	}
	s.decoding = slices.DeleteFunc(s.decoding, func(q *request) bool {
		if q.done < q.tokens {
			return false
		}
		q.last = s.clock.now()
		s.free = append(s.free, q.slot)
		s.done = append(s.done, q)
		return true
	})
	return nil
}

// padded makes an input of the spec of values for some of its tokens; the others are zero.
func padded(spec gdn.Spec, name string, x []float32) *array.Array {
	for _, p := range spec.Inputs() {
		if p.Name == name {
			return array.FromFloat32s(p.Type.DType, p.Type.Shape, append(x, make([]float32, p.Type.Size()-len(x))...))
		}
	}
	panic("the spec has no input " + name)
}

// call runs the program of a spec on the pool and inputs, and gives the values of the output.
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
	s.pool = results[1] // in the memory of the one before
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

// text is the program of a spec: Triton's kernels inside of StableHLO where the device takes them, else plain operations.
func (s *server) text(spec gdn.Spec) (string, error) {
	if s.config.ptx != nil {
		return s.config.ptx.Text(context.Background(), spec)
	}
	v := s.config.decode
	if spec.Seqs > 0 {
		v = s.config.prefill
	}
	a, err := lower.Program(spec, v, "stablehlo", nil)
	if err != nil {
		return "", err
	}
	return a.Text, nil
}
