package exam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// A sequence that is poisoned changes others by aligned blocks with masks by select alone.
func TestSpread(t *testing.T) {
	const packed = "t=150,hk=1,hv=2,k=16,v=16,dtype=bf16,seqs=6,init"
	for _, row := range []struct{ spec, variant, spread string }{
		{packed, "tpu-packed", ""},
		{packed, "tpu-packed,mask=select", "NaN in sequence"},
		{packed + ",gates=fused,l2norm", "tpu-packed,mask=select", "NaN in sequence"},
		{packed, "tpu,pack=segments,chunk=64,mask=select", ""},
		{packed + ",gates=fused,direction=train", "tpu-train,pack=segments,chunk=64", ""},
		{"b=2,t=30,hk=1,hv=1,k=16,v=16,dtype=bf16", "default", ""},
	} {
		x := drawCase(t, row.spec)
		v, err := gdn.ParseVariant(row.variant)
		require.NoError(t, err)
		m, err := build.Module(x.Spec, v)
		require.NoError(t, err)
		got, err := x.Spread(func(in map[string]*array.Array) (map[string]*array.Array, error) {
			return interp.Run(m, in, interp.Options{})
		})
		require.NoError(t, err)
		if row.spread == "" {
			require.Empty(t, got, "%s on %s", row.variant, row.spec)
		} else {
			require.Contains(t, got, row.spread, "%s on %s", row.variant, row.spec)
		}
	}
	// Long keys alone are seen too, where an output takes another sequence's.
	x := drawCase(t, packed)
	got, err := x.Spread(func(in map[string]*array.Array) (map[string]*array.Array, error) {
		largest := 0.
		for _, k := range in["k"].Float64s() {
			if k > largest {
				largest = k // NaN is not
			}
		}
		out := map[string]*array.Array{"final_state": x.Want["final_state"], "o": x.Want["o"]}
		if largest > 2 {
			out["o"] = array.FromFloat64s(out["o"].Type, out["o"].Shape, make([]float64, len(out["o"].Float64s())))
		}
		return out, nil
	})
	require.NoError(t, err)
	require.Contains(t, got, "long keys in sequence")
}
