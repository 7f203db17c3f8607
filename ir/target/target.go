// Package target is the table of supported machines: each fact of a TPU generation is in its row and nowhere else.
// GPUs have rows of another type: a [GPU] is no [Target], and TPU code refuses its name.
// It imports no other package of this module, so that all of them can use it.
// A new target is a row in rows.go, its tests and recorded data; Check finds missing facts.
package target

import (
	"fmt"
	"slices"
	"strings"
)

// A vector register holds Sublanes rows of Lanes 32-bit elements in every generation. Kernel tiling relies on it, and Check refuses
// other rows.
const Lanes, Sublanes = 128, 8

// RegisterRows returns the rows of a register for elements of so many bytes: 8 for f32, 16 for bf16.
func RegisterRows(bytes int) int { return Sublanes * 4 / max(bytes, 1) }

// BundleBytes is the size of an encoded bundle, from program sizes divided by their bundles.
const BundleBytes = 64

// Target is one TPU generation, with the facts for the generator, the cost model and the search.
// All rates are per core, as a kernel sees them.
//
// A field that may be zero has a tag with the meaning of zero. Other zero fields must be listed in Unknown: see Check.
type Target struct {
	Name     string  // v6e
	Topology string  // smallest topology name that the compiler accepts
	Kind     string  // device name from the runtime
	Cores    int     // cores over which the compiler spreads a kernel's parallel points
	MXUs     int     // MXUs per core
	MXUSize  int     // rows and columns of one MXU
	VMEM     int     // bytes of vector memory
	HBM      float64 // HBM bytes per second
	Clock    float64 // cycles per second, derived from public peak figures
	BF16VPU  bool    // the vector unit supports bf16
	// MatmulBF16 and MatmulF32 are the cycles that one vmatmul holds its MXU: 16 rows of bf16, or 8 rows of f32.
	MatmulBF16, MatmulF32 int
	// PushBF16 and PushF32 are the cycles that a weight push holds the port of its MXU, from distances in schedules. The compiler's
	// listing has 3 more than its pipeline needs.
	PushBF16, PushF32 int64
	BranchDelay       int // bundles executed after a branch and before its target
	Granule           int // bytes of the unit of DMA sizes
	// Flags are compile options for every module with bf16 kernels.
	Flags map[string]string `zero:"the compiler's defaults do"`

	OtherNames []string `zero:"the field has no other name"` // alternative names, in lower case
	PCI        string   // PCI device id, in the kernel's notation
	RowGather  bool     // the vector unit gathers along rows too, not only along lanes
	// MostDelay is the largest number of branch delay slots if branches differ; the dump does not print it.
	MostDelay int       `zero:"all branches have BranchDelay"`
	Register  Shape     // in elements of 32 bits
	Slots     Slots     // per bundle
	Timing    *Timing   // nil: only issue cycles are modelled, no stalls
	Attention Attention // cost of an attention layer

	Unknown []string `zero:"all is known"` // names of fields with unknown facts
}

// Shape is the number of rows and lanes of a register.
type Shape struct{ Rows, Lanes int }

// Slots is the number of instructions of each kind in a bundle, as printed next to the compiler's schedules: weight pushes, matrix products,
// lane moves, vector arithmetic, result pops, transcendental functions, loads, stores, scalar arithmetic.
type Slots struct{ Push, Matmul, XLU, VALU, Pop, EUP, Load, Store, SALU int }

// Attention is the static cycles of JAX 0.10.2's splash attention for one block of 1024 queries x 1024 keys of one bf16 head of width
// 128, by libtpu 0.0.51. Backward is fused, with its reductions. The figures are from 6 heads, 4096 tokens and no mask, divided by 96 blocks.
type Attention struct{ Forward, Backward float64 }

// Machine has the facts that decide the sizes of a program.
type Machine struct {
	Cores   int // cores that share a grid's parallel points
	MXUSize int // rows and columns of an MXU
	VMEM    int // bytes of vector memory; 0: unknown
}

// Machine returns the facts that decide the sizes of a program.
func (t *Target) Machine() Machine { return Machine{Cores: t.Cores, MXUSize: t.MXUSize, VMEM: t.VMEM} }

