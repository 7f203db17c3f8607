package array

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

var allTypes = []ir.DType{ir.F64, ir.F32, ir.F16, ir.BF16, ir.I64, ir.I32, ir.U32, ir.U16, ir.Bool}

func TestHalfPatternsSurvive(t *testing.T) {
	for h := range 1 << 16 {
		for _, c := range []struct {
			value func(uint16) float32
			bits  func(float32) uint16
			round func(float32) float32
		}{{f16Value, f16Bits, RoundF16}, {bf16Value, bf16Bits, RoundBF16}} {
			x := c.value(uint16(h))
			if x != x {
				require.True(t, math.IsNaN(float64(c.round(x))), "%#x", h)
				continue
			}
			require.Equal(t, uint16(h), c.bits(x), "%#x", h)
		}
	}
}

// bigRound rounds to the nearest value of prec significant bits whose least unit is 2^minExp, ties to even.
func bigRound(x float64, prec uint, minExp int) float64 {
	if x == 0 {
		return x
	}
	_, e := math.Frexp(x)
	if low := e - minExp; low < int(prec) { // subnormal: count units of 2^minExp
		return math.Ldexp(math.RoundToEven(math.Ldexp(x, -minExp)), minExp)
	}
	f, _ := new(big.Float).SetPrec(prec).SetMode(big.ToNearestEven).SetFloat64(x).Float64()
	return f
}

func TestRoundingIsNearestEvenAndOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []float64{
		0, 1, -1, 65504, 65519.999, 65520, 1e-8, 5.9e-8, 2.98e-8, 6e-5,
		1 + 1.0/256 + 1e-12, 1 + 1.0/256, 1 + 3.0/256, 1 + 1.0/2048 + 1e-12, 1 + 1.0/2048, // would round twice through float32
		3.3e38, 1e300, -1e300, 1e-300, math.MaxFloat32, math.Inf(1), math.Inf(-1), 0x1p-149, 0x1p-134, 0x1.8p-134,
	}
	for range 20000 {
		values = append(values, math.Ldexp(rng.Float64()*2-1, rng.IntN(60)-40))
	}
	f16 := FromFloat64s(ir.F16, []int{len(values)}, values).Float64s()
	bf16 := FromFloat64s(ir.BF16, []int{len(values)}, values).Float64s()
	for i, x := range values {
		want := bigRound(x, 11, -24)
		if math.Abs(want) > 65504 {
			want = math.Copysign(math.Inf(1), x)
		}
		require.Equal(t, want, f16[i], "f16 of %v", x)
		want = bigRound(x, 8, -133)
		if math.Abs(want) > 0x1.fep127 {
			want = math.Copysign(math.Inf(1), x)
		}
		require.Equal(t, want, bf16[i], "bf16 of %v", x)
	}
}

func TestInt64ToHalfRoundsOnce(t *testing.T) {
	// 2^62 + 2^54 is the middle between two bfloat16 values; one more must go up, one less down.
	mid := int64(1)<<62 + 1<<54
	got := FromInt64s(ir.BF16, []int{4}, []int64{mid - 1, mid, mid + 1, -mid - 1}).Float64s()
	require.Equal(t, []float64{0x1p62, 0x1p62, 0x1p62 + 0x1p55, -0x1p62 - 0x1p55}, got)
}

func TestConversions(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	f := FromFloat64s(ir.F64, []int{7}, []float64{-1.9, 2.9, nan, inf, -inf, 70000, 1e19})
	for _, c := range []struct {
		d    ir.DType
		want []int64
	}{
		{ir.I64, []int64{-1, 2, 0, math.MaxInt64, math.MinInt64, 70000, math.MaxInt64}},
		{ir.I32, []int64{-1, 2, 0, math.MaxInt32, math.MinInt32, 70000, math.MaxInt32}},
		{ir.U32, []int64{0, 2, 0, math.MaxUint32, 0, 70000, math.MaxUint32}},
		{ir.U16, []int64{0, 2, 0, math.MaxUint16, 0, math.MaxUint16, math.MaxUint16}},
		{ir.Bool, []int64{1, 1, 1, 1, 1, 1, 1}},
	} {
		require.Equal(t, c.want, f.Convert(c.d).Int64s(), c.d)
	}
	i := FromInt64s(ir.I64, []int{3}, []int64{-1, 1 << 33, 65537})
	require.Equal(t, []int64{65535, 0, 1}, i.Convert(ir.U16).Int64s())
	require.Equal(t, []int64{-1, 0, 65537}, i.Convert(ir.I32).Int64s())
	require.Equal(t, []int64{1, 1, 1}, i.Convert(ir.Bool).Int64s())
	require.Equal(t, []float32{-1, 1 << 33, 65537}, i.Float32s())
	require.Equal(t, []int64{math.MaxInt64}, FromFloat32s(ir.F32, []int{1}, []float32{float32(inf)}).Int64s())
}

