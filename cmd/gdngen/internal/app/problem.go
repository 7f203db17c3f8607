package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// ParseSpec parses a spec; an error is a usage error.
func ParseSpec(text string) (gdn.Spec, error) {
	s, err := gdn.Parse(text)
	return s, Usage(err)
}

// ParseVariant parses a variant; an error is a usage error.
func ParseVariant(text string) (gdn.Variant, error) {
	v, err := gdn.ParseVariant(text)
	return v, Usage(err)
}

// ParseTargets parses a list of targets; "all" means every target. An error is a usage error.
func ParseTargets(text string) ([]*target.Target, error) {
	list, err := target.Parse(text)
	return list, Usage(NearTarget(err))
}

// NearTarget adds the nearest target name to an error about an unknown one.
func NearTarget(err error) error {
	if unknown := (*target.UnknownError)(nil); errors.As(err, &unknown) {
		name := strings.TrimPrefix(strings.ToLower(unknown.Name), "tpu") // as in tpuv6, but tpu7x is a name
		if meant := Near(name, target.Names(), ""); meant != "" && name != "" {
			return fmt.Errorf("%w%s", err, meant)
		}
		return fmt.Errorf("%w%s", err, Near(unknown.Name, target.Names(), ""))
	}
	return err
}

// ParseBackend returns the route of a backend; an unknown name is a usage error.
func ParseBackend(name string) (route.Route, error) {
	r, err := route.Lookup(name)
	if err != nil {
		return r, Usage(fmt.Errorf("%w%s", err, Near(name, BackendNames(), "")))
	}
	return r, nil
}

func BackendNames() []string {
	var names []string
	for _, r := range route.Routes {
		names = append(names, r.Name())
	}
	return names
}

// SpecFlag adds --spec.
func SpecFlag(cmd *cobra.Command, at *string, value string) {
	cmd.Flags().StringVar(at, "spec", value, "what is computed: a preset, fields, or both (see gdngen help spec)")
	CompleteChoices(cmd, "spec", specNames, specChoices)
}

// CheckText checks the text of a variant as far as possible without a spec.
func CheckText(text string) error {
	if _, ok := gdn.ParseAuto(text); ok {
		return nil
	}
	_, err := ParseVariant(text)
	return err
}

// VariantFlag adds --variant, and --accuracy, which is short for --variant auto-ACCURACY.
func (a *App) VariantFlag(cmd *cobra.Command, at *string) {
	*at = gdn.Auto
	cmd.Flags().Var(&variantText{a, at}, "variant", "how it is computed: auto, a name, axes, or both, or @RUN#5 for a candidate of a search (see gdngen help variant)")
	cmd.Flags().Var(&AccuracyText{At: at}, "accuracy", "class of accuracy that auto keeps to: "+strings.Join(gdn.AccuracyNames(), " or "))
	CompleteChoices(cmd, "variant", VariantOffers, VariantChoices)
	Complete(cmd, "accuracy", gdn.AccuracyNames())
}

// variantText is the value of --variant.
type variantText struct {
	*App
	at *string
}

func (v *variantText) Type() string { return "string" }

func (v *variantText) String() string {
	if v.at == nil {
		return ""
	}
	return *v.at
}

func (v *variantText) Set(text string) error {
	v.TellRenamed(text)
	text, err := autotune.VariantOf(text)
	if err != nil {
		return err
	}
	before, _ := gdn.ParseAuto(*v.at) // --accuracy came before it
	joined, err := gdn.WithAccuracy(text, before)
	if err == nil {
		*v.at = joined
	}
	return err
}

// TellRenamed notes the axes in a variant's text that have new names.
func (a *App) TellRenamed(text string) {
	if notes := gdn.Renamed(text); len(notes) > 0 {
		a.Note("%s", strings.Join(notes, ", "))
	}
}

// AccuracyText is the value of flag --accuracy. Setting it rewrites the variant text At, the value of --variant.
type AccuracyText struct {
	At   *string
	name string
}

func (v *AccuracyText) String() string { return v.name }
func (v *AccuracyText) Type() string   { return "string" }

func (v *AccuracyText) Set(name string) error {
	a, err := gdn.ParseAccuracy(name)
	if err != nil {
		return err
	}
	joined, err := gdn.WithAccuracy(*v.At, a)
	if err == nil {
		*v.At, v.name = joined, name
	}
	return err
}

// PythonEnv is the environment variable that names a Python with JAX.
const PythonEnv = "GDNGEN_PYTHON"

// Resolve resolves the text of a variant like route.Resolve, with the champions of the user's configuration. A wrong text is a usage error.
func Resolve(s gdn.Spec, text string, t *target.Target) (*route.Form, error) {
	var broken error // of the configuration: no usage error
	f, err := route.Resolve(s, text, t, func(s gdn.Spec, target string, class gdn.Accuracy) (variant, origin string, err error) {
		variant, origin, broken = promoted.Champion(s, target, class)
		return variant, origin, broken
	})
	if err != nil && broken == nil {
		return nil, Usage(err)
	}
	return f, err
}

// TellPromoted notes, once, that auto chose a variant of the user's configuration, since other users get other figures.
func (a *App) TellPromoted(f *route.Form) {
	if line := f.Why(); f.Promoted != "" && !slices.Contains(a.told, line) {
		a.told = append(a.told, line)
		a.Note("auto is %s", line)
	}
}

// Say notes auto's choice and its reason, and warns of unsafe variants.
func (a *App) Say(f *route.Form) {
	if auto := f.Why(); auto != "" {
		a.Note("auto is %s", auto)
	}
	if why := f.Variant.Unsafe(f.Spec); why != "" {
		a.Warn("%s", why)
	}
	if f.Spec.DType == ir.F32 && f.Variant.Precision() == ir.PrecBF16x1 {
		a.Warn("the tensors are f32, and this variant has products of one bf16 pass: --accuracy f32-like has three passes")
	}
}
