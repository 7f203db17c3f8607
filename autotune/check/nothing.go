package check

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// nothing reports whether a stored case has no tokens, or no rows. It is never compiled.
func nothing(s gdn.Spec) bool { return s.Batch == 0 || s.Tokens == 0 }

// ofNothing returns the outputs for no tokens or no rows. States and caches are copied from the inputs (or zeros), and
// so are their gradients; the rest is empty or zero.
func ofNothing(s gdn.Spec, inputs map[string]*array.Array) map[string]*array.Array {
	from := map[string]string{"final_state": "initial_state", "final_conv": "initial_conv", "dinitial_state": "dfinal_state", "dinitial_conv": "dfinal_conv"}
	outputs := map[string]*array.Array{}
	for _, p := range s.Outputs() {
		x := inputs[from[p.Name]]
		if s.Empty == gdn.EmptyZero && s.Seqs > 0 || x == nil {
			x = array.New(p.Type.DType, p.Type.Shape...)
		}
		outputs[p.Name] = x.Convert(p.Type.DType)
	}
	return outputs
}
