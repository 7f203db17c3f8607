package kernels

import (
	"fmt"
	"io"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

// targetRow is a target with derived facts.
type targetRow struct {
	Machine  string  `json:"machine"` // tpu
	Name     string  `json:"name"`
	Topology string  `json:"topology"`
	MXUs     int     `json:"mxus"`
	MXUSize  int     `json:"mxu_size"`
	VMEM     int     `json:"vmem_bytes"`
	HBM      float64 `json:"hbm_bytes_per_second"`
	Clock    float64 `json:"clock_hz"`
	BF16VPU  bool    `json:"bf16_vector_unit"`
	Peak     float64 `json:"peak_bf16_flops"` // per second
}

// gpuRow is a GPU with derived facts.
type gpuRow struct {
	Machine    string  `json:"machine"` // gpu
	Name       string  `json:"name"`
	Kind       string  `json:"kind"`
	Capability int     `json:"compute_capability"`
	SMs        int     `json:"sms"`
	Shared     int     `json:"shared_bytes_per_program"`
	DRAM       float64 `json:"dram_bytes_per_second"`
	Clock      float64 `json:"clock_hz"`
	Peak       float64 `json:"peak_bf16_flops"` // per second
	Modelled   bool    `json:"modelled"`        // its latencies are known, so that times can be modelled
}

func (a CLI) TargetsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "targets",
		Short: "List the TPU generations and the GPUs that can be compiled for",
		Long: `targets lists the TPU generations, with the facts that generator and cost model use. Figures of a TPU are per core, figures of a GPU of
the whole device; none needs to be attached. GPUs are targets of the triton backend and of explain.`,
		Example: "  gdngen list targets\n  gdngen list targets -o json",
		GroupID: "know",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			var tpus []targetRow
			var gpus []gpuRow
			var rows []any
			for _, t := range target.All() {
				tpus = append(tpus, targetRow{"tpu", t.Name, t.Topology, t.MXUs, t.MXUSize, t.VMEM, t.HBM, t.Clock, t.BF16VPU, t.PeakFlops() * t.Clock})
				rows = append(rows, tpus[len(tpus)-1])
			}
			for _, g := range target.GPUs() {
				gpus = append(gpus, gpuRow{"gpu", g.Name, g.Kind, g.Capability, g.SMs, g.SharedProgram, g.DRAM, g.Clock, g.PeakFlops() * g.Clock, g.Timing != nil})
				rows = append(rows, gpus[len(gpus)-1])
			}
			yes := map[bool]string{true: "yes", false: "no"}
			return app.Emit(a.App, rows, rows, func(w io.Writer) {
				t := terminal.NewTable("TARGET", "TOPOLOGY", ">MXUS", ">TFLOP/S A CORE", ">VMEM", ">HBM GB/S A CORE", ">CLOCK GHZ", "BF16 VECTORS")
				for _, r := range tpus {
					t.Add(r.Name, r.Topology, fmt.Sprintf("%d x %d²", r.MXUs, r.MXUSize), fmt.Sprintf("%.0f", r.Peak/1e12), terminal.Size(int64(r.VMEM)),
						fmt.Sprintf("%.0f", r.HBM/1e9), fmt.Sprintf("%.2f", r.Clock/1e9), yes[r.BF16VPU])
				}
				t.Write(w)
				fmt.Fprintln(w)
				t = terminal.NewTable("GPU", "DEVICE", ">SMS", ">PEAK TFLOP/S", ">SHARED", ">DRAM GB/S", ">CLOCK GHZ", "TIMES MODELLED")
				for _, r := range gpus {
					peak := fmt.Sprintf("%.0f", r.Peak/1e12)
					if r.Peak == 0 {
						peak = "unknown"
					}
					t.Add(r.Name, r.Kind, r.SMs, peak, terminal.Size(int64(r.Shared)), fmt.Sprintf("%.0f", r.DRAM/1e9),
						fmt.Sprintf("%.2f", r.Clock/1e9), yes[r.Modelled])
				}
				t.Write(w)
			})
		},
	}
}
