package oracle

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/stretchr/testify/require"
)

// python finds the interpreter of the oracle: GDNGEN_PYTHON, or the virtual environment of the repository. Without one the
// test is skipped, but fails in CI.
func python(t *testing.T) string {
	t.Helper()
	p := os.Getenv("GDNGEN_PYTHON")
	if p == "" {
		p = filepath.Join("..", "..", ".venv", "bin", "python")
	}
	if _, err := exec.LookPath(p); err != nil {
		const how = "no Python for the oracle: set GDNGEN_PYTHON to an interpreter with the packages of tests/oracle/requirements.txt"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	return p
}

// evaluate runs the text of a module through mosaic_eval.py on the inputs of a spec, and names its outputs.
func evaluate(t *testing.T, python string, s gdn.Spec, text string, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	outs := consult(t, python, text, arguments(s, inputs))
	outputs := map[string]*array.Array{}
	for i, p := range s.Outputs() {
		outputs[p.Name] = outs[i]
	}
	return outputs
}

// A bf16 case of the fixtures, from the emitted text alone, meets the bf16x1 tolerance of the manifest by each legitimate
// solve, in each dataflow, with and without bf16 vector units.
func TestSolvesOnFixture(t *testing.T) {
	py := python(t)
	cases, err := truth.ReadCases(filepath.Join("..", "fixtures"))
	require.NoError(t, err)
	var c truth.Case
	for _, x := range cases {
		if x.Name == "s07_bf16_inputs_t200" {
			c = x
		}
	}
	require.NotEmpty(t, c.Name)
	inputs, expected, err := c.Load()
	require.NoError(t, err)
	for _, row := range []struct{ name, target, variant string }{
		{"forward", "v6e", "solve=forward,chunk=32,prec=bf16x1,store=bf16"},
		{"block", "v5e", "solve=block,leaf=16,prec=bf16x1,store=bf16,decay_bf16=all,decay=segment"},
		{"ladder", "v6e", "solve=ladder,leaf=1,beta=right,prec=bf16x1,store=bf16"},
		{"ladder16", "v5e", "solve=ladder,leaf=16,flow=solve,transpose_k=key,prec=bf16x1,store=bf16"},
		{"merge-blocks", "v6e", "leaf=8,flow=split,form=uw,chunks=2,prec=bf16x1,store=bf16"},
		{"merge-rows", "v5e", "leaf=16,merge=rows,layout=bthd,kq=joined,prec=bf16x1,store=bf16"},
		{"merge-neumann4", "v6e", "leaf=4,leafby=neumann,flow=split,prec=bf16x1,store=bf16"},
		{"merge-newton16", "v5e", "leaf=16,leafby=neumann,leafnewton=1,prec=bf16x1,precinv=f32,store=bf16"},
		{"bf16", "v5e", "bf16"},
		{"tpu", "v6e", "tpu"},
		{"tpu-long", "v6e", "tpu-long"},
		{"tpu-128", "v5e", "tpu-128"},
		{"tpu-f32", "v5e", "tpu-f32"},
		{"token", "v6e", "algo=token,prec=bf16x1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v, err := gdn.ParseVariant(row.variant)
			require.NoError(t, err)
			require.Empty(t, v.Unsafe(c.Spec))
			require.Equal(t, "bf16x1", v.Precision().String())
			target, err := target.Lookup(row.target)
			require.NoError(t, err)
			a, err := route.Program(c.Spec, v, "mosaic", target)
			require.NoError(t, err)
			got := evaluate(t, py, c.Spec, a.Text, inputs)
			passes(t, c, got, expected, "bf16x1")
		})
	}
}

