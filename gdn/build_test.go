package gdn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

func parseVariant(t testing.TB, text string) Variant {
	t.Helper()
	v, err := ParseVariant(text)
	require.NoError(t, err)
	return v
}

func build(t testing.TB, s Spec, v Variant) *ir.Module {
	t.Helper()
	m, err := Build(s, v)
	require.NoError(t, err, "%s by %s", s, v)
	return m
}

func interpret(t testing.TB, s Spec, v Variant, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	return run(t, build(t, s, v), inputs)
}

func run(t testing.TB, m *ir.Module, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	out, err := interp.Run(m, inputs, interp.Options{})
	require.NoError(t, err)
	return out
}

// Every variant passes every forward case of the fixtures at the tolerance of its precision.
func TestVariantsOnFixtures(t *testing.T) {
	cases, err := ReadCases(fixtures)
	require.NoError(t, err)
	for _, n := range Variants {
		v := parseVariant(t, n.Text)
		for _, c := range cases {
			if !c.Supported || n.Negative || c.Spec.Direction != Forward && v.Algo == AlgoToken {
				continue
			}
			t.Run(n.Name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				inputs, expected, err := c.Load()
				require.NoError(t, err)
				file, err := c.FileOutputs(interpret(t, c.Spec, v, inputs))
				require.NoError(t, err)
				verdicts, err := c.Judge(expected, file.Tensors, v.Precision().String())
				require.NoError(t, err)
				for _, d := range verdicts {
					t.Logf("%s %s: ratio %.2g of %.2g, max %.2g", d.Name, d.Rule, d.Ratio, d.Limit, d.MaxAbs)
					require.True(t, d.Pass, "%+v", d)
				}
			})
		}
	}
}

// A fault of the builder is an error, whatever reads what was not made after it.
func TestFaultIsError(t *testing.T) {
	for _, n := range Variants {
		s := mustParse(t, "b=1,t=64,hk=1,hv=2,k=16,v=16,seqs=3,init")
		_, b := ir.NewModule("gdn")
		p := newPlan(s, parseVariant(t, n.Text).Fit(s), b, s.Inputs())
		b.Failf("the first fault")
		b.Failf("another")
		_, err := p.emit()
		require.ErrorContains(t, err, "the first fault", n.Name)
	}
}
