package build

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
)

// Flat rows, and q, k and v in one array, change no bit of any result.
func TestRows(t *testing.T) {
	for _, c := range []struct{ spec, variant string }{
		{"b=2,t=40,hk=2,hv=4,k=8,v=12,init", "default"},
		{"b=2,t=40,hk=2,hv=4,k=8,v=12,init,l2norm", "chunk=16,layout=bt_hd"},
		{"t=40,hk=2,hv=4,k=8,v=12,packed,gates=fused,l2norm", "chunk=16,layout=bt_hd,fuse=kernel"},
		{"t=40,hk=3,hv=6,k=8,v=12,conv=4,l2norm", "chunk=16,layout=bt_hd,fuse=kernel"},
		{"t=40,hk=3,hv=6,k=8,v=12,conv=4,l2norm", "chunk=16,layout=bhtd"},
		{"t=40,hk=2,k=8,seqs=3,init,l2norm", "chunk=16,layout=bt_hd,pack=gather"},
		{"t=40,hk=2,k=8,seqs=3,init", "chunk=16,layout=bt_hd,pack=segments"},
		{"t=40,hk=2,k=8,seqs=3,init,packed", "chunk=16,layout=bt_hd,pack=masked"},
		{"t=40,hk=2,k=8,seqs=3,init,packed,pool=5", "chunk=16,layout=bt_hd,pack=segments"},
		{"t=40,hk=2,k=8,seqs=3,init", "cpu-packed"},
		{"t=33,hk=2,k=8,v=12,rule=kda,gates=fused", "chunk=16,layout=bt_hd,fuse=kernel"},
		{"t=33,hk=2,k=8,v=12,rule=gdn2,gates=fused", "chunk=16,layout=bt_hd,fuse=kernel"},
		{"b=3,t=1,hk=2,hv=4,k=8,init,gates=fused", "decode"},
		{"t=33,hk=2,hv=4,k=8,l2norm,direction=train", "chunk=16,layout=bt_hd"},
		{"t=33,hk=2,hv=4,k=8,l2norm,direction=train", "chunk=16,layout=bhtd,fuse=kernel"},
		{"t=33,hk=2,k=8,v=12,rule=kda,gates=fused,direction=backward", "chunk=16,layout=bt_hd"},
	} {
		s, v := gdntest.MustParse(t, c.spec), gdntest.MustVariant(t, c.variant)
		inputs := drawInputs(t, "random", s, 1)
		want, exactly := interpret(t, s, v, inputs), exact(t, s, inputs)
		for _, rows := range []gdn.Rows{gdn.RowsFlat, gdn.RowsQKV} {
			s.Rows = rows
			if s.Validate() != nil { // gradients of qkv
				require.NotEqual(t, gdn.Forward, s.Direction)
				continue
			}
			inputs := drawInputs(t, "random", s, 1)
			require.NoError(t, truth.CheckInputs(s, inputs))
			got, reference := interpret(t, s, v, inputs), exact(t, s, inputs)
			for _, p := range s.Outputs() {
				require.Equal(t, want[p.Name].Data, got[p.Name].Data, "%s by %s: %s", s, v, p.Name)
				require.Equal(t, p.Type.Shape, got[p.Name].Shape)
				require.Equal(t, exactly[p.Name].Data, reference[p.Name].Data)
				require.Equal(t, p.Type.Shape, reference[p.Name].Shape)
			}
		}
	}
}

// With heads side by side a kernel reads flat parameters and writes flat results as they are.
func TestFlatRowsAreNotMoved(t *testing.T) {
	for _, text := range []string{"t=128,hk=3,k=8,rows=flat", "b=2,t=128,hk=3,k=8,rows=flat,direction=train", "t=120,hk=3,k=8,rows=flat"} {
		s := gdntest.MustParse(t, text)
		m, err := Module(s, gdntest.MustVariant(t, "chunk=32,layout=bt_hd"))
		require.NoError(t, err)
		for _, in := range m.Body.Instrs {
			for _, x := range in.Args {
				if in.Op == ir.OpGrid && x.Type.DType == s.DType && x.Type.Rank() == 3 && x.Type.Shape[2] == 24 && s.Tokens == 128 {
					require.Nil(t, x.Def, "%s: the grid reads what is made of a parameter", text)
				}
			}
			if in.Op == ir.OpPad {
				require.LessOrEqual(t, in.Args[0].Type.Rank(), 3, "tokens are filled up with heads side by side")
			}
		}
		for _, r := range m.Body.Yield {
			if r.Type.Rank() == 3 && r.Type.Shape[2] == 24 && s.Tokens == 128 {
				require.Equal(t, ir.OpGrid, r.Def.Op, text)
			}
		}
	}
}

