package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/lm"
)

// sampler draws text symbol by symbol: the prompt in one call, then one symbol a call.
type sampler struct {
	t *text
	m *lm.Model
}

func newSampler(b compute.Backend, store *model.Store, c lm.Config, t *text) (*sampler, error) {
	m, err := lm.New(b, store.RootScope(), c)
	return &sampler{t, m}, err
}

// sample continues a prompt by n symbols at a temperature; 0 takes the likeliest.
func (s *sampler) sample(prompt string, n int, temperature float64, r *rand.Rand) (string, error) {
	symbols, err := s.t.encode(prompt)
	if err != nil {
		return "", err
	}
	if len(symbols) == 0 {
		return "", fmt.Errorf("the prompt is empty: give it at least one character")
	}
	var b strings.Builder
	session := s.m.Session()
	for range n {
		logits, err := session.Take([][]int32{symbols})
		if err != nil {
			return "", err
		}
		next := lm.Draw(logits, temperature, r)
		b.WriteByte(s.t.alphabet[next])
		symbols = []int32{next}
	}
	return b.String(), nil
}
