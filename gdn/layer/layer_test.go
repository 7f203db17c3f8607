package layer_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

var small = layer.Config{Hidden: 24, HeadsK: 2, HeadsV: 4, KeyDim: 8, ValueDim: 12, ConvWidth: 4, NormEps: 1e-6}

// kimi and bounded are layers of Kimi Delta Attention, with a rank for both gates and with one for the decay alone.
var (
	kimi = layer.Config{Hidden: 24, HeadsK: 2, HeadsV: 4, KeyDim: 8, ValueDim: 12, ConvWidth: 4, NormEps: 1e-6,
		Rule: gdn.Rule{Decay: gdn.DecayChannel}, DecayRank: 6, GateRank: 10}
	bounded = layer.Config{Hidden: 24, HeadsK: 2, HeadsV: 4, KeyDim: 8, ValueDim: 12, ConvWidth: 4, NormEps: 1e-5,
		Rule: gdn.Rule{Decay: gdn.DecayChannel}, Bound: -5, DecayRank: 8}
)

var designs = []struct {
	name string
	c    layer.Config
}{{"gdn", small}, {"kda", kimi}, {"bounded", bounded}}

// eachDesign runs a test for every design, and on xla, where programs take long to compile, for that of the gated delta rule: the others run
// there in TestStoredKimi.
func eachDesign(t *testing.T, f func(t *testing.T, b compute.Backend, c layer.Config)) {
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		designs := designs
		if b.Name() == device.XLA {
			designs = designs[:1]
		}
		for _, d := range designs {
			t.Run(d.name, func(t *testing.T) { f(t, b, d.c) })
		}
	})
}

