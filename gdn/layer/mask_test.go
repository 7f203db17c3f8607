package layer_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// padded spreads tokens x [1, tokens, width] over a mask of ones and zeros; padding has the value fill.
func padded(x *array.Array, mask string, fill float32) (y, m *array.Array) {
	width, from := x.Shape[2], x.Float32s()
	var values, bits []float32
	for _, bit := range mask {
		if bit == '1' {
			values, from, bits = append(values, from[:width]...), from[width:], append(bits, 1)
			continue
		}
		for range width {
			values = append(values, fill)
		}
		bits = append(bits, 0)
	}
	return array.FromFloat32s(ir.F32, []int{1, len(mask), width}, values), array.FromFloat32s(ir.F32, []int{1, len(mask)}, bits)
}

// unpadded takes the tokens where the mask has ones.
func unpadded(y *array.Array, mask string) *array.Array {
	width := y.Shape[2]
	var values []float32
	n := 0
	for i, bit := range mask {
		if bit == '1' {
			values, n = append(values, y.Float32s()[i*width:(i+1)*width]...), n+1
		}
	}
	return array.FromFloat32s(ir.F32, []int{1, n, width}, values)
}

// Calls of a session with padding on either side and between, of numbers, NaN and infinities, give the outputs and caches of their real
// tokens alone.
func TestSessionMasks(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	calls := []struct {
		name  string
		masks []string // of each call; 12 ones in all
		fill  float32
	}{
		{"left, in a first call", []string{"000111111111111"}, 1},
		{"right, then on", []string{"11111000", "1111111"}, 1},
		{"right, in a second call", []string{"11111", "1111111000"}, 1},
		{"left, in a second call", []string{"11111", "0001111111"}, 1},
		{"left, in a second call, the first shorter than the taps", []string{"11", "000001111111111"}, nan},
		{"between", []string{"111110001111111"}, nan},
		{"a second call of padding alone", []string{"111111111111", "000"}, nan},
		{"a first call of padding alone", []string{"000", "111111111111"}, nan},
		{"left, NaN", []string{"000111111111111"}, nan},
		{"right, infinite", []string{"111111111111000"}, inf},
	}
	x := normal(rand.New(rand.NewPCG(5, 1)), 1, 1, 12, small.Hidden)
	eachDesign(t, func(t *testing.T, b compute.Backend, cfg layer.Config) {
		calls := calls
		if b.Name() == device.XLA {
			calls = calls[4:5] // programs take long to compile there
		}
		scope := weights(t, cfg, 3)
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
		for _, c := range calls {
			s, done := session(), 0
			for _, mask := range c.masks {
				n := len(mask) - countZeros(mask)
				in, m := padded(tokens(x, done, done+n), mask, c.fill)
				y, err := s.Run(in, m)
				require.NoError(t, err)
				if n > 0 {
					close(t, unpadded(y, mask), tokens(want, done, done+n), 1e-5, c.name)
				}
				done += n
			}
			k, h, err := s.Caches()
			require.NoError(t, err)
			close(t, k, conv, 2e-6, c.name)
			close(t, h, state, 1e-5, c.name)
		}
	})
}

func countZeros(mask string) (n int) {
	for _, bit := range mask {
		if bit == '0' {
			n++
		}
	}
	return n
}

// Gradients through a mask are those of the real tokens alone, and zero for padding, which may be NaN.
func TestMaskGradients(t *testing.T) {
	const mask = "00111011111110"
	r := rand.New(rand.NewPCG(6, 1))
	x, dy := normal(r, 1, 1, 10, small.Hidden), normal(r, 1, 1, 10, small.Hidden)
	in, m := padded(x, mask, float32(math.NaN()))
	spread, _ := padded(dy, mask, 0)
	b := layertest.Backend(t, device.Go)
	for _, d := range designs {
		scope := weights(t, d.c, 4)
		gradients := func(scope *model.Scope, in []*Node) []*Node {
			l := layer.New(scope, in[0]).With(d.c)
			if len(in) == 3 {
				l.Mask(in[2])
			}
			wrt := []*Node{in[0]}
			for _, name := range []string{layer.VarQKV, layer.VarConv, layer.VarA, layer.VarOut} {
				wrt = append(wrt, scope.GetVariable(name).NodeValue(in[0].Graph()))
			}
			return Gradient(ReduceAllSum(Mul(l.Done(), in[1])), wrt...)
		}
		want := run(t, b, scope, gradients, x, dy)
		got := run(t, b, scope, gradients, in, spread, m)
		back, _ := padded(want[0], mask, 0)
		close(t, got[0], back, 1e-5, d.name)
		for i := range want[1:] {
			close(t, got[1+i], want[1+i], 1e-5, "%s %d", d.name, i)
		}
	}
}

