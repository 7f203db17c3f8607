package kernels

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

// casesFlags are the flags of stored cases.
type casesFlags struct{ cases, out, engine, variant, target, level, only, plugin string }

// CasesCmd returns the hidden command that check --cases replaces.
func (a CLI) CasesCmd() *cobra.Command {
	var r casesFlags
	c := &cobra.Command{
		Use:   "run --cases DIR --out OUT",
		Short: "Compute stored cases and compare them with what is expected",
		Long: `run reads a folder of cases (manifest.json and safetensors files), computes each supported case from its inputs alone, writes
OUT/<case>.safetensors with the names and shapes of the expected tensors, and compares by the manifest's tolerance for
the precision of the variant. A file that holds inputs alone is computed and written without a comparison. What is not
supported is listed with the reason.

Engines:` + engine.Help() + `

The status is 3 if a case is outside its tolerance, and 1 if a case can not be computed.`,
		Example: `  gdngen check --cases tests/fixtures --out out
  gdngen check --cases tests/fixtures --out out --engine interp --variant solve=ladder,leaf=16 -o json
  gdngen check --cases tests/fixtures --out out --only s08,s09 --variant bf16x3
  gdngen check --cases tests/fixtures --out out --only s07 --target v5e --engine module`,
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.cases(&r) },
	}
	c.Flags().StringVar(&r.cases, "cases", "", "folder of the cases")
	c.Flags().StringVar(&r.out, "out", "", "folder that the outputs are written to; made where it is missing")
	c.Flags().StringVar(&r.engine, "engine", "interp", strings.Join(engine.Names(), ", "))
	a.VariantFlag(c, &r.variant)
	c.Flags().StringVar(&r.target, "target", "", "compute what is made for this TPU generation")
	c.Flags().StringVar(&r.plugin, "plugin", "", "with --engine device: "+app.PluginUse)
	c.Flags().StringVar(&r.level, "level", "", "of the interpreter: tensor, or kernel after the lowering of grids (default: kernel with --target, else tensor)")
	app.Complete(c, "target", target.Names())
	app.Complete(c, "level", []string{"tensor", "kernel"})
	c.Flags().StringVar(&r.only, "only", "", "only cases whose name holds one of these texts, separated by commas")
	app.Complete(c, "engine", engine.Names())
	return c
}

// cases computes stored cases and compares them.
func (a CLI) cases(r *casesFlags) error {
	if r.cases == "" || r.out == "" {
		return app.Usage(errors.New("stored cases need --cases DIR and --out OUT"))
	}
	p, err := newPlan(r.variant, r.target, r.level, r.engine)
	if err != nil {
		return err
	}
	p.Tell = a.TellPromoted
	if same, err := store.Same(r.cases, r.out); err != nil {
		return err
	} else if same {
		return app.Usage(fmt.Errorf("--out %s is the folder of the cases, whose files would be overwritten", r.out))
	}
	cases, err := truth.ReadCases(r.cases)
	if err != nil {
		return err
	}
	if cases, err = check.Choose(cases, r.only); err != nil {
		return app.Usage(err)
	}
	result := check.Cases{Cases: r.cases, Engine: r.engine, Variant: p.Text, Target: p.TargetName(), Level: p.Level, Counts: map[string]int{}}
	if !p.Auto() {
		v, err := app.ParseVariant(p.Text)
		if err != nil {
			return err
		}
		result.Variant, result.Precision = v.String(), v.Precision().String()
	}
	if r.engine == "reference" {
		result.Variant, result.Precision = "", "f32"
	}
	if err := a.Attach(&p, r.engine, r.plugin, r.target); err != nil {
		return err
	}
	f, l, err := a.findEngine(r.engine, p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	return a.runCases(&result, check.Engine{Plan: p, Compute: f, Layer: l}, cases, r.out)
}

// runCases computes the cases, prints the result and returns an error with the exit status.
func (a CLI) runCases(r *check.Cases, e check.Engine, cases []truth.Case, out string) error {
	if err := r.Run(a.Ctx, e, cases, out, a.Note); err != nil {
		return err
	}
	if err := app.Emit(a.App, r, r.Results, r.Write); err != nil {
		return err
	}
	for _, s := range check.Statuses {
		if n := r.Counts[s]; n > 0 {
			a.Note("%d %s", n, s)
		}
	}
	switch {
	case r.Counts[check.Fail] > 0:
		return app.Failed(app.ExitNumerics, "%d of %d cases are outside their tolerance", r.Counts[check.Fail], len(cases))
	case r.Counts[check.Error] > 0:
		return fmt.Errorf("%d of %d cases could not be computed, the first because: %w", r.Counts[check.Error], len(cases), r.Err())
	}
	return nil
}
