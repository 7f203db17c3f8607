package gdn_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/stretchr/testify/require"
)

func requireVariantRoundTrip(t *testing.T, v gdn.Variant) {
	t.Helper()
	back, err := gdn.ParseVariant(v.String())
	require.NoError(t, err, v.String())
	require.Equal(t, v, back, v.String())
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.Equal(t, `"`+v.String()+`"`, string(data))
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, v, back)
	require.Equal(t, v.Hash(), back.Hash())
}

func TestVariantText(t *testing.T) {
	require.Equal(t, "algo=chunk,chunk=64,solve=merge,leaf=8,flow=fused", gdn.DefaultVariant().String())
	require.Equal(t, "algo=chunk,solve=merge,flow=fused", gdn.DefaultVariant().Cell())
	require.Equal(t, "algo=chunk,chunk=64,solve=forward,flow=fused,heads=1", gdntest.MustVariant(t, "naive").String())
	require.Equal(t, "algo=token,chunk=16,precstate=bf16x1", gdntest.MustVariant(t, "algo=token,chunk=16,prec=bf16x1").String())
	require.Equal(t, "algo=chunk,chunk=64,solve=merge,leaf=8,flow=fused,prec=bf16x3", gdntest.MustVariant(t, "prec=bf16x3").String())
	require.Equal(t, gdntest.MustVariant(t, "prec=bf16x1,precinv=f32"), gdntest.MustVariant(t, "precstate=bf16x1,precintra=bf16x1"))
	require.Equal(t, gdntest.MustVariant(t, "merge-packed,chunk=128"), gdntest.MustVariant(t, "chunk=128,leaf=16,layout=bthd,beta=right,merge=packed"))
	r := rand.New(rand.NewPCG(1, 1))
	hashes := map[string]gdn.Variant{}
	for range 3000 {
		v := gdntest.RandomVariant(r)
		requireVariantRoundTrip(t, v)
		if old, ok := hashes[v.Hash()]; ok {
			require.Equal(t, old, v)
		}
		hashes[v.Hash()] = v
		scalar, err := v.With("chunk", "256")
		require.NoError(t, err)
		require.Equal(t, v.Cell(), scalar.Cell())
	}
	for _, n := range gdn.Variants {
		v := gdntest.MustVariant(t, n.Text)
		requireVariantRoundTrip(t, v)
		same, err := gdn.LookupVariant(n.Name)
		require.NoError(t, err)
		require.Equal(t, v, same)
	}
}

func FuzzVariantText(f *testing.F) {
	for _, n := range gdn.Variants {
		f.Add(n.Text)
		f.Add(n.Name)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := gdn.ParseVariant(text); err == nil {
			requireVariantRoundTrip(t, v)
		}
	})
}
