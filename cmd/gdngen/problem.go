package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/explain"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/target"
)

// parseSpec reads a spec from the command line.
func parseSpec(text string) (gdn.Spec, error) {
	s, err := gdn.Parse(text)
	return s, usage(err)
}

// parseVariant reads a variant from the command line.
func parseVariant(text string) (gdn.Variant, error) {
	v, err := gdn.ParseVariant(text)
	return v, usage(err)
}

// fromRun gives the text of a variant for "@DIR#ID", a candidate of a search, or "@DIR", its champion on the first target. Axes may follow, after a
// comma. Other text stays as it is.
func fromRun(text string) (string, error) {
	at, more, _ := strings.Cut(text, ",")
	place, isRun := strings.CutPrefix(at, "@")
	if !isRun {
		return text, nil
	}
	dir, id := place, ""
	if i := strings.LastIndexByte(place, '#'); i >= 0 {
		dir, id = place[:i], place[i+1:]
	}
	c, err := autotune.Candidate(dir, id)
	if err != nil {
		return "", fmt.Errorf("%s: %w", at, err)
	}
	if c.Variant == "" {
		return "", fmt.Errorf("%s: candidate %d is the text of a program, not a variant: gdngen search best --module FILE writes it", at, c.ID)
	}
	if more == "" {
		return c.Variant, nil
	}
	v, err := gdn.ParseVariant(c.Variant)
	if err != nil {
		return c.Variant + "," + more, nil // of GPUs: the backend reads it
	}
	for change := range strings.SplitSeq(more, ",") {
		axis, value, _ := strings.Cut(change, "=")
		if err == nil {
			v, err = v.With(axis, value)
		}
	}
	return v.String(), err
}

// parseTargets reads a list of targets from the command line; "all" stands for every one.
func parseTargets(text string) ([]*codegen.Target, error) {
	list, err := codegen.ParseTargets(text)
	return list, usage(nearTarget(err))
}

// nearTarget adds the target that a mistyped one is nearest to.
func nearTarget(err error) error {
	if unknown := (*codegen.UnknownTargetError)(nil); errors.As(err, &unknown) {
		name := strings.TrimPrefix(strings.ToLower(unknown.Name), "tpu") // as in tpuv6, but for tpu7x
		if meant := near(name, codegen.TargetNames(), ""); meant != "" && name != "" {
			return fmt.Errorf("%w%s", err, meant)
		}
		return fmt.Errorf("%w%s", err, near(unknown.Name, codegen.TargetNames(), ""))
	}
	return err
}

// parseBackend finds the route of a backend.
func parseBackend(name string) (lower.Route, error) {
	r, err := lower.Lookup(name)
	if err != nil {
		return r, usage(fmt.Errorf("%w%s", err, near(name, backendNames(), "")))
	}
	return r, nil
}

func backendNames() []string {
	var names []string
	for _, r := range lower.Routes {
		names = append(names, r.Name())
	}
	return names
}

// specFlag adds --spec.
func specFlag(cmd *cobra.Command, at *string, value string) {
	cmd.Flags().StringVar(at, "spec", value, "what is computed: a preset, fields, or both (see gdngen help spec)")
	completeChoices(cmd, "spec", specNames, specChoices)
}

// checkText checks the text of a variant as far as no spec is known.
func checkText(text string) error {
	if _, ok := gdn.ParseAuto(text); ok {
		return nil
	}
	_, err := parseVariant(text)
	return err
}

// variantFlag adds --variant and --accuracy, which is another way to say auto-ACCURACY.
func variantFlag(cmd *cobra.Command, at *string) {
	*at = gdn.Auto
	cmd.Flags().Var((*variantText)(at), "variant", "how it is computed: auto, a name, axes, or both, or @RUN#5 for a candidate of a search (see gdngen help variant)")
	cmd.Flags().Var(&accuracyText{at: at}, "accuracy", "class of accuracy that auto keeps to: "+strings.Join(gdn.AccuracyNames(), " or "))
	completeChoices(cmd, "variant", variantOffers, variantChoices)
	complete(cmd, "accuracy", gdn.AccuracyNames())
}

// variantText is the value of --variant.
type variantText string

func (v *variantText) String() string { return string(*v) }
func (v *variantText) Type() string   { return "string" }

func (v *variantText) Set(text string) error {
	text, err := fromRun(text)
	if err != nil {
		return err
	}
	before, _ := gdn.ParseAuto(string(*v)) // --accuracy stood before it
	joined, err := gdn.WithAccuracy(text, before)
	if err == nil {
		*v = variantText(joined)
	}
	return err
}

// accuracyText is the value of --accuracy, which changes that of --variant.
type accuracyText struct {
	at   *string
	name string
}

func (v *accuracyText) String() string { return v.name }
func (v *accuracyText) Type() string   { return "string" }

func (v *accuracyText) Set(name string) error {
	a, err := gdn.ParseAccuracy(name)
	if err != nil {
		return err
	}
	joined, err := gdn.WithAccuracy(*v.at, a)
	if err == nil {
		*v.at, v.name = joined, name
	}
	return err
}

// origin is the flags that say where a module comes from.
type origin struct{ spec, variant, backend, python string }

