package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/internal/terminal"
)

// targetRow is a target with what follows from its facts.
type targetRow struct {
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

func (a *app) targetsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "targets",
		Short:   "List the TPU generations that can be compiled for",
		Long:    "targets lists the TPU generations, with the facts that generator and cost model use. Figures are per core; none needs to be attached.",
		Example: "  gdngen targets\n  gdngen targets -o json",
		GroupID: "know",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			var rows []targetRow
			for _, t := range codegen.Targets() {
				rows = append(rows, targetRow{t.Name, t.Topology, t.MXUs, t.MXUSize, t.VMEM, t.HBM, t.Clock, t.BF16VPU, t.PeakFlops() * t.Clock})
			}
			return emit(a, rows, rows, func(w io.Writer) {
				t := terminal.NewTable("TARGET", "TOPOLOGY", ">MXUS", ">PEAK TFLOP/S", ">VMEM", ">HBM GB/S", ">CLOCK GHZ", "BF16 VECTORS")
				for _, r := range rows {
					bf16 := map[bool]string{true: "yes", false: "no"}[r.BF16VPU]
					t.Add(r.Name, r.Topology, fmt.Sprintf("%d x %d²", r.MXUs, r.MXUSize), fmt.Sprintf("%.0f", r.Peak/1e12), terminal.Size(int64(r.VMEM)),
						fmt.Sprintf("%.0f", r.HBM/1e9), fmt.Sprintf("%.2f", r.Clock/1e9), bf16)
				}
				t.Write(w)
			})
		},
	}
}
