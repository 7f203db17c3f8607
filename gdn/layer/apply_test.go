package layer_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

func spec(t testing.TB, text string) gdn.Spec {
	t.Helper()
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

func generate(t testing.TB, s gdn.Spec, seed uint64) map[string]*array.Array {
	t.Helper()
	return ofClass(t, s, "random", seed)
}

func ofClass(t testing.TB, s gdn.Spec, class string, seed uint64) map[string]*array.Array {
	t.Helper()
	c, err := truth.LookupClass(class)
	require.NoError(t, err)
	in, err := c.Generate(s, seed)
	require.NoError(t, err)
	return in
}

// drawn gives inputs of a class in the order of the spec, and the outputs by the reference.
func drawn(t testing.TB, s gdn.Spec, class string, seed uint64) (args []*array.Array, want map[string]*array.Array) {
	t.Helper()
	in := ofClass(t, s, class, seed)
	want, err := truth.Reference(s, in)
	require.NoError(t, err)
	for _, p := range s.Inputs() {
		args = append(args, in[p.Name])
	}
	return args, want
}

// train computes results and gradients of a spec with direction train through the package.
func train(t testing.TB, b compute.Backend, s gdn.Spec, in map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	out, err := layer.Compute(b, s, nil, in)
	require.NoError(t, err)
	return out
}

// Results and gradients agree with the float64 reference: state in and out, grouped heads, K != V, packed sequences, fused
// gates, norms, any number of tokens.
func TestGradients(t *testing.T) {
	specs := []string{
		"b=2,t=70,hk=1,hv=2,k=16,v=24,init",
		"b=1,t=53,hk=1,hv=2,k=24,v=16,seqs=3,init",
		"b=1,t=1,hk=1,hv=2,k=16,v=16,init",
		"b=1,t=33,hk=1,hv=2,k=16,v=16,l2norm,gates=fused,negeig,final=false",
	}
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		for i, text := range specs {
			if i%2 == 0 && b.Name() == device.XLA {
				continue // its programs take long to compile; the stored cases and the differences below run on it too
			}
			s := spec(t, text)
			s.Direction = gdn.Train
			in := generate(t, s, 3)
			want, err := truth.Reference(s, in)
			require.NoError(t, err)
			got := train(t, b, s, in)
			for _, p := range s.Outputs() {
				limit := 4e-6
				if slices.Contains([]string{"dg", "da", "dA_log", "ddt_bias"}, p.Name) {
					limit = 1e-5 // sums of terms that cancel
				}
				require.Less(t, array.Compare(got[p.Name], want[p.Name]).Ratio, limit, "%s: %s", text, p.Name)
			}
		}
	})
}

// Every rule has a forward pass, convolutions and stored states included; gradients come from the inputs alone where the two passes are no
// modules of their own, and are unsupported where no variant has them.
func TestEveryRule(t *testing.T) {
	specs := []string{
		"b=1,t=40,hk=2,hv=2,k=16,v=8,l2norm,rule=deltanet", "b=1,t=40,hk=2,hv=2,k=16,v=8,seqs=3,init,rule=deltanet", "b=2,t=40,hk=2,hv=2,k=16,v=8,init,rule=simple-gla", "b=1,t=40,hk=2,hv=2,k=12,v=8,init,rule=linear",
		"b=1,t=40,hk=2,hv=4,k=16,v=16,conv=4,l2norm,gates=fused", "b=1,t=64,hk=1,hv=2,k=16,v=16,init,every=32", "b=1,t=40,hk=2,hv=2,k=16,v=8,init,rule=deltanet,direction=train",
	}
	b := layertest.Backend(t, "go")
	for _, text := range specs {
		s := spec(t, text)
		in := generate(t, s, 3)
		want, err := truth.Reference(s, in)
		require.NoError(t, err)
		got, err := layer.Compute(b, s, nil, in)
		require.NoError(t, err, text)
		for _, p := range s.Outputs() {
			require.Less(t, array.Compare(got[p.Name], want[p.Name]).Ratio, 4e-6, "%s: %s", text, p.Name)
		}
	}
	for _, rule := range []string{"simple-gla", "linear"} {
		s := spec(t, "b=1,t=40,hk=2,hv=2,k=16,v=8,init,direction=train,rule="+rule)
		_, err := layer.Compute(b, s, nil, generate(t, s, 3))
		var bad *gdn.UnsupportedError
		require.ErrorAs(t, err, &bad)
		require.Contains(t, bad.Reason, "gradients of rule="+rule)
	}
}

