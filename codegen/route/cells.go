package route

import (
	"sync"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
)

// Cells makes forms. Those of variants that differ in their schedules alone share what is built and tiled, so that of the second only its
// steps are ordered anew. Several may ask at once; of the bases the last few are kept.
//
// tpu and tpu,state_delay=3 have one base: 128 ms for the first form of bench, 36 for the second. tpu,fetch=copies has another: its
// grid is made for copies in place of windows. A search does not use it: 90 ms are .9 % of what a candidate takes, which is
// mostly the compiler's.
type Cells struct {
	mu   sync.Mutex
	kept []*cell // the last asked for comes last
}

// keptCells is how many bases are kept. A tiled module of the largest spec has some 10,000 instructions.
const keptCells = 4

// cell is a base, what was built of it, and its tiles.
//
//	base -> built: grids on tensors, without schedules --> Scheduled(v)                      Form.Build
//	        tiled: kernels on tiles, likewise          --> PipelineBy(tiled, Schedules(v))   Form.Kernels
//
// What is left of an arrow stands for all variants of the base; passes return new modules, so forms may share it at the same time.
type cell struct {
	base  build.Base
	built func() (*build.Program, error)
	tiled func() (*ir.Module, error)
}

// Each half is made once, by whoever asks first; others of the same base wait for it. An error is kept as well: a base that can not be
// tiled is not tried again by the next schedule.
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

// Form gives the form of a spec by a variant. It builds nothing yet.
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
	// Not pass.Kernels of Build's module: that would tile it anew for each schedule. Kernels are the same either way, which a test holds.
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

// of finds the cell of a variant, or makes it.
// Of kept cells 1 2 3 4, a variant of 2 leaves 1 3 4 2, and then a new base leaves 3 4 2 5. A form keeps the modules that it was asked
// for; the other one of a cell that has gone is built anew. The lock is held while cells are listed, and not while one is built.
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
