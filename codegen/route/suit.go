package route

import (
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
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

// Suit reads the text of a variant for a spec and a target; without one, for a CPU. A variant is what its text says. Text of
// gdn.Auto stands for the best known variant: of gdn.Choices the first whose kernels leave a fifth of the target's vector memory to
// spills, or the last where none does. What was built to find out stays in the form.
//
// The fifth: what a kernel names (windows, scratch, rings) is counted, and what the compiler adds for values that find no register is not
// known before it has run. A form that fills the memory by count would be refused there, after a compile.
//
//	choices A, B, C: A needs 90 % of the memory, B 70 %   ->   B; C is never built
func Suit(s gdn.Spec, text string, t *codegen.Target) (*Form, error) {
	// A named variant is taken as it is, whether its kernels fit or not: Emit refuses what can not, and names the biggest users.
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
	// The last one is not tried: there is nothing behind it, and what keeps it from being emitted is then said by the one who emits it.
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
		why := f.Variant.Short() + ": " + f.From.Why
		if f.Variant.Mapping.Chain {
			why += "; batch rows follow one another in one program, which fills and drains once"
		}
		return why
	}
	return ""
}
