package build

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

func build(t testing.TB, s gdn.Spec, v gdn.Variant) *ir.Module {
	t.Helper()
	m, err := Module(s, v)
	require.NoError(t, err, "%s by %s", s, v)
	return m
}

func interpret(t testing.TB, s gdn.Spec, v gdn.Variant, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	return run(t, build(t, s, v), inputs)
}

func run(t testing.TB, m *ir.Module, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	out, err := interp.Run(m, inputs, interp.Options{})
	require.NoError(t, err)
	return out
}

const storedCases = "../../tests/fixtures"

func drawInputs(t *testing.T, class string, s gdn.Spec, seed uint64) map[string]*array.Array {
	t.Helper()
	c, err := truth.LookupClass(class)
	require.NoError(t, err)
	inputs, err := c.Generate(s, seed)
	require.NoError(t, err)
	return inputs
}

func exact(t *testing.T, s gdn.Spec, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	out, err := truth.Reference(s, inputs)
	require.NoError(t, err)
	return out
}

// Every variant passes every forward case of the fixtures at the tolerance of its precision.
func TestVariantsOnFixtures(t *testing.T) {
	cases, err := truth.ReadCases(storedCases)
	require.NoError(t, err)
	for _, folder := range []string{"/family", "/edge"} {
		others, err := truth.ReadCases(storedCases + folder)
		require.NoError(t, err)
		cases = append(cases, others...)
	}
	for _, n := range gdn.Variants {
		v := gdntest.MustVariant(t, n.Text)
		for _, c := range cases {
			if !c.Supported || n.Negative || c.Spec.Direction != gdn.Forward && v.Algo == gdn.AlgoToken {
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
	for _, n := range gdn.Variants {
		s := gdntest.MustParse(t, "b=1,t=64,hk=1,hv=2,k=16,v=16,seqs=3,init")
		_, b := ir.NewModule("gdn")
		p := newPlan(s, gdntest.MustVariant(t, n.Text).Fit(s), b, s.Inputs())
		b.Failf("the first fault")
		b.Failf("another")
		_, err := p.emit()
		require.ErrorContains(t, err, "the first fault", n.Name)
	}
}

// Fitting twice is fitting once, and a fitted variant builds the same program.
func TestFitIsStable(t *testing.T) {
	for i := range 200 {
		r := rand.New(rand.NewPCG(uint64(i), 9))
		s, v := gdntest.RandomSpec(r), gdntest.RandomVariant(r)
		f := v.Fit(s)
		require.Equal(t, f, f.Fit(s), "%s for %s", v, s)
		w, err := v.With("chunk", "256")
		require.NoError(t, err)
		if v.Check(s) == nil && w.Fit(s) == f {
			require.Equal(t, build(t, s, v).Hash(), build(t, s, w).Hash())
		}
	}
	require.NotPanics(t, func() {
		gdn.Variant{Mapping: gdn.Mapping{Heads: -3, Batch: -1, Chunks: -1}}.Fit(gdntest.MustParse(t, "t=4,hk=2,hv=6,k=4"))
	})
}

// Illegal variants are refused before anything is built.
func TestRefused(t *testing.T) {
	s := gdntest.MustParse(t, "b=2,t=64,hk=2,hv=4,k=8")
	_, err := Module(s, gdntest.MustVariant(t, "layout=bthd,heads=1"))
	require.ErrorContains(t, err, "layout=bthd")
	_, err = Module(s, gdn.Variant{})
	require.ErrorContains(t, err, "chunk")
	_, err = Module(gdn.Spec{}, gdn.DefaultVariant())
	require.ErrorContains(t, err, "spec")
}
