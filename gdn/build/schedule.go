package build

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/gdn/schedule"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Base identifies variants of a spec that differ in kernel schedules only: they share the program that Build makes, and
// its tiling. It is comparable.
//
// It includes the properties of schedules that affect the program: whole steps need padded chunks, and copies instead of windows need an alias.
//
//	tpu, tpu,head_group=4, tpu,state_delay=10     one base: only the order differs
//	tpu, tpu,steps=4                              one base if both pad the tokens to the same number of chunks
//	tpu, tpu,chunks=2                             two bases: other chunks in flight are another body
type Base struct {
	spec    gdn.Spec
	variant gdn.Variant // fitted, and without a schedule
	chunks  int
	ordered bool // a schedule will follow
	// A schedule for the grid from last to first will follow; only visits need to know.
	reversed bool
}

// BaseOf returns the base of a variant, or an error if the variant cannot be built for s. Callers that try schedules build each base once, as
// route.Cells does.
func BaseOf(s gdn.Spec, v gdn.Variant) (Base, error) {
	if err := v.Check(s); err != nil {
		return Base{}, err
	}
	return baseOf(s, v.Fit(s)), nil
}

// baseOf is BaseOf of a fitted variant. It resets schedule axes to their defaults, so that equal bases are equal values. main and fetch stay, since they
// affect the grid: arrays that stay in HBM, and one operand for copied blocks.
func baseOf(s gdn.Spec, v gdn.Variant) Base {
	b := Base{spec: s, variant: v, chunks: chunksOf(v.Packing(s.Prompts()), v), ordered: schedule.Ordered(v)}
	if s.Seqs > 0 && v.Mapping.Pack == gdn.PackSegments {
		b.reversed = s.Direction == gdn.Forward || schedule.Reversed(v)
	}
	for _, a := range gdn.Axes {
		if a.Group.Schedules() && a.Name != "hbm" && a.Name != "prefetch" {
			_ = a.Set(&b.variant, a.Default) // a default is legal
		}
	}
	return b
}

// chunksOf returns the number of chunks after padding: a multiple of the chunks of a grid step, and of a kernel's step forward and
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
		step = max(step, v.Backward.Steps) // both are powers of two
	}
	return (s.Tokens + step*v.Chunk - 1) / (step * v.Chunk) * step
}

// blocksOf returns the number of chunks that hold the tokens of a spec, without padding to steps.
func blocksOf(s gdn.Spec, v gdn.Variant) int { return (s.Tokens + v.Chunk - 1) / v.Chunk }

// Program is a module whose grids have no schedules yet. Callers share it and must not change it: Scheduled copies it, and route.Cells keeps its tiling.
type Program struct {
	Module   *ir.Module
	base     Base
	carriers []schedule.Carrier
}

// Schedules returns the schedules of a variant of the same base, by grid name. A variant of another base is an error.
func (p *Program) Schedules(v gdn.Variant) (map[string]*ir.Sched, error) {
	v = v.Fit(p.base.spec)
	if b := baseOf(p.base.spec, v); b != p.base {
		return nil, fmt.Errorf("a schedule of %s is none for a program of %s", v, p.base.variant)
	}
	return schedule.Of(p.carriers, v), nil
}

// schedule sets a variant's schedules in the grids of a module that is not shared; for shared modules see Scheduled.
func (p *plan) schedule(m *ir.Module, v gdn.Variant) error {
	return schedule.Attach(m, schedule.Of(*p.carriers, v))
}

// Scheduled returns a copy of the module with the schedules of a variant of the same base: the module that Module returns for the variant. A variant of
// another base is an error.
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
