package layer_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/backends"
	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/layer/internal/layertest"
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
	c, err := gdn.LookupClass("random")
	require.NoError(t, err)
	in, err := c.Generate(s, seed)
	require.NoError(t, err)
	return in
}

// train computes results and gradients of a spec with direction train through the package.
func train(t testing.TB, b backends.Backend, s gdn.Spec, in map[string]*array.Array) map[string]*array.Array {
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
		"b=1,t=53,hk=2,hv=2,k=24,v=16,seqs=3,init",
		"b=1,t=33,hk=1,hv=2,k=16,v=16,l2norm,gates=fused,negeig,final=false",
		"b=1,t=1,hk=1,hv=2,k=16,v=16,init",
	}
	layertest.Each(t, func(t *testing.T, b backends.Backend) {
		for _, text := range specs {
			s := spec(t, text)
			s.Direction = gdn.Train
			in := generate(t, s, 3)
			want, err := gdn.Reference(s, in)
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
		out, err := gdn.Reference(f, plain)
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
			const h = 1.0 / 1024 // exact in float32 beside these values; the fourth-order formula makes the error of the step vanish
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
	layertest.Each(t, func(t *testing.T, b backends.Backend) {
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
		}).MustExec(args...)
		require.Less(t, out[0].Value().(float32), float32(1e-4))
		require.Greater(t, out[1].Value().(float32), float32(1e-2))
		require.Greater(t, out[2].Value().(float32), float32(1e-2))
		require.Zero(t, out[3].Value().(float32))
	})
}
