package selftest

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
)

// Every named variant is tried on some work, those made for a kind of work on that, and negative examples where they fail.
func TestParts(t *testing.T) {
	parts, err := new(Test).parts()
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, p := range parts {
		seen[p.variant.Name] = true
	}
	for _, n := range gdn.Variants {
		require.True(t, seen[n.Name], n.Name)
	}
	kernels, err := (&Test{Target: "v6e"}).parts()
	require.NoError(t, err)
	require.Len(t, kernels, len(parts)-1, "but for cpu-packed on packed sequences")
	quick, err := (&Test{Quick: true}).parts()
	require.NoError(t, err)
	for _, w := range Works {
		s, err := gdn.Parse(w.Spec)
		require.NoError(t, err)
		for _, name := range w.Quick {
			require.True(t, slices.ContainsFunc(quick, func(p part) bool { return p.spec == s && p.variant.Name == name }), "%s: %s", w.Name, name)
		}
	}
}

// The programs of a quick test can be made for every generation: on a TPU none is skipped.
func TestKernels(t *testing.T) {
	parts, err := (&Test{Quick: true, Target: "v6e"}).parts()
	require.NoError(t, err)
	for _, p := range parts {
		v, err := gdn.ParseVariant(p.variant.Text)
		require.NoError(t, err)
		m, err := build.Module(p.spec, v)
		require.NoError(t, err)
		m, err = route.Kernels(m)
		require.NoError(t, err, "%s by %s", p.spec, p.variant.Name)
		for _, tg := range target.All() {
			_, err = mosaic.Backend{}.Emit(m, tg)
			require.NoError(t, err, "%s by %s for %s", p.spec, p.variant.Name, tg.Name)
		}
	}
}

// Each class of a Case has one row, with its worst error relative to the limit, or the reason of a failure; of two Cases, the worse.
func TestJudge(t *testing.T) {
	s, err := gdn.Parse("t=40,hk=2,k=8")
	require.NoError(t, err)
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	classes := truth.Classes[:2]
	x, err := exam.Draw(s, classes, 1)
	require.NoError(t, err)
	right, err := Case{Variant: "default"}.judge(x, v, x.Want, nil)
	require.NoError(t, err)
	require.Len(t, right, 2)
	for i, row := range right {
		require.Equal(t, []string{classes[i].Name, Passed}, []string{row.Class, row.Status})
	}
	o := x.Want["o"].Float64s()
	for i := range o {
		o[i] *= 1.01
	}
	got := map[string]*array.Array{"o": array.FromFloat64s(x.Want["o"].Type, x.Want["o"].Shape, o), "final_state": x.Want["final_state"]}
	wrong, err := Case{}.judge(x, v, got, nil)
	require.NoError(t, err)
	require.Equal(t, Failed, wrong[0].Status)
	require.Equal(t, "o", wrong[0].Output)
	require.Contains(t, wrong[0].why(), wrong[0].Kind)
	dead, err := Case{}.judge(x, v, nil, errors.New("the device is gone"))
	require.NoError(t, err)
	require.Equal(t, "the device is gone", dead[1].why())

	require.Equal(t, wrong, add(slices.Clone(right), wrong))
	require.Equal(t, wrong, add(slices.Clone(wrong), right))
	_, err = Case{}.judge(x, v, map[string]*array.Array{"o": got["o"]}, nil)
	require.ErrorContains(t, err, "gives no final_state")
}
