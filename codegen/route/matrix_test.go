package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
)

// matrix is a sample of what users may ask for: nearly all pairs of values of two axes, or of an axis and a property of the
// spec, are in one row at least.
var matrix = []struct{ spec, variant string }{
	{"b=1,t=64,hk=2,hv=2,k=96,v=128,dtype=bf16,seqs=1,init,state=vk",
		"algo=chunk,chunk=64,solve=merge,leaf=16,merge=packed,form=uw,flow=solve,heads=16,batch=2,chunks=2,decay=base2,kq=joined,share=no,fold=yes,out=joined,prec=bf16x1,store=bf16,decay_bf16=all,steps=4,head_group=8"},
	{"b=8,t=1,hk=1,hv=4,k=64,v=64,dtype=f32,l2norm,init,final=false,state=vk,statedtype=bf16",
		"algo=chunk,chunk=128,solve=merge,leaf=16,leafby=neumann,leafnewton=1,flow=fused,batch=2,chunks=4,layout=bthd,share=no,beta=exponent,scale=output,precinv=bf16x6,precintra=bf16x1,precstate=bf16x3,store=bf16,decay_bf16=rows,steps=4"},
	{"b=1,t=130,hk=3,hv=3,k=256,v=128,dtype=bf16,gates=fused,gatedtype=bf16,negeig,final=false,packed",
		"algo=chunk,chunk=16,solve=merge,leaf=4,leafby=neumann,leafnewton=2,merge=rows,form=uw,flow=split,batch=2,decay=clamp,fuse=kernel,kq=joined,share=no,beta=right,transpose_k=key,precintra=bf16x3,precstate=bf16x1,store=bf16,decay_bf16=rows,phases_before=2,steps=2,head_group=4"},
	{"b=2,t=1,hk=2,hv=8,k=60,v=40,dtype=f32,gates=fused,l2norm",
		"algo=chunk,chunk=16,solve=ladder,leaf=8,leafby=neumann,form=uw,flow=fused,layout=bthd,decay=segment,fuse=kernel,kq=joined,share=no,beta=exponent,fold=yes,scale=output,precinv=bf16x3,precintra=bf16x6,precstate=bf16x6,phases_before=1,steps=2,head_group=1"},
	{"b=1,t=130,hk=1,hv=1,k=128,v=256,dtype=f32,gates=fused,gatedtype=bf16,l2norm,init,packed",
		"algo=chunk,chunk=128,solve=merge,leaf=16,merge=packed,flow=split,heads=1,batch=4,chunks=2,fuse=kernel,kq=joined,fold=yes,out=joined,prec=bf16x1,store=bf16,mask=words,phases_before=2,steps=2,head_group=1"},
	{"b=1,t=1,hk=1,hv=2,k=40,v=20,dtype=f32,seqs=9,final=false,packed",
		"algo=chunk,chunk=8,solve=ladder,leaf=16,leafby=neumann,leafnewton=1,flow=split,batch=4,chunks=2,layout=bthd,decay=segment,fuse=kernel,fold=yes,out=joined,transpose_k=key,store=bf16,decay_bf16=rows,phases_before=1,head_group=4"},
	{"b=2,t=7,hk=3,hv=6,k=128,v=64,dtype=f32,init,state=vk",
		"algo=chunk,chunk=64,solve=block,leaf=4,leafby=neumann,form=uw,flow=solve,batch=8,layout=bthd,decay=clamp,share=no,beta=right,precinv=bf16x6,store=bf16,decay_bf16=all,phases_before=1,steps=4,head_group=8"},
	{"b=1,t=16,hk=4,hv=16,k=128,v=64,dtype=bf16,gates=fused,seqs=3,packed",
		"algo=chunk,chunk=64,solve=merge,leaf=8,merge=packed,flow=solve,batch=4,decay=base2,fuse=kernel,share=no,beta=exponent,fold=yes,transpose_k=key,scale=output,precinv=bf16x1,precintra=bf16x3,precstate=bf16x3,phases_before=2,steps=2,head_group=2"},
	{"b=4,t=40,hk=3,hv=3,k=8,v=48,dtype=f32,state=vk",
		"algo=chunk,chunk=32,solve=ladder,leaf=1,form=uw,flow=fused,heads=1,batch=8,chunks=2,decay=base2,fuse=kernel,kq=joined,share=no,transpose_k=key,scale=output,precinv=bf16x6,precstate=bf16x6,phases_before=2,steps=2"},
	{"b=1,t=256,hk=1,hv=1,k=96,v=128,dtype=bf16,l2norm,init",
		"algo=chunk,chunk=16,solve=merge,leaf=32,leafby=neumann,leafnewton=1,flow=split,batch=2,chunks=4,layout=bthd,kq=joined,beta=right,transpose_k=key,precintra=bf16x3,phases_before=2,steps=4,head_group=8"},
	{"b=1,t=200,hk=1,hv=2,k=256,v=64,dtype=bf16,gates=fused,gatedtype=bf16,state=vk,packed",
		"algo=chunk,chunk=32,solve=ladder,leaf=32,leafby=neumann,leafnewton=2,form=uw,flow=fused,chunks=2,layout=bthd,decay=clamp,fuse=kernel,share=no,beta=right,fold=yes,precstate=bf16x3,store=bf16,phases_before=2,steps=2,head_group=1"},
	{"b=3,t=40,hk=1,hv=4,k=96,v=128,dtype=f32,gates=fused,gatedtype=bf16,negeig,final=false",
		"algo=chunk,chunk=32,solve=merge,leaf=16,merge=packed,form=uw,flow=fused,heads=16,batch=8,layout=bthd,decay=base2,fuse=kernel,beta=exponent,scale=output,prec=bf16x1,store=bf16,phases_before=1,steps=2,head_group=8"},
	{"b=4,t=100,hk=1,hv=1,k=128,v=256,dtype=f32,gates=fused,gatedtype=bf16",
		"algo=chunk,chunk=64,solve=forward,flow=split,heads=8,batch=8,chunks=2,layout=bthd,decay=clamp,fuse=kernel,share=no,transpose_k=key,precintra=bf16x6,precstate=bf16x3,store=bf16,decay_bf16=all,head_group=2"},
	{"b=1,t=100,hk=2,hv=4,k=256,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=1,init,statedtype=bf16,packed",
		"algo=chunk,chunk=128,solve=ladder,leaf=32,flow=split,heads=16,batch=8,chunks=2,decay=segment,fuse=kernel,beta=right,fold=yes,precinv=bf16x3,precintra=bf16x6,store=bf16,decay_bf16=all,phases_before=2,steps=4"},
	{"b=8,t=1,hk=1,hv=2,k=40,v=48,dtype=bf16,gates=fused,gatedtype=bf16,init,final=false",
		"algo=chunk,chunk=8,solve=merge,leaf=1,merge=packed,form=uw,flow=split,heads=2,batch=8,chunks=4,decay=clamp,kq=joined,beta=exponent,scale=output,precinv=bf16x3,store=bf16,decay_bf16=rows,phases_before=1,steps=2,head_group=2"},
	{"b=1,t=16,hk=4,hv=16,k=128,v=256,dtype=bf16,gates=fused,seqs=9,final=false",
		"algo=chunk,chunk=64,solve=block,leaf=16,leafby=neumann,leafnewton=2,form=uw,flow=solve,batch=2,chunks=4,layout=bthd,decay=segment,fuse=kernel,kq=joined,beta=right,precinv=bf16x6,precintra=bf16x1,precstate=bf16x6,store=bf16,decay_bf16=all,steps=4,head_group=4"},
	{"b=1,t=1,hk=3,hv=12,k=64,v=96,dtype=bf16,gates=fused,seqs=1,final=false",
		"algo=chunk,chunk=8,solve=merge,leaf=4,leafby=neumann,leafnewton=2,form=uw,flow=fused,batch=4,layout=bthd,kq=joined,share=no,beta=exponent,fold=yes,transpose_k=key,scale=output,precintra=bf16x6,precstate=bf16x6,store=bf16,decay_bf16=rows,phases_before=1"},
	{"b=2,t=130,hk=1,hv=1,k=16,v=16,dtype=bf16,negeig,state=vk,statedtype=bf16",
		"algo=chunk,chunk=128,solve=ladder,leaf=4,leafby=neumann,leafnewton=1,flow=solve,batch=4,chunks=4,layout=bthd,decay=base2,fuse=kernel,share=no,fold=yes,transpose_k=key,prec=bf16x1,store=bf16,head_group=4"},
	{"b=3,t=1,hk=1,hv=1,k=256,v=128,dtype=f32,state=vk",
		"algo=chunk,chunk=128,solve=block,leaf=32,form=uw,flow=split,batch=8,chunks=2,decay=segment,kq=joined,share=no,beta=right,transpose_k=key,precinv=bf16x3,precintra=bf16x3,precstate=bf16x6,store=bf16,decay_bf16=rows,steps=4"},
	{"b=1,t=40,hk=3,hv=6,k=256,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk,statedtype=bf16,packed",
		"algo=chunk,chunk=128,solve=forward,flow=fused,batch=4,fuse=kernel,kq=joined,share=no,beta=exponent,fold=yes,transpose_k=key,precinv=bf16x6,store=bf16,decay_bf16=all,steps=2,head_group=1"},
	{"b=1,t=40,hk=3,hv=3,k=96,v=256,dtype=bf16,seqs=9,init,empty=zero,packed",
		"algo=chunk,chunk=8,solve=merge,leaf=32,leafby=neumann,merge=rows,flow=solve,chunks=2,layout=bthd,decay=segment,fuse=kernel,beta=exponent,fold=yes,precintra=bf16x6,precstate=bf16x3,store=bf16,phases_before=2,steps=4,head_group=8"},
	{"b=2,t=16,hk=4,hv=8,k=256,v=128,dtype=bf16,gates=fused,gatedtype=bf16",
		"algo=chunk,chunk=128,solve=merge,leaf=16,merge=packed,flow=fused,batch=2,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,out=joined,transpose_k=key,prec=bf16x1,store=bf16,mask=words,phases_before=2,steps=2,head_group=2"},
	{"b=4,t=100,hk=1,hv=1,k=128,v=256,dtype=bf16,l2norm,state=vk",
		"algo=chunk,chunk=32,solve=merge,leaf=4,leafby=neumann,merge=packed,flow=solve,heads=1,batch=4,chunks=4,kq=joined,transpose_k=key,scale=output,precinv=bf16x6,precintra=bf16x1,precstate=bf16x1,store=bf16,decay_bf16=rows,steps=2,head_group=1"},
	{"b=2,t=40,hk=2,hv=4,k=256,v=96,dtype=bf16,init,state=vk",
		"algo=chunk,chunk=64,solve=merge,leaf=1,merge=rows,flow=split,batch=4,chunks=2,layout=bthd,decay=clamp,share=no,beta=right,transpose_k=key,scale=output,precinv=bf16x6,precintra=bf16x3,precstate=bf16x6,store=bf16,decay_bf16=all,phases_before=1,head_group=4"},
	{"b=1,t=100,hk=3,hv=3,k=40,v=40,dtype=f32",
		"algo=chunk,chunk=16,solve=merge,leaf=16,merge=packed,flow=solve,batch=2,layout=bthd,kq=joined,scale=output,precinv=bf16x1,precintra=bf16x1,precstate=bf16x6,store=bf16,decay_bf16=rows,phases_before=1,steps=4,head_group=1"},
	{"train,t=256,hk=1,hv=2,gates=fused,l2norm", "tpu-train"},
	{"b=2,t=150,hk=2,hv=4,k=128,v=256,dtype=bf16,init",
		"algo=chunk,chunk=64,solve=merge,leaf=16,flow=fused,heads=2,chunks=2,layout=bt_hd,kq=joined,prec=bf16x1,store=bf16"},
	{"b=2,t=70,hk=1,hv=1,k=128,v=128,dtype=f32,gates=fused,l2norm", "algo=chunk,chunk=32,solve=block,leaf=8,flow=split,batch=2,layout=bt_hd,fuse=kernel"},
	{"b=1,t=1,hk=4,hv=16,k=64,v=256,dtype=bf16,gates=fused,l2norm,seqs=3,init,empty=zero,packed",
		"algo=chunk,chunk=64,solve=merge,leaf=8,flow=fused,chunks=2,layout=bthd,fuse=kernel"},
	{"b=1,t=600,hk=4,hv=8,k=128,v=128,dtype=bf16,init", "tpu,heads=4"},
	{"b=2,t=40,hk=6,hv=6,k=128,v=64,dtype=bf16,init", "algo=chunk,chunk=16,leaf=4,heads=2,batch=2,layout=bthd,phases_before=1,steps=2"},
	{"b=2,t=40,hk=3,hv=6,k=128,v=128,dtype=bf16", "algo=chunk,chunk=16,leaf=4,heads=2,batch=2,chunks=2,layout=bthd"},
	{"b=1,t=70,hk=8,hv=32,k=128,v=128,dtype=f32", "algo=chunk,chunk=32,leaf=8,heads=16,layout=bthd,phases_before=1,steps=2"},
	{"b=1,t=70,hk=3,hv=6,k=96,v=256,dtype=bf16,gates=fused,l2norm,seqs=3", "algo=chunk,chunk=16,leaf=8,heads=2,layout=bthd,fuse=kernel"},
	{"b=1,t=300,hk=2,hv=4,k=64,v=96,dtype=bf16,init", "tpu,layout=bhdt"},
	{"b=1,t=1030,hk=4,hv=8,k=64,v=64,dtype=bf16,init", "tpu-128,layout=bhdt,prefetch=dma,tail_decay=v"}, // first and last blocks in parts, which heads part
	{"b=2,t=40,hk=2,hv=4,k=64,v=32,dtype=f32,init", "algo=chunk,chunk=64,leaf=8,heads=2,batch=2,layout=bhdt,transpose_k=key,phases_before=1"},
	{"b=2,t=500,hk=1,hv=2,k=32,v=48,dtype=bf16", "algo=chunk,chunk=64,leaf=8,batch=2,chunks=2,layout=bhdt"},
	{"b=1,t=1100,hk=2,hv=4,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,conv=4", "tpu-long,chunks=2,prefetch=dma,hbm=yes,tail_decay=v"}, // rows pass from step to step
	{"b=2,t=300,hk=2,hv=4,k=128,v=256,dtype=bf16,gates=fused,l2norm,conv=3", "tpu,heads=2,fuse=kernel"},
	{"b=3,t=70,hk=2,hv=6,k=128,v=128,dtype=f32,gates=fused,l2norm,conv=8", "algo=chunk,chunk=16,leaf=8,heads=2,chunks=2,fuse=kernel,phases_before=1"}, // programs share a key head
	{"b=2,t=70,hk=2,hv=4,k=128,v=128,dtype=bf16,l2norm,conv=2,rule=kda", "algo=chunk,chunk=32,leaf=8,batch=2,layout=bt_hd,fuse=kernel,phases_before=1,steps=2"},
	{"b=2,t=70,hk=2,hv=4,k=128,v=128,dtype=f32,l2norm,conv=4", "algo=chunk,chunk=32,leaf=8,flow=solve"},
	{"b=4,t=9,hk=8,hv=16,k=128,v=128,dtype=bf16", "algo=token,chunk=8,heads=8,batch=2,layout=bthd"},
}

