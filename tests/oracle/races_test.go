package oracle

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
)

// The kernels of a package, as a TPU gets them, run by the interpreter of TPUs: no race, nothing is made of memory that nothing wrote or
// of what is outside of an array, and results are those of the rule. Rows are more than programs of two take. One kernel rotates by commit.
func TestPallasRaces(t *testing.T) {
	py := python(t)
	s, err := gdn.Parse("b=2,t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,init")
	require.NoError(t, err)
	var parts []pallas.Part
	for _, p := range pallas.Parts(s) {
		text := map[string]string{"train": "tpu-train,chunk=64", "decode": "decode", "packed": "tpu-packed-128,chunks=4,prefetch=dma,hbm=yes"}[p.Name]
		p.Variant, err = gdn.ParseVariant(cmp.Or(text, "tpu,batch=2"))
		require.NoError(t, err)
		parts = append(parts, p)
	}
	_, dir := writePackage(t, parts)
	for _, kernel := range rotate.Sample(23, []string{"forward", "rows", "short", "gradient", "packed", "decode", "ring", "pool"}, 1) {
		require.Contains(t, runJAX(t, "", py, "pallas_races.py", dir, kernel), kernel+": no race")
	}
}