// The rule alone keeps NaN of padding out of its state as well.
func TestRuleMaskOfNaN(t *testing.T) {
	const real = 5 // the first tokens; the others are NaN
	args, _ := drawn(t, spec(t, "b=2,t=9,hk=1,hv=2,k=8,v=12,init,l2norm"), "random", 4)
	out := run(t, layertest.Backend(t, device.Go), model.NewStore().RootScope(), func(_ *model.Scope, a []*Node) []*Node {
		g := a[0].Graph()
		mask := LessThan(Iota(g, shapes.Make(dtypes.Int32, 2, 9), 1), Const(g, [][]int32{{real}}))
		short, long := make([]*Node, 5), make([]*Node, 5)
		for i := range short {
			short[i] = SliceAxis(a[i], 1, AxisRange(0, real))
			rest := SliceAxis(a[i], 1, AxisRangeToEnd(real))
			long[i] = Concatenate([]*Node{short[i], FillScalar(g, rest.Shape(), math.NaN())}, 1)
		}
		rule := func(x []*Node) *layer.RuleBuilder {
			return layer.Rule(x[0], x[1], x[2], x[3], x[4]).InitialState(a[5]).L2Norm()
		}
		o, state := rule(long).Mask(mask).DoneWithState()
		want, wantState := rule(short).DoneWithState()
		return []*Node{SliceAxis(o, 1, AxisRange(0, real)), state, want, wantState}
	}, args...)
	close(t, out[0], out[2], 1e-6)
	close(t, out[1], out[3], 1e-6)
}

// A call without tokens gives none, and leaves the caches as they were: zeros before the first token.
func TestSessionOfNoTokens(t *testing.T) {
	x := normal(rand.New(rand.NewPCG(5, 1)), 1, 2, 12, small.Hidden)
	none := array.New(ir.F32, 2, 0, small.Hidden)
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		s, err := layer.NewSession(b, weights(t, small, 3), small, "")
		require.NoError(t, err)
		defer s.Finalize()
		caches := func() []float32 {
			conv, state, err := s.Caches()
			require.NoError(t, err)
			require.Equal(t, []int{2, small.Channels(), small.ConvWidth}, conv.Shape)
			require.Equal(t, []int{2, small.HeadsV, small.KeyDim, small.ValueDim}, state.Shape)
			return append(conv.Float32s(), state.Float32s()...)
		}
		for _, mask := range []*array.Array{nil, array.New(ir.F32, 2, 0)} {
			y, err := s.Run(none, mask)
			require.NoError(t, err)
			require.Equal(t, none.Shape, y.Shape)
			require.Equal(t, ir.F32, y.Type)
			for _, v := range caches() {
				require.Zero(t, v)
			}
		}
		_, err = s.Run(x, nil)
		require.NoError(t, err)
		before := caches()
		_, err = s.Run(none, nil)
		require.NoError(t, err)
		require.Equal(t, before, caches())

		_, err = s.Run(array.New(ir.F32, 2, 0, 5), nil)
		require.ErrorContains(t, err, "want [batch, tokens, 24]")
		_, err = s.Run(array.New(ir.F32, 3, 0, small.Hidden), nil)
		require.ErrorContains(t, err, "3 rows, but the session goes on with 2")
		_, err = s.Run(none, array.New(ir.F32, 2, 1))
		require.ErrorContains(t, err, "the mask is (Float32)[2, 1], want [2, 0]")
	})
}
