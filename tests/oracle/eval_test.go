package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/stretchr/testify/require"
)

// rms limits between the evaluators: they sum in different orders, so here and there a number rounds the other way to bf16.
const (
	bf16Tolerance = 3e-4
	x3Tolerance   = 5e-5
)

// champions are what the README's figures are about, at small sizes, on each target. tpu-x3 gives its output in f32: a few numbers that round
// the other way to bf16, which differ by processor, are more than its limit.
var champions = []struct {
	name, spec, variant, class string
	limit                      float64
}{
	{"tpu", "t=100,hk=1,hv=2,k=128,v=128,dtype=bf16", "tpu,chunk=64", "cos.9", bf16Tolerance},
	{"tpu-x3", "t=100,hk=1,hv=2,k=128,v=128,dtype=bf16,out=f32", "tpu-x3,chunk=64,steps=2", "cos.99", x3Tolerance},
	{"packed", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,seqs=4,init,state=vk,empty=zero,inplace,packed", "tpu-packed,chunk=32,mergepairs=0,chunks=2", "reset.cos.9", bf16Tolerance},
	{"decode", "b=4,t=1,hk=1,hv=4,k=128,v=128,dtype=bf16,gates=fused,init,state=vk,pool=6,inplace", "decode", "random", bf16Tolerance},
	{"train", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,init,direction=train", "tpu-train,chunk=32,mergepairs=0", "random", bf16Tolerance},
}

// Our evaluator and the oracle agree on the champions.
func TestEvaluatorAgainstOracle(t *testing.T) {
	py := python(t)
	for _, c := range champions {
		for _, generation := range []string{"v5e", "v6e", "tpu7x"} {
			t.Run(c.name+"/"+generation, func(t *testing.T) {
				t.Parallel()
				s, err := gdn.Parse(c.spec)
				require.NoError(t, err)
				on, err := target.Lookup(generation)
				require.NoError(t, err)
				form, err := route.Resolve(s, c.variant, on, nil)
				require.NoError(t, err)
				class, err := truth.LookupClass(c.class)
				require.NoError(t, err)
				agree(t, py, s, form.Variant, on, class, c.limit)
			})
		}
	}
}

// agree requires that our evaluator and the oracle compute the same from the text of a variant, but for sums in another order.
func agree(t *testing.T, py string, s gdn.Spec, v gdn.Variant, on *target.Target, class truth.Class, limit float64) {
	t.Helper()
	a, err := route.Program(s, v, "mosaic", on)
	require.NoError(t, err)
	inputs, err := class.Generate(s, 1)
	require.NoError(t, err)
	want := evaluate(t, py, s, a.Text, inputs)
	p, err := eval.Parse(a.Text)
	require.NoError(t, err)
	got, err := p.Run(arguments(s, inputs)...)
	require.NoError(t, err)
	for i, o := range s.Outputs() {
		d := array.Compare(got[i].Convert(want[o.Name].Type), want[o.Name])
		require.False(t, d.NaN, o.Name)
		t.Logf("%s: %s", o.Name, d)
		require.LessOrEqual(t, d.Ratio, limit, o.Name)
	}
}

func arguments(s gdn.Spec, inputs map[string]*array.Array) []*array.Array {
	var list []*array.Array
	for _, p := range s.Inputs() {
		list = append(list, inputs[p.Name])
	}
	return list
}

// What a program does before its first kernel only moves, selects and counts: schedules of packed sequences, places in a pool, padding. The
// operands of that kernel are the same to the bit.
func TestXLAOpsAgainstOracle(t *testing.T) {
	py := python(t)
	for _, row := range []struct{ name, spec, variant string }{
		{"packed", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,seqs=9,init,state=vk,empty=zero,inplace,packed", "tpu-packed"},
		{"gathered", "t=70,hk=1,hv=2,k=64,v=128,gates=fused,seqs=4,init,state=vk,empty=keep,packed", "chunk=16,leaf=4,fuse=kernel,phases_before=1,steps=2"},
		{"masked", "t=70,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,empty=zero,packed", "tpu-long,chunk=32,mergepairs=0,phases_before=0,pack=masked,batch=4"},
		{"visits", "t=150,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=5,init,state=vk,empty=zero,packed", "tpu-x3,chunk=64,pack=segments,prefetch=dma"},
		{"pool", "b=5,t=1,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,init,state=vk,pool=7,inplace", "decode-f32"},
	} {
		for _, generation := range []string{"v5e", "v6e", "tpu7x"} {
			t.Run(row.name+"/"+generation, func(t *testing.T) {
				t.Parallel()
				s, err := gdn.Parse(row.spec)
				require.NoError(t, err)
				v, err := gdn.ParseVariant(row.variant)
				require.NoError(t, err)
				on, err := target.Lookup(generation)
				require.NoError(t, err)
				a, err := route.Program(s, v, "mosaic", on)
				require.NoError(t, err)
				text, n := untilKernel(t, a.Text)
				class, err := truth.LookupClass("random")
				require.NoError(t, err)
				inputs, err := class.Generate(s, 3)
				require.NoError(t, err)
				p, err := eval.Parse(text)
				require.NoError(t, err)
				got, err := p.Run(arguments(s, inputs)...)
				require.NoError(t, err)
				want := consult(t, py, text, arguments(s, inputs))
				require.Len(t, want, n)
				for i := range got {
					require.Equal(t, want[i].Data, got[i].Convert(want[i].Type).Data, "operand %d, %s", i, got[i])
				}
			})
		}
	}
}

// untilKernel is a program that ends before its first kernel and returns the kernel's operands, and their number.
func untilKernel(t *testing.T, text string) (string, int) {
	t.Helper()
	before, call, ok := strings.Cut(text, " = stablehlo.custom_call @tpu_custom_call(")
	require.True(t, ok)
	before = before[:strings.LastIndex(before, "\n")]
	operands, call, _ := strings.Cut(call, ")")
	_, call, _ = strings.Cut(call, "} : (")
	types, _, _ := strings.Cut(call, ") -> ")
	_, results, _ := strings.Cut(before, ") -> (")
	results, _, _ = strings.Cut(results, ") {\n")
	before = strings.Replace(before, ") -> ("+results+") {\n", ") -> ("+types+") {\n", 1)
	return before + fmt.Sprintf("\n    return %s : %s\n  }\n}\n", operands, types), strings.Count(operands, ",") + 1
}

// consult runs a text through mosaic_eval.py on a list of arrays.
func consult(t *testing.T, python, text string, args []*array.Array) []*array.Array {
	t.Helper()
	dir := t.TempDir()
	module, in, out := filepath.Join(dir, "m.mlir"), filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out.safetensors")
	f := &array.File{Tensors: map[string]*array.Array{}}
	for i, a := range args {
		f.Tensors[fmt.Sprint("arg", i)] = a
	}
	require.NoError(t, array.WriteSafetensors(in, f))
	require.NoError(t, os.WriteFile(module, []byte(text), 0o644))
	o := borrow(t, python)
	wrong, err := o.ask(module, in, out)
	require.NoError(t, err)
	giveBack(o)
	require.Empty(t, wrong)
	f, err = array.ReadSafetensors(out)
	require.NoError(t, err)
	outs := make([]*array.Array, len(f.Tensors))
	for i := range outs {
		outs[i] = f.Tensors[fmt.Sprint("out", i)]
	}
	return outs
}
