package measure

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// lowerScript is what a Python with JAX runs to lower a file.
//
//go:embed lower.py
var lowerScript string

// jaxTypes are JAX's names of the inputs' element types; by default it has no 64-bit integers.
var jaxTypes = map[ir.DType]string{ir.F32: "float32", ir.BF16: "bfloat16", ir.I32: "int32", ir.I64: "int32"}

// ByJAX returns the program that JAX lowers from the Pallas file of a form. python is an interpreter that has JAX.
// Stages are locations in that file. If the spec has a gradient, the program computes the function and its gradient.
func ByJAX(ctx context.Context, python string, f *route.Form) (*Program, error) {
	way, err := route.Lookup("pallas")
	if err != nil {
		return nil, err
	}
	var source string
	err = guard("writing the Pallas file", func() (err error) {
		source, err = pallas.Source(f.Spec, f.Variant, route.Modules, pallas.Provenance{})
		return err
	})
	if err != nil {
		return nil, refused(EmitError, err)
	}
	text, err := runJAX(ctx, python, source, f.Spec)
	if err != nil {
		return nil, err
	}
	p := &Program{Spec: &f.Spec, Variant: f.Variant, route: way, texts: map[*target.Target]string{nil: text}}
	p.tables = guard("computing the tables of the kernels", func() error { return p.scalarsOf(f) })
	return p, nil
}

// scalarsOf takes the values of the tables from the kernels of the form. JAX renames kernels, so the values are known
// only for a form with a single kernel.
func (p *Program) scalarsOf(f *route.Form) error {
	m, err := f.Kernels()
	if err != nil {
		return err
	}
	tables, err := representative(m, f.Spec, nil)
	if err != nil {
		return err
	}
	kernels := map[string]bool{}
	scalars := map[string][]int64{}
	for key, values := range tables {
		kernel, index, _ := strings.Cut(key, "/")
		kernels[kernel] = true
		scalars[index] = values
	}
	if len(kernels) > 1 {
		return fmt.Errorf("the file has %d kernels with tables: give their values with --scalars", len(kernels))
	}
	if len(scalars) > 0 {
		p.Scalars = scalars
	}
	return nil
}

// runJAX lowers a file in a folder of its own.
func runJAX(ctx context.Context, python, source string, s gdn.Spec) (string, error) {
	dir, err := os.MkdirTemp("", "gdngen-jax-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file, script, out := filepath.Join(dir, "kernel.py"), filepath.Join(dir, "lower.py"), filepath.Join(dir, "kernel.mlir")
	if err := errors.Join(os.WriteFile(file, []byte(source), 0o644), os.WriteFile(script, []byte(lowerScript), 0o644)); err != nil {
		return "", err
	}
	what := "forward"
	if s.Direction != gdn.Forward {
		what = "gradient"
	}
	args := []string{filepath.Base(script), filepath.Base(file), filepath.Base(out), what}
	for _, in := range s.Inputs() {
		args = append(args, in.Name+"="+jaxTypes[in.Type.DType])
	}
	if python, err = exec.LookPath(python); err == nil {
		python, err = filepath.Abs(python) // the command runs in another folder
	}
	if err != nil {
		return "", fmt.Errorf("no Python to lower by: %w", err)
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir = dir                                       // so that names in the text are the same each time
	cmd.Env = append(os.Environ(), "JAX_PLATFORMS=cpu") // lowering needs no device
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if missing := (*exec.ExitError)(nil); err != nil && !errors.As(err, &missing) {
		return "", fmt.Errorf("%s can not be run: %w", python, err)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return "", &Refusal{Verdict: EmitError, Err: fmt.Errorf("%s does not lower the Pallas file: %s", python, lines[len(lines)-1]), Log: said.String()}
	}
	text, err := os.ReadFile(out)
	return string(text), err
}

// PallasCosts returns the static costs of a form, as Mosaic kernels, for the header of a Pallas file. A target that
// refuses the kernels is left out and reported to refused.
func (x *Instrument) PallasCosts(ctx context.Context, f *route.Form, targets []*target.Target, refused func(*target.Target, error)) ([]pallas.Cost, error) {
	route, err := route.Lookup("mosaic")
	if err != nil {
		return nil, err
	}
	program, err := Of(f, route)
	if err != nil {
		return nil, err
	}
	var costs []pallas.Cost
	for _, t := range targets {
		c, err := x.Static(ctx, program, t, Options{})
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			refused(t, err)
			continue
		}
		costs = append(costs, pallas.Cost{Target: t.Name, Cycles: c.Report.Cycles, Wall: max(0, c.Report.Wall.Cycles)})
	}
	return costs, nil
}
