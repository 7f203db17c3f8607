package stablehlo_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

const fixtures = "../../tests/fixtures"

// Every case of the fixtures on the CPU by the default variant, and one with shared key heads by a few others that compile
// quickly. GDNGEN_TEST_ALL=1 runs all by all, which takes minutes.
func TestFixturesOnCPU(t *testing.T) {
	e := engine(t)
	cases, err := gdn.ReadCases(fixtures)
	require.NoError(t, err)
	for _, n := range gdn.Variants {
		v, err := gdn.ParseVariant(n.Text)
		require.NoError(t, err)
		for _, c := range cases {
			all := n.Name == "default" || os.Getenv("GDNGEN_TEST_ALL") != ""
			some := c.Name == "s03_gva_4to8" && slices.Contains([]string{"token", "uw", "ladder"}, n.Name)
			if !c.Supported || n.Negative || !all && !some {
				continue
			}
			t.Run(n.Name+"/"+c.Name, func(t *testing.T) {
				inputs, expected, err := c.Load()
				require.NoError(t, err)
				m, err := gdn.Build(c.Spec, v)
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