func (o *origin) flags(cmd *cobra.Command) {
	specFlag(cmd, &o.spec, "")
	variantFlag(cmd, &o.variant)
	cmd.Flags().StringVar(&o.backend, "backend", "mosaic", "what renders the spec: "+strings.Join(backendNames(), ", ")+", or for GPUs "+ptxBackend)
	complete(cmd, "backend", append(backendNames(), ptxBackend))
	cmd.Flags().StringVar(&o.python, "python", "", "Python with JAX, which lowers --backend pallas; empty: that of "+pythonEnv)
}

// pythonEnv names the environment variable with a Python that has JAX.
const pythonEnv = "GDNGEN_PYTHON"

// modules makes the module of each target: the file's, or that of the spec.
func (o *origin) modules(a *app, cmd *cobra.Command, args []string, targets []*codegen.Target) ([]*explain.Module, error) {
	switch {
	case len(args) == 1 && o.spec != "":
		return nil, usage(errors.New("give a file or --spec, not both"))
	case len(args) == 0 && o.spec == "":
		return nil, usage(errors.New("what to compile? give a file of StableHLO, or --spec"))
	case len(args) == 1:
		for _, flag := range []string{"variant", "backend"} {
			if cmd.Flags().Changed(flag) {
				return nil, usage(fmt.Errorf("--%s goes with --spec, not with a file", flag))
			}
		}
		return a.fileModules(args[0], targets)
	}
	return o.generate(a, o.variant, targets)
}

// others makes the modules to compare with: the same spec by another variant, or those of a file.
func (o *origin) others(a *app, text string, targets []*codegen.Target) ([]*explain.Module, error) {
	text, err := fromRun(text)
	if err != nil {
		return nil, usage(err)
	}
	if o.spec != "" {
		err := checkText(text)
		if err == nil {
			return o.generate(a, text, targets)
		}
		if _, missing := os.Stat(text); missing != nil && text != "-" {
			return nil, usage(fmt.Errorf("--diff %s is neither a file nor a variant: %w", text, err))
		}
	}
	return a.fileModules(text, targets)
}

// generate renders the spec by a variant for each target.
func (o *origin) generate(a *app, variant string, targets []*codegen.Target) ([]*explain.Module, error) {
	s, err := parseSpec(o.spec)
	if err != nil {
		return nil, err
	}
	if o.backend == ptxBackend {
		return nil, usage(fmt.Errorf("--backend %s is for GPUs: name one by --target (%s)", ptxBackend, strings.Join(target.GPUNames(), " ")))
	}
	r, err := parseBackend(o.backend)
	if err != nil {
		return nil, err
	}
	if r.Name() == "pallas" {
		return o.byJAX(a, s, variant, targets)
	}
	var list []*explain.Module
	for _, t := range targets {
		f, err := suit(s, variant, r, t)
		if err != nil {
			return nil, err
		}
		program, err := measure.Of(f, r)
		if err == nil {
			_, err = program.Text(t)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		m := explain.NewModule(program)
		m.Auto = f.Why()
		a.tellPromoted(f)
		list = append(list, m)
	}
	return list, nil
}

// byJAX lowers the Pallas file of the spec, the same for each target.
func (o *origin) byJAX(a *app, s gdn.Spec, variant string, targets []*codegen.Target) ([]*explain.Module, error) {
	python := cmp.Or(o.python, os.Getenv(pythonEnv))
	if python == "" {
		return nil, usage(fmt.Errorf("--backend pallas writes Python, which JAX lowers: name a Python that has JAX by --python or %s, or lower the file of gdngen gen --backend pallas "+
			"yourself, by jax.jit(f).trace(...).lower(lowering_platforms=(\"tpu\",)).as_text(), and give that", pythonEnv))
	}
	f, err := suit(pallas.Spec(s), variant, lower.Route{}, nil)
	if err != nil {
		return nil, err
	}
	a.note("lowering the Pallas file by %s", python)
	program, err := measure.ByJAX(a.ctx, python, f)
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]*explain.Module{explain.NewModule(program)}, len(targets)), nil
}

// suit reads a variant and checks it against the spec; auto is the best known for the target, or for a CPU, and the user's own
// champions come before those of the table.
func suit(s gdn.Spec, text string, r lower.Route, t *codegen.Target) (*lower.Form, error) {
	f, err := measure.Suit(s, text, r, t)
	if err != nil {
		return nil, usage(err)
	}
	return promoted.Prefer(f, text, r, t)
}

// tellPromoted says, once, that auto is a variant of the user's configuration, since another user gets other figures.
func (a *app) tellPromoted(f *lower.Form) {
	if line := f.Why(); f.Promoted != "" && !slices.Contains(a.told, line) {
		a.told = append(a.told, line)
		a.note("auto is %s", line)
	}
}

// fileModules is the module of a file, or of a folder of stored schedules, the same for each target.
func (a *app) fileModules(name string, targets []*codegen.Target) ([]*explain.Module, error) {
	if at, err := os.Stat(name); err == nil && at.IsDir() {
		program, err := measure.Stored(name)
		if err != nil {
			return nil, err
		}
		return slices.Repeat([]*explain.Module{explain.NewModule(program)}, len(targets)), nil
	}
	data, err := a.readInput(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w%s", err, meant(name, true, true))
	case err != nil:
		return nil, err
	}
	program, err := measure.ReadForeign(name, data)
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]*explain.Module{explain.NewModule(program)}, len(targets)), nil
}
