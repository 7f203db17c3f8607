// Package tune goes from the sizes of a model to kernels: what its layers ask of the gated delta rule (specs), the best known variant of each
// on each target, what it costs, and files to take away.
package tune

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir"
)

// Sizes are those that no model's configuration has. Zero stands for the usual size of a work.
type Sizes struct{ Tokens, Batch, Seqs int }

// Work is a thing that a layer of a model does.
type Work struct {
	Name, Doc string

	usual Sizes
	fit   func(*gdn.Spec, Sizes) // makes the spec of a layer that of the work
}

// Works are all there are.
var Works = []*Work{
	{"prefill", "whole prompts: --batch sequences of --tokens each", Sizes{Tokens: 4096, Batch: 1}, func(s *gdn.Spec, z Sizes) {
		s.Batch, s.Tokens = z.Batch, z.Tokens
	}},
	{"packed", "--seqs prompts of any lengths end to end, --tokens in all, with states in and out", Sizes{Tokens: 8192, Seqs: 16}, func(s *gdn.Spec, z Sizes) {
		s.Batch, s.Tokens, s.Seqs, s.Init = 1, z.Tokens, z.Seqs, true
	}},
	{"decode", "a token for each of --batch sequences, with states in and out", Sizes{Batch: 64}, func(s *gdn.Spec, z Sizes) {
		s.Batch, s.Tokens, s.Init = z.Batch, 1, true
	}},
	{"train", "forward and backward: --batch sequences of --tokens each", Sizes{Tokens: 4096, Batch: 1}, func(s *gdn.Spec, z Sizes) {
		s.Batch, s.Tokens, s.Final, s.Direction = z.Batch, z.Tokens, false, gdn.Train
	}},
}

// WorkNames lists the names of all works.
func WorkNames() []string {
	var names []string
	for _, w := range Works {
		names = append(names, w.Name)
	}
	return names
}

// ParseWorks reads names of works, separated by commas; all stands for every one.
func ParseWorks(text string) ([]*Work, error) {
	if text == "all" {
		return Works, nil
	}
	var list []*Work
next:
	for name := range strings.SplitSeq(text, ",") {
		for _, w := range Works {
			if w.Name == strings.TrimSpace(name) {
				list = append(list, w)
				continue next
			}
		}
		return nil, fmt.Errorf("unknown work %q (known: %s all)", name, strings.Join(WorkNames(), " "))
	}
	return list, nil
}

// Spec is what the work asks of one layer of a model: gates computed from what the projections give in bf16, and q and k normalised, as layers
// of Qwen3-Next want it.
func (w *Work) Spec(c model.Config, given Sizes) (gdn.Spec, error) {
	s := c.Spec().ByHeads()
	s.GateDType, s.Final = ir.BF16, true
	z := w.usual
	for _, f := range []struct{ to, from *int }{{&z.Tokens, &given.Tokens}, {&z.Batch, &given.Batch}, {&z.Seqs, &given.Seqs}} {
		if *f.from > 0 && *f.to > 0 { // the work has such a size
			*f.to = *f.from
		}
	}
	w.fit(&s, z)
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("%s: %w", w.Name, err)
	}
	return s, nil
}
