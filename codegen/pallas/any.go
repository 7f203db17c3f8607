package pallas

import (
	"fmt"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// extent says how a file counts batch rows and tokens: by groups of rows that a program takes in lockstep, and by steps.
type extent struct {
	Rows     int // rows of a group; of packed sequences 1
	Unit     int // tokens of a step, or with Visits of a visit
	Visits   int // visits of a step, where blocks of packed sequences are taken as they lie: there is one a block and one a sequence; 0 otherwise
	MinSteps int // phases of successive steps overlap, so that there must be as many
}

// extentOf gives that of a fitted variant.
func extentOf(s gdn.Spec, v gdn.Variant) extent {
	e := extent{Rows: max(1, v.Mapping.Batch), Unit: v.Chunk * v.Mapping.Chunks * v.Forward.Steps, MinSteps: 1}
	switch {
	case s.Seqs > 0 && (v.Mapping.Pack == gdn.PackAligned || v.Mapping.Pack == gdn.PackVisits && v.Mapping.Chunks > 1):
		e.Unit, e.Visits = v.Chunk, v.Mapping.Chunks
	case s.Seqs > 0:
		e.Unit = v.Chunk
	case s.Direction != gdn.Forward:
		e.Unit = v.Chunk * max(v.Mapping.Chunks*v.Forward.Steps, v.Backward.Steps)
	}
	if s.Seqs > 0 {
		e.Rows = 1
	}
	return e
}

// visitsOf is how a variant that is fitted visits blocks; nil where it does not.
func (e extent) visitsOf(s gdn.Spec, v gdn.Variant) *loops.Visits {
	if e.Visits == 0 || v.Fit(s).Mapping.Pack != gdn.PackAligned {
		return nil
	}
	return &loops.Visits{Blocks: s.Tokens / e.Unit, Chunk: e.Unit, Places: e.Visits, Drop: s.Empty == gdn.EmptyZero}
}

// spec is s of another size.
func (e extent) spec(s gdn.Spec, z sizes.Size) gdn.Spec {
	tokens := e.Unit * z.Steps
	if e.Visits > 0 {
		tokens = e.Unit * (e.Visits*z.Steps - z.Rows)
	}
	s.Tokens = tokens
	if s.Seqs > 0 {
		s.Seqs = z.Rows
	} else {
		s.Batch = e.Rows * z.Rows
	}
	return s
}

// tokens says how many tokens the kernels take.
func (e extent) tokens() string {
	return fmt.Sprintf("tokens by %d", e.Unit)
}

// Fit is a variant as a file of a spec takes it, whose kernels are for every size.
func Fit(s gdn.Spec, v gdn.Variant) gdn.Variant {
	v, _ = fitted(s, v)
	return v
}

// fitted is a variant as it suits every size: what holds for one batch row alone is left out.
func fitted(s gdn.Spec, v gdn.Variant) (gdn.Variant, extent) {
	fit := v.Fit(s)
	if decodes(s, v) {
		return fit, extent{}
	}
	e := extentOf(s, fit)
	probe := e.spec(s, sizes.Probes[0])
	if fit.Check(probe) == nil { // not where a chunk is as short as the tokens
		v = fit
	}
	fit = v.Fit(probe)
	if fit.Check(probe) == nil {
		v = fit
	}
	return v, extentOf(s, fit)
}

// Build makes the modules of a spec by a variant, in the order in which they run: of a training step the forward and the backward pass,
// else one. A file is for any size, so it is written from several: the spec comes at sizes that the caller has not named.
type Build func(gdn.Spec, gdn.Variant) ([]*ir.Module, error)

// programs gives what a file computes, on tiles, and says how many results the forward pass keeps for the gradient.
func (b Build) programs(s gdn.Spec, v gdn.Variant) (out []program, kept int, err error) {
	modules, err := b(s, v)
	if err != nil {
		return nil, 0, err
	}
	names := []string{"_forward"}
	if s.Direction == gdn.Train {
		names = []string{"_run_forward", "_run_backward"}
		s.Direction = gdn.Forward
		kept = len(modules[0].Results) - len(s.Outputs())
	}
	for i, m := range modules {
		out = append(out, program{name: names[i], Module: m})
	}
	for i, p := range out {
		if out[i].Module, err = Tiles(p.Module); err != nil {
			return nil, 0, err
		}
	}
	return out, kept, nil
}

// anySize writes the programs of a spec for every size.
func anySize(s gdn.Spec, v gdn.Variant, b Build) (*file, error) {
	v, e := fitted(s, v)
	if decodes(s, v) {
		return decodeFile(s, v), nil
	}
	if v.Mapping.Chain {
		return nil, fmt.Errorf("pallas: rows of a file are programs of their own, since their last block of tokens may end behind an array: leave out row_chain=yes")
	}
	var f *file
	texts, names := [][]string{}, []string{}
	for _, z := range sizes.Probes {
		at := e.spec(s, z)
		progs, kept, err := b.programs(at, v)
		if err != nil {
			return nil, err
		}
		progs[0].visits, progs[0].scale = e.visitsOf(at, v), at.EffectiveScale()
		c, err := write(progs...)
		if err != nil {
			return nil, err
		}
		texts = append(texts, c.funcs)
		if f != nil {
			continue
		}
		f = &file{code: c, variant: v, extent: e}
		f.data.Run, f.data.Kernels, f.data.Kept = progs[0].name, len(progs) > 1, kept > 0
		for _, p := range progs {
			names = append(names, p.name)
			f.extent.MinSteps = max(f.extent.MinSteps, overlap(p.Module))
			if f.extent.MinSteps >= sizes.LongestRing {
				return nil, fmt.Errorf("pallas: no file for every size: phases are %d steps apart, and sizes tell places in rings of at most %d", f.extent.MinSteps, sizes.LongestRing)
			}
		}
	}
	funcs, err := sizes.Unify(texts, sizes.Probes, names...)
	if err != nil {
		return nil, fmt.Errorf("pallas: no file for every size: %w", err)
	}
	f.funcs = funcs
	if s.Seqs == 0 && !f.data.Kernels {
		if f.funcs, f.data.Ragged = sizes.Ragged(funcs, f.data.Run); f.data.Ragged {
			f.helpers["ragged"] = true
		}
	}
	f.funcs, f.helpers["Sizes"] = sizes.Together(f.funcs), true
	return f, nil
}

// overlap is how many steps the first and the last phase of a kernel are apart.
func overlap(m *ir.Module) int {
	n := 1
	for _, in := range m.Body.Instrs {
		if g := in.Attrs.Grid; in.Op == ir.OpKernel && g.Sched != nil {
			for _, lag := range g.Sched.Lags {
				n = max(n, (lag+g.Sched.Steps-1)/g.Sched.Steps)
			}
		}
	}
	return n
}
