package irgraph_test

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/layer/irgraph"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// run computes a module.
func run(t *testing.T, b compute.Backend, m *ir.Module, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	m, err := irgraph.Prepare(m)
	require.NoError(t, err)
	var args []any
	for _, p := range m.Params() {
		x, err := device.Tensor(inputs[p.Name])
		require.NoError(t, err)
		args = append(args, x)
	}
	exec, err := graph.NewExec(b, func(in []*graph.Node) []*graph.Node {
		named := map[string]*graph.Node{}
		for i, p := range m.Params() {
			named[p.Name] = in[i]
		}
		return irgraph.Build(in[0].Graph(), m, named)
	})
	require.NoError(t, err)
	var out []*tensors.Tensor
	out, err = exec.Call(args...)
	require.NoError(t, err)
	got := map[string]*array.Array{}
	for i, name := range m.Results {
		got[name], err = device.Array(out[i])
		require.NoError(t, err)
	}
	return got
}

// Every op has a rule or a reason.
func TestTotality(t *testing.T) {
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		require.True(t, irgraph.HasRule(op), "%s has no rule", op)
	}
	require.Error(t, irgraph.Supports(ir.OpLoad))
	require.NoError(t, irgraph.Supports(ir.OpDot))
}

// Graphs agree with the interpreter on variants of every structure and specs with every option.
func TestModules(t *testing.T) {
	tests := []struct{ spec, variant string }{
		{"b=1,t=70,hk=1,hv=2,k=16,v=24,init", "cpu"},
		{"b=1,t=60,hk=2,hv=2,k=16,v=16,seqs=3,init", "cpu"},
		{"b=2,t=40,hk=1,hv=2,k=16,v=16,seqs=0,l2norm,gates=fused", "chunk=16,leaf=4"},
		{"b=1,t=60,hk=2,hv=2,k=16,v=16,seqs=3,init", "chunk=16,leaf=8,flow=split,form=uw"},
		{"b=1,t=33,hk=1,hv=1,k=16,v=16", "algo=token,chunk=16"},
	}
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		for _, test := range tests {
			s, err := gdn.Parse(test.spec)
			require.NoError(t, err)
			v, err := gdn.LookupVariant(test.variant)
			if err != nil {
				v, err = gdn.ParseVariant(test.variant)
			}
			require.NoError(t, err)
			class, err := truth.LookupClass("random")
			require.NoError(t, err)
			in, err := class.Generate(s, 1)
			require.NoError(t, err)
			m, err := build.Module(s, v)
			require.NoError(t, err)
			want, err := interp.Run(m, in, interp.Options{})
			require.NoError(t, err)
			for name, x := range run(t, b, m, in) {
				require.Less(t, array.Compare(x, want[name]).Ratio, 1e-6, "%s by %s: %s", test.spec, test.variant, name)
			}
		}
	})
}
