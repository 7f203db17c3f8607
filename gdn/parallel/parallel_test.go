package parallel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/parallel"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// onCPU runs modules by the plugin of the CPU, each compiled once.
func onCPU(t *testing.T) parallel.Run {
	engine := pjrttest.CPU(t)
	programs := map[*ir.Module]*pjrt.Program{}
	return func(m *ir.Module, inputs parallel.Arrays) (parallel.Arrays, error) {
		if programs[m] == nil {
			a, err := route.On(m, nil)
			if err != nil {
				return nil, err
			}
			if programs[m], err = engine.Compile(a.Text); err != nil {
				return nil, err
			}
		}
		var args []*array.Array
		for _, p := range m.Params() {
			args = append(args, inputs[p.Name])
		}
		got, err := programs[m].Run(args...)
		if err != nil {
			return nil, err
		}
		out := parallel.Arrays{}
		for i, name := range m.Results {
			out[name] = got[i]
		}
		return out, nil
	}
}

func interpreted(m *ir.Module, inputs parallel.Arrays) (parallel.Arrays, error) {
	return interp.Run(m, inputs, interp.Options{})
}

// agree says that arrays of the whole and of the parts differ by no more than rounding: 1e-5 of the largest element, or of 1.
func agree(t *testing.T, want, got parallel.Arrays, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for name, x := range want {
		y := got[name]
		require.NotNil(t, y, name)
		require.Equal(t, x.Shape, y.Shape, name)
		size := 1.0
		for _, v := range x.Float64s() {
			size = max(size, v, -v)
		}
		require.NotZero(t, slices.Max(x.Float64s()), "%s of %s", name, what)
		require.LessOrEqual(t, array.Compare(y, x).MaxAbs, 1e-5*size, "%s of %s", name, what)
	}
}

func variant(t *testing.T, s gdn.Spec) gdn.Variant {
	form, err := route.Resolve(s, gdn.Auto, nil, nil)
	require.NoError(t, err)
	return form.Variant
}

// split computes a sequence in parts and as one, forward and backward.
func split(t *testing.T, text, class string, n int, run parallel.Run) {
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	train := s
	train.Direction = gdn.Train
	c, err := truth.LookupClass(class)
	require.NoError(t, err)
	inputs, err := c.Generate(train, 11)
	require.NoError(t, err)
	exact, err := truth.Reference(train, inputs)
	require.NoError(t, err)
	v := variant(t, train)
	m, err := build.Module(train, v)
	require.NoError(t, err)
	one, err := run(m, inputs)
	require.NoError(t, err)

	x, err := parallel.NewSplit(s, n, v, &v, run)
	require.NoError(t, err)
	got, err := x.Forward(inputs)
	require.NoError(t, err)
	grads, err := x.Backward(inputs)
	require.NoError(t, err)
	for name, g := range grads {
		got[name] = g
	}
	what := fmt.Sprintf("%s in %d parts", s, n)
	agree(t, one, got, what)
	agree(t, exact, got, what+", by the reference")
}

// A sequence in two, four and eight parts is the whole, on the CPU.
func TestSplit(t *testing.T) {
	run := onCPU(t)
	for _, n := range []int{2, 4, 8} {
		split(t, "b=1,t=128,hk=1,hv=2,k=16,v=16,init", "random", n, run)
	}
}

// The same by the interpreter, for inputs that are hard on states: correlated keys, decays that cut, and none at all; then gates from their raw form,
// whose parameters all parts share.
func TestSplitHard(t *testing.T) {
	for _, row := range [][2]string{
		{"b=1,t=64,hk=1,hv=1,k=8,v=8,init", "cos.9"},
		{"b=1,t=64,hk=1,hv=1,k=8,v=8,init", "resets"},
		{"b=1,t=64,hk=1,hv=1,k=8,v=8,init,packed", "cut"},
		{"b=1,t=64,hk=1,hv=1,k=8,v=8,init,rule=deltanet", "random"},
	} {
		split(t, row[0], row[1], 4, interpreted)
	}
	split(t, "b=2,t=48,hk=2,hv=2,k=8,v=16,l2norm,gates=fused,final=false", "random", 3, interpreted)
	split(t, "b=1,t=64,hk=1,hv=2,k=8,v=8,init,l2norm,gates=fused,rule=kda,bound=-5", "random", 4, interpreted)
	split(t, "b=1,t=64,hk=1,hv=2,k=8,v=8,init,rule=kda", "resets", 2, interpreted)
	for _, n := range []int{2, 4, 8} {
		split(t, "b=1,t=64,hk=1,hv=1,k=8,v=8,init,rule=kda", "random", n, interpreted)
	}
}

// A rule whose gradients are the reference's alone has a map of each part too.
func TestSplitForward(t *testing.T) {
	s, err := gdn.Parse("b=1,t=64,hk=1,hv=2,k=8,v=8,init,rule=simple-gla")
	require.NoError(t, err)
	c, err := truth.LookupClass("random")
	require.NoError(t, err)
	inputs, err := c.Generate(s, 3)
	require.NoError(t, err)
	want, err := truth.Reference(s, inputs)
	require.NoError(t, err)
	for _, n := range []int{2, 4, 8} {
		x, err := parallel.NewSplit(s, n, variant(t, s), nil, interpreted)
		require.NoError(t, err)
		got, err := x.Forward(inputs)
		require.NoError(t, err)
		agree(t, want, got, fmt.Sprintf("%s in %d parts", s, n))
		_, err = x.Backward(inputs)
		require.ErrorContains(t, err, "forward pass alone")
	}
}

