package build

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/gdn/schedule"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Base is what variants of a spec have in common that differ in the schedules of their kernels alone: they share what Build makes of it,
// and its tiles. It is comparable.
//
// Of a schedule it knows what a grid must be made for: whole steps take padded chunks, and copies in place of windows take an alias.
//
//	tpu, tpu,head_group=4, tpu,state_delay=10     one base: order alone
//	tpu, tpu,steps=4                              one base where both pad the tokens to as many chunks
//	tpu, tpu,chunks=2                             two bases: what is in flight is another body
type Base struct {
	spec    gdn.Spec
	variant gdn.Variant // fitted, and without a schedule
	chunks  int
	ordered bool // some schedule is to follow
	// One is to follow for the grid that walks down. Only visits ask.
	reversed bool
}

// BaseOf gives the base of a variant, or says why the variant does not suit the spec. A caller that tries schedules builds each base once: lower.Cells does.
func BaseOf(s gdn.Spec, v gdn.Variant) (Base, error) {
	if err := v.Check(s); err != nil {
		return Base{}, err
	}
	return baseOf(s, v.Fit(s)), nil
}

// baseOf is BaseOf of a fitted variant: axes of schedules go back to their defaults, so that equal bases are equal values. main and fetch stay, as they are of
// what a grid is made for: arrays that stay in main memory, and one operand for blocks that are copied.
func baseOf(s gdn.Spec, v gdn.Variant) Base {
	b := Base{spec: s, variant: v, chunks: chunksOf(v.Packing(s.Prompts()), v), ordered: schedule.Ordered(v)}
	if s.Seqs > 0 && v.Mapping.Pack == gdn.PackSegments {
		b.reversed = s.Direction == gdn.Forward || schedule.Reversed(v)
	}
	for _, a := range gdn.Axes {
		if a.Group.Schedules() && a.Name != "main" && a.Name != "fetch" {
			_ = a.Set(&b.variant, a.Default) // a default is legal
		}
	}
	return b
}

// chunksOf is how many chunks the tokens of a spec are padded to: a multiple of those of a grid step, and of a kernel's step forward and
// backward.
func chunksOf(s gdn.Spec, v gdn.Variant) int {
	switch {
	case s.Seqs > 0 && v.Mapping.Pack == gdn.PackAligned:
		return blocksOf(s, v)
	case s.Seqs > 0 && v.Mapping.Pack == gdn.PackSegments:
		return segments.Bound(s.Seqs, blocksOf(s, v), v.Mapping.Chunks)
	case s.Seqs > 0:
		return (s.Tokens/v.Chunk + s.Seqs + v.Mapping.Chunks - 1) / v.Mapping.Chunks * v.Mapping.Chunks
	}
	step := v.Mapping.Chunks * v.Forward.Steps
	if s.Direction != gdn.Forward {
		step = max(step, v.Backward.Steps) // powers of two
	}
	return (s.Tokens + step*v.Chunk - 1) / (step * v.Chunk) * step
}

// blocksOf is how many chunks hold the tokens of a spec as they lie.
func blocksOf(s gdn.Spec, v gdn.Variant) int { return (s.Tokens + v.Chunk - 1) / v.Chunk }

// Program is a module whose grids have no schedules yet. Callers share it, and change nothing of it: Scheduled copies, and lower.Cells keeps what it tiles.
type Program struct {
	Module   *ir.Module
	base     Base
	carriers []schedule.Carrier
}

// Schedules gives the schedules of grids by their names, as a variant of the same base wants them.
func (p *Program) Schedules(v gdn.Variant) (map[string]*ir.Sched, error) {
	v = v.Fit(p.base.spec)
	if b := baseOf(p.base.spec, v); b != p.base {
		return nil, fmt.Errorf("a schedule of %s is none for a program of %s", v, p.base.variant)
	}
	return schedule.Of(p.carriers, v), nil
}

// schedule gives the grids of a module that nobody shares the schedules that the variant wants. A module that is shared is copied first (Scheduled).
func (p *plan) schedule(m *ir.Module, v gdn.Variant) error {
	return schedule.Attach(m, schedule.Of(*p.carriers, v))
}

// Scheduled is a copy of the module with the schedules of a variant of the same base; an error says that the variant is of another one. It is the module that
// Module makes of the variant.
func (p *Program) Scheduled(v gdn.Variant) (*ir.Module, error) {
	scheds, err := p.Schedules(v)
	if err != nil {
		return nil, err
	}
	m, err := passes.Clone(p.Module)
	if err == nil {
		err = schedule.Attach(m, scheds)
	}
	return m, err
}
