package stablehlo_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

const fixtures = "../../tests/fixtures"

// Cases of the fixtures on the CPU by the default variant, half of them by commit, and one with shared key heads by a few others that
// compile quickly. GDNGEN_TESTS=all runs all by all, which takes minutes. (The interpreter runs all of them in gdn.)
func TestFixturesOnCPU(t *testing.T) {
	e := pjrttest.CPU(t)
	cases, err := truth.ReadCases(fixtures)
	require.NoError(t, err)
	others, err := truth.ReadCases(fixtures + "/family")
	require.NoError(t, err)
	cases = append(cases, others...)
	drawn := map[string]bool{}
	for _, c := range rotate.Sample(30, cases, len(cases)/2) {
		drawn[c.Name] = true
	}
	for _, n := range gdn.Variants {
		v, err := gdn.ParseVariant(n.Text)
		require.NoError(t, err)
		for _, c := range cases {
			all := n.Name == "default" && drawn[c.Name] || rotate.All()
			some := c.Name == "s03_gva_4to8" && slices.Contains([]string{"token", "uw", "ladder"}, n.Name)
			if !c.Supported || n.Negative || !all && !some {
				continue
			}
			t.Run(n.Name+"/"+c.Name, func(t *testing.T) {
				inputs, expected, err := c.Load()
				require.NoError(t, err)
				m, err := build.Module(c.Spec, v)
				require.NoError(t, err)
				a, err := stablehlo.Backend{}.Emit(m, nil)
				require.NoError(t, err)
				prog, err := e.Compile(a.Text)
				require.NoError(t, err)
				defer prog.Close()
				var args []*array.Array
				for _, p := range m.Params() {
					args = append(args, inputs[p.Name])
				}
				results, err := prog.Run(args...)
				require.NoError(t, err)
				named := map[string]*array.Array{}
				for i, r := range results {
					named[m.Results[i]] = r
				}
				file, err := c.FileOutputs(named)
				require.NoError(t, err)
				verdicts, err := c.Judge(expected, file.Tensors, v.Precision().String())
				require.NoError(t, err)
				for _, d := range verdicts {
					require.True(t, d.Pass, "%+v", d)
				}
			})
		}
	}
}

// Packed sequences of all shapes, interleaved and one by one: of like length, one among short ones, none with tokens, without states.
func TestStreamOnCPU(t *testing.T) {
	e := pjrttest.CPU(t)
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	for _, c := range []struct{ spec, variant string }{
		{"packed,t=70,hk=1,hv=2,k=8,seqs=6,init,final,state=vk,empty=zero,dtype=bf16,gates=fused,gatedtype=bf16", "cpu-packed,chunk=8"},
		{"packed,t=70,hk=1,hv=2,k=8,seqs=6,init,final,state=kv,pool=9", "cpu-packed,chunk=8,batch=2"},
		{"packed,t=70,hk=2,k=4,seqs=6,final", "cpu-packed,chunk=8,batch=1,chunks=2"},
	} {
		s, err := gdn.Parse(c.spec)
		require.NoError(t, err)
		v, err := gdn.ParseVariant(c.variant)
		require.NoError(t, err)
		m, err := build.Module(s, v)
		require.NoError(t, err)
		a, err := stablehlo.Backend{}.Emit(m, nil)
		require.NoError(t, err)
		prog, err := e.Compile(a.Text)
		require.NoError(t, err)
		for i, cu := range [][]int64{{0, 12, 23, 35, 47, 58, 70}, {0, 0, 1, 66, 68, 69, 70}, {0, 70, 70, 70, 70, 70, 70}, {0, 0, 0, 0, 0, 0, 70}, {0, 8, 16, 40, 48, 64, 70}} {
			inputs, err := class.Generate(s, uint64(i))
			require.NoError(t, err)
			inputs["cu_seqlens"] = array.FromInt64s(ir.I64, []int{7}, cu)
			want, err := truth.Reference(s, inputs)
			require.NoError(t, err)
			var args []*array.Array
			for _, p := range m.Params() {
				args = append(args, inputs[p.Name])
			}
			results, err := prog.Run(args...)
			require.NoError(t, err)
			limit, err := class.Limit(s, "f32", s.Out)
			require.NoError(t, err)
			for j, r := range results {
				require.LessOrEqual(t, array.Compare(r, want[m.Results[j]]).RelMax, limit, "%s of %s by %s, cu_seqlens %v", m.Results[j], s, v, cu)
			}
		}
		require.NoError(t, prog.Close())
	}
}
