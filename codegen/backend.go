package codegen

import (
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Backend turns a module into a program that a compiler takes. It is a rule table over ops and a small driver.
type Backend interface {
	Name() string
	// Supports is nil for an op the backend has a rule for; otherwise it says why not, and what to do.
	Supports(op ir.Op) error
	// Emit renders a verified module. Errors name the instruction. A backend without machine facts ignores the target.
	Emit(m *ir.Module, t *target.Target) (*Artifact, error)
}

// Artifact is the output of a backend for a module.
type Artifact struct {
	Text    string   // StableHLO module, entry @main, parameters and results in the order of the module's
	Kernels []Kernel // the kernels called by it, in program order
}

// Kernel is one kernel in the text form of its own dialect.
type Kernel struct {
	Name, Text string
}
