// Package route turns a spec and a variant into a program: build.Module, then the backend's passes, then its Emit.
//
// Rules:
//
//  1. A route is a row of a table: a backend, and the transform from a verified module to the form it emits.
//  2. A module is lowered whole: an emitted program takes the inputs of the spec, in order, and returns its outputs.
//
// The passes of the backends that take modules, from a module whose grids are on tensors:
//
//	stablehlo   fold cse dce                           -> Emit batches the grids: axes become batch dimensions and loops
//	pallas      precision fold cse dce tile cse dce    -> Emit writes kernels on tiles, and orders them by their schedules
//	mosaic      the same, then pipeline                -> Emit writes kernels in the order they have
//
// Only the last step reads schedules, so variants that differ only in schedules share one tiling (Cells).
package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Names of the backends that write a program by templates from a spec, not from a module.
const (
	Triton = "triton"
	PTX    = "ptx"
)

// Route is a backend, with the passes that lead to it.
type Route struct {
	codegen.Backend
	GPU       bool // written from a spec, for a target.GPU; it takes no modules
	Doc       string
	TPU       bool                                 // emits for a target.Target; others ignore it
	Kernels   bool                                 // its programs are TPU kernels
	Transform func(*ir.Module) (*ir.Module, error) // lowers a verified module to the form that the backend emits
}

// Routes lists all backends.
var Routes = []Route{
	{Backend: stablehlo.Backend{}, Transform: tidy,
		Doc: "a whole program for a CPU or GPU: parallel grid axes are batch dimensions, the sequential one a loop"},
	{Backend: mosaic.Backend{}, Transform: Kernels, TPU: true, Kernels: true,
		Doc: "a program for a TPU: StableHLO around one tpu_custom_call a kernel, its body in textual stable_mosaic"},
	{Backend: pallas.Backend{}, Transform: pallas.Tiles, Kernels: true,
		Doc: "Python for JAX: the kernels as pl.pallas_call, on a TPU or interpreted anywhere"},
	{Backend: template(Triton), Transform: template(Triton).refuse, GPU: true,
		Doc: "Python with kernels of Triton for a GPU, written from a spec (codegen/triton)"},
	{Backend: template(PTX), Transform: template(PTX).refuse, GPU: true,
		Doc: "StableHLO with those kernels inside as PTX, which a CUDA plugin runs (codegen/ptx)"},
}

// template is a GPU backend: it writes programs from a spec, so it refuses every module.
type template string

func (t template) Name() string { return string(t) }
func (t template) Supports(ir.Op) error {
	return fmt.Errorf("%s: it is written from a spec, not from ops", string(t))
}

func (t template) refuse(*ir.Module) (*ir.Module, error) { return nil, t.Supports(ir.BadOp) }

// Emit refuses every module.
func (t template) Emit(*ir.Module, *target.Target) (*codegen.Artifact, error) {
	return nil, t.Supports(ir.BadOp)
}

// Lookup returns the route of a backend's name; the error of an unknown name lists the known ones.
func Lookup(name string) (Route, error) {
	var names []string
	for _, r := range Routes {
		if r.Name() == name {
			return r, nil
		}
		names = append(names, r.Name())
	}
	return Route{}, fmt.Errorf("unknown backend %q (known: %s)", name, strings.Join(names, " "))
}

// tidy runs the passes of pass.Tidy.
func tidy(m *ir.Module) (*ir.Module, error) { return pass.Apply(m, pass.Tidy...) }

// Kernels lowers a module to TPU kernels (pass.Kernels): grids become kernels on tiles of rank 2, products become single-pass, and steps
// overlap as their schedules say.
func Kernels(m *ir.Module) (*ir.Module, error) { return pass.Apply(m, pass.Kernels...) }

// Steps returns the names of the passes that lead to TPU kernels, in order. The second run of a pass ends in 2: cse2.
//
//	precision fold cse dce tile cse2 dce2 pipeline
func Steps() []string { return steps(pass.Kernels) }

// PlainSteps returns the names of the passes that lead to a program for a CPU or GPU. The last, batch, is run by the backend itself; it
// is listed so that its result can be printed.
func PlainSteps() []string { return steps(append(slices.Clone(pass.Tidy), "batch")) }

func steps(pipeline []string) []string {
	seen := map[string]int{}
	var names []string
	for _, p := range pipeline {
		if seen[p]++; seen[p] > 1 {
			p = fmt.Sprint(p, seen[p])
		}
		names = append(names, p)
	}
	return names
}

// After returns m after a step: a name of Steps, else of PlainSteps; any other name is an error.
//
// fold, cse and dce are in both lists. They are taken as steps for a TPU, where precision comes first and splits products of several
// passes.
func After(m *ir.Module, step string) (*ir.Module, error) {
	if i := slices.Index(Steps(), step); i >= 0 {
		return pass.Apply(m, pass.Kernels[:i+1]...)
	}
	plain := PlainSteps()
	i := slices.Index(plain, step)
	if i < 0 {
		return nil, fmt.Errorf("unknown pass %q (in order, for a TPU: %s; for a CPU or GPU: %s)", step, strings.Join(Steps(), " "), strings.Join(plain, " "))
	}
	return pass.Apply(m, plain[:i+1]...)
}

// Emit lowers a module and renders it for a target, which may be nil unless r.TPU. The module is not changed, so several routes can emit
// it.
func (r Route) Emit(m *ir.Module, t *target.Target) (*codegen.Artifact, error) {
	if r.TPU && t == nil {
		return nil, fmt.Errorf("backend %s needs a target", r.Name())
	}
	m, err := r.Lower(m)
	if err != nil {
		return nil, err
	}
	return r.Backend.Emit(m, t)
}

// Lower returns the module in the form that the backend emits; errors name the backend.
func (r Route) Lower(m *ir.Module) (*ir.Module, error) {
	m, err := r.Transform(m)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", r.Name(), err)
	}
	return m, nil
}

// Program builds a spec by a variant and emits it by the named backend. The variant is taken as given: Emit refuses kernels that do not
// fit the target's memory.
func Program(s gdn.Spec, v gdn.Variant, backend string, t *target.Target) (*codegen.Artifact, error) {
	r, err := Lookup(backend)
	if err != nil {
		return nil, err
	}
	m, err := build.Module(s, v)
	if err != nil {
		return nil, err
	}
	return r.Emit(m, t)
}

// Modules builds the modules of a spec by a variant, in the order in which they run: two for a training step (build.Training), else one.
//
//	forward    inputs of the forward spec                        ->  outputs, then the saved kept_s, kept_t, kept_u (axis save)
//	backward   inputs of the training spec, then the saved values ->  gradients
func Modules(s gdn.Spec, v gdn.Variant) ([]*ir.Module, error) {
	if s.Direction != gdn.Train {
		m, err := build.Module(s, v)
		return []*ir.Module{m}, err
	}
	forward, backward, err := build.Training(s, v)
	return []*ir.Module{forward, backward}, err
}

// Text returns the text of On's artifact, with the signature that package pjrt/device expects.
func Text(m *ir.Module, t *target.Target) (string, error) {
	a, err := On(m, t)
	if err != nil {
		return "", err
	}
	return a.Text, nil
}

// On emits a module to run here: by mosaic for a target, by stablehlo if t is nil. pallas is never chosen, since its text is Python.
func On(m *ir.Module, t *target.Target) (*codegen.Artifact, error) {
	backend := "stablehlo"
	if t != nil {
		backend = "mosaic"
	}
	r, err := Lookup(backend)
	if err != nil {
		return nil, err
	}
	return r.Emit(m, t)
}
