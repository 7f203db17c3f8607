// Package gdntest has specs and variants for tests.
package gdntest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/stretchr/testify/require"
)

// MustParse parses a spec; an error fails the test.
func MustParse(t testing.TB, text string) gdn.Spec {
	t.Helper()
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

// MustVariant parses a variant; an error fails the test.
func MustVariant(t testing.TB, text string) gdn.Variant {
	t.Helper()
	v, err := gdn.ParseVariant(text)
	require.NoError(t, err)
	return v
}

// RandomSpec draws a small valid spec.
func RandomSpec(r *rand.Rand) gdn.Spec {
	pick := func(l ...int) int { return l[r.IntN(len(l))] }
	s := gdn.NewSpec(pick(1, 1, 2, 3), 1+r.IntN(70), pick(1, 2, 3), 0, pick(4, 8, 12), pick(4, 8, 20))
	s.HeadsV = s.HeadsK * pick(1, 1, 2, 4)
	coin := func() bool { return r.IntN(2) == 0 }
	s.Init, s.Final, s.L2Norm, s.NegEigval = coin(), coin(), coin(), coin()
	if coin() {
		s.Gates = gdn.GatesFused
		if coin() {
			s.GateDType = ir.BF16
		}
	}
	if s.Batch == 1 {
		s.Packed = coin()
		if coin() {
			s.Seqs = pick(1, 2, 3, 5, 9)
		}
	}
	if s.Init || s.Final {
		s.State = gdn.Layout(r.IntN(2))
	}
	if s.Seqs > 0 && s.Init && s.Final {
		s.Empty = gdn.Empty(r.IntN(2))
	}
	if coin() {
		s.DType = ir.BF16
	}
	if coin() {
		s.Scale = .3
	}
	if s.Init && s.Final {
		s.InPlace = coin()
		if coin() {
			s.Pool = pick(1, 4, 11)
			s.Read = s.Tokens%2 == 0 // takes no random number
		}
	}
	return s
}

// undrawn are axes that take no random number, so that variants drawn for other tests stay the same.
var undrawn = []string{"span", "persistent_rows"}

// RandomVariant draws a value for every axis except undrawn ones.
func RandomVariant(r *rand.Rand) gdn.Variant {
	v, drawn := gdn.DefaultVariant(), 0
	for _, a := range gdn.Axes {
		if slices.Contains(undrawn, a.Name) {
			continue
		}
		values := a.Values
		switch a.Name { // these take no random number either: pack=segments is drawn where sequences are packed, the others below
		case "pack":
			values = values[:gdn.PackSegments]
		case "form":
			values = values[:gdn.FormMap]
		case "chunks":
			values = values[:3]
		}
		i := r.IntN(len(values))
		if err := a.Set(&v, values[i]); err != nil {
			panic(err)
		}
		drawn += i
	}
	for _, name := range undrawn {
		axis, _ := gdn.LookupAxis(name)
		if err := axis.Set(&v, axis.Values[drawn%len(axis.Values)]); err != nil {
			panic(err)
		}
	}
	switch drawn % 8 {
	case 3: // the axes that form=map requires
		v.Algo, v.Form, v.Flow, v.Fold, v.Out, v.TransposeK, v.TailDecay = gdn.AlgoChunk, gdn.FormMap, gdn.FlowFused, true, gdn.OutSeparate, gdn.TransposeKey, gdn.TailDecayK
	case 5:
		v.Mapping.Chunks = 8
	}
	return v.Canon()
}
