package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// verdicts of a compile
const (
	compileAccepted = "accepted"
	compileRejected = "rejected"
	compileVMEM     = "vmem"
	compileCrash    = "crash"
	compileTimeout  = "timeout"
)

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
	Module   *module      `json:"module"`
	Compiler string       `json:"compiler"`
	Rows     []compileRow `json:"targets"`
}

func (a *app) compileCmd() *cobra.Command {
	var o origin
	var target, dump string
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
			compiler, err := a.aot()
			if err != nil {
				return err
			}
			r := &compileResult{Module: modules[0], Compiler: versionOf(a.tpu)}
			var refused error
			for i, t := range targets {
				row, err := a.compile(compiler, modules[i], t, dump)
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
	return c
}

func targetFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "target", "v6e", "TPU generations, separated by commas, or all (see gdngen targets)")
	complete(c, "target", append(targetNames(), "all"))
}

// dumpFolder makes a fresh folder for a schedule. done removes it, unless it lies below a folder of the user's choice.
func dumpFolder(below string, t *codegen.Target) (dir string, done func(), err error) {
	if below == "" {
		dir, err = os.MkdirTemp("", "gdngen-dump-")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	if err := os.MkdirAll(below, 0o755); err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp(below, t.Name+"-")
	return dir, func() {}, err
}

// compile compiles one module. A refusal gives the row and the error; what is no verdict gives the error alone.
func (a *app) compile(compiler *aot.Compiler, m *module, t *codegen.Target, dump string) (*compileRow, error) {
	dir, done, err := dumpFolder(dump, t)
	if err != nil {
		return nil, err
	}
	defer done()
	row := &compileRow{Target: t.Name, Verdict: compileAccepted, VMEM: -1, VMEMLimit: int64(t.VMEM)}
	if dump != "" {
		row.Dump = dir
	}
	r, err := compiler.Compile(a.ctx, aot.Request{Topology: t.Topology, Module: m.text, DumpDir: dir, Flags: t.Flags})
	if err != nil {
		if !row.judge(err) {
			return nil, err
		}
		return row, err
	}
	row.CodeBytes, row.Memory, row.Fingerprint, row.Seconds = r.CodeBytes, &r.Memory, r.Fingerprint, r.Elapsed.Seconds()
	if report, err := (llo.Options{Scalars: m.Scalars}).Analyze(dir, t); err == nil {
		row.VMEM = report.VMEM
	}
	return row, nil
}

// judge says what an error tells of the module; it is false for an error that tells nothing of it.
func (r *compileRow) judge(err error) bool {
	r.Reason = err.Error()
	var vmem *aot.VMEMError
	switch {
	case errors.As(err, &vmem):
		r.Verdict, r.VMEM = compileVMEM, vmem.Size
	case isA[*aot.RejectError](err):
		r.Verdict = compileRejected
	case isA[*aot.CrashError](err):
		r.Verdict = compileCrash
	case isA[*aot.TimeoutError](err):
		r.Verdict = compileTimeout
	default:
		return false
	}
	return true
}

func (r *compileResult) write(a *app, w io.Writer) {
	fmt.Fprintf(w, "module    %s\ncompiler  %s\n\n", r.Module, r.Compiler)
	t := newTable("TARGET", "VERDICT", ">CODE", ">ARGUMENTS", ">OUTPUTS", ">TEMP", ">VMEM", ">OF", ">SECONDS", "REASON")
	for _, row := range r.Rows {
		reason, _, _ := strings.Cut(row.Reason, "\n")
		if row.Memory == nil {
			t.add(row.Target, row.Verdict, "-", "-", "-", "-", sizeText(row.VMEM), sizeText(row.VMEMLimit), "-", reason)
			continue
		}
		t.add(row.Target, row.Verdict, sizeText(row.CodeBytes), sizeText(row.Memory.Arguments), sizeText(row.Memory.Outputs), sizeText(row.Memory.Temp),
			sizeText(row.VMEM), sizeText(row.VMEMLimit), fmt.Sprintf("%.2f", row.Seconds), reason)
	}
	t.write(a, w)
}
