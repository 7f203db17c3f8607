// Package route leads from a spec and a variant to a program: build.Module, then the passes a backend needs, then its Emit.
//
// Rules:
//
//  1. A route is a row of a table: a backend, and how a module gets to it.
//  2. A module is lowered whole: what Emit gives takes the inputs of the spec, in order, and returns its outputs.
//
// The ways of the backends that take modules, of a module whose grids are on tensors:
//
//	stablehlo   fold cse dce                           -> Emit batches the grids: axes become batch dimensions and loops
//	pallas      precision fold cse dce tile cse dce    -> Emit writes kernels on tiles and orders them by their schedules as it writes
//	mosaic      those, then pipeline                   -> Emit writes kernels as they stand
//
// Schedules are read in the last step alone, so one tiling does for all variants that differ in them (Cells).
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

// Names of the backends that write the text of a spec by templates over the algebra of a chunk, not from modules.
const (
	Triton = "triton"
	PTX    = "ptx"
)

// Route is the way to the text of a backend.
type Route struct {
	codegen.Backend
	GPU       bool // written from a spec, for a target.GPU; it takes no modules
	Doc       string
	TPU       bool                                 // emits for a target.Target; others ignore it
	Kernels   bool                                 // its programs are kernels of a TPU
	Transform func(*ir.Module) (*ir.Module, error) // what the backend asks for beyond a verified module
}

// Routes lists the backends.
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

// template is a backend that takes a spec in place of a module.
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

// Lookup finds a route by the name of its backend.
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

// tidy removes what is computed twice or never.
func tidy(m *ir.Module) (*ir.Module, error) { return pass.Apply(m, pass.Tidy...) }

// Kernels lowers a module to the kernel level: grids become kernels on tiles of rank 2 interleaved, with matrix products in
// single passes, and overlap their steps as their schedules say.
func Kernels(m *ir.Module) (*ir.Module, error) { return pass.Apply(m, pass.Kernels...) }

// Steps names the passes that lead to kernels, in order. A pass that runs a second time has a 2 behind its name: cse2.
//
//	precision fold cse dce tile cse2 dce2 pipeline
func Steps() []string { return steps(pass.Kernels) }

// PlainSteps names those that lead to a program for a CPU or GPU.
// The last is what the backend does by itself, listed so that one can look at what it made.
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

// After gives a module as it is after a step: one of Steps, or else of PlainSteps.
//
// fold, cse and dce are names of both lists: as those of a TPU they are behind precision, which takes products of three passes apart.
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

// Emit lowers a module and renders it.
// The module stays as it is, so that one can be emitted by several routes.
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

// Lower leads a module to what the backend emits.
func (r Route) Lower(m *ir.Module) (*ir.Module, error) {
	m, err := r.Transform(m)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", r.Name(), err)
	}
	return m, nil
}

// Program is a spec computed by a variant, as a backend renders it.
// It takes the variant as it is named: whether its kernels fit the memory of the target is for Suit to ask, or for Emit to refuse.
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

// Modules builds what a spec computes by a variant, in the order in which it runs: of a training step the two programs of build.Training,
// else one.
//
//	forward    inputs of the forward spec                   ->  outputs, then what is kept: kept_s, kept_t, kept_u as axis save says
//	backward   inputs of the training spec, what is kept    ->  gradients
func Modules(s gdn.Spec, v gdn.Variant) ([]*ir.Module, error) {
	if s.Direction != gdn.Train {
		m, err := build.Module(s, v)
		return []*ir.Module{m}, err
	}
	forward, backward, err := build.Training(s, v)
	return []*ir.Module{forward, backward}, err
}

// Text is the text of On, as package pjrt/device asks for it.
func Text(m *ir.Module, t *target.Target) (string, error) {
	a, err := On(m, t)
	if err != nil {
		return "", err
	}
	return a.Text, nil
}

// On renders a module for a device: kernels for a TPU of a target, a program of plain ops where there is none.
// pallas is none of the two: its text is Python, which no engine of ours runs.
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