// weights draws weights of a layer into a scope.
func weights(t testing.TB, c layer.Config, seed uint64) *model.Scope {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	m := map[string]*array.Array{}
	shapes := map[string][]int{
		"in_proj_qkv.weight": {c.Channels(), c.Hidden}, "in_proj_z.weight": {c.ValueWidth(), c.Hidden},
		"in_proj_b.weight": {c.HeadsV, c.Hidden}, "in_proj_a.weight": {c.HeadsV, c.Hidden}, "conv1d.weight": {c.Channels(), 1, c.ConvWidth},
		"dt_bias": {c.HeadsV}, "A_log": {c.HeadsV}, "norm.weight": {c.ValueDim}, "out_proj.weight": {c.Hidden, c.ValueWidth()},
	}
	if c.Rule.Channels() {
		decays := c.HeadsV * c.KeyDim
		shapes = map[string][]int{
			"q_proj.weight": {c.KeyWidth(), c.Hidden}, "k_proj.weight": {c.KeyWidth(), c.Hidden}, "v_proj.weight": {c.ValueWidth(), c.Hidden},
			"q_conv1d.weight": {c.KeyWidth(), 1, c.ConvWidth}, "k_conv1d.weight": {c.KeyWidth(), 1, c.ConvWidth},
			"v_conv1d.weight": {c.ValueWidth(), 1, c.ConvWidth}, "f_a_proj.weight": {c.DecayRank, c.Hidden},
			"f_b_proj.weight": {decays, c.DecayRank}, "b_proj.weight": {c.HeadsV, c.Hidden}, "dt_bias": {decays},
			"A_log": {1, 1, c.HeadsV, 1}, "o_norm.weight": {c.ValueDim}, "o_proj.weight": {c.Hidden, c.ValueWidth()},
		}
		if c.GateRank > 0 {
			shapes["g_a_proj.weight"], shapes["g_b_proj.weight"] = []int{c.GateRank, c.Hidden}, []int{c.ValueWidth(), c.GateRank}
		} else {
			shapes["g_proj.weight"] = []int{c.ValueWidth(), c.Hidden}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		m[name] = normal(r, .4, shapes[name]...)
	}
	if c.Rule.Channels() {
		// Time steps as short as those of a new layer. Else little but the last token is left of a state, and an output, which is then
		// normalised, vanishes where its query happens to be orthogonal to its key.
		v := m["dt_bias"].Float64s()
		for i := range v {
			v[i] -= 3
		}
		m["dt_bias"] = array.FromFloat64s(ir.F32, shapes["dt_bias"], v)
	}
	scope := model.NewStore().RootScope().In("gdn")
	_, err := layer.Load(scope, layer.WeightsOf(m), "", c, dtypes.Float32)
	require.NoError(t, err)
	return scope
}

func normal(r *rand.Rand, scale float64, shape ...int) *array.Array {
	v := make([]float64, ir.T(ir.F32, shape...).Size())
	for i := range v {
		v[i] = scale * r.NormFloat64()
	}
	return array.FromFloat64s(ir.F32, shape, v)
}

// run executes a graph function over the weights of a scope.
func run(t testing.TB, b compute.Backend, scope *model.Scope, f func(scope *model.Scope, in []*Node) []*Node, in ...*array.Array) []*array.Array {
	t.Helper()
	var args []any
	for _, a := range in {
		x, err := device.Tensor(a)
		require.NoError(t, err)
		args = append(args, x)
	}
	exec, err := model.NewExec(b, scope.Store(), func(_ *model.Scope, in []*Node) []*Node { return f(scope.ResetVisited(), in) })
	require.NoError(t, err)
	defer exec.Finalize()
	var tensors []*tensors.Tensor
	tensors, err = exec.Call(args...)
	require.NoError(t, err)
	var out []*array.Array
	for _, x := range tensors {
		a, err := device.Array(x)
		require.NoError(t, err)
		out = append(out, a)
	}
	return out
}

func tokens(a *array.Array, begin, end int) *array.Array {
	n, w := a.Shape[1], a.Size()/a.Shape[0]/a.Shape[1]
	var v []float32
	for i := range a.Shape[0] {
		v = append(v, a.Float32s()[(i*n+begin)*w:(i*n+end)*w]...)
	}
	return array.FromFloat32s(ir.F32, append([]int{a.Shape[0], end - begin}, a.Shape[2:]...), v)
}

func close(t testing.TB, got, want *array.Array, limit float64, msg ...any) {
	t.Helper()
	require.Equal(t, want.Shape, got.Shape, msg...)
	require.Less(t, array.Compare(got, want).Ratio, limit, msg...)
}

// A session without weights is refused where it is made, and the sizes of a layer are those of its builder.
func TestSessionNeedsWeights(t *testing.T) {
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		scope := weights(t, small, 2)
		_, err := layer.NewSession(b, scope.In("elsewhere"), small, "")
		require.ErrorContains(t, err, `there are no weights in scope "/gdn/elsewhere"`)
		s, err := layer.NewSession(b, scope, small, "")
		require.NoError(t, err)
		s.Finalize()
		y := model.MustCallOnce(b, model.NewStore(), func(scope *model.Scope, x *Node) *Node {
			l := layer.New(scope, x).With(small).NegativeEigenvalues(true)
			c := small
			c.NegEigval = true
			require.Equal(t, c, l.Config())
			return x
		}, [][][]float32{{make([]float32, small.Hidden)}})
		y.FinalizeAll()
	})
}

// 200 tokens one by one equal a prefill of 200, and so do pieces of a prompt.
func TestDecodeEqualsPrefill(t *testing.T) {
	x := normal(rand.New(rand.NewPCG(1, 1)), 1, 2, 200, small.Hidden)
	eachDesign(t, func(t *testing.T, b compute.Backend, cfg layer.Config) {
		scope := weights(t, cfg, 2)
		session := func() *layer.Session {
			s, err := layer.NewSession(b, scope, cfg, "")
			require.NoError(t, err)
			t.Cleanup(s.Finalize)
			return s
		}
		whole := session()
		want, err := whole.Run(x, nil)
		require.NoError(t, err)
		conv, state, err := whole.Caches()
		require.NoError(t, err)
		for name, cuts := range map[string][]int{"pieces": {0, 66, 67, 133, 134, 200}, "tokens": nil} {
			if cuts == nil {
				for i := range 201 {
					cuts = append(cuts, i)
				}
			}
			s := session()
			for i, begin := range cuts[:len(cuts)-1] {
				y, err := s.Run(tokens(x, begin, cuts[i+1]), nil)
				require.NoError(t, err)
				close(t, y, tokens(want, begin, cuts[i+1]), 1e-5, "%s from %d", name, begin)
			}
			c, k, err := s.Caches()
			require.NoError(t, err)
			close(t, c, conv, 1e-6)
			close(t, k, state, 1e-5)
		}
	})
}

