package tensor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/stretchr/testify/require"
)

func floats(e mlir.Elem, shape []int, v ...float32) *tensor.Tensor {
	t := tensor.New(e, shape...)
	copy(t.F, v)
	return t
}

func ints(e mlir.Elem, v ...int32) *tensor.Tensor {
	t := tensor.New(e, len(v))
	copy(t.N, v)
	return t
}

// bf16 rounds to nearest, ties to even; a sum of two is rounded once.
func TestRounding(t *testing.T) {
	x := floats(mlir.F32, []int{4}, 1+1.0/256, 1+3.0/256, float32(math.Inf(1)), 3.3895314e38)
	require.Equal(t, []float32{1, 1 + 4.0/256, float32(math.Inf(1)), 3.3895314e38}, tensor.Convert(x, mlir.BF16).F)
	one, little := floats(mlir.BF16, []int{1}, 1), floats(mlir.BF16, []int{1}, 1.0/256)
	require.Equal(t, []float32{1}, tensor.Floats(tensor.Add, one, little).F)
	wide := tensor.New(mlir.F64, 1)
	wide.D[0] = 1 + 1.0/256 + 1e-12 // rounded by way of f32 it would go down
	require.Equal(t, []float32{1 + 2.0/256}, tensor.Convert(wide, mlir.BF16).F)
}

func TestIntegers(t *testing.T) {
	x, y := ints(mlir.I32, -7, math.MinInt32, 5, -1), ints(mlir.I32, 2, -1, 0, 33)
	require.Equal(t, []int32{-3, math.MinInt32, -1, 0}, tensor.Ints(tensor.DivS, x, y).N)
	require.Equal(t, []int32{-28, 0, 5, 0}, tensor.Ints(tensor.Shl, x, y).N)
	require.Equal(t, []int32{0x3ffffffe, 0, 5, 0}, tensor.Ints(tensor.ShrU, x, y).N)
	require.Equal(t, []int32{0, 0, 0, 0}, tensor.Compare(tensor.LT, x, ints(mlir.I32, 1, 1, 1, 1), true).N)
	require.Equal(t, []int32{1, 1, 0, 1}, tensor.Compare(tensor.LT, x, ints(mlir.I32, 1, 1, 1, 1), false).N)
	f := floats(mlir.F32, []int{4}, 3e9, -3e9, float32(math.NaN()), -1.9)
	require.Equal(t, []int32{math.MaxInt32, math.MinInt32, 0, -1}, tensor.Convert(f, mlir.I32).N)
	require.Equal(t, int32(-1294967296), tensor.Convert(f, mlir.U32).N[0]) // 3e9 as bits
}

// Rows 2i and 2i+1 of 16 bits are the low and high halves of row i.
func TestWords(t *testing.T) {
	x := floats(mlir.BF16, []int{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	w := tensor.Words(x, mlir.I32)
	require.Equal(t, []int{2, 2}, w.Shape)
	require.Equal(t, uint64(0x40403f80), w.Bits(0)) // 3 over 1
	require.Equal(t, x.F, tensor.Halves(w, mlir.BF16).F)
}

// A product sums in the order of the index, and zero times infinity is NaN.
func TestDot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const m, n, k = 70, 33, 129
	x, y := tensor.New(mlir.F32, k, m), tensor.New(mlir.F32, k, n)
	for i := range x.F {
		x.F[i] = r.Float32() - .5
	}
	for i := range y.F {
		y.F[i] = r.Float32() - .5
	}
	c := tensor.Contraction{LC: []int{0}, RC: []int{0}}
	got := tensor.Dot(x, y, c)
	for i := range m {
		for j := range n {
			var s float32
			for l := range k {
				s += float32(x.F[l*m+i] * y.F[l*n+j])
			}
			require.Equal(t, s, got.F[i*n+j])
		}
	}
	x.F[0], y.F[0] = 0, float32(math.Inf(1))
	require.True(t, math.IsNaN(float64(tensor.Dot(x, y, c).F[0])))
}

func TestFolds(t *testing.T) {
	x := floats(mlir.F32, []int{2, 3}, 1, 2, 3, 4, float32(math.NaN()), 6)
	require.Equal(t, []float32{6}, tensor.Sum(x, []int{1}).F[:1])
	require.True(t, math.IsNaN(float64(tensor.Largest(x, []int{1}, floats(mlir.F32, nil, 0)).F[1])))
	require.Equal(t, []int32{-1}, tensor.Largest(ints(mlir.U32, 5, -1, 7), []int{0}, ints(mlir.U32, 0)).N)
	require.Equal(t, []float32{1, 3, 6}, tensor.Prefix(x, 1).F[:3])
	_, bad, ok := tensor.Take(x, tensor.New(mlir.I32, 2, 3).Reshape(2, 3), 1)
	require.True(t, ok, bad)
	_, bad, ok = tensor.Take(ints(mlir.I32, 1, 2), ints(mlir.I32, 0, 2), 0)
	require.False(t, ok)
	require.Equal(t, 2, bad)
}

// Host arrays of every type come back as they were.
func TestArrays(t *testing.T) {
	for d, e := range map[ir.DType]mlir.Elem{ir.F64: mlir.F64, ir.F32: mlir.F32, ir.F16: mlir.F16, ir.BF16: mlir.BF16, ir.I64: mlir.I64,
		ir.I32: mlir.I32, ir.U32: mlir.U32, ir.U16: mlir.U16, ir.Bool: mlir.I1} {
		a := array.FromFloat64s(d, []int{2, 2}, []float64{0, 1, 1.5, 60000})
		x, err := tensor.Of(a, mlir.Type{Kind: mlir.Tensor, Elem: e, Shape: []int{2, 2}})
		require.NoError(t, err)
		b, err := x.Array()
		require.NoError(t, err)
		require.Equal(t, a.Data, b.Data, d.String())
		for i := range 4 {
			y := tensor.New(e, 1)
			y.SetBits(0, x.Bits(i))
			require.Equal(t, x.Bits(i), y.Bits(0))
		}
		_, err = tensor.Of(a, mlir.Type{Kind: mlir.Tensor, Elem: e, Shape: []int{4}})
		require.ErrorContains(t, err, "expected")
	}
}

func TestLiterals(t *testing.T) {
	u := mlir.Type{Kind: mlir.Tensor, Elem: mlir.BF16, Shape: []int{2}}
	x, err := tensor.Literal(mlir.Dense{Values: []string{"0xFF80"}}, u)
	require.NoError(t, err)
	require.Equal(t, []float32{float32(math.Inf(-1)), float32(math.Inf(-1))}, x.F)
	for _, bad := range []mlir.Dense{{Values: []string{"x"}}, {Shape: []int{3}, Values: []string{"1", "2", "3"}}, {Values: []string{"true"}}} {
		_, err := tensor.Literal(bad, u)
		require.Error(t, err)
	}
}
