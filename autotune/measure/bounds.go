package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Bound is a lower bound on a program's cycles by one resource, to compare the schedule with.
type Bound struct {
	Name    string  `json:"name"`
	Cycles  int64   `json:"cycles"`
	Ratio   float64 `json:"ratio"` // the schedule's cycles (in-order, if known) over the bound
	Meaning string  `json:"meaning"`
}

// Bounds returns lower bounds on a schedule's cycles: two from the HBM traffic and the matrix products that the spec
// needs, and those of the module itself.
func (p *Program) Bounds(r *llo.Report, t *target.Target) []Bound {
	var list []Bound
	took, err := CyclesBy(ruler.InOrder, r)
	if err != nil { // only issue cycles are known
		took = r.Cycles
	}
	add := func(name string, cycles float64, meaning string) {
		if cycles >= 1 {
			list = append(list, Bound{name, int64(cycles), float64(took) / cycles, meaning})
		}
	}
	if s := p.Spec; s != nil {
		add("hbm, spec", HBMCycles(s.NecessaryBytes(), t), "each input read once, each output written once")
		if f := p.Variant.Fit(*s); f.Algo == gdn.AlgoChunk {
			add("mxu, spec", s.Flops(f.Chunk)/mxuFlops(t, max(s.K, s.V, f.Chunk)),
				fmt.Sprintf("matrix products of the chunkwise form at chunk %d, one bf16 pass, without the inverse", f.Chunk))
		}
	}
	if r.HBMBytes >= 0 {
		add("hbm, module", HBMCycles(r.HBMBytes, t), "HBM traffic of the module's DMAs")
	}
	add("mxu, module", float64(MXUBusy(r)), "cycles that the matrix products of the schedule hold the busiest MXU")
	full, slot := FullestSlot(r)
	add("slots, module", full, "instructions of the fullest slot, "+slot+", packed without a gap")
	return list
}

// HBMCycles returns the core cycles that t needs at least to move bytes to or from HBM.
func HBMCycles(bytes int64, t *target.Target) float64 { return float64(bytes) / t.HBM * t.Clock }

// Score returns the figure that programs of a spec are ranked by, in cycles: the larger of the schedule's cycles and
// the cycles of the HBM traffic. Unknown traffic (below zero) counts as the least that the spec needs.
func Score(cycles, hbmBytes int64, s gdn.Spec, t *target.Target) int64 {
	return max(cycles, int64(HBMCycles(max(hbmBytes, s.NecessaryBytes()), t)))
}

// Least returns a lower bound in cycles on the score of any program of the variant: the larger of the time for the
// necessary traffic and the time for the arithmetic.
//
// For the chunkwise form the arithmetic is its matrix products at the MXU's peak in single bf16 passes, without the
// inverse. Products shared by several value heads count once, so the bound holds for every variant of the same chunk.
// For the token recurrence it is the decay and the update of each element of the float32 state at each token, in the
// VPU.
func Least(s gdn.Spec, v gdn.Variant, t *target.Target) int64 {
	f := v.Fit(s)
	work := s.Flops(f.Chunk) / t.PeakFlops()
	if f.Algo == gdn.AlgoToken {
		work = 2 * float64(s.Batch) * float64(s.Tokens) * float64(s.HeadsV) * float64(s.K) * float64(s.V) / t.VectorRate()
	}
	return max(int64(HBMCycles(s.NecessaryBytes(), t)), int64(work))
}

// MXUBusy returns the cycles that the busiest MXU is occupied by matrix products, over all calls.
func MXUBusy(r *llo.Report) (cycles int64) {
	for _, op := range r.Ops {
		cycles += op.Calls * op.MXUBusy
	}
	return cycles
}

// FullestSlot returns the slot of the matrix or vector units that needs most bundles if each bundle fills it, and the
// number of bundles. For example 100 bundles with 66 % of VALU filled need 66.
func FullestSlot(r *llo.Report) (most float64, name string) { return fullest(slotNeeds(r)) }

// WithoutSpills is FullestSlot of the schedule without its spills and fills of registers.
func WithoutSpills(r *llo.Report) (most float64, name string) {
	need := slotNeeds(r)
	for part, n := range need {
		if whole, _, ok := strings.Cut(part, ":"); ok {
			need[whole] -= n
		}
	}
	return fullest(need)
}

// slotNeeds returns the bundles that each slot's instructions would fill.
func slotNeeds(r *llo.Report) map[string]float64 {
	need := map[string]float64{}
	for _, op := range r.Ops {
		for _, s := range op.Slots {
			if s.Capacity > 0 {
				need[s.Name] += float64(op.Calls) * float64(s.Used) / float64(s.Capacity) * float64(op.Bundles)
			}
		}
	}
	return need
}

// fullest returns the largest need, except the scalar unit's.
func fullest(need map[string]float64) (most float64, name string) {
	for _, slot := range slices.Sorted(maps.Keys(need)) {
		if slot != "SALU" && need[slot] > most {
			most, name = need[slot], slot
		}
	}
	return most, name
}

// mxuFlops returns the peak floating-point operations per cycle of bf16 products whose dimensions are at most width.
// Products of half the size of an MXU fill at most half of it, two of them packed into one.
func mxuFlops(t *target.Target, width int) float64 {
	if 2*width <= t.MXUSize {
		return t.PeakFlops() / 2
	}
	return t.PeakFlops()
}
