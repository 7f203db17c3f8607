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

// A state within a sequence is the final state of a shorter call, to the bit: a prefix cache may keep one or the other.
func TestStatesAreThoseOfShorterCalls(t *testing.T) {
	for _, row := range []struct{ spec, variant, target string }{
		{"b=2,t=200,hk=1,hv=2,k=32,v=32,init,every=64,state=vk", "default", ""},
		{"b=1,t=200,hk=1,hv=2,k=32,v=32,every=48,rule=kda,statedtype=bf16,gates=fused", "uw", ""},
		{"b=1,t=100,hk=2,hv=2,k=32,v=32,every=32,init,state=vk", "decode-f32", ""},
		{"t=530,hk=1,hv=2,k=128,v=128,dtype=bf16,init,every=128,gates=fused,l2norm", "tpu", ""},
		{"t=700,hk=1,hv=2,k=128,v=128,dtype=bf16,init,every=256,state=vk", "tpu-long", ""},
		{"t=530,hk=1,hv=2,k=128,v=128,dtype=bf16,init,every=128", "auto", "v6e"},
		{"t=530,hk=1,hv=2,k=128,v=128,dtype=bf16,init,every=128,state=vk", "auto-fla", "v5e"},
		{"t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,every=128,rule=kda,bound=-5,gates=fused", "auto", "tpu7x"},
	} {
		t.Run(row.spec+" by "+row.variant+row.target, func(t *testing.T) {
			s := spec(t, row.spec)
			class, err := truth.LookupClass("random")
			require.NoError(t, err)
			inputs, err := class.Generate(s, 1)
			require.NoError(t, err)
			var v gdn.Variant
			var target *target.Target
			if row.target == "" {
				v = variant(t, row.variant)
			} else {
				v, target = forTPU(t, s, row.variant, row.target)
			}
			run := func(s gdn.Spec, inputs map[string]*array.Array) map[string]*array.Array {
				if target != nil {
					return ofText(t, s, v, target)(inputs)
				}
				m, err := build.Module(s, v)
				require.NoError(t, err)
				k, err := route.Kernels(m)
				require.NoError(t, err)
				got, err := interp.Run(k, inputs, interp.Options{})
				require.NoError(t, err)
				return got
			}
			states := run(s, inputs)["states"]
			n := s.Tokens / s.Every
			bytes := s.StateType().Bytes() / s.Batch
			require.Len(t, states.Data, s.Batch*n*bytes)
			for i := range n {
				short := s
				short.Tokens, short.Every = (i+1)*s.Every, 0
				first := map[string]*array.Array{}
				for _, p := range short.Inputs() {
					a := inputs[p.Name]
					if !a.IRType().Equal(p.Type) { // [B, T, ...]
						whole, part := len(a.Data)/s.Batch, p.Type.Bytes()/s.Batch
						cut := array.New(p.Type.DType, p.Type.Shape...)
						for b := range s.Batch {
							copy(cut.Data[b*part:], a.Data[b*whole:][:part])
						}
						a = cut
					}
					first[p.Name] = a
				}
				final := run(short, first)["final_state"]
				for b := range s.Batch {
					require.Equal(t, final.Data[b*bytes:][:bytes], states.Data[(b*n+i)*bytes:][:bytes], "row %d after %d tokens", b, short.Tokens)
				}
			}
		})
	}
}

// Where the states of a step's sequences need more than the vector memory, auto takes fewer sequences a step.
func TestDecodeOfManyHeads(t *testing.T) {
	s := spec(t, "b=64,t=1,hk=16,hv=48,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init")
	for name, batch := range map[string]int{"v5e": 4, "v6e": 4, "tpu7x": 2} {
		target, err := target.Lookup(name)
		require.NoError(t, err)
		f, err := route.Resolve(s, gdn.Auto, target, nil)
		require.NoError(t, err)
		require.Equal(t, batch, f.Variant.Mapping.Batch, name)
		m, err := f.Kernels()
		require.NoError(t, err)
		_, err = mosaic.Backend{}.Emit(m, target)
		require.NoError(t, err, name)
	}
}
