package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
)

// shapes are what the best known variants for TPUs must be right and compile on: few tokens and many, odd lengths, heads that are
// shared, parted or alone, widths of part of a register and of several, batches, packed sequences, states, beta up to 2.
var shapes = []string{
	"t=1,hk=1,hv=2,k=128,v=128,dtype=bf16,init",
	"t=7,hk=4,hv=8,k=128,v=128,dtype=bf16",
	"t=65,hk=2,hv=2,k=128,v=128,dtype=bf16,init",
	"t=200,hk=1,hv=1,k=128,v=128,dtype=bf16",
	"t=520,hk=1,hv=2,k=128,v=128,dtype=bf16,init",
	"t=200,hk=1,hv=4,k=128,v=128,dtype=bf16",
	"t=260,hk=8,hv=16,k=128,v=128,dtype=bf16",
	"t=130,hk=1,hv=3,k=64,v=128,dtype=bf16",
	"b=4,t=40,hk=1,hv=2,k=128,v=128,dtype=bf16,init",
	"b=2,t=140,hk=1,hv=1,k=64,v=64,dtype=bf16,init",
	"t=300,hk=1,hv=2,k=96,v=96,dtype=bf16,init",
	"t=200,hk=1,hv=2,k=256,v=256,dtype=bf16,init",
	"t=150,hk=1,hv=2,k=128,v=256,dtype=bf16",
	"t=260,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init",
	"t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=4,init",
	"t=90,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=3,init,state=vk,empty=zero,packed",
	"t=140,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=1,init,packed",
	"t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,negeig,init",
	"t=200,hk=1,hv=2,k=64,v=64,dtype=bf16,negeig",
	"t=260,hk=3,hv=3,k=128,v=128,dtype=bf16,rows=flat",
	"t=260,hk=5,hv=5,k=96,v=192,dtype=bf16,rows=flat",
	"t=384,hk=3,hv=6,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init,rows=flat",
	"b=3,t=1,hk=1,hv=2,k=128,v=96,dtype=bf16,init,rows=flat",
}

// Whatever the rows, auto has a kernel that is emitted.
func TestRowsAreEmitted(t *testing.T) {
	for _, rows := range []string{"rows=flat", "rows=qkv"} {
		for _, text := range []string{
			"t=512,hk=3,hv=3,k=128,v=128", "b=2,t=512,hk=2,hv=6,k=128,v=256,gates=fused,l2norm,init", "t=512,hk=2,hv=2,k=96,v=192", "t=512,hk=2,hv=2,k=64,v=64", "t=512,hk=2,hv=2,k=64,v=128",
			"b=4,t=1,hk=2,hv=4,k=128,v=128,init", "b=4,t=3,hk=2,hv=4,k=128,v=96,init,pool=9", "t=512,hk=2,hv=4,k=128,v=128,seqs=5,init,packed", "t=256,hk=1,hv=2,k=128,v=128,rule=kda,gates=fused",
			"t=512,hk=3,hv=3,k=128,v=128,direction=train", "t=512,hk=3,hv=3,k=96,v=192,direction=train", "t=256,hk=3,hv=3,k=96,v=160,rule=kda,gates=fused",
		} {
			s, err := gdn.Parse(text + ",dtype=bf16," + rows)
			if err != nil {
				require.ErrorContains(t, err, "set rows=flat")
				continue
			}
			for _, name := range []string{"v5e", "v6e"} {
				target, err := target.Lookup(name)
				require.NoError(t, err)
				f, err := route.Resolve(s, "auto", target, nil)
				require.NoError(t, err, s)
				kernels, err := f.Kernels()
				require.NoError(t, err, s)
				_, err = mosaic.Backend{}.Emit(kernels, target)
				require.NoError(t, err, s)
			}
		}
	}
}

// Kernels of the best known variants on a target of each kind are right on every class of inputs that the
// shape can have, and are emitted for their target.
func TestShapes(t *testing.T) {
	for i, text := range shapes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s := spec(t, text)
			done := map[gdn.Variant]bool{}
			for k, name := range []string{"v6e", "v5p"} {
				target, err := target.Lookup(name)
				require.NoError(t, err)
				variant := "auto-fast"
				switch {
				case s.Seqs > 0 && k == 1:
					variant = "tpu" // gathers
				case s.Seqs == 0 && (i+k)%4 == 0:
					variant = "auto-f32-like"
				}
				f, err := route.Resolve(s, variant, target, nil)
				require.NoError(t, err)
				v := f.Variant
				kernels, err := f.Kernels()
				require.NoError(t, err)
				_, err = mosaic.Backend{}.Emit(kernels, target)
				require.NoError(t, err)
				if done[v.Fit(s)] {
					continue
				}
				done[v.Fit(s)] = true
				for _, text := range []string{"random", "u01nodecay", "cos.99", "identical", "resets", "reset.cos.9", "hold", "beta2"} {
					class, err := truth.LookupClass(text)
					require.NoError(t, err)
					if class.Supports(s) != nil {
						continue
					}
					inputs, err := class.Generate(s, 1)
					require.NoError(t, err)
					want, err := truth.Reference(s, inputs)
					require.NoError(t, err)
					got, err := interp.Run(kernels, inputs, interp.Options{})
					require.NoError(t, err)
					for _, o := range s.Outputs() {
						limit, err := class.Limit(s, v.Precision().String(), o.Type.DType)
						require.NoError(t, err)
						require.LessOrEqual(t, array.Compare(got[o.Name], want[o.Name]).RelMax, limit, "%s of %s on %s by %s", o.Name, name, class.Name, v)
					}
				}
			}
		})
	}
}

// Decode takes any number of batch rows: three rows of one key head do not fill a tile, so they are read one by one.
func TestDecodeRows(t *testing.T) {
	mosaicRoute, err := route.Lookup("mosaic")
	require.NoError(t, err)
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	s := spec(t, "b=3,t=1,hk=1,hv=4,k=16,v=128,init")
	for _, name := range []string{"decode", "decode-f32"} {
		v := variant(t, name)
		m, err := build.Module(s, v)
		require.NoError(t, err)
		for _, generation := range []string{"v5e", "v6e"} {
			target, err := target.Lookup(generation)
			require.NoError(t, err)
			_, err = mosaicRoute.Emit(m, target)
			require.NoError(t, err, "%s on %s", name, generation)
		}
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		want, err := truth.Reference(s, inputs)
		require.NoError(t, err)
		kernels, err := route.Kernels(m)
		require.NoError(t, err)
		got, err := interp.Run(kernels, inputs, interp.Options{})
		require.NoError(t, err)
		for _, o := range s.Outputs() {
			limit, err := class.Limit(s, v.Precision().String(), o.Type.DType)
			require.NoError(t, err)
			require.LessOrEqual(t, array.Compare(got[o.Name], want[o.Name]).RelMax, limit, "%s by %s", o.Name, name)
		}
	}
}
