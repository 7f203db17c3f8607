package selftest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/gdn"
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
		m, err := gdn.Build(p.spec, v)
		require.NoError(t, err)
		m, err = lower.Kernels(m)
		require.NoError(t, err, "%s by %s", p.spec, p.variant.Name)
		for i := range codegen.Targets {
			_, err = mosaic.Backend{}.Emit(m, &codegen.Targets[i])
			require.NoError(t, err, "%s by %s for %s", p.spec, p.variant.Name, codegen.Targets[i].Name)
		}
	}
}
