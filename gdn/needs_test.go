package gdn

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a choice needs is enough: the variant can be built for a spec that has a use for it, and fitting leaves the choice as it is.
func TestTowards(t *testing.T) {
	packed, plain := mustParse(t, "contest-prefill,t=300,seqs=3"), mustParse(t, "bench")
	r := rand.New(rand.NewPCG(4, 4))
	for choice, list := range needs {
		axis, value, _ := strings.Cut(choice, "=")
		a, err := LookupAxis(axis)
		require.NoError(t, err)
		require.Contains(t, a.Values, value)
		for _, need := range strings.Fields(list) {
			name, values, _ := strings.Cut(need, "=")
			other, err := LookupAxis(name)
			require.NoError(t, err, choice)
			require.Subset(t, other.Values, strings.Split(values, "|"), choice)
		}
		made := 0
		s := packed
		if choice == "prefetch=dma" { // of packed sequences by aligned blocks too, which are no need of other specs
			s = plain
		}
		for range 1000 {
			v := raw(r).Canon()
			w, err := v.Towards(axis, value)
			if err != nil { // what no other choice can make apply, such as out by precisions that differ
				require.ErrorContains(t, err, "does not apply", "%s from %s", choice, v)
				continue
			}
			made++
			require.Equal(t, w, w.Canon())
			f := w.Fit(s)
			require.Equal(t, value, a.Get(&f), "%s from %s is %s", choice, v, w)
			if v.Mapping.Pack == PackGather && v.Out == OutSeparate && v.Check(s) == nil { // which other choices may need something else
				require.NoError(t, w.Check(s), "%s from %s", choice, v)
				if choice == "pack=aligned" {
					require.Empty(t, w.Unsafe(s), "%s from %s", choice, v)
				}
			}
			if again, err := w.Towards(axis, value); err == nil {
				require.Equal(t, w, again)
			}
		}
		require.Greater(t, made, 150, choice)
	}
}
