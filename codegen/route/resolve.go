package route

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Form is a spec with a resolved variant. Its two modules are built on first use, once each.
type Form struct {
	Spec     gdn.Spec
	Variant  gdn.Variant
	From     *gdn.Champion // the row of gdn.Champions that auto was resolved by; nil for a named variant
	Promoted string        // if the user's configuration resolved auto: its origin, and the variant auto is without it

	changes        string // the axes written after auto, as text
	built, kernels func() (*ir.Module, error)
}

// NewForm returns the form of a spec by a variant. Nothing is built before Build or Kernels is called.
func NewForm(s gdn.Spec, v gdn.Variant) *Form { return new(Cells).Form(s, v) }

// Build returns the module at the tensor level, built on the first call.
func (f *Form) Build() (*ir.Module, error) { return f.built() }

// Kernels returns the module of TPU kernels (pass.Kernels), built on the first call.
func (f *Form) Kernels() (*ir.Module, error) { return f.kernels() }

// Champions returns the variant that a user promoted for a spec, target name and accuracy class, and its origin for messages. The
// variant is "" if there is none.
type Champions func(s gdn.Spec, target string, class gdn.Accuracy) (variant, origin string, err error)

// For returns the target that variants of this route are resolved for: t if its programs are TPU kernels, else nil.
func (r Route) For(t *target.Target) *target.Target {
	if r.Kernels {
		return t
	}
	return nil
}

// Resolve parses a variant text for a spec and resolves auto; t is nil for a CPU. A named variant is taken exactly as its text says.
// gdn.Auto is, in this order,
//
//	the user's champion   if champions has one for the spec, target and accuracy class, and the text changes no axis
//	the best known        the first of gdn.Choices whose kernels leave a fifth of the target's VMEM to spills, else the last
//
// Why a fifth: the count of a kernel's memory covers windows, scratch and rings, which it names. Register spills are added by the
// compiler, and are unknown before it runs. A form that fills VMEM by count would be refused there, after a compile.
//
//	choices A, B, C: A needs 90 % of the memory, B 70 %   ->   B; C is never built
//
// An error says that the text does not parse or that the variant is illegal for the spec. Modules built on the way stay in the form.
func Resolve(s gdn.Spec, text string, t *target.Target, champions Champions) (*Form, error) {
	f, err := known(s, text, t)
	if err == nil {
		err = f.Variant.Check(s)
	}
	class, auto := gdn.ParseAuto(text)
	if err != nil || champions == nil || t == nil || !auto || f.changes != "" {
		return f, err
	}
	variant, origin, err := champions(s, t.Name, class)
	if err != nil || variant == "" {
		return f, err
	}
	own, err := Resolve(s, variant, t, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", origin, err)
	}
	own.Promoted = fmt.Sprintf("%s; without it auto is %s", origin, f.Variant.Short())
	return own, nil
}

// known is Resolve without the user's champions.
func known(s gdn.Spec, text string, t *target.Target) (*Form, error) {
	// A named variant is taken even if its kernels do not fit: Emit refuses those, and names the largest users of memory.
	if _, ok := gdn.ParseAuto(text); !ok {
		v, err := gdn.ParseVariant(text)
		return NewForm(s, v), err
	}
	host, machine := gdn.HostCPU, gdn.Machine{}
	if t != nil {
		host, machine = gdn.HostTPU, t.Machine()
	}
	choices, err := gdn.Choices(text, s, host, machine)
	if err != nil {
		return nil, err
	}
	_, changes, _ := strings.Cut(text, ",")
	// Choices that differ only in schedules share one tiling, and the chosen form keeps the kernels that were measured.
	var cells Cells
	chosen := func(c gdn.Choice) *Form {
		f := cells.Form(s, c.Variant)
		f.From, f.changes = c.From, changes
		return f
	}
	// The last choice is not tried, since no choice follows it. Emit reports what is wrong with it.
	for _, c := range choices[:len(choices)-1] {
		f := chosen(c)
		if m, err := f.Kernels(); err == nil && mosaic.NeedsVMEM(m) <= t.VMEM/5*4 {
			return f, nil
		}
	}
	return chosen(choices[len(choices)-1]), nil
}

// Why says which variant auto was resolved to and for what reason; "" for a named variant.
//
//	auto,chunk=64   VARIANT: the best known, changed by chunk=64
//	auto            VARIANT: the reason of its row in gdn.Champions, or its origin in the user's configuration (Promoted)
func (f *Form) Why() string {
	switch {
	case f.changes != "":
		return f.Variant.Short() + ": the best known, changed by " + f.changes
	case f.Promoted != "":
		return f.Variant.Short() + ": " + f.Promoted
	case f.From != nil:
		why := strings.TrimPrefix(f.Variant.Short(), "default,") + ": " + f.From.Why // axes alone are changes of the default
		if f.Variant.Mapping.PersistentRows {
			why += "; batch rows follow one another in one program, which fills and drains once"
		}
		return why
	}
	return ""
}
