package lower

import (
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Suit reads the text of a variant for a spec and a target: of the forms of a named variant (gdn.ParseVariantFor) the first
// whose kernels leave a fifth of the target's vector memory to spills, or the last where none does.
func Suit(s gdn.Spec, text string, t *codegen.Target) (gdn.Variant, error) {
	forms, err := gdn.ParseVariantFor(text, s, t.Machine())
	if err != nil {
		return gdn.Variant{}, err
	}
	for _, v := range forms[:len(forms)-1] {
		m, err := gdn.Build(s, v)
		if err != nil {
			continue
		}
		if m, err = Kernels(m); err == nil && vmem(m) <= t.VMEM/5*4 {
			return v, nil
		}
	}
	return forms[len(forms)-1], nil
}

// vmem is the most vector memory that a kernel of a module needs.
func vmem(m *ir.Module) int {
	most := 0
	for _, in := range m.Body.Instrs {
		if in.Op == ir.OpKernel {
			most = max(most, mosaic.VMEMBytes(in))
		}
	}
	return most
}
