package main

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"

	"github.com/gdngen/gdngen/examples/lab"
	"github.com/gdngen/gdngen/gdn/lm"
)

// prompted is a request to a whole model, whose tokens are drawn at random.
type prompted struct {
	prompt, text []int32
	want         int // tokens of the answer
	shared       int // of these, the shared prefix
	taken        int // tokens of the prompt processed
	session      *lm.Session
	logits       []float32
}

// modelServer serves a whole model: prompts in pieces within the budget of a step, then one token per step for each
// sequence. Requests that begin with the same tokens start from a fork of one session.
type modelServer struct {
	c       *config
	m       *lm.Model
	prefix  *lm.Session
	common  []int32
	waiting []*prompted
	active  []*prompted
	done    []*prompted
}

// serveModel serves the model of the folder c.model, and compares each answer with the model's logits for the whole request.
func (c *config) serveModel(out io.Writer) error {
	b, err := lab.OpenBackend(context.Background(), c.backend, os.Stderr)
	if err != nil {
		return err
	}
	defer b.Finalize()
	m, err := lm.Open(b, c.model, dtypes.Float32)
	if err != nil {
		return err
	}
	defer m.Finalize()
	s := &modelServer{c: c, m: m}
	r := rand.New(rand.NewPCG(c.seed, 0))
	draw := func(n int) (tokens []int32) {
		for range n {
			tokens = append(tokens, int32(r.IntN(m.Vocabulary)))
		}
		return tokens
	}
	if s.common = draw(c.prefix); c.prefix > 0 {
		s.prefix = m.Session()
		if _, err := take(s.prefix, s.common); err != nil {
			return err
		}
	}
	for i := range c.requests {
		q := &prompted{prompt: draw(1 + r.IntN(c.longest)), want: 1 + r.IntN(24)}
		if i%2 == 1 {
			q.prompt, q.shared = append(append([]int32{}, s.common...), q.prompt...), c.prefix
		}
		s.waiting = append(s.waiting, q)
	}
	begin, steps := time.Now(), 0
	for ; len(s.waiting)+len(s.active) > 0; steps++ {
		if err := s.step(); err != nil {
			return fmt.Errorf("step %d: %w", steps+1, err)
		}
	}
	took, prompts, answers := time.Since(begin), 0, 0
	for _, q := range s.done {
		prompts, answers = prompts+len(q.prompt), answers+len(q.text)
	}
	fmt.Fprintf(out, "%d requests in %d steps, %.1f s with compiling: %d tokens of prompts, %d of answers\n", len(s.done), steps, took.Seconds(), prompts, answers)
	for i, q := range s.done {
		if err := s.check(q); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	fmt.Fprintln(out, "every answer is the model's to the whole of its request at once")
	return nil
}

// step admits requests, processes pieces of prompts, and adds a token to each sequence whose prompt is done.
func (s *modelServer) step() error {
	for len(s.waiting) > 0 && len(s.active) < s.c.slots {
		q := s.waiting[0]
		if q.session = s.m.Session(); q.shared > 0 {
			q.session, q.taken = s.prefix.Fork(), q.shared
		}
		s.waiting, s.active = s.waiting[1:], append(s.active, q)
	}
	budget := s.c.budget
	var left []*prompted
	for _, q := range s.active {
		if q.taken == len(q.prompt) {
			next := lm.Draw(q.logits, 0, nil)
			if q.text = append(q.text, next); len(q.text) == q.want {
				q.session = nil
				s.done = append(s.done, q)
				continue
			}
			logits, err := q.session.Take([][]int32{{next}})
			if err != nil {
				return err
			}
			q.logits = logits
		} else if n := min(budget, len(q.prompt)-q.taken); n > 0 {
			logits, err := take(q.session, q.prompt[q.taken:q.taken+n])
			if err != nil {
				return err
			}
			q.logits, q.taken, budget = logits, q.taken+n, budget-n
		}
		left = append(left, q)
	}
	s.active = left
	return nil
}

// take processes tokens in pieces of powers of two, so that a handful of programs serves all lengths.
func take(s *lm.Session, tokens []int32) (logits []float32, err error) {
	for err == nil && len(tokens) > 0 {
		n := 1 << (bits.Len(uint(len(tokens))) - 1)
		logits, err = s.Take([][]int32{tokens[:n]})
		tokens = tokens[n:]
	}
	return logits, err
}

// check runs the model on the whole request at once: each token of the answer must have the largest logit, up to rounding.
func (s *modelServer) check(q *prompted) error {
	all := append(append([]int32{}, q.prompt...), q.text...)
	logits, err := s.m.Session().Step([][]int32{all})
	if err != nil {
		return err
	}
	v := s.m.Vocabulary
	for i, token := range q.text {
		at := (len(q.prompt) + i - 1) * v
		row := logits[at : at+v]
		best, least := slices.Max(row), slices.Min(row)
		if said := row[token]; !(best-said <= 1e-4*(best-least)) {
			return fmt.Errorf("token %d of the answer has logit %g, the largest is %g", i, said, best)
		}
	}
	return nil
}
