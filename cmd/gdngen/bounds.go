package main

import (
	"fmt"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// bound is a number of cycles that something needs at least, beside the schedule's.
type bound struct {
	Name    string  `json:"name"`
	Cycles  int64   `json:"cycles"`
	Ratio   float64 `json:"ratio"` // cycles of the schedule over these
	Meaning string  `json:"meaning"`
}

// bounds lists what a schedule can be measured by: the traffic and the matrix products that the spec makes necessary, and
// those that the module has.
func bounds(r *llo.Report, m *module, t *codegen.Target) []bound {
	var list []bound
	add := func(name string, cycles float64, meaning string) {
		if cycles >= 1 {
			list = append(list, bound{name, int64(cycles), float64(r.Cycles) / cycles, meaning})
		}
	}
	if s := m.spec; s != nil {
		add("hbm, spec", hbmCycles(s.NecessaryBytes(), t), "each input read once, each output written once")
		if f := m.variant.Fit(*s); f.Algo == gdn.AlgoChunk {
			add("mxu, spec", s.Flops(f.Chunk)/mxuFlops(t, max(s.K, s.V, f.Chunk)),
				fmt.Sprintf("matrix products of the chunkwise form at chunk %d, one bf16 pass, without the inverse", f.Chunk))
		}
	}
	if r.HBMBytes >= 0 {
		add("hbm, module", hbmCycles(r.HBMBytes, t), "main memory traffic of the module's DMAs")
	}
	add("mxu, module", float64(mxuBusy(r)), "cycles that the matrix products of the schedule hold the busiest matrix unit")
	full, slot := fullestSlot(r)
	add("slots, module", full, "instructions of the fullest slot, "+slot+", packed without a gap")
	return list
}

// mxuBusy is how many cycles the matrix products hold the busiest matrix unit, over all calls.
func mxuBusy(r *llo.Report) (cycles int64) {
	for _, op := range r.Ops {
		cycles += op.Calls * op.MXUBusy
	}
	return cycles
}

// fullestSlot gives the slot of the matrix or vector units whose instructions need most bundles if each bundle fills it, and how many.
func fullestSlot(r *llo.Report) (most float64, name string) {
	need := map[string]float64{}
	for _, op := range r.Ops {
		for _, s := range op.Slots {
			if s.Capacity > 0 {
				need[s.Name] += float64(op.Calls) * float64(s.Used) / float64(s.Capacity) * float64(op.Bundles)
			}
			if n := need[s.Name]; s.Name != "SALU" && (n > most || n == most && s.Name < name) {
				most, name = n, s.Name
			}
		}
	}
	return most, name
}

// hbmCycles is the time, in core cycles, that main memory traffic takes at least.
func hbmCycles(n int64, t *codegen.Target) float64 { return float64(n) / t.HBM * t.Clock }

// mxuFlops is the most floating-point operations a cycle of bf16 products whose dimensions are at most width. Products of
// half the size of a matrix unit fill at most half of it, two of them packed into one.
func mxuFlops(t *codegen.Target, width int) float64 {
	if 2*width <= t.MXUSize {
		return t.PeakFlops() / 2
	}
	return t.PeakFlops()
}