func normal(r *rand.Rand, shape ...int) *array.Array {
	x := array.New(ir.F32, shape...)
	l := make([]float64, x.Size())
	for i := range l {
		l[i] = r.NormFloat64()
	}
	return array.FromFloat64s(ir.F32, shape, l)
}

// The short convolution of parts with their halos is that of the whole, forward and backward.
func TestHalo(t *testing.T) {
	const batch, tokens, channels, taps = 2, 32, 3, 4
	draw := rand.New(rand.NewPCG(1, 2))
	x, w, dy := normal(draw, batch, tokens, channels), normal(draw, taps, channels), normal(draw, batch, tokens, channels)
	before := normal(draw, batch, taps-1, channels)
	for _, n := range []int{2, 4, 8} {
		out, back := convolved(t, parallel.Convolution{Batch: batch, Tokens: tokens, Channels: channels, Taps: taps}, x, before, w, dy, n)
		one, oneBack := convolved(t, parallel.Convolution{Batch: batch, Tokens: tokens, Channels: channels, Taps: taps}, x, before, w, dy, 1)
		agree(t, one, out, "a convolution")
		agree(t, oneBack, back, "its gradients")
	}
	// Gradients are slopes: of sum(y dy) along each input.
	c := parallel.Convolution{Batch: batch, Tokens: tokens, Channels: channels, Taps: taps}
	_, grads := convolved(t, c, x, before, w, dy, 4)
	for name, at := range map[string]*array.Array{"dx": x, "dhalo": before, "dtaps": w} {
		was := at.Float64s()
		value := func(i int, by float64) (sum float64) {
			l := at.Float64s()
			l[i] += by
			moved := map[*array.Array]*array.Array{at: array.FromFloat64s(ir.F32, at.Shape, l)}
			or := func(a *array.Array) *array.Array {
				if m := moved[a]; m != nil {
					return m
				}
				return a
			}
			y, _ := convolved(t, c, or(x), or(before), or(w), dy, 1)
			for j, v := range y["y"].Float64s() {
				sum += v * dy.Float64s()[j]
			}
			return sum
		}
		for range 5 {
			i := draw.IntN(len(was))
			require.InDelta(t, (value(i, .01)-value(i, -.01))/.02, grads[name].Float64s()[i], 2e-3, "%s[%d]", name, i)
		}
	}
}

// convolved runs a convolution in n parts: y, then dx, dhalo of the first part and dtaps.
func convolved(t *testing.T, c parallel.Convolution, x, before, w, dy *array.Array, n int) (out, back parallel.Arrays) {
	c.Tokens /= n
	forward, err := parallel.BuildConvolution(c, false)
	require.NoError(t, err)
	backward, err := parallel.BuildConvolution(c, true)
	require.NoError(t, err)
	cut := func(a *array.Array, i int) *array.Array { return parallel.Slice(a, 1, i*c.Tokens, (i+1)*c.Tokens) }
	halos := []*array.Array{before}
	var y, dx []*array.Array
	for i := range n {
		r, err := interpreted(forward, parallel.Arrays{"x": cut(x, i), "halo": halos[i], "taps": w})
		require.NoError(t, err)
		y, halos = append(y, r["y"]), append(halos, r["next"])
	}
	next := array.New(ir.F32, before.Shape...)
	total := make([]float64, w.Size())
	for i := n - 1; i >= 0; i-- {
		r, err := interpreted(backward, parallel.Arrays{"x": cut(x, i), "halo": halos[i], "taps": w, "dy": cut(dy, i), "dnext": next})
		require.NoError(t, err)
		dx, next = append([]*array.Array{r["dx"]}, dx...), r["dhalo"]
		for j, v := range r["dtaps"].Float64s() {
			total[j] += v
		}
	}
	return parallel.Arrays{"y": parallel.Concat(1, y...)},
		parallel.Arrays{"dx": parallel.Concat(1, dx...), "dhalo": next, "dtaps": array.FromFloat64s(ir.F32, w.Shape, total)}
}

// What can not be split says why.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"b=1,t=33,hk=1,k=8":                          "33 tokens are not 2 parts",
		"b=1,t=32,hk=1,k=8,seqs=2":                   "leave out seqs",
		"b=1,t=32,hk=1,k=8,init,state=vk":            "leave out state",
		"b=1,t=32,hk=1,k=8,l2norm,conv=4":            "leave out conv",
		"b=1,t=32,hk=1,k=8,rule=simple-gla":          "computed by the reference alone",
		"b=4,t=32,hk=1,k=8,init,pool=8,packed=false": "leave out seqs, pool",
	} {
		s, err := gdn.Parse(text)
		require.NoError(t, err, text)
		v, err := gdn.ParseVariant("default")
		require.NoError(t, err)
		_, err = parallel.NewSplit(s, 2, v, &v, interpreted)
		require.ErrorContains(t, err, want, text)
	}
	s, err := gdn.Parse("tiny,init")
	require.NoError(t, err)
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	x, err := parallel.NewSplit(s, 2, v, &v, interpreted)
	require.NoError(t, err)
	_, err = x.Backward(nil)
	require.ErrorContains(t, err, "call Forward first")
	_, err = x.Forward(parallel.Arrays{})
	require.ErrorContains(t, err, "input k is missing")
	_, err = parallel.BuildConvolution(parallel.Convolution{Batch: 1, Tokens: 2, Channels: 1, Taps: 4}, false)
	require.ErrorContains(t, err, "4 taps over parts of 2 tokens")
}