func TestSmallIntegersPassEveryPair(t *testing.T) {
	for _, from := range allTypes {
		for _, to := range allTypes {
			v := []int64{0, 1, 1, 0, 1, 0}
			a := FromInt64s(from, []int{2, 3}, v)
			b := a.Convert(to)
			require.NoError(t, b.Check())
			require.Equal(t, v, b.Int64s(), "%s to %s", from, to)
			require.Equal(t, []float64{0, 1, 1, 0, 1, 0}, b.Float64s())
			require.Equal(t, []float32{0, 1, 1, 0, 1, 0}, b.Float32s())
			require.Equal(t, b.Data, FromFloat32s(to, []int{2, 3}, []float32{0, 1, 1, 0, 1, 0}).Data)
			b.Data[0] = 9
			require.Equal(t, v, a.Int64s(), "Convert copies")
		}
	}
}

func TestLayout(t *testing.T) {
	a := FromFloat32s(ir.F32, []int{2, 1}, []float32{1, -2})
	require.Equal(t, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x3f800000), 0xc0000000), a.Data)
	require.Equal(t, "f32[2,1]", a.String())
	require.Equal(t, 2, a.Size())
	require.Equal(t, 1, New(ir.Bool).Size())
	require.Equal(t, []int{1, 2}, a.Reshape(1, 2).Shape)
}

func TestMisuse(t *testing.T) {
	for _, shape := range [][]int{{-1}, {1 << 40, 1 << 40}, {math.MaxInt, 2}} {
		_, err := ByteSize(ir.F32, shape)
		require.Error(t, err)
	}
	n, err := ByteSize(ir.F32, []int{math.MaxInt, 0, math.MaxInt})
	require.NoError(t, err)
	require.Zero(t, n)
	for _, d := range []ir.DType{ir.Invalid, ir.Sem, 200} {
		_, err := ByteSize(d, nil)
		require.Error(t, err)
	}
	require.Error(t, (&Array{Type: ir.F32, Shape: []int{2}, Data: make([]byte, 7)}).Check())
	require.Error(t, (*Array)(nil).Check())
	require.PanicsWithValue(t, "array: f32[3] has 3 elements, given 2 values", func() { FromFloat64s(ir.F32, []int{3}, make([]float64, 2)) })
	require.Panics(t, func() { New(ir.F32, 2).Reshape(3) })
}

func TestCompare(t *testing.T) {
	arr := func(v ...float64) *Array { return FromFloat64s(ir.F64, []int{len(v)}, v) }
	nan, inf := math.NaN(), math.Inf(1)

	s := Compare(arr(1, 2, 3.5), arr(1, 2, 3))
	require.Equal(t, 0.5, s.MaxAbs)
	require.Equal(t, 2, s.WorstIndex)
	require.InDelta(t, 0.5/math.Sqrt(14), s.Ratio, 1e-15)
	require.InDelta(t, 0.5/3, s.RelMax, 1e-15)
	require.False(t, s.NaN)

	require.Equal(t, Stats{}, Compare(arr(0, 0), arr(0, 0)))
	require.Equal(t, Stats{WorstIndex: -1}, Compare(arr(), arr()))
	require.Equal(t, Stats{WorstIndex: -1}, Compare(arr(inf), arr(inf)))
	require.True(t, math.IsInf(Compare(arr(1), arr(0)).Ratio, 1))

	for _, c := range [][2]*Array{{arr(0, nan), arr(0, 1)}, {arr(0, 1), arr(0, nan)}, {arr(0, nan), arr(0, nan)}, {arr(0, inf), arr(0, 1)}, {arr(0, -inf), arr(0, inf)}} {
		s := Compare(c[0], c[1])
		require.True(t, s.NaN)
		require.Equal(t, 1, s.WorstIndex)
		require.False(t, s.Ratio <= 1e9 || s.MaxAbs <= 1e9 || s.RelMax <= 1e9, "a tolerance must not accept it")
		require.Contains(t, s.String(), "element 1")
	}
	s = Compare(arr(1, 2), arr(1, 2).Reshape(2, 1))
	require.True(t, s.NaN)
	require.Equal(t, "shapes differ", s.String())
}
