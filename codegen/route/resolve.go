package route

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Form is a spec by a variant. Its modules are made when they are asked for, once each.
type Form struct {
	Spec     gdn.Spec
	Variant  gdn.Variant
	From     *gdn.Champion // the row that auto chose it by; nil where it was named
	Promoted string        // where the user's configuration gave it for auto: where it comes from, and what auto is without

	changes        string // of auto, by axes after it
	built, kernels func() (*ir.Module, error)
}

// NewForm gives the form of a spec by a variant. It builds nothing yet.
func NewForm(s gdn.Spec, v gdn.Variant) *Form { return new(Cells).Form(s, v) }

// Build gives the module at the tensor level.
func (f *Form) Build() (*ir.Module, error) { return f.built() }

// Kernels gives the module at the kernel level.
func (f *Form) Kernels() (*ir.Module, error) { return f.kernels() }

// Champions gives the variant that a user promoted for a spec on a target in a class of accuracy, and where it comes from; variant is
// empty where there is none.
type Champions func(s gdn.Spec, target string, class gdn.Accuracy) (variant, origin string, err error)

// For gives the target that a variant is resolved for: of a backend whose programs are no kernels of a TPU, none.
func (r Route) For(t *target.Target) *target.Target {
	if r.Kernels {
		return t
	}
	return nil
}

// Resolve says what the text of a variant stands for, for a spec on a target, or without one on a CPU. A named variant is exactly its
// text. gdn.Auto is, in this order,
//
//	the user's champion   where champions has one for the spec, the target and the class of accuracy, and the text changes no axis
//	the best known        of gdn.Choices the first whose kernels leave a fifth of the target's vector memory to spills, else the last
//
// The fifth: a kernel names its windows, scratch and rings, and these are counted. Values that find no register are added by the compiler,
// and are not known before it has run. A form that fills the memory by count would be refused there, after a compile.
//
//	choices A, B, C: A needs 90 % of the memory, B 70 %   ->   B; C is never built
//
// The variant is checked against the spec. Modules that were built to find out stay in the form.
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

// known is Resolve without champions of a user.
func known(s gdn.Spec, text string, t *target.Target) (*Form, error) {
	// A named variant is taken as it is, whether its kernels fit or not: Emit refuses those that do not, and names the biggest users.
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
	// Choices that differ in schedules alone are tiled once for all, and the chosen form keeps the kernels that it was measured by.
	var cells Cells
	chosen := func(c gdn.Choice) *Form {
		f := cells.Form(s, c.Variant)
		f.From, f.changes = c.From, changes
		return f
	}
	// The last one is not tried: nothing is behind it, and Emit says what keeps it from being emitted.
	for _, c := range choices[:len(choices)-1] {
		f := chosen(c)
		if m, err := f.Kernels(); err == nil && mosaic.NeedsVMEM(m) <= t.VMEM/5*4 {
			return f, nil
		}
	}
	return chosen(choices[len(choices)-1]), nil
}

// Why says which variant auto stands for, and for what reason; it is empty for a variant that was named.
//
//	auto,chunk=64   VARIANT: the best known, changed by chunk=64
//	auto            VARIANT: the reason of its row in gdn.Champions, or where the user's configuration has it from (Promoted)
func (f *Form) Why() string {
	switch {
	case f.changes != "":
		return f.Variant.Short() + ": the best known, changed by " + f.changes
	case f.Promoted != "":
		return f.Variant.Short() + ": " + f.Promoted
	case f.From != nil:
		why := strings.TrimPrefix(f.Variant.Short(), "default,") + ": " + f.From.Why // axes alone are changes of the default
		if f.Variant.Mapping.Chain {
			why += "; batch rows follow one another in one program, which fills and drains once"
		}
		return why
	}
	return ""
}