// What a spec may ask for, from the emitted text against the float64 reference, on correlated keys: packed sequences with
// empty ones, a decode step of several batch rows, widths that fill no registers.
func TestSpecsAgainstReference(t *testing.T) {
	py := python(t)
	class, err := truth.LookupClass("reset.cos.9")
	require.NoError(t, err)
	for _, row := range []struct{ name, target, spec, variant string }{
		{"packed", "v6e", "t=70,hk=1,hv=2,k=64,v=128,gates=fused,seqs=3,init,state=vk,empty=zero,packed", "chunk=16,leaf=4,fuse=kernel,phases_before=1,steps=2"},
		{"decode", "v5e", "b=4,t=1,hk=1,hv=4,k=128,v=128,dtype=bf16,gates=fused,init", "tpu,batch=2"},
		{"decode-few", "v6e", "b=2,t=3,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,init,state=vk,inplace", "decode"},
		{"decode-bf16", "v5e", "b=2,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,l2norm,init,statedtype=bf16", "decode-f32"},
		{"aligned", "v6e", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=3,init,state=vk,empty=zero,packed", "tpu-packed,chunk=32,mergepairs=0,chunks=1,phases_before=2,interleave=yes"},
		{"aligned-lockstep", "tpu7x", "t=100,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=6,init,state=vk,empty=keep,packed", "tpu-packed,chunk=32,mergepairs=0"},
		{"tokens-copied", "v6e", "t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "tpu-long,chunk=32,mergepairs=0,prefetch=dma"},
		{"aligned-copies", "tpu7x", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=9,init,state=vk,empty=zero,inplace,packed", "tpu-packed,chunk=32,mergepairs=0,prefetch=dma"},
		{"masked", "v5e", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=3,init,state=vk,empty=zero,packed", "tpu-long,chunk=32,mergepairs=0,phases_before=0,pack=masked,batch=4"},
		{"packed-one", "v6e", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=1,init,state=vk,empty=zero,packed", "tpu-long,chunk=32,mergepairs=0"},
		{"decode-pool", "v6e", "b=5,t=1,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,init,state=vk,pool=7,inplace", "decode-f32"},
		{"visits", "v6e", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=5,init,state=vk,empty=zero,packed", "tpu-x3,chunk=64,pack=segments,prefetch=dma"},
		{"odd", "v5e", "b=2,t=50,hk=2,hv=4,k=48,v=60,l2norm,init,final=false", "chunk=16,leaf=8,layout=bthd,kq=joined,fuse=kernel"},
		{"parted", "v6e", "t=70,hk=4,hv=8,k=128,v=128,dtype=bf16,init", "tpu,chunk=32,heads=4"},
		{"narrow", "v5e", "t=140,hk=1,hv=2,k=64,v=32,dtype=bf16", "tpu,layout=bhdt"},
		{"narrow-lockstep", "v6e", "t=140,hk=1,hv=2,k=64,v=64,dtype=bf16", "tpu-long,layout=bhdt,chunks=2"},
		{"rest", "v6e", "t=140,hk=1,hv=2,k=128,v=128,dtype=bf16,init", "tpu-x3,chunk=32,mergepairs=0,chunks=2,steps=1,tail_decay=v"},
		{"rest-one-pass", "v5e", "t=140,hk=1,hv=2,k=128,v=128,dtype=bf16,l2norm,init", "tpu-long,chunk=32,mergepairs=0,chunks=2,tail_decay=v"},
		{"wide", "v6e", "t=40,hk=1,hv=1,k=256,v=96,dtype=bf16", "bf16x3,chunk=32,layout=bthd"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, err := gdn.Parse(row.spec)
			require.NoError(t, err)
			v, err := gdn.ParseVariant(row.variant)
			require.NoError(t, err)
			got, want := evaluated(t, py, s, v, row.target, class)
			for _, o := range s.Outputs() {
				limit, err := class.Limit(s, v.Precision().String(), o.Type.DType)
				require.NoError(t, err)
				require.LessOrEqual(t, array.Compare(got[o.Name], want[o.Name]).RelMax, limit, o.Name)
			}
		})
	}
}

// evaluated computes a class of inputs by the emitted text, and by the float64 reference.
func evaluated(t *testing.T, py string, s gdn.Spec, v gdn.Variant, generation string, class truth.Class) (got, want map[string]*array.Array) {
	on, err := target.Lookup(generation)
	require.NoError(t, err)
	a, err := route.Program(s, v, "mosaic", on)
	require.NoError(t, err)
	inputs, err := class.Generate(s, 1)
	require.NoError(t, err)
	want, err = truth.Reference(s, inputs)
	require.NoError(t, err)
	return evaluate(t, py, s, a.Text, inputs), want
}

// Gradients, from the emitted text of the forward and the backward kernel, against the float64 reference: ragged and packed
// sequences, given and raw gates, by both precisions of training.
func TestGradientsAgainstReference(t *testing.T) {
	py := python(t)
	for _, row := range []struct{ name, target, spec, variant, class string }{
		{"train", "v6e", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,init,direction=train", "tpu-train,chunk=64", "random"},
		{"train-x3", "v5e", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,direction=train", "tpu-train-x3,chunk=64,chunks=2", "cos.9"},
		{"packed", "v6e", "t=20,hk=1,k=16,gates=fused,seqs=3,init,state=vk,l2norm,direction=backward", "chunk=8,solve=ladder,leaf=1,fuse=kernel,save=inverse", "reset.cos.9"},
		{"visits", "v6e", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=5,init,direction=train", "tpu-train,chunk=64,pack=segments,prefetch=dma", "random"},
		{"visits-lockstep", "v6e", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=5,init,direction=train", "tpu-train-long,chunk=64,chunks=2,pack=segments,prefetch=dma", "random"},
		{"odd", "v5e", "t=20,hk=1,hv=2,k=48,v=60,init,final=false,direction=train", "chunk=16,leaf=16,merge=packed,layout=bthd,kq=joined,save=none", "slow"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, err := gdn.Parse(row.spec)
			require.NoError(t, err)
			v, err := gdn.ParseVariant(row.variant)
			require.NoError(t, err)
			class, err := truth.LookupClass(row.class)
			require.NoError(t, err)
			got, want := evaluated(t, py, s, v, row.target, class)
			for _, o := range s.Outputs() {
				off, limit, err := class.Error(s, v.Precision().String(), o, got, want)
				require.NoError(t, err)
				require.LessOrEqual(t, off, limit, o.Name)
			}
		})
	}
}

// passes requires that outputs, by the names of the spec, are within the limits of a stored case.
func passes(t *testing.T, c truth.Case, got, expected map[string]*array.Array, precision string) {
	t.Helper()
	outputs := map[string]*array.Array{}
	for i, p := range c.Spec.Outputs() {
		require.Contains(t, got, p.Name)
		outputs[c.Outputs[i].Name] = got[p.Name]
	}
	verdicts, err := c.Judge(expected, outputs, precision)
	require.NoError(t, err)
	require.Len(t, verdicts, len(c.Outputs))
	for _, v := range verdicts {
		require.True(t, v.Pass, "%+v", v)
	}
}
