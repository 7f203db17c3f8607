package eval_test

import (
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/stretchr/testify/require"
)

// programs are specs and variants of every form that kernels have: fused, split and token by token, batches, packed sequences as they lie,
// gathered, masked and copied by the kernel, pools of states in place, odd widths, and training.
var programs = []struct{ name, target, spec, variant, class string }{
	{"default", "v6e", "t=70,hk=1,hv=2,k=64,v=64", "default,chunk=32", "random"},
	{"forward", "v5e", "t=70,hk=2,hv=2,k=64,v=64,dtype=bf16", "solve=forward,chunk=32,prec=bf16x1,store=bf16", "cos.9"},
	{"block", "v5e", "t=70,hk=1,hv=2,k=64,v=64,dtype=bf16", "solve=block,leaf=16,prec=bf16x1,store=bf16,decay_bf16=all,decay=segment", "random"},
	{"ladder", "v6e", "t=70,hk=1,hv=2,k=64,v=64", "ladder16", "cos.9"},
	{"split", "v6e", "t=70,hk=1,hv=2,k=64,v=64,dtype=bf16", "leaf=8,flow=split,form=uw,chunks=2,prec=bf16x1,store=bf16", "random"},
	{"tpu", "v6e", "t=300,hk=2,hv=4,k=128,v=128,dtype=bf16", "tpu", "random"},
	{"tpu-v5e", "v5e", "t=140,hk=1,hv=2,k=128,v=128,dtype=bf16,l2norm,init", "tpu", "slow"},
	{"tpu-tpu7x", "tpu7x", "t=140,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "tpu", "cos.99"},
	{"tpu-long", "v6e", "t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "tpu-long,chunk=64", "random"},
	{"tpu-128", "v5e", "t=300,hk=1,hv=2,k=128,v=128,dtype=bf16", "tpu-128,chunk=64", "cos.9"},
	{"tpu-f32", "v5e", "t=140,hk=1,hv=2,k=128,v=128,dtype=bf16", "tpu-f32", "random"},
	{"tpu-x3", "v6e", "t=140,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "tpu-x3,chunk=64", "cos.99"},
	{"bf16x3", "v5e", "t=40,hk=1,hv=1,k=256,v=96,dtype=bf16", "bf16x3,chunk=32,layout=bthd", "random"},
	{"token", "v6e", "t=20,hk=1,hv=2,k=128,v=128,dtype=bf16", "algo=token,prec=bf16x1", "random"},
	{"decode", "v6e", "b=4,t=1,hk=1,hv=4,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk,inplace", "decode", "random"},
	{"decode-f32", "v5e", "b=2,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,l2norm,init,statedtype=bf16", "decode-f32", "random"},
	{"pool", "tpu7x", "b=5,t=1,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,init,state=vk,pool=7,inplace", "decode-f32", "random"},
	{"gathered", "v6e", "t=70,hk=1,hv=2,k=64,v=128,gates=fused,seqs=3,init,state=vk,empty=zero,packed", "chunk=16,leaf=4,fuse=kernel,phases_before=1,steps=2", "reset.cos.9"},
	{"aligned", "v6e", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=3,init,state=vk,empty=zero,packed", "tpu-packed,chunk=32,mergepairs=0,chunks=1,phases_before=2,interleave=yes", "reset.cos.9"},
	{"tokens-copied", "v6e", "t=600,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "tpu-long,chunk=64,hbm=yes,tail_decay=v,prefetch=dma", "random"},
	{"copies", "tpu7x", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=9,init,state=vk,empty=zero,inplace,packed", "tpu-packed,chunk=32,mergepairs=0,prefetch=dma", "reset.cos.9"},
	{"masked", "v5e", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=3,init,state=vk,empty=zero,packed", "tpu-long,chunk=32,mergepairs=0,phases_before=0,pack=masked,batch=4", "reset.cos.9"},
	{"odd", "v5e", "b=2,t=50,hk=2,hv=4,k=48,v=60,l2norm,init,final=false", "chunk=16,leaf=8,layout=bthd,kq=joined,fuse=kernel", "slow"},
	{"parted", "v6e", "t=70,hk=4,hv=8,k=128,v=128,dtype=bf16,init", "tpu,chunk=32,heads=4", "random"},
	{"train", "v6e", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,init,direction=train", "tpu-train,chunk=64", "random"},
	{"train-x3", "v5e", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,direction=train", "tpu-train-x3,chunk=64,chunks=2", "cos.9"},
	{"train-packed", "v6e", "t=20,hk=1,k=16,gates=fused,seqs=3,init,state=vk,l2norm,direction=backward", "chunk=8,solve=ladder,leaf=1,fuse=kernel,save=inverse", "reset.cos.9"},
}

// emitted is a program by its two ways: the text, and the module at the kernel level that the text was made of.
func emitted(t testing.TB, generation, spec, variant string) (gdn.Spec, string, *ir.Module) {
	t.Helper()
	s, err := gdn.Parse(spec)
	require.NoError(t, err)
	v, err := gdn.ParseVariant(variant)
	require.NoError(t, err)
	on, err := target.Lookup(generation)
	require.NoError(t, err)
	m, err := build.Module(s, v)
	require.NoError(t, err)
	m, err = route.Kernels(m)
	require.NoError(t, err)
	a, err := mosaic.Backend{}.Emit(m, on)
	require.NoError(t, err)
	return s, a.Text, m
}

func drawn(t testing.TB, s gdn.Spec, class string) (map[string]*array.Array, []*array.Array) {
	t.Helper()
	c, err := truth.LookupClass(class)
	require.NoError(t, err)
	inputs, err := c.Generate(s, 1)
	require.NoError(t, err)
	var list []*array.Array
	for _, p := range s.Inputs() {
		list = append(list, inputs[p.Name])
	}
	return inputs, list
}

// What the text computes is what the interpreter computes from the lowered module, to the bit: both sum in the order of the index.
func TestAgreesWithInterpreter(t *testing.T) {
	for _, row := range programs {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, text, m := emitted(t, row.target, row.spec, row.variant)
			byName, list := drawn(t, s, row.class)
			want, err := interp.Run(m, byName, interp.Options{})
			require.NoError(t, err)
			p, err := eval.Parse(text)
			require.NoError(t, err)
			got, err := p.Run(list...)
			require.NoError(t, err)
			for i, o := range s.Outputs() {
				if strings.Contains(row.spec, "gates=fused") { // a kernel makes the sigmoid of several ops, which round each
					require.LessOrEqual(t, array.Compare(got[i], want[o.Name]).RelMax, 1e-6, o.Name)
					continue
				}
				require.Equal(t, want[o.Name].Data, got[i].Data, o.Name)
			}
		})
	}
}