// Padding on either side changes neither the real tokens nor the caches.
func TestMask(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	x := normal(r, 1, 1, 21, small.Hidden)
	eachDesign(t, func(t *testing.T, b compute.Backend, cfg layer.Config) {
		scope := weights(t, cfg, 3)
		forward := func(scope *model.Scope, in []*Node) []*Node {
			l := layer.New(scope, in[0]).With(cfg)
			if len(in) > 1 {
				l.Mask(in[1])
			}
			y, k := l.DoneWithCache()
			return []*Node{y, k.Conv, k.State}
		}
		want := run(t, b, scope, forward, x)
		for _, left := range []int{0, 5, 11} {
			padded, mask := normal(r, 1, 1, 32, small.Hidden), array.New(ir.F32, 1, 32)
			v, m := padded.Float32s(), mask.Float32s()
			copy(v[left*small.Hidden:], x.Float32s())
			for i := range 21 {
				m[left+i] = 1
			}
			got := run(t, b, scope, forward, array.FromFloat32s(ir.F32, padded.Shape, v), array.FromFloat32s(ir.F32, mask.Shape, m))
			close(t, tokens(got[0], left, left+21), want[0], 2e-6, "left %d", left)
			close(t, got[1], want[1], 2e-6, "convolution, left %d", left)
			close(t, got[2], want[2], 2e-6, "state, left %d", left)
		}
	})
}

// A padded token closes a bounded decay whatever its rate.
func TestMaskOfSmallRates(t *testing.T) {
	x := normal(rand.New(rand.NewPCG(2, 1)), 1, 1, 9, bounded.Hidden)
	scope := weights(t, bounded, 3)
	slow, err := device.Tensor(array.FromFloat64s(ir.F32, []int{bounded.HeadsV}, []float64{-9, -9, -9, -9}))
	require.NoError(t, err)
	require.NoError(t, scope.GetVariable(layer.VarALog).SetValue(slow))
	states := run(t, layertest.Backend(t, device.Go), scope, func(scope *model.Scope, in []*Node) []*Node {
		real := ConvertDType(LessThan(Iota(in[0].Graph(), shapes.Make(dtypes.Int32, 1, 9), 1), Const(in[0].Graph(), [][]int32{{5}})), dtypes.Float32)
		_, padded := layer.New(scope, in[0]).With(bounded).Mask(real).DoneWithCache()
		_, short := layer.New(scope, SliceAxis(in[0], 1, AxisRange(0, 5))).With(bounded).DoneWithCache()
		return []*Node{padded.State, short.State}
	}, x)
	close(t, states[0], states[1], 2e-6)
}

// Packed sequences, one of them empty, equal sequences on their own, with caches and without.
func TestPacked(t *testing.T) {
	for _, d := range designs {
		t.Run(d.name, func(t *testing.T) { testPacked(t, d.c) })
	}
}

