package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
)

// accepted is the verdict on a module that compiles; the other verdicts are measure's.
const accepted = "accepted"

// Verdict is the compiler's verdict on a module for one target.
type Verdict struct {
	Target      string           `json:"target"`
	Verdict     string           `json:"verdict"`
	Reason      string           `json:"reason,omitempty"`
	CodeBytes   int64            `json:"code_bytes,omitempty"`
	Memory      *aot.MemoryStats `json:"memory,omitempty"`     // bytes of HBM
	VMEM        int64            `json:"vmem,omitempty"`       // bytes; -1 where the compiler does not say
	VMEMLimit   int64            `json:"vmem_limit,omitempty"` // bytes that the target has
	Fingerprint string           `json:"fingerprint,omitempty"`
	Seconds     float64          `json:"seconds,omitempty"`
	Dump        string           `json:"dump,omitempty"`
}

// Compilation is a module compiled for some targets.
type Compilation struct {
	Module   *Module   `json:"module"`
	Compiler string    `json:"compiler"`
	Rows     []Verdict `json:"targets"`
}

// Compile compiles the module for a target. A refusal returns both the verdict and the error; any other failure returns only the error.
func (m *Module) Compile(ctx context.Context, x *measure.Instrument, t *target.Target, dump string) (*Verdict, error) {
	row := &Verdict{Target: t.Name, Verdict: accepted, VMEM: -1, VMEMLimit: int64(t.VMEM)}
	c, err := x.Compile(ctx, m.Program, t, measure.Options{Dump: dump})
	if refusal := (*measure.Refusal)(nil); errors.As(err, &refusal) {
		row.Verdict, row.Reason = string(refusal.Verdict), refusal.Error()
		if vmem := (*aot.VMEMError)(nil); errors.As(err, &vmem) {
			row.VMEM = vmem.Size
		}
		return row, err
	}
	if err != nil {
		return nil, err
	}
	row.CodeBytes, row.Memory, row.Fingerprint, row.Seconds, row.Dump = c.Result.CodeBytes, &c.Result.Memory, c.Result.Fingerprint, c.Result.Elapsed.Seconds(), c.Dump
	if c.Report != nil {
		row.VMEM = c.Report.VMEM
	}
	return row, nil
}

// Write prints a row for each target.
func (r *Compilation) Write(w io.Writer) {
	fmt.Fprintf(w, "module    %s\ncompiler  %s\n\n", r.Module, r.Compiler)
	t := terminal.NewTable("TARGET", "VERDICT", ">CODE", ">ARGUMENTS", ">OUTPUTS", ">TEMP", ">VMEM", ">OF", ">SECONDS", "REASON")
	for _, row := range r.Rows {
		reason, _, _ := strings.Cut(row.Reason, "\n")
		if row.Memory == nil {
			t.Add(row.Target, row.Verdict, "-", "-", "-", "-", terminal.Size(row.VMEM), terminal.Size(row.VMEMLimit), "-", reason)
			continue
		}
		t.Add(row.Target, row.Verdict, terminal.Size(row.CodeBytes), terminal.Size(row.Memory.Arguments), terminal.Size(row.Memory.Outputs), terminal.Size(row.Memory.Temp),
			terminal.Size(row.VMEM), terminal.Size(row.VMEMLimit), fmt.Sprintf("%.2f", row.Seconds), reason)
	}
	t.Write(w)
}
