package judge

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/tests/mutant"
)

// throughGates takes the text of a program through the gates that look at numbers, the last of them as if it would be kept.
func throughGates(t *testing.T, l *Lab, s gdn.Spec, m *ir.Module) (*Refusal, string) {
	w := workOn(t, s, "default")
	w.Text, w.Seed = m.String(), 1
	for _, gate := range []struct {
		name string
		run  func() (*Refusal, error)
	}{
		{"legality", func() (*Refusal, error) { return legality(t.Context(), w) }},
		{"build", func() (*Refusal, error) { return wellFormed(t.Context(), w) }},
		{"interpret", func() (*Refusal, error) { return l.interpret(t.Context(), w) }},
		{"numerics", func() (*Refusal, error) { return l.kernels(w) }},
		{"final", func() (*Refusal, error) { return l.final(w) }},
	} {
		r, err := gate.run()
		require.NoError(t, err)
		if r != nil {
			return r, gate.name
		}
	}
	return nil, ""
}

// Each mutant of a right kernel is refused by its numbers, and the kernel passes: all of them in one pass of bf16, where rounding could
// hide them, a few in the other classes of precision. What is drawn rotates by commit.
func TestMutants(t *testing.T) {
	r := rotate.Rand(5)
	s := spec(t, "b=2,t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,negeig")
	l := &Lab{noCPU: "the test has none"}
	for _, x := range []struct {
		variant string
		share   float64 // of the mutants
	}{{"bf16", 1}, {"tpu", .2}, {"bf16x3", .2}, {"chunks2", .2}} {
		v, err := gdn.ParseVariant(x.variant)
		require.NoError(t, err)
		right, err := build.Module(s, v)
		require.NoError(t, err)
		refused, gate := throughGates(t, l, s, right)
		require.Nil(t, refused, "%s at %s", x.variant, gate)
		for _, m := range mutant.All {
			if !m.Applies(s) || r.Float64() >= x.share {
				continue
			}
			wrong, drawn, err := m.Apply(right, s, r)
			if none := (*mutant.NoPlaceError)(nil); errors.As(err, &none) {
				continue
			}
			require.NoError(t, err)
			refused, gate := throughGates(t, l, s, wrong)
			require.NotNil(t, refused, "%s, %s %s", x.variant, m.Name, drawn)
			require.Equal(t, journal.Numerics, refused.Verdict, refused.Reason)
			t.Logf("%s, %s %s: %s: %s", x.variant, m.Name, drawn, gate, refused.Reason)
		}
	}
}