func testPacked(t *testing.T, cfg layer.Config) {
	bounds := []int{0, 2, 2, 19, 33}
	r := rand.New(rand.NewPCG(3, 1))
	x := normal(r, 1, 1, 33, small.Hidden)
	n := len(bounds) - 1
	conv, state := normal(r, 1, n, cfg.Channels(), cfg.ConvWidth), normal(r, .3, n, cfg.HeadsV, cfg.KeyDim, cfg.ValueDim)
	cu := make([]int64, len(bounds))
	for i, v := range bounds {
		cu[i] = int64(v)
	}
	row := func(a *array.Array, i int) *array.Array {
		w := a.Size() / a.Shape[0]
		return array.FromFloat32s(ir.F32, append([]int{1}, a.Shape[1:]...), a.Float32s()[i*w:(i+1)*w])
	}
	b, scope := layertest.Backend(t, device.Go), weights(t, cfg, 4)
	for _, cached := range []bool{true, false} {
		forward := func(packed bool) func(scope *model.Scope, in []*Node) []*Node {
			return func(scope *model.Scope, in []*Node) []*Node {
				l := layer.New(scope, in[0]).With(cfg)
				if cached {
					l.Cache(&layer.Cache{Conv: in[1], State: in[2]})
				}
				if packed {
					l.CuSeqlens(in[3])
				}
				y, k := l.DoneWithCache()
				return []*Node{y, k.Conv, k.State}
			}
		}
		packed := []*array.Array{x, conv, state, array.FromInt64s(ir.I64, []int{n + 1}, cu)}
		got := run(t, b, scope, forward(true), packed...)
		for i := range n {
			if bounds[i] == bounds[i+1] {
				want := array.New(ir.F32, 1, cfg.Channels(), cfg.ConvWidth)
				if cached {
					want = row(conv, i)
				}
				require.Equal(t, want.Float32s(), row(got[1], i).Float32s(), "cache of an empty sequence")
				continue
			}
			want := run(t, b, scope, forward(false), tokens(x, bounds[i], bounds[i+1]), row(conv, i), row(state, i))
			where := fmt.Sprintf("sequence %d, cached %v", i, cached)
			close(t, tokens(got[0], bounds[i], bounds[i+1]), want[0], 2e-6, where)
			close(t, row(got[1], i), want[1], 1e-6, where)
			close(t, row(got[2], i), want[2], 2e-6, where)
		}
		if cached && !cfg.Rule.Channels() { // the other backend agrees
			for i, x := range run(t, layertest.Backend(t, device.XLA), weights(t, cfg, 4), forward(true), packed...) {
				close(t, x, got[i], 2e-6)
			}
		}
	}
}

// The gradient of every variable and of x agrees with differences of the loss: the wiring of the layer (the rule's own
// gradient is tested to 1e-5). The backends agree with each other.
func TestLayerGradients(t *testing.T) {
	for _, d := range designs {
		t.Run(d.name, func(t *testing.T) { testLayerGradients(t, d.c) })
	}
}

func testLayerGradients(t *testing.T, cfg layer.Config) {
	r := rand.New(rand.NewPCG(4, 1))
	x, d := normal(r, 1, 2, 19, small.Hidden), normal(r, 1, 2, 19, small.Hidden)
	scope := weights(t, cfg, 5)
	loss := func(scope *model.Scope, in []*Node) *Node {
		return ReduceAllSum(Mul(layer.New(scope, in[0]).With(cfg).Done(), in[1]))
	}
	vars := slices.DeleteFunc([]string{layer.VarQKV, layer.VarZ, layer.VarB, layer.VarA, layer.VarConv, layer.VarALog, layer.VarDtBias, layer.VarNorm, layer.VarOut,
		layer.VarZDown, layer.VarADown}, func(name string) bool { return scope.GetVariable(name) == nil })
	gradients := func(b compute.Backend, scope *model.Scope) []*array.Array {
		return run(t, b, scope, func(scope *model.Scope, in []*Node) []*Node {
			wrt := []*Node{in[0]}
			for _, name := range vars {
				wrt = append(wrt, scope.GetVariable(name).NodeValue(in[0].Graph()))
			}
			return Gradient(loss(scope, in), wrt...)
		}, x, d)
	}
	b := layertest.Backend(t, device.Go)
	got := gradients(b, scope)
	exec, err := model.NewExec(b, scope.Store(), func(_ *model.Scope, in []*Node) *Node { return loss(scope, in) })
	require.NoError(t, err)
	defer exec.Finalize()
	tensor := func(a *array.Array) *tensors.Tensor {
		x, err := device.Tensor(a)
		require.NoError(t, err)
		return x
	}
	// The derivative along a direction, from the gradients and from differences.
	for i, name := range append([]string{"x"}, vars...) {
		length := .05
		if len(got[i].Shape) == 1 { // few numbers: a longer way lifts the difference above the rounding of the loss
			length = 1
		}
		way := normal(r, length, got[i].Shape...)
		at := func(step float64) float64 {
			move := func(a *array.Array) *tensors.Tensor {
				v, w := a.Float64s(), way.Float64s()
				for i := range v {
					v[i] += step * w[i]
				}
				return tensor(array.FromFloat64s(ir.F32, a.Shape, v))
			}
			from := tensor(x)
			if name == "x" {
				from = move(x)
			} else {
				v := scope.GetVariable(name)
				old, err := device.Array(v.MustValue())
				require.NoError(t, err)
				require.NoError(t, v.SetValue(move(old)))
				defer func() { require.NoError(t, v.SetValue(tensor(old))) }()
			}
			out, err := exec.Call(from, tensor(d))
			require.NoError(t, err)
			return float64(tensors.ToScalar[float32](out[0]))
		}
		var want float64
		for j, g := range got[i].Float64s() {
			want += g * way.Float64s()[j]
		}
		const h = .02
		require.InDelta(t, want, (8*(at(h)-at(-h))-(at(2*h)-at(-2*h)))/(12*h), 1e-3*math.Abs(want)+2e-3, name)
	}
	if cfg.Rule.Channels() {
		return
	}
	for i, g := range gradients(layertest.Backend(t, device.XLA), weights(t, cfg, 5)) { // variables stay with one backend
		close(t, g, got[i], 1e-5, "%d", i)
	}
}

