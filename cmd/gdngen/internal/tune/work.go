// Package tune goes from the sizes of a model to kernels: the specs of its layers, the best known variant of each on
// each target, its cost, and files to take away.
package tune

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir"
)

// Sizes are not part of a model's configuration. Zero means the usual size of a work.
type Sizes struct {
	Tokens, Batch, Seqs int
	Slots               int    // in the pools of both caches
	Loads               []Load // of a server's steps; no default
}

// Load is a batch of sequences that a server runs in one step.
type Load struct {
	Text    string // in the form of measure.ParseLoad
	lengths []int
	tokens  int
}

// ParseLoads parses loads, separated by commas.
func ParseLoads(text string) ([]Load, error) {
	var list []Load
	for part := range strings.SplitSeq(text, ",") {
		lengths, err := measure.ParseLoad(part)
		if err != nil {
			return nil, err
		}
		load := Load{Text: part, lengths: lengths}
		for _, n := range lengths {
			load.tokens += n
		}
		list = append(list, load)
	}
	return list, nil
}

// Work is a use of a model's layer, such as prefill, decode or training.
type Work struct {
	Name, Doc string

	usual Sizes
	fit   func(*gdn.Spec, Sizes) // turns the spec of a layer into the work's
}

// Works lists all works.
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
	{serve, "a server's step: decodes and prompts side by side, as --load says; convolution, gates and rule, both caches in pools of --slots",
		Sizes{Slots: 513}, serving},
}

// serve is the name of the work with mixed batches.
const serve = "serve"

// serving turns the spec of a layer into one program for all loads: tokens and sequences of the largest load, caches in bf16.
func serving(s *gdn.Spec, z Sizes) {
	s.Tokens, s.Seqs = 0, 0
	for _, load := range z.Loads {
		s.Tokens, s.Seqs = max(s.Tokens, load.tokens), max(s.Seqs, len(load.lengths))
	}
	s.Batch, s.Packed, s.Init, s.Read, s.InPlace, s.Mixed, s.Pool = 1, true, true, true, true, 1, z.Slots
	s.StateDType, s.Rows, s.ConvState = ir.BF16, gdn.RowsQKV, s.Conv > 0
}

// WorkNames lists the names of all works.
func WorkNames() []string {
	var names []string
	for _, w := range Works {
		names = append(names, w.Name)
	}
	return names
}

// ParseWorks parses names of works, separated by commas; "all" means every work.
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

// Spec returns the work's spec for one layer of a model: gates from bf16 projections, and normalised q and k, as in
// layers of Qwen3-Next.
func (w *Work) Spec(c model.Config, given Sizes) (gdn.Spec, error) {
	s := c.Spec().ByHeads()
	s.GateDType, s.Final = ir.BF16, true
	if w.Name == serve && c.Rule.Conv > 1 {
		s.Conv = c.Rule.Conv
	}
	z := w.usual
	for _, f := range []struct{ to, from *int }{{&z.Tokens, &given.Tokens}, {&z.Batch, &given.Batch}, {&z.Seqs, &given.Seqs}, {&z.Slots, &given.Slots}} {
		if *f.from > 0 && *f.to > 0 { // the work has this size
			*f.to = *f.from
		}
	}
	z.Loads = given.Loads
	w.fit(&s, z)
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("%s: %w", w.Name, err)
	}
	return s, nil
}
