package route

import (
	"sync"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
)

// Cells makes forms. Variants that differ only in their schedules share the built and the tiled module; only the pipeline pass runs
// again. Cells may be used concurrently, and keeps the last keptCells bases.
//
// Example: tpu and tpu,state_delay=3 share one base: 128 ms for the first form of bench, 36 ms for the second. tpu,prefetch=dma has
// another base, since its grid is built for copies instead of windows. Tiling anew takes 90 ms, 0.9 % of a candidate's time; the
// compiler takes most of it.
type Cells struct {
	mu   sync.Mutex
	kept []*cell // the last used is last
}

// keptCells is the number of bases kept. A tiled module of the largest spec has about 10,000 instructions.
const keptCells = 4

// cell is a base, the program built from it, and its tiled module.
//
//	base -> built: grids on tensors, without schedules --> Scheduled(v)                      Form.Build
//	        tiled: kernels on tiles, likewise          --> PipelineBy(tiled, Schedules(v))   Form.Kernels
//
// The left side of an arrow is shared by all variants of the base. Passes return new modules, so forms may read it concurrently.
type cell struct {
	base  build.Base
	built func() (*build.Program, error)
	tiled func() (*ir.Module, error)
}

// newCell returns a cell that builds and tiles its base once, on first use; concurrent callers wait. Errors are kept too, so a base that
// can not be tiled is not tried again.
func newCell(base build.Base) *cell {
	c := &cell{base: base, built: sync.OnceValues(base.Build)}
	c.tiled = sync.OnceValues(func() (*ir.Module, error) {
		p, err := c.built()
		if err != nil {
			return nil, err
		}
		return pass.Apply(p.Module, pass.Tiles...)
	})
	return c
}

// Form returns the form of a spec by a variant. Nothing is built before Build or Kernels is called.
func (c *Cells) Form(s gdn.Spec, v gdn.Variant) *Form {
	f := &Form{Spec: s, Variant: v}
	f.built = sync.OnceValues(func() (*ir.Module, error) {
		of, err := c.of(s, v)
		if err != nil {
			return nil, err
		}
		p, err := of.built()
		if err != nil {
			return nil, err
		}
		return p.Scheduled(v)
	})
	// Not pass.Kernels on Build's module: that would tile it again for each schedule. A test checks that both give the same kernels.
	f.kernels = sync.OnceValues(func() (*ir.Module, error) {
		of, err := c.of(s, v)
		if err != nil {
			return nil, err
		}
		tiles, err := of.tiled()
		if err != nil {
			return nil, err
		}
		p, err := of.built()
		if err != nil {
			return nil, err
		}
		scheds, err := p.Schedules(v)
		if err != nil {
			return nil, err
		}
		return tpu.PipelineBy(tiles, scheds)
	})
	return f
}

// of returns the cell of a variant's base, and makes it if it is not kept.
//
// Example: with cells 1 2 3 4 kept, a variant of 2 gives 1 3 4 2; a new base then gives 3 4 2 5. A form keeps the modules it has
// returned; if its cell is gone, the other module is built anew. The lock covers the list, not the building.
func (c *Cells) of(s gdn.Spec, v gdn.Variant) (*cell, error) {
	base, err := build.BaseOf(s, v)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found := newCell(base)
	for i, x := range c.kept {
		if x.base == base {
			found, c.kept = x, append(c.kept[:i:i], c.kept[i+1:]...)
			break
		}
	}
	c.kept = append(c.kept, found)
	c.kept = c.kept[max(0, len(c.kept)-keptCells):]
	return found, nil
}