// The options of a builder are those of a Config, and beta in (0,2) changes what a layer computes.
func TestBuilderOptions(t *testing.T) {
	c := small
	c.ConvWidth = 3
	x := normal(rand.New(rand.NewPCG(7, 7)), 1, 1, 20, c.Hidden)
	out := run(t, layertest.Backend(t, device.Go), weights(t, c, 7), func(scope *model.Scope, in []*Node) []*Node {
		wide := c
		wide.NegEigval = true
		build := func(c layer.Config) *layer.Builder { return layer.New(scope, in[0]).With(c) }
		return []*Node{build(small).ConvWidth(3).Done(), build(small).ConvWidth(3).NegativeEigenvalues(true).Done(), build(c).Done(), build(wide).Done()}
	}, x)
	require.Equal(t, out[2].Float32s(), out[0].Float32s())
	require.Equal(t, out[3].Float32s(), out[1].Float32s())
	require.Greater(t, array.Compare(out[1], out[0]).RelMax, .01)
}

// bfloat16 in and out is close to float32: the median over weights, some of which let an output vanish that is then normalised.
func TestBFloat16(t *testing.T) {
	x := normal(rand.New(rand.NewPCG(5, 1)), 1, 1, 40, small.Hidden).Convert(ir.BF16).Convert(ir.F32)
	eachDesign(t, func(t *testing.T, b compute.Backend, cfg layer.Config) {
		seeds := []uint64{6, 7, 8, 9, 10}
		if b.Name() == device.XLA {
			seeds = seeds[:1]
		}
		var outputs, gradients []float64
		for _, seed := range seeds {
			out := run(t, b, weights(t, cfg, seed), func(scope *model.Scope, in []*Node) []*Node {
				forward := func(x *Node) (*Node, *Node) {
					y := layer.New(scope, x).With(cfg).Done()
					return y, Gradient(ReduceAllSum(Square(ConvertDType(y, dtypes.Float32))), in[0])[0]
				}
				y, dy := forward(in[0])
				h, dh := forward(ConvertDType(in[0], dtypes.BFloat16))
				return []*Node{y, ConvertDType(h, dtypes.Float32), dy, dh}
			}, x)
			outputs = append(outputs, array.Compare(out[1], out[0]).Ratio)
			gradients = append(gradients, array.Compare(out[3], out[2]).Ratio)
		}
		slices.Sort(outputs)
		slices.Sort(gradients)
		require.Less(t, outputs[len(seeds)/2], 2e-2)
		require.Less(t, gradients[len(seeds)/2], 6e-2)
	})
}