// Gradients agree with central differences of the float64 reference.
func TestFiniteDifferences(t *testing.T) {
	s := spec(t, "b=1,t=70,hk=1,hv=2,k=16,v=24,init")
	s.Direction = gdn.Train
	in := generate(t, s, 5)
	loss := func(in map[string]*array.Array) float64 {
		f := s
		f.Direction = gdn.Forward
		plain := maps.Clone(in)
		delete(plain, "do")
		delete(plain, "dfinal_state")
		out, err := truth.Reference(f, plain)
		require.NoError(t, err)
		sum := 0.0
		for _, n := range []string{"o", "final_state"} {
			d := in["d"+n].Float64s()
			for i, x := range out[n].Float64s() {
				sum += d[i] * x
			}
		}
		return sum
	}
	got := train(t, layertest.Backend(t, device.XLA), s, in)
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"q", "k", "v", "g", "beta", "initial_state"} {
		grad := got["d"+name].Float64s()
		var num, den float64
		for range 12 {
			i := r.IntN(len(grad))
			at := func(step float64) float64 {
				moved := maps.Clone(in)
				x := in[name].Float64s()
				x[i] += step
				moved[name] = array.FromFloat64s(in[name].Type, in[name].Shape, x)
				return loss(moved)
			}
			const h = 1.0 / 1024 // exact in float32 relative to these values; the fourth-order formula makes the error of the step vanish
			fd := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
			num, den = num+(fd-grad[i])*(fd-grad[i]), den+fd*fd
		}
		require.Less(t, math.Sqrt(num/den), 1e-5, "d%s", name)
	}
}

// A gradient taken twice, and one of a loss that uses one output alone, are each their own.
func TestGradientTwice(t *testing.T) {
	s := spec(t, "b=1,t=20,hk=1,hv=1,k=8,v=8,init")
	in := generate(t, s, 1)
	b := layertest.Backend(t, device.Go)
	var args []any
	for _, p := range s.Inputs() {
		x, err := device.Tensor(in[p.Name])
		require.NoError(t, err)
		args = append(args, x)
	}
	v, err := layer.DefaultVariant(b, s)
	require.NoError(t, err)
	out := MustNewExec(b, func(a []*Node) []*Node {
		named := map[string]*Node{}
		for i, p := range s.Inputs() {
			named[p.Name] = a[i]
		}
		r, err := layer.Apply(s, v, named)
		require.NoError(t, err)
		o, final := ReduceAllSum(r["o"]), ReduceAllSum(r["final_state"])
		both := Gradient(Add(o, final), a[1])[0]
		alone := Gradient(o, a[1])[0]
		other := Gradient(final, a[1])[0]
		q := Gradient(final, a[0])[0] // the final state does not depend on q
		return []*Node{ReduceAllMax(Abs(Sub(both, Add(alone, other)))), ReduceAllMax(Abs(alone)), ReduceAllMax(Abs(other)), ReduceAllMax(Abs(q))}
	}).MustCall(args...)
	require.Less(t, out[0].Value().(float32), float32(1e-4))
	require.Greater(t, out[1].Value().(float32), float32(1e-2))
	require.Greater(t, out[2].Value().(float32), float32(1e-2))
	require.Zero(t, out[3].Value().(float32))
}

// The rule alone, by its builder, with a decay a head and a decay a channel: states, a mask, packed sequences, bfloat16, and
// shapes that do not fit.
func TestRule(t *testing.T) {
	// With a bound tokens of a span share a boundary, from which their decays grow: their products are less exact.
	for rule, limit := range map[string]float64{"gdn": 1e-6, "kda": 1e-6, "kda,bound=-5": 3e-6} {
		t.Run(rule, func(t *testing.T) { testRule(t, rule, limit) })
	}
}

