package oracle

import (
	"testing"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/stretchr/testify/require"
)

// taken are the works whose form auto chooses, each with a work of the same kind that is small enough for the oracle, to which the form is
// fitted: fewer tokens and heads, and shorter chunks, so that there are several steps of them. So the rows follow auto, whatever it takes.
var taken = []struct {
	work, small, class string
	chunk              int
}{
	{"bench", "t=290,hk=2,hv=4,k=128,v=128,dtype=bf16", "cos.9", 32},
	{"bench,init", "t=270,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "random", 32},
	{"bench,gates=fused,gatedtype=bf16,l2norm", "t=270,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm", "random", 32},
	{"train", "t=270,hk=2,hv=4,k=128,v=128,dtype=bf16,direction=train", "random", 32},
	{"train,gates=fused,l2norm", "t=270,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,l2norm,direction=train", "random", 32},
	{"bench,hv=4,rule=kda,bound=-5,init", "t=140,hk=2,hv=2,k=128,v=128,dtype=bf16,rule=kda,bound=-5,init", "random", 32},
	{"bench,seqs=8", "t=290,hk=2,hv=4,k=128,v=128,dtype=bf16,seqs=5", "reset.cos.9", 32},
	{"contest-prefill,seqs=57,inplace", "t=290,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=6,init,state=vk,empty=zero,inplace,packed", "reset.cos.9", 32},
	{"contest-decode,b=64", "b=4,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk", "random", 0},
	{"decode-pool", "b=4,t=1,hk=1,hv=2,k=128,v=128,dtype=bf16,init,pool=6,inplace", "random", 0},
}

// Our evaluator and the oracle agree on what auto takes today, by class of accuracy and target. Three rows by commit.
func TestAutoAgainstOracle(t *testing.T) {
	py := python(t)
	type row struct {
		work     int
		accuracy gdn.Accuracy
		target   string
	}
	var rows []row
	for i := range taken {
		for a := gdn.AccuracyFast; a <= gdn.AccuracyF32; a++ {
			for _, target := range []string{"v5e", "v6e", "tpu7x"} {
				rows = append(rows, row{work: i, accuracy: a, target: target})
			}
		}
	}
	for _, r := range rotate.Sample(13, rows, 3) {
		c := taken[r.work]
		t.Run(c.work+"/"+r.accuracy.String()+"/"+r.target, func(t *testing.T) {
			t.Parallel()
			work, err := gdn.Parse(c.work)
			require.NoError(t, err)
			on, err := target.Lookup(r.target)
			require.NoError(t, err)
			form, err := route.Resolve(work, r.accuracy.Text(), on, nil)
			require.NoError(t, err)
			v, limit := form.Variant, bf16Tolerance
			s, err := gdn.Parse(c.small)
			require.NoError(t, err)
			if v.Precision().String() != "bf16x1" {
				limit, s.Out = x3Tolerance, ir.F32 // as tpu-x3 above
			}
			if c.chunk > 0 {
				v.Chunk = c.chunk
			}
			kept, fitted := form.Variant.Fit(work), v.Fit(s)
			kept.Chunk, kept.Mapping.Heads = fitted.Chunk, fitted.Mapping.Heads
			require.Equal(t, kept.String(), fitted.String(), "the small work has another form")
			class, err := truth.LookupClass(c.class)
			require.NoError(t, err)
			t.Log(v.Short())
			agree(t, py, s, v, on, class, limit)
		})
	}
}