// A new layer has the initial values of the paper's code.
func TestInitialValues(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	scope := model.NewStore().RootScope()
	scope.SetParams(map[string]any{layer.ParamHeadsK: 2, layer.ParamHeadsV: 16, layer.ParamKeyDim: 8, layer.ParamValueDim: 4})
	exec := model.MustNewExec(b, scope.Store(), func(scope *model.Scope, x *Node) *Node { return layer.New(scope.In("gdn"), x).Done() })
	y := exec.MustCall(tensors.FromShape(shape(1, 5, 64)))[0]
	require.Equal(t, []int{1, 5, 64}, y.Shape().Dimensions)
	value := func(name string) []float64 {
		a, err := device.Array(scope.At("gdn").GetVariable(name).MustValue())
		require.NoError(t, err)
		return a.Float64s()
	}
	for _, v := range value(layer.VarALog) {
		require.LessOrEqual(t, v, math.Log(16))
	}
	for _, v := range value(layer.VarDtBias) {
		dt := math.Log1p(math.Exp(v))
		require.InDelta(t, .05, dt, .0501)
	}
	limit := math.Pow(2, -2.5) * math.Sqrt(6./(64+96))
	most := 0.
	for _, v := range value(layer.VarQKV) {
		most = max(most, math.Abs(v))
	}
	require.InDelta(t, limit, most, limit/50)
	for _, v := range value(layer.VarNorm) {
		require.Equal(t, 1., v)
	}
}

// What does not fit is refused with the expected shape.
func TestErrors(t *testing.T) {
	b := layertest.Backend(t, device.Go)
	scope := weights(t, small, 7)
	f32 := func(dims ...int) *tensors.Tensor { return tensors.FromShape(shape(dims...)) }
	for want, f := range map[string]struct {
		build func(scope *model.Scope, x *Node) *Node
		x     *tensors.Tensor
	}{
		"x is (Float32)[4, 24], want [batch, tokens, features]": {func(scope *model.Scope, x *Node) *Node { return layer.New(scope, x).Done() }, f32(4, 24)},
		"want Float32 or BFloat16":                              {func(scope *model.Scope, x *Node) *Node { return layer.New(scope, ConvertDType(x, dtypes.Int32)).Done() }, f32(1, 4, 24)},
		"want [batch, tokens, 24]: the hidden size is 24":       {func(scope *model.Scope, x *Node) *Node { return layer.New(scope, x).With(small).Done() }, f32(1, 4, 23)},
		"3 value heads over 2 key heads":                        {func(scope *model.Scope, x *Node) *Node { return layer.New(scope, x).With(small).Heads(2, 3).Done() }, f32(1, 4, 24)},
		"variable qkv in scope /gdn is (Float32)[24, 80], want (Float32)[24, 112]": {func(scope *model.Scope, x *Node) *Node {
			return layer.New(scope, x).With(small).HeadDims(16, 12).Done()
		}, f32(1, 4, 24)},
		"the mask is (Float32)[1, 4, 24], want [1, 4]": {func(scope *model.Scope, x *Node) *Node { return layer.New(scope, x).With(small).Mask(x).Done() }, f32(1, 4, 24)},
		"reshape it to [1, 8, 24]": {func(scope *model.Scope, x *Node) *Node {
			return layer.New(scope, x).With(small).CuSeqlens(Const(x.Graph(), []int64{0, 8})).Done()
		}, f32(2, 4, 24)},
		"the state of the cache is (Float32)[1, 4, 12, 8], want (Float32)[1, 4, 8, 12]": {func(scope *model.Scope, x *Node) *Node {
			k := small.EmptyCache(x.Graph(), dtypes.Float32, 1)
			k.State = Transpose(k.State, 2, 3)
			return layer.New(scope, x).With(small).Cache(k).Done()
		}, f32(1, 4, 24)},
		`unknown axis "chonk"`: {func(scope *model.Scope, x *Node) *Node {
			return layer.New(scope, x).With(small).Variant("chonk=3").Done()
		}, f32(1, 4, 24)},
	} {
		_, err := model.CallOnce(b, scope.Store(), func(_ *model.Scope, x *Node) *Node { return f.build(scope, x) }, f.x)
		require.ErrorContains(t, err, want)
	}

	s := spec(t, "t=8,hk=1,hv=2,k=4")
	in := generate(t, s, 1)
	in["g"] = in["g"].Reshape(1, 2, 8)
	_, err := layer.Compute(b, s, nil, in)
	require.ErrorContains(t, err, "g: is f32[1,2,8], the spec wants f32[1,8,2]")
	v, err := gdn.ParseVariant("tpu")
	require.NoError(t, err)
	_, err = layer.Compute(b, s, &v, generate(t, s, 1))
	require.ErrorContains(t, err, "choose a variant without mask=words")
}