// PeakFlops returns the largest number of floating point operations per cycle: every MXU full, bf16 operands in single passes. A product
// narrower than an MXU uses a part of it.
func (t *Target) PeakFlops() float64 {
	return 2 * float64(t.MXUs) * float64(t.MXUSize) * float64(t.MXUSize) * 16 / float64(t.MatmulBF16)
}

// VectorRate returns the largest number of float32 operations per cycle of the vector unit.
func (t *Target) VectorRate() float64 {
	return float64(t.Slots.VALU * t.Register.Rows * t.Register.Lanes)
}

// CostFacts returns the facts that the cost model uses, as text. Stored costs are keyed by its hash, so its form must not change. A fact is added
// when costs come to depend on it, and omitted at its usual value.
func (t *Target) CostFacts() string {
	text := listed(t.Name, t.Topology, t.Kind, t.Cores, t.MXUs, t.MXUSize, t.VMEM, t.HBM, t.Clock, t.BF16VPU, t.MatmulBF16, t.MatmulF32,
		t.BranchDelay, t.Granule, t.Flags)
	if m := t.Timing; m != nil {
		text += listed(m.VectorALU, m.VectorMove, m.VectorLoad, m.Transcendental, m.Matmul, m.MatmulPop, m.MatmulResults, t.PushBF16, t.PushF32,
			m.Permute, m.LaneSum, m.LanePath, m.Transpose32, m.Transpose16, m.PairFirst, m.LanePop,
			m.TransposeAfterPermute32, m.TransposeAfterPermute16, m.SumAfterPermute, m.TransposeAfterSum, m.PermuteAfterSum,
			m.PermuteAfterTranspose, m.SumAfterTranspose, m.PermuteAfterTranspose16, m.Read, m.Write, m.Local, m.Overlay, m.JumboOverlay)
	}
	return text
}

func listed(facts ...any) string { return "{" + strings.TrimSuffix(fmt.Sprintln(facts...), "\n") + "}" }

// All returns the supported generations, oldest first.
func All() []*Target {
	list := make([]*Target, len(rows))
	for i := range rows {
		list[i] = &rows[i]
	}
	return list
}

// UnknownError reports a name that no target has.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown target %q (known: %s; GPUs: %s)", e.Name, strings.Join(Names(), " "), strings.Join(GPUNames(), " "))
}

// Names returns the names of the targets.
func Names() []string {
	var names []string
	for _, t := range rows {
		names = append(names, t.Name)
	}
	return names
}

// Lookup returns the target with this name or alternative name, ignoring case. Unknown names are an *UnknownError, GPUs a *GPUError.
func Lookup(name string) (*Target, error) {
	name = strings.ToLower(name)
	for i := range rows {
		if rows[i].Name == name || slices.Contains(rows[i].OtherNames, name) {
			return &rows[i], nil
		}
	}
	if g, err := LookupGPU(name); err == nil {
		return nil, &GPUError{g.Name}
	}
	return nil, &UnknownError{name}
}

// Parse returns the targets with these names, separated by commas; "all" means every one. Unknown names are errors.
func Parse(text string) ([]*Target, error) {
	if text == "all" {
		return All(), nil
	}
	var list []*Target
	for name := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		t, err := Lookup(strings.TrimSpace(name))
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

// OfKind returns the target for the runtime's device name, or an error.
func OfKind(kind string) (*Target, error) {
	kinds := make([]string, len(rows))
	for i, t := range rows {
		if t.Kind == kind {
			return &rows[i], nil
		}
		kinds[i] = fmt.Sprintf("%s (%s)", t.Kind, t.Name)
	}
	return nil, fmt.Errorf("no target is a device of kind %q (known: %s)", kind, strings.Join(kinds, ", "))
}

// OfPCI returns the target with a PCI device id, such as 0x006f; nil if there is none.
func OfPCI(id string) *Target {
	for i := range rows {
		if id != "" && rows[i].PCI == id {
			return &rows[i]
		}
	}
	return nil
}
