// Package codegen turns IR modules into what compilers take: StableHLO, Mosaic, Pallas.
// A backend is a rule table over ops; a target is a row of hardware facts.
package codegen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// Target is one TPU generation: the facts the generator, the cost model and the search need.
// All rates are per core, as a kernel sees them.
type Target struct {
	Name     string  // v6e
	Topology string  // the smallest topology name that the compiler takes
	Kind     string  // what the runtime calls a device of this generation
	Cores    int     // that share a kernel's parallel points, as the compiler spreads them
	MXUs     int     // matrix units per core
	MXUSize  int     // rows and columns of one matrix unit
	VMEM     int     // bytes of vector memory
	HBM      float64 // bytes per second of main memory
	Clock    float64 // cycles per second, derived from public peak figures
	BF16VPU  bool    // the vector unit computes in bf16
	// MatmulCycles is how long one vmatmul holds its matrix unit: 16 rows of bf16, or 8 rows of f32.
	MatmulBF16, MatmulF32 int
	BranchDelay           int // bundles executed after a branch, before its target
	Granule               int // bytes of the unit that a DMA size is counted in
	// Flags are compile options to pass with every module whose kernels hold bf16; nil where the compiler's defaults do.
	Flags map[string]string
}

// fullTiles makes vectors of bf16 in a kernel take whole registers, 16 rows each, as they do by default from v6e on. Before v6e libtpu 0.0.51
// otherwise keeps 8 rows in half a register, and a bitcast from bf16 to 32 bits goes through memory. Layouts outside of kernels stay.
var fullTiles = map[string]string{"xla_tpu_control_large_2nd_minor_layout_for_x16": "true"}

// Machine is what gdn chooses sizes by.
func (t *Target) Machine() gdn.Machine {
	return gdn.Machine{Cores: t.Cores, MXUSize: t.MXUSize}
}

// PeakFlops is the most floating point operations per cycle: every matrix unit full, bf16 operands in single passes. A product
// that is narrower than a unit fills a part of it.
func (t *Target) PeakFlops() float64 {
	return 2 * float64(t.MXUs) * float64(t.MXUSize) * float64(t.MXUSize) * 16 / float64(t.MatmulBF16)
}

// Targets lists the supported generations, oldest first.
var Targets = []Target{
	{Name: "v4", Topology: "v4:2x2x1", Kind: "TPU v4", Cores: 1, MXUs: 4, MXUSize: 128, VMEM: 16 << 20, HBM: 614e9, Clock: 1.05e9, MatmulBF16: 16, MatmulF32: 8, BranchDelay: 1, Granule: 512, Flags: fullTiles},
	{Name: "v5e", Topology: "v5e:2x2", Kind: "TPU v5 lite", Cores: 1, MXUs: 4, MXUSize: 128, VMEM: 128 << 20, HBM: 819e9, Clock: 1.5e9, MatmulBF16: 16, MatmulF32: 8, BranchDelay: 4, Granule: 32, Flags: fullTiles},
	{Name: "v5p", Topology: "v5p:2x2x1", Kind: "TPU v5", Cores: 2, MXUs: 4, MXUSize: 128, VMEM: 64 << 20, HBM: 1382.5e9, Clock: 1.75e9, MatmulBF16: 16, MatmulF32: 8, BranchDelay: 4, Granule: 32, Flags: fullTiles},
	{Name: "v6e", Topology: "v6e:2x2", Kind: "TPU v6 lite", Cores: 1, MXUs: 2, MXUSize: 256, VMEM: 128 << 20, HBM: 1640e9, Clock: 1.75e9, BF16VPU: true, MatmulBF16: 8, MatmulF32: 4, BranchDelay: 4, Granule: 32},
	{Name: "tpu7x", Topology: "tpu7x:2x2x1", Kind: "TPU7x", Cores: 1, MXUs: 2, MXUSize: 256, VMEM: 64 << 20, HBM: 3690e9, Clock: 2.2e9, BF16VPU: true, MatmulBF16: 8, MatmulF32: 4, BranchDelay: 1, Granule: 32},
}

// UnknownTargetError says that no target has a name.
type UnknownTargetError struct{ Name string }

func (e *UnknownTargetError) Error() string {
	return fmt.Sprintf("unknown target %q (known: %s)", e.Name, strings.Join(TargetNames(), " "))
}

// TargetNames lists the names of the targets.
func TargetNames() []string {
	var names []string
	for _, t := range Targets {
		names = append(names, t.Name)
	}
	return names
}

// otherNames are what the field calls targets beside their names here.
var otherNames = map[string]string{"trillium": "v6e", "v6lite": "v6e", "v5lite": "v5e", "v5litepod": "v5e", "ironwood": "tpu7x", "tpu7": "tpu7x", "v7x": "tpu7x", "v7": "tpu7x"}

// LookupTarget finds a target by name, or by another that the field has for it; case makes no difference.
func LookupTarget(name string) (*Target, error) {
	name = strings.ToLower(name)
	name = cmp.Or(otherNames[name], name)
	for i := range Targets {
		if Targets[i].Name == name {
			return &Targets[i], nil
		}
	}
	return nil, &UnknownTargetError{name}
}

// ParseTargets reads names of targets, separated by commas; "all" stands for every one.
func ParseTargets(text string) ([]*Target, error) {
	var list []*Target
	if text == "all" {
		for i := range Targets {
			list = append(list, &Targets[i])
		}
		return list, nil
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		t, err := LookupTarget(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, t) {
			return nil, fmt.Errorf("target %s is given twice", t.Name)
		}
		list = append(list, t)
	}
	return list, nil
}

// TargetOfKind finds the target that a device is of, by what the runtime calls its kind.
func TargetOfKind(kind string) (*Target, error) {
	kinds := make([]string, len(Targets))
	for i, t := range Targets {
		if t.Kind == kind {
			return &Targets[i], nil
		}
		kinds[i] = fmt.Sprintf("%s (%s)", t.Kind, t.Name)
	}
	return nil, fmt.Errorf("no target is a device of kind %q (known: %s)", kind, strings.Join(kinds, ", "))
}