// Kernels compute to the last bit what the module at the tensor level does, each of their instructions names its stage, and
// they are emitted.
func TestMatrix(t *testing.T) {
	class, err := truth.LookupClass("resets")
	require.NoError(t, err)
	for _, row := range matrix {
		t.Run(row.spec+" by "+row.variant, func(t *testing.T) {
			t.Parallel()
			s, v := spec(t, row.spec), variant(t, row.variant)
			require.NoError(t, v.Check(s))
			inputs, err := class.Generate(s, 1)
			require.NoError(t, err)
			m, err := build.Module(s, v)
			require.NoError(t, err)
			want, err := interp.Run(m, inputs, interp.Options{})
			require.NoError(t, err)
			k, err := route.Kernels(m)
			require.NoError(t, err)
			got, err := interp.Run(k, inputs, interp.Options{})
			require.NoError(t, err)
			require.Equal(t, want, got)
			kernels := 0
			for _, in := range k.Body.Instrs {
				if in.Op != ir.OpKernel {
					continue
				}
				kernels++
				in.Body.Walk(func(x *ir.Instr) {
					_, ok := ir.LookupStage(x.Task.Stage)
					require.True(t, ok, "%s of %s is of stage %q", x.Op, in.Attrs.Grid.Name, x.Task.Stage)
				})
			}
			require.Positive(t, kernels)
			for _, name := range []string{"v5e", "v6e"} { // without and with bf16 vector units
				target, err := target.Lookup(name)
				require.NoError(t, err)
				_, err = mosaic.Backend{}.Emit(k, target)
				require.NoError(t, err, name)
			}
		})
	}
}
