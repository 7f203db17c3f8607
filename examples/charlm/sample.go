package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer"
)

// sampler draws text symbol by symbol: the prompt in one call, then one symbol a call, from the caches of the call before.
type sampler struct {
	t    *text
	exec *model.Exec
}

func newSampler(b compute.Backend, store *model.Store, z size, t *text) (*sampler, error) {
	exec, err := model.NewExec(b, store, func(scope *model.Scope, in []*Node) []*Node {
		var caches []*layer.Cache
		for i := 1; i < len(in); i += 2 {
			caches = append(caches, &layer.Cache{Conv: in[i], State: in[i+1]})
		}
		logits, next := z.model(scope, in[0], caches, true)
		out := []*Node{Reshape(SliceAxis(logits, 1, AxisElem(-1)), -1)}
		for _, k := range next {
			out = append(out, k.Conv, k.State)
		}
		return out
	})
	return &sampler{t, exec}, err
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
	var caches []any
	for range n {
		args := append([]any{tensors.FromFlatDataAndDimensions(symbols, 1, len(symbols), 1)}, caches...)
		out, err := s.exec.Call(args...)
		if err != nil {
			return "", err
		}
		next := pick(tensors.MustCopyFlatData[float32](out[0]), temperature, r)
		b.WriteByte(s.t.alphabet[next])
		symbols, caches = []int32{int32(next)}, caches[:0]
		for _, c := range out[1:] {
			caches = append(caches, c)
		}
	}
	return b.String(), nil
}

// pick draws an index with probabilities proportional to exp(logit / temperature).
func pick(logits []float32, temperature float64, r *rand.Rand) int {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	if temperature <= 0 {
		return best
	}
	p, sum := make([]float64, len(logits)), 0.
	for i, l := range logits {
		p[i] = math.Exp(float64(l-logits[best]) / temperature)
		sum += p[i]
	}
	u := r.Float64() * sum
	for i, x := range p {
		if u -= x; u < 0 {
			return i
		}
	}
	return best
}
