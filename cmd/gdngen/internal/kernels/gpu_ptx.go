package kernels

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// ptxProgram is a spec as StableHLO for a GPU: with kernels inside, or plain if the plugin takes none.
type ptxProgram struct {
	variant string
	backend string // ptxBackend, or plainBackend
	text    string
}

// ptxOf compiles the Triton kernels of a spec for a GPU and puts their PTX into StableHLO; ptxas assembles it as a
// check. If the CUDA plugin refuses such calls the program has plain ops, with a warning.
func (a CLI) ptxOf(s gdn.Spec, variant string, x *measure.Instrument, g *target.GPU) (*ptxProgram, error) {
	t, err := a.tritonOf(s, variant)
	if err != nil {
		return nil, err
	}
	p := &ptxProgram{variant: t.variant.Text(s), backend: route.PTX}
	if refused := x.TakesPTX(a.Ctx, g); refused != nil {
		if a.Ctx.Err() != nil || !app.IsA[*measure.Refusal](refused) && !errors.Is(refused, ptx.ErrNotTaken) {
			return nil, refused
		}
		a.Warn("%s takes no PTX inside of StableHLO, and this is a program of plain operations: %v", x.Libtpu, refused)
		return plainProgram(s)
	}
	k, err := a.toolkit()
	if err != nil {
		return nil, err
	}
	launches, err := k.Compile(a.Ctx, t.source, s, g)
	if err != nil {
		return nil, err
	}
	if p.text, err = ptx.Module(s, launches, g); err != nil {
		return nil, app.Failed(app.ExitRejected, "%w", err)
	}
	return p, ptx.AssembleAll(a.Ctx, x.PTXAS, p.text, g)
}

// plainProgram returns a spec by the best known variant in plain ops.
func plainProgram(s gdn.Spec) (*ptxProgram, error) {
	r, err := route.Lookup(plainBackend)
	if err != nil {
		return nil, err
	}
	f, err := app.Resolve(s, gdn.Auto, nil)
	if err != nil {
		return nil, err
	}
	program, err := measure.Of(f, r)
	if err != nil {
		return nil, err
	}
	p := &ptxProgram{variant: f.Variant.String(), backend: plainBackend}
	p.text, err = program.Text(nil)
	return p, err
}

// ptxText writes StableHLO with PTX inside.
func (a CLI) ptxText(s gdn.Spec, g *genFlags) error {
	gpus, err := gpuTargets(cmp.Or(g.target, "h100"))
	if err == nil && len(gpus) != 1 {
		err = app.Usage(fmt.Errorf("PTX is for one GPU: give one target, not %d", len(gpus)))
	}
	if err != nil {
		return err
	}
	x, err := a.cudaInstrument(false)
	if err != nil {
		return err
	}
	p, err := a.ptxOf(s, g.variant, x, gpus[0])
	if err != nil {
		return err
	}
	return a.emitText(generated{Spec: s.String(), Variant: p.variant, Backend: p.backend, Target: gpus[0].Name}, g.file, p.text)
}
