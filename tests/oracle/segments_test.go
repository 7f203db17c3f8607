package oracle

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	clean "github.com/gdngen/gdngen/ir/passes"
)

// The helper by which a file schedules packed sequences gives the table and the marks that the XLA ops of the module do: sequences of several in a block, of
// several blocks, of none, and more than the tokens.
func TestPallasSegments(t *testing.T) {
	py := python(t)
	for name, row := range map[string]struct{ spec, variant string }{
		"four":  {"t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=7,init,packed", "tpu-packed,chunk=32,mergepairs=0"},
		"one":   {"t=96,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=1,init,packed", "tpu-packed,chunk=32,mergepairs=0,chunks=1"},
		"empty": {"t=256,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=5,init,empty=zero,packed", "tpu-packed,chunk=64,mergepairs=0,chunks=2"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := gdn.Parse(row.spec)
			require.NoError(t, err)
			v, err := gdn.ParseVariant(row.variant)
			require.NoError(t, err)
			path := writePallas(t, s, v)
			m, err := build.Module(s, v)
			require.NoError(t, err)
			grid := m.Body.Instrs[slices.IndexFunc(m.Body.Instrs, func(in *ir.Instr) bool { return in.Op == ir.OpGrid && in.Attrs.Grid.Tables == 1 })]
			marks := grid.Args[slices.IndexFunc(grid.Args, func(x *ir.Value) bool { return x.Type.DType == ir.I32 && x.Type.Rank() == 3 })]
			m.Body.Yield, m.Results = []*ir.Value{grid.Args[0], marks}, []string{"table", "marks"}
			m, err = clean.DCE(m)
			require.NoError(t, err)

			random := rand.New(rand.NewPCG(7, 9))
			lengths := make([]string, 0, 4)
			var want []string
			in := map[string]*array.Array{}
			for _, p := range m.Params() {
				in[p.Name] = array.New(p.Type.DType, p.Type.Shape...)
			}
			for range cap(lengths) {
				cu := make([]int64, s.Seqs+1)
				for i := range s.Seqs - 1 {
					cu[i+1] = min(cu[i]+random.Int64N(4)*random.Int64N(40), int64(s.Tokens))
				}
				cu[s.Seqs] = int64(s.Tokens)
				lengths = append(lengths, strings.ReplaceAll(fmt.Sprint(cu), " ", ", "))
				in["cu_seqlens"] = array.FromInt64s(ir.I64, []int{len(cu)}, cu)
				got, err := interp.Run(m, in, interp.Options{})
				require.NoError(t, err)
				want = append(want, fmt.Sprint(got["table"].Int64s(), got["marks"].Int64s()))
			}
			at := v.Fit(s)
			program := fmt.Sprintf("import jax.numpy as jnp, numpy as np, gated_delta_rule as f\nfor cu in [%s]:\n    both = f._visits(jnp.array(cu), %d, %d, %d)\n"+
				"    print(*('[' + ' '.join(map(str, np.array(x).ravel())) + ']' for x in both))\n",
				strings.Join(lengths, ", "), (s.Tokens+at.Chunk-1)/at.Chunk, at.Chunk, at.Mapping.Chunks)
			require.Equal(t, strings.Join(want, "\n"), strings.TrimSpace(runJAX(t, filepath.Dir(path), absolute(t, py), "-c", program)))
		})
	}
}