// A kernel that copies its blocks reads the gates of heads as a TPU stores them, a chunk of the heads a tile. Before it they are only turned to have the tokens
// last, in their own type.
func TestGatesAreNotMoved(t *testing.T) {
	for text, gates := range map[string]ir.Type{
		"t=1024,hk=2,hv=4,k=8,dtype=bf16,gates=fused,gatedtype=bf16": ir.T(ir.BF16, 1, 8, 4, 128),
		"t=1024,hk=4,hv=8,k=8,dtype=bf16,gates=fused,gatedtype=bf16": ir.T(ir.BF16, 1, 8, 8, 128),
		"t=1024,hk=3,hv=6,k=8,dtype=bf16":                            ir.T(ir.F32, 1, 8, 6, 128),
		"t=1024,hk=4,hv=8,k=8,dtype=bf16":                            ir.T(ir.F32, 1, 2, 1, 32, 128), // rows of whole tiles
		"t=1000,hk=2,hv=4,k=8,dtype=bf16,gates=fused,gatedtype=bf16": ir.T(ir.F32, 1, 2, 1, 16, 128), // filled to whole chunks
	} {
		m, err := Module(gdntest.MustParse(t, text), gdntest.MustVariant(t, "tpu-long,prefetch=dma,hbm=yes"))
		require.NoError(t, err)
		seen := 0
		for _, in := range m.Body.Instrs {
			for _, x := range in.Args {
				if in.Op == ir.OpGrid && x.Type.Equal(gates) {
					seen++
				}
			}
		}
		require.Equal(t, 2, seen, text)
	}
}

// A decode kernel takes states as XLA holds them: what it reads and writes has as many lanes as fill registers, turned from the parameter and for the result.
func TestStatesAreTakenAsXLAHoldsThem(t *testing.T) {
	for _, c := range []struct {
		spec  string
		lanes int // of what the kernel takes
	}{
		{"b=3,t=1,hk=1,hv=2,k=128,v=96,init,gates=fused,l2norm", 128},
		{"b=3,t=1,hk=1,hv=2,k=192,v=64,init", 192},
		{"b=3,t=2,hk=1,hv=2,k=64,v=128,init,state=vk", 128},
		{"b=3,t=1,hk=1,hv=2,k=128,v=96,init,pool=7,inplace", 128},
		{"b=3,t=2,hk=1,hv=2,k=128,v=96,init,pool=8,read,window", 128},
		{"b=3,t=1,hk=1,hv=2,k=96,v=192,init", 192}, // as much either way
		{"b=3,t=1,hk=1,hv=2,k=128,v=128,init", 128},
	} {
		for _, variant := range []string{"decode", "decode-f32,hbm=yes", "cpu-decode"} {
			s, v := gdntest.MustParse(t, c.spec), gdntest.MustVariant(t, variant)
			inputs := drawInputs(t, "random", s, 1)
			m := build(t, s, v)
			require.Less(t, worst(run(t, m, inputs), exact(t, s, inputs)), map[bool]float64{true: 2e-2, false: 2e-6}[variant == "decode"], "%s by %s", s, variant)
			for _, in := range m.Body.Instrs {
				if in.Op != ir.OpGrid || variant == "cpu-decode" {
					continue
				}
				for _, x := range append(in.Args, in.Results...) {
					if n := x.Type.Rank(); n >= 4 && x.Type.DType == ir.F32 && x.Type.Size()%(s.K*s.V) == 0 {
						require.Equal(t, c.lanes, x.Type.Shape[n-1], "%s by %s: %s", s, variant, x.Type)
					}
				}
			}
		}
	}
}
