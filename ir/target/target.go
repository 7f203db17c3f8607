// Package target is the table of the machines that programs are made for: all facts of a TPU generation are in its row, and nowhere else.
// GPUs are machines of another kind, with rows of their own: a [GPU] is no [Target], and what is made for TPUs refuses its name.
// It imports none of ours, so that passes, backends, compilers, the cost model and the search may all ask it.
// A new target is a row in rows.go, beside its tests and recorded data; what it does not say, Check finds.
package target

import (
	"fmt"
	"slices"
	"strings"
)

// A vector register holds Sublanes rows of Lanes 32-bit elements, in every generation: kernels are tiled for no other, so Check refuses a row
// that says otherwise.
const Lanes, Sublanes = 128, 8

// RegisterRows is the rows of a register whose elements have so many bytes: 8 of f32, 16 of bf16.
func RegisterRows(bytes int) int { return Sublanes * 4 / max(bytes, 1) }

// BundleBytes is the size of an encoded bundle, by the size of programs over their bundles.
const BundleBytes = 64

// Target is one TPU generation: the facts the generator, the cost model and the search need.
// All rates are per core, as a kernel sees them.
//
// A field whose zero is a fact has a tag with its meaning. Any other that is zero is a fact that the row names in Unknown: see Check.
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
	// PushBF16 and PushF32 are how long a weight push holds the port of its matrix unit: distances in schedules. The compiler's listing has
	// 3 more than its pipeline needs.
	PushBF16, PushF32 int64
	BranchDelay       int // bundles executed after a branch, before its target
	Granule           int // bytes of the unit that a DMA size is counted in
	// Flags are compile options to pass with every module whose kernels hold bf16.
	Flags map[string]string `zero:"the compiler's defaults do"`

	OtherNames []string `zero:"the field has no other name"` // beside Name, in lower case
	PCI        string   // the device id of its chips, as the kernel writes it
	RowGather  bool     // the vector unit gathers along rows too, not along lanes alone
	// MostDelay is the largest number of delay slots of a branch, where branches differ; the dump does not print it.
	MostDelay int       `zero:"all branches have BranchDelay"`
	Register  Shape     // of the vector unit, in elements of 32 bits
	Slots     Slots     // of a bundle
	Timing    *Timing   // without it schedules have a throughput, no wall
	Attention Attention // what a layer of attention takes

	Unknown []string `zero:"all is known"` // facts that nobody has found out: names of fields
}

// Shape is the rows and lanes of a register.
type Shape struct{ Rows, Lanes int }

// Slots is how many instructions of a kind a bundle takes, as the compiler prints beside its schedules: weights into matrix units, products,
// lane moves, vector arithmetic, results, transcendental functions, loads, stores, scalar arithmetic.
type Slots struct{ Push, Matmul, XLU, VALU, Pop, EUP, Load, Store, SALU int }

// Attention is the static cycles of a public kernel, the splash attention of JAX 0.10.2, for one block of 1024 queries x 1024 keys of one
// head of 128 in bf16, by libtpu 0.0.51. Backward is fused, with its reductions. They are those of 6 heads, 4096 tokens and no mask, over 96 blocks.
type Attention struct{ Forward, Backward float64 }

// Machine is what the sizes of a program are chosen by.
type Machine struct {
	Cores   int // that share a grid's parallel points
	MXUSize int // rows and columns of a matrix unit
	VMEM    int // bytes of vector memory; 0: not known
}

// Machine is what gdn chooses sizes by.
func (t *Target) Machine() Machine { return Machine{Cores: t.Cores, MXUSize: t.MXUSize, VMEM: t.VMEM} }

// PeakFlops is the most floating point operations per cycle: every matrix unit full, bf16 operands in single passes. A product
// that is narrower than a unit fills a part of it.
func (t *Target) PeakFlops() float64 {
	return 2 * float64(t.MXUs) * float64(t.MXUSize) * float64(t.MXUSize) * 16 / float64(t.MatmulBF16)
}

// VectorRate is the most float32 operations per cycle of the vector unit.
func (t *Target) VectorRate() float64 {
	return float64(t.Slots.VALU * t.Register.Rows * t.Register.Lanes)
}

// CostFacts is the text of all that the cost model knows of a target. Costs are kept by its hash, so its form stays: a fact joins it where
// costs come to follow from it, and is left out where it has its usual value.
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

// All lists the supported generations, oldest first.
func All() []*Target {
	list := make([]*Target, len(rows))
	for i := range rows {
		list[i] = &rows[i]
	}
	return list
}

// UnknownError says that no target has a name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown target %q (known: %s; GPUs: %s)", e.Name, strings.Join(Names(), " "), strings.Join(GPUNames(), " "))
}

// Names lists the names of the targets.
func Names() []string {
	var names []string
	for _, t := range rows {
		names = append(names, t.Name)
	}
	return names
}

// Lookup finds a target by name, or by another that the field has for it; case makes no difference.
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

// Parse reads names of targets, separated by commas; "all" stands for every one.
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

// OfKind finds the target that a device is of, by what the runtime calls its kind.
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

// OfPCI finds the target whose chips have a PCI device id, such as 0x006f; nil where none has.
func OfPCI(id string) *Target {
	for i := range rows {
		if id != "" && rows[i].PCI == id {
			return &rows[i]
		}
	}
	return nil
}
