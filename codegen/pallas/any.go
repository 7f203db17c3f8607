package pallas

import (
	"fmt"

	"github.com/gdngen/gdngen/codegen/pallas/extent"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Fit returns v as a JAX file of s takes it: the kernels of a file are for every size.
func Fit(s gdn.Spec, v gdn.Variant) gdn.Variant {
	v, _ = fitted(s, v)
	return v
}

// fitted returns the variant fitted to every size, and its extent. Mapping.PersistentRows is dropped: kernels that can take back-to-back rows do
// so by themselves (plan.InLine).
func fitted(s gdn.Spec, v gdn.Variant) (gdn.Variant, extent.Extent) {
	v.Mapping.PersistentRows = false
	fit := v.Fit(s)
	if decodes(s, v) {
		return fit, extent.Extent{}
	}
	e := extent.Of(s, fit)
	probe := e.Spec(s, e.Probes(s)[0])
	if fit.Check(probe) == nil { // not if a chunk has as many tokens as the probe
		v = fit
	}
	fit = v.Fit(probe)
	if fit.Check(probe) == nil {
		v = fit
	}
	return v, extent.Of(s, fit)
}

// Build makes the modules of a spec by a variant, in the order in which they run: forward and backward for a training step, else one. It
// is called at several sizes other than the caller's, since a file is for any size.
type Build func(gdn.Spec, gdn.Variant) ([]*ir.Module, error)

// programs returns the tiled modules of a file, and how many results the forward pass saves for the gradient.
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
	var f *file
	var texts [][]string
	probes := e.Probes(s)
	for _, z := range probes {
		at := e.Spec(s, z)
		progs, kept, err := b.programs(at, v)
		if err != nil {
			return nil, err
		}
		progs[0].segments, progs[0].scale, progs[0].rows, progs[0].of = e.Visiting(at, v), at.EffectiveScale(), true, factsOf(s, v)
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
			f.extent.MinSteps = max(f.extent.MinSteps, overlap(p.Module))
			if f.extent.MinSteps >= sizes.LongestRing {
				return nil, fmt.Errorf("pallas: no file for every size: phases are %d steps apart, and sizes tell places in rings of at most %d", f.extent.MinSteps, sizes.LongestRing)
			}
		}
	}
	funcs, err := sizes.Unify(texts, probes)
	if err != nil {
		return nil, fmt.Errorf("pallas: no file for every size: %w", err)
	}
	f.funcs = funcs
	if s.Seqs == 0 && !f.data.Kernels {
		if f.funcs, f.data.Ragged = sizes.Ragged(funcs, f.data.Run); f.data.Ragged {
			f.helpers["ragged"] = true
		}
	}
	return f, nil
}

// factsOf returns the facts of a file's kernels.
func factsOf(s gdn.Spec, v gdn.Variant) Facts {
	f := Facts{Rule: s.Rule.String(), Keys: s.HeadsK, Values: s.HeadsV}
	if v.Algo != gdn.AlgoToken {
		f.Chunk = v.Chunk
	}
	return f
}

// overlap returns by how many steps the phases of the kernels overlap: the largest lag in steps, at least 1.
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
