package lower

import (
	"sync"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Form is a spec by a variant. Its modules are made when they are asked for, once each.
type Form struct {
	Spec    gdn.Spec
	Variant gdn.Variant

	built, kernels func() (*ir.Module, error)
}

// NewForm gives the form of a spec by a variant. It builds nothing yet.
func NewForm(s gdn.Spec, v gdn.Variant) *Form {
	f := &Form{Spec: s, Variant: v}
	f.built = sync.OnceValues(func() (*ir.Module, error) { return gdn.Build(s, v) })
	f.kernels = sync.OnceValues(func() (*ir.Module, error) {
		m, err := f.built()
		if err != nil {
			return nil, err
		}
		return Kernels(m)
	})
	return f
}

// Build gives the module at the tensor level.
func (f *Form) Build() (*ir.Module, error) { return f.built() }

// Kernels gives the module at the kernel level.
func (f *Form) Kernels() (*ir.Module, error) { return f.kernels() }

// Suit reads the text of a variant for a spec and a target: of the forms of a named variant (gdn.ParseVariantFor) the first
// whose kernels leave a fifth of the target's vector memory to spills, or the last where none does. What was built to find
// out stays in the form.
func Suit(s gdn.Spec, text string, t *codegen.Target) (*Form, error) {
	variants, err := gdn.ParseVariantFor(text, s, t.Machine())
	if err != nil {
		return nil, err
	}
	last := len(variants) - 1
	for _, v := range variants[:last] {
		f := NewForm(s, v)
		if m, err := f.Kernels(); err == nil && mosaic.NeedsVMEM(m) <= t.VMEM/5*4 {
			return f, nil
		}
	}
	return NewForm(s, variants[last]), nil
}
