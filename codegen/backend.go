package codegen

import (
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Backend turns a module into text that a compiler accepts: a table with one rule per op, and a driver.
type Backend interface {
	Name() string
	// Supports returns nil for an op the backend has a rule for; otherwise the error says why not, and what to do instead.
	Supports(op ir.Op) error
	// Emit renders a verified module. Errors name the instruction. A backend without machine facts ignores the target, which may then be
	// nil.
	Emit(m *ir.Module, t *target.Target) (*Artifact, error)
}

// Artifact is the program that a backend emits for a module.
type Artifact struct {
	Text    string   // StableHLO module; @main has the module's parameters and results, in their order
	Kernels []Kernel // the kernels that Text calls, in program order
}

// Kernel is the text of one kernel: a Mosaic body, Triton or PTX, by backend.
type Kernel struct {
	Name, Text string
}
