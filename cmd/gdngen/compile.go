package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/explain"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/aot"
)

// compileAccepted is the verdict on a module that the compiler takes; others have those of the package measure.
const compileAccepted = "accepted"

// compileRow is what the compiler said of a module on one target.
type compileRow struct {
	Target      string           `json:"target"`
	Verdict     string           `json:"verdict"`
	Reason      string           `json:"reason,omitempty"`
	CodeBytes   int64            `json:"code_bytes,omitempty"`
	Memory      *aot.MemoryStats `json:"memory,omitempty"`     // bytes of main memory
	VMEM        int64            `json:"vmem,omitempty"`       // bytes; -1 where the compiler does not say
	VMEMLimit   int64            `json:"vmem_limit,omitempty"` // bytes that the target has
	Fingerprint string           `json:"fingerprint,omitempty"`
	Seconds     float64          `json:"seconds,omitempty"`
	Dump        string           `json:"dump,omitempty"`
}

// compileResult is a module compiled for some targets.
type compileResult struct {
	Module   *explain.Module `json:"module"`
	Compiler string          `json:"compiler"`
	Rows     []compileRow    `json:"targets"`
}

func (a *app) compileCmd() *cobra.Command {
	var o origin
	var target, dump string
	var fresh bool
	c := &cobra.Command{
		Use:   "compile (FILE | --spec SPEC)",
		Short: "Compile for a TPU that is not attached",
		Long: `compile hands a module to libtpu, ahead of time: a file of StableHLO text ("-" is standard input), or the program of a spec. It prints the size
of the code, the memory it needs, and the verdict. The compiler runs in a process of its own, so a module that kills it is a verdict too.
The status is 4 if a target rejects the module.`,
		Example: `  gdngen compile --spec bench --variant bf16 --target v5e,v6e,tpu7x
  gdngen compile kernel.mlir --target v6e -o json
  gdngen compile kernel.mlir --target all --dump dumps`,
		GroupID: "work",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := parseTargets(target)
			if err != nil {
				return err
			}
			modules, err := o.modules(a, cmd, args, targets)
			if err != nil {
				return err
			}
			x, err := a.instrument(fresh)
			if err != nil {
				return err
			}
			r := &compileResult{Module: modules[0], Compiler: a.tpu.Release()}
			var refused error
			for i, t := range targets {
				row, err := a.compile(x, modules[i], t, dump)
				if row == nil {
					return err
				}
				if err != nil && refused == nil {
					refused = failed(exitCode(err), "%s: %w", t.Name, err)
				}
				r.Rows = append(r.Rows, *row)
			}
			if err := emit(a, r, r.Rows, func(w io.Writer) { r.write(a, w) }); err != nil {
				return err
			}
			return refused
		},
	}
	o.flags(c)
	targetFlag(c, &target)
	c.Flags().StringVar(&dump, "dump", "", "keep the schedules in a folder for each target below this one")
	freshFlag(c, &fresh)
	return c
}

func targetFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "target", "v6e", "TPU generations, separated by commas, or all (see gdngen targets)")
	complete(c, "target", append(codegen.TargetNames(), "all"))
}

// compile measures one module. A refusal gives the row and the error; what is no verdict gives the error alone.
func (a *app) compile(x *measure.Instrument, m *explain.Module, t *codegen.Target, dump string) (*compileRow, error) {
	row := &compileRow{Target: t.Name, Verdict: compileAccepted, VMEM: -1, VMEMLimit: int64(t.VMEM)}
	c, err := x.Compile(a.ctx, m.Program, t, measure.Options{Dump: dump})
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

func (r *compileResult) write(a *app, w io.Writer) {
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
