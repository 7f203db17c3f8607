package build

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// One step of Newton's iteration takes back what one bf16 pass costs the inverse where keys are alike: errors fall to those of the products
// around it. Rows of heads alone, values that are turned (pack=aligned), normalized keys and pairs of heads in a product have it alike.
func TestRefine(t *testing.T) {
	for _, test := range []struct{ name, variant, spec string }{
		{"rows", "tpu-long,tail_decay=v", "t=256,hk=1,hv=2,k=32,v=32,dtype=bf16,out=f32"},
		{"a step of phases", "tpu,out=separate,tail_decay=v", "t=256,hk=1,hv=2,k=32,v=32,dtype=bf16,out=f32"},
		{"turned", "tpu-packed,decay_bf16=operands", "t=256,hk=1,hv=2,k=32,v=32,dtype=bf16,out=f32,seqs=2"},
		{"norms", "tpu-long,tail_decay=v", "t=256,hk=1,hv=2,k=32,v=32,dtype=bf16,out=f32,l2norm"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := gdn.Parse(test.spec)
			require.NoError(t, err)
			c, err := truth.LookupClass("cos.9")
			require.NoError(t, err)
			in, err := c.Generate(s, 1)
			require.NoError(t, err)
			want, err := truth.Reference(s, in)
			require.NoError(t, err)
			off := func(variant string) float64 {
				v, err := gdn.ParseVariant(variant)
				require.NoError(t, err)
				m, err := Module(s, v)
				require.NoError(t, err)
				got, err := interp.Run(m, in, interp.Options{})
				require.NoError(t, err)
				return array.Compare(got["final_state"], want["final_state"]).Ratio
			}
			require.Less(t, off(test.variant+",refine=yes"), .6*off(test.variant))
		})
	}
}

// Where A is bf16 already there is nothing to take back.
func TestRefineApplies(t *testing.T) {
	for _, text := range []string{"tpu-long,decay_bf16=all", "tpu-x3", "cpu", "tpu,flow=split"} {
		_, err := gdn.ParseVariant(text + ",refine=yes")
		require.ErrorContains(t, err, "does not apply", text)
	}
}
