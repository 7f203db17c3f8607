// Package tune goes from the sizes of a model to kernels: what its layers ask of the gated delta rule (specs), the best known variant of each
// on each target, what it costs, and files to take away.
package tune

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir"
)

// Sizes are those that no model's configuration has. Zero stands for the usual size of a work.
type Sizes struct {
	Tokens, Batch, Seqs int
	Slots               int    // of the pools of both caches
	Load                string // of a server's steps, separated by commas: tokens of each sequence, as measure.ParseLoad reads them
}

// Work is a thing that a layer of a model does.
type Work struct {
	Name, Doc string

	usual Sizes
	fit   func(*gdn.Spec, Sizes) error // makes the spec of a layer that of the work
}

// Works are all there are.
var Works = []*Work{
	{"prefill", "whole prompts: --batch sequences of --tokens each", Sizes{Tokens: 4096, Batch: 1}, func(s *gdn.Spec, z Sizes) error {
		s.Batch, s.Tokens = z.Batch, z.Tokens
		return nil
	}},
	{"packed", "--seqs prompts of any lengths end to end, --tokens in all, with states in and out", Sizes{Tokens: 8192, Seqs: 16}, func(s *gdn.Spec, z Sizes) error {
		s.Batch, s.Tokens, s.Seqs, s.Init = 1, z.Tokens, z.Seqs, true
		return nil
	}},
	{"decode", "a token for each of --batch sequences, with states in and out", Sizes{Batch: 64}, func(s *gdn.Spec, z Sizes) error {
		s.Batch, s.Tokens, s.Init = z.Batch, 1, true
		return nil
	}},
	{"train", "forward and backward: --batch sequences of --tokens each", Sizes{Tokens: 4096, Batch: 1}, func(s *gdn.Spec, z Sizes) error {
		s.Batch, s.Tokens, s.Final, s.Direction = z.Batch, z.Tokens, false, gdn.Train
		return nil
	}},
	{serve, "a server's step: decodes and prompts side by side, as --load says; convolution, gates and rule, both caches in pools of --slots",
		Sizes{Slots: 513, Load: "8x1+128+128+256"}, serving},
}

// serve is the work whose batches are mixed.
const serve = "serve"

// serving makes the spec of a layer one program for each of the loads: as many tokens and sequences as the largest have, caches in bf16.
func serving(s *gdn.Spec, z Sizes) error {
	s.Tokens, s.Seqs = 0, 0
	for text := range strings.SplitSeq(z.Load, ",") {
		load, err := measure.ParseLoad(text)
		if err != nil {
			return fmt.Errorf("--load %w", err)
		}
		tokens := 0
		for _, n := range load {
			tokens += n
		}
		s.Tokens, s.Seqs = max(s.Tokens, tokens), max(s.Seqs, len(load))
	}
	s.Batch, s.Packed, s.Init, s.Read, s.InPlace, s.Mixed, s.Pool = 1, true, true, true, true, 1, z.Slots
	s.StateDType, s.Rows, s.ConvState = ir.BF16, gdn.RowsQKV, s.Conv > 0
	return nil
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

// with are the work's sizes: those that are given, of those that it has.
func (w *Work) with(given Sizes) Sizes {
	z := w.usual
	for _, f := range []struct{ to, from *int }{{&z.Tokens, &given.Tokens}, {&z.Batch, &given.Batch}, {&z.Seqs, &given.Seqs}, {&z.Slots, &given.Slots}} {
		if *f.from > 0 && *f.to > 0 { // the work has such a size
			*f.to = *f.from
		}
	}
	if z.Load != "" {
		z.Load = cmp.Or(given.Load, z.Load)
	}
	return z
}

// loads are the batches that a row each is costed for: one, the spec's, but where --load has several.
func (w *Work) loads(given Sizes) []string { return strings.Split(w.with(given).Load, ",") }

// Spec is what the work asks of one layer of a model: gates computed from what the projections give in bf16, and q and k normalised, as layers
// of Qwen3-Next want it.
func (w *Work) Spec(c model.Config, given Sizes) (gdn.Spec, error) {
	s := c.Spec().ByHeads()
	s.GateDType, s.Final = ir.BF16, true
	if w.Name == serve && c.Rule.Conv > 1 {
		s.Conv = c.Rule.Conv
	}
	err := w.fit(&s, w.with(given))
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", w.Name, err)
	}
	return s, nil
}