func testRule(t *testing.T, of string, limit float64) {
	b := layertest.Backend(t, device.Go)
	s := spec(t, "b=2,t=30,hk=1,hv=2,k=8,v=12,init,scale=0.5,l2norm,rule="+of)
	args, want := drawn(t, s, "random", 4)
	rule := func(a []*Node) *layer.RuleBuilder {
		return layer.Rule(a[0], a[1], a[2], a[3], a[4]).InitialState(a[5]).Scale(.5).L2Norm().Bound(s.Bound)
	}
	scope := model.NewStore().RootScope()
	out := run(t, b, scope, func(_ *model.Scope, a []*Node) []*Node {
		o, state := rule(a).DoneWithState()
		bf := func(x *Node) *Node { return ConvertDType(x, dtypes.BFloat16) }
		low := layer.Rule(bf(a[0]), bf(a[1]), bf(a[2]), a[3], a[4]).InitialState(a[5]).Scale(.5).L2Norm().Bound(s.Bound).Done()
		// Tokens after the first 20 are padding.
		real := LessThan(Iota(o.Graph(), shapes.Make(dtypes.Int32, 2, 30), 1), Const(o.Graph(), [][]int32{{20}}))
		_, masked := rule(a).Mask(real).DoneWithState()
		first := make([]*Node, 6)
		for i := range 5 {
			first[i] = SliceAxis(a[i], 1, AxisRange(0, 20))
		}
		first[5] = a[5]
		_, short := rule(first).DoneWithState()
		// The same tokens as two packed sequences.
		flat := func(x *Node) *Node {
			d := x.Shape().Dimensions
			return Reshape(x, append([]int{1, d[0] * d[1]}, d[2:]...)...)
		}
		packed, last := layer.Rule(flat(a[0]), flat(a[1]), flat(a[2]), flat(a[3]), flat(a[4])).InitialState(a[5]).Scale(.5).L2Norm().Bound(s.Bound).
			CuSeqlens(Const(o.Graph(), []int32{0, 30, 60})).DoneWithState()
		return []*Node{o, state, ConvertDType(low, dtypes.Float32), masked, short, Reshape(packed, o.Shape().Dimensions...), last}
	}, args...)
	close(t, out[0], want["o"], limit)
	close(t, out[1], want["final_state"], limit)
	close(t, out[2], want["o"], 1e-2)
	close(t, out[3], out[4], limit)
	close(t, out[5], want["o"], limit)
	close(t, out[6], want["final_state"], limit)

	for msg, f := range map[string]func(a []*Node) *Node{
		"want [batch, tokens, heads, width]":                              func(a []*Node) *Node { return layer.Rule(a[4], a[1], a[2], a[3], a[4]).Done() },
		"input k is (Float32)[2, 30, 2, 12], want (Float32)[2, 30, 1, 8]": func(a []*Node) *Node { return layer.Rule(a[0], a[2], a[2], a[3], a[4]).Done() },
		"the mask is (Float32)[2, 30, 2], want [2, 30]":                   func(a []*Node) *Node { return rule(a).Mask(a[4]).Done() },
		"cu_seqlens is (Float32)[2, 30, 2]":                               func(a []*Node) *Node { return rule(a).CuSeqlens(a[4]).Done() },
	} {
		exec := MustNewExec(b, f)
		var tensors []any
		for _, a := range args {
			x, err := device.Tensor(a)
			require.NoError(t, err)
			tensors = append(tensors, x)
		}
		_, err := exec.Call(tensors...)
		require.ErrorContains(t, err, msg)
	}
}

// One key with beta up to 2, where the state's eigenvalues are negative, by a variant of the caller's choice.
func TestRuleOptions(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	s := spec(t, "b=1,t=40,hk=1,hv=2,k=8,v=12,negeig")
	args, want := drawn(t, s, "beta2", 5)
	rule := func(a []*Node) *layer.RuleBuilder {
		return layer.Rule(a[0], a[1], a[2], a[3], a[4]).NegativeEigenvalues()
	}
	out := run(t, b, model.NewStore().RootScope(), func(_ *model.Scope, a []*Node) []*Node {
		o, state := rule(a).Variant("forward,chunk=16,flow=split").DoneWithState()
		return []*Node{o, state}
	}, args...)
	close(t, out[0], want["o"], 1e-5)
	close(t, out[1], want["final_state"], 1e-5)
	var tensors []any
	for _, a := range args {
		x, err := device.Tensor(a)
		require.NoError(t, err)
		tensors = append(tensors, x)
	}
	_, err := MustNewExec(b, func(a []*Node) *Node { return rule(a).Variant("forwards").Done() }).Call(tensors...)
	require.ErrorContains(t, err, `unknown name "forwards", did you mean "forward"?`)
}
