package interp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/stretchr/testify/require"
)

// eval runs the text of one-result modules on arguments named a, b, c and returns the result named
// o.
func eval(t testing.TB, text string, args ...*array.Array) *array.Array {
	t.Helper()
	out, err := tryEval(t, text, args...)
	require.NoError(t, err, text)
	return out
}

func tryEval(t testing.TB, text string, args ...*array.Array) (*array.Array, error) {
	t.Helper()
	m, err := ir.Parse(text)
	require.NoError(t, err, text)
	named := map[string]*array.Array{}
	for i, a := range args {
		named[string(rune('a'+i))] = a
	}
	out, err := Run(m, named, Options{})
	return out["o"], err
}

func vec(d ir.DType, v ...float64) *array.Array { return array.FromFloat64s(d, []int{len(v)}, v) }
func mat(d ir.DType, rows int, v ...float64) *array.Array {
	return array.FromFloat64s(d, []int{rows, len(v) / rows}, v)
}

func TestElementwise(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	zero := math.Copysign(0, -1)
	for _, c := range []struct {
		op         string
		d          ir.DType
		x, y, want []float64
	}{
		{"neg", ir.F32, []float64{1, 0, inf}, nil, []float64{-1, zero, -inf}},
		{"neg", ir.U32, []float64{1, 0}, nil, []float64{math.MaxUint32, 0}},
		{"abs", ir.I32, []float64{-3, math.MinInt32}, nil, []float64{3, math.MinInt32}},
		{"abs", ir.F32, []float64{zero, -2}, nil, []float64{0, 2}},
		{"exp", ir.F32, []float64{0, 1, -inf}, nil, []float64{1, float64(float32(math.E)), 0}},
		{"exp", ir.BF16, []float64{1}, nil, []float64{2.71875}},
		{"exp2", ir.F32, []float64{10, -1}, nil, []float64{1024, .5}},
		{"log", ir.F32, []float64{1, 0, -1}, nil, []float64{0, -inf, nan}},
		{"log2", ir.F32, []float64{8}, nil, []float64{3}},
		{"log1p", ir.F64, []float64{1e-20}, nil, []float64{1e-20}},
		{"sqrt", ir.F32, []float64{4, 2}, nil, []float64{2, float64(float32(math.Sqrt2))}},
		{"rsqrt", ir.F32, []float64{4, 0}, nil, []float64{.5, inf}},
		{"tanh", ir.F32, []float64{0, 100}, nil, []float64{0, 1}},
		{"logistic", ir.F32, []float64{0, -inf, inf}, nil, []float64{.5, 0, 1}},
		{"not", ir.U16, []float64{0, 1}, nil, []float64{65535, 65534}},
		{"not", ir.Bool, []float64{0, 1}, nil, []float64{1, 0}},
		{"add", ir.BF16, []float64{1, 256}, []float64{1. / 512, 1}, []float64{1, 256}},
		{"add", ir.F16, []float64{65504}, []float64{65504}, []float64{inf}},
		{"add", ir.I32, []float64{math.MaxInt32}, []float64{1}, []float64{math.MinInt32}},
		{"sub", ir.U32, []float64{0}, []float64{1}, []float64{math.MaxUint32}},
		{"mul", ir.U16, []float64{300}, []float64{300}, []float64{90000 - 65536}},
		{"mul", ir.F64, []float64{1 + 0x1p-52}, []float64{3}, []float64{3 + 0x1p-50}},
		{"div", ir.F32, []float64{1, 0}, []float64{0, 0}, []float64{inf, nan}},
		{"div", ir.I32, []float64{-7, 5, math.MinInt32}, []float64{2, 0, -1}, []float64{-3, -1, math.MinInt32}},
		{"div", ir.U32, []float64{math.MaxUint32, 9}, []float64{2, 0}, []float64{math.MaxInt32, math.MaxUint32}},
		{"max", ir.F32, []float64{nan, 1, zero}, []float64{1, nan, 0}, []float64{nan, nan, 0}},
		{"min", ir.F32, []float64{nan, 1, 0}, []float64{1, 2, zero}, []float64{nan, 1, zero}},
		{"and", ir.I32, []float64{-1, 12}, []float64{7, 10}, []float64{7, 8}},
		{"or", ir.Bool, []float64{0, 1, 0}, []float64{0, 0, 1}, []float64{0, 1, 1}},
		{"xor", ir.U32, []float64{math.MaxUint32}, []float64{1}, []float64{math.MaxUint32 - 1}},
		{"shl", ir.U32, []float64{1, 3, 1}, []float64{31, 31, 32}, []float64{1 << 31, 1 << 31, 0}},
		{"shl", ir.I32, []float64{1}, []float64{31}, []float64{math.MinInt32}},
		{"shr", ir.I32, []float64{-1, -1, -1}, []float64{1, 0, 40}, []float64{math.MaxInt32, -1, 0}},
		{"shr", ir.I64, []float64{-1}, []float64{60}, []float64{15}},
	} {
		n := fmt.Sprintf("%s[%d]", c.d, len(c.x))
		text, args := fmt.Sprintf("module t (%%a: %s) -> (o) { %%1 = %s %%a : %s yield %%1 }", n, c.op, n), []*array.Array{vec(c.d, c.x...)}
		if c.y != nil {
			text = fmt.Sprintf("module t (%%a: %s, %%b: %s) -> (o) { %%1 = %s %%a, %%b : %s yield %%1 }", n, n, c.op, n)
			args = append(args, vec(c.d, c.y...))
		}
		got := eval(t, text, args...).Float64s()
		for i, w := range c.want {
			if math.IsNaN(w) {
				require.True(t, math.IsNaN(got[i]), "%s %s: %v", c.op, n, got)
				continue
			}
			require.Equal(t, math.Float64bits(w), math.Float64bits(got[i]), "%s %s: %v, want %v", c.op, n, got, c.want)
		}
	}
}

func TestCompareAndSelect(t *testing.T) {
	x, y := vec(ir.F32, 1, 2, math.NaN(), 3), vec(ir.F32, 1, 3, 0, 2)
	for cmp, want := range map[string][]int64{"eq": {1, 0, 0, 0}, "ne": {0, 1, 1, 1}, "lt": {0, 1, 0, 0}, "le": {1, 1, 0, 0}, "gt": {0, 0, 0, 1}, "ge": {1, 0, 0, 1}} {
		got := eval(t, "module t (%a: f32[4], %b: f32[4]) -> (o) { %1 = compare %a, %b {cmp="+cmp+"} : bool[4] yield %1 }", x, y)
		require.Equal(t, want, got.Int64s(), cmp)
	}
	sel := "module t (%%a: bool%s, %%b: i32[2], %%c: i32[2]) -> (o) { %%1 = select %%a, %%b, %%c : i32[2] yield %%1 }"
	require.Equal(t, []int64{1, 4}, eval(t, fmt.Sprintf(sel, "[2]"), vec(ir.Bool, 1, 0), vec(ir.I32, 1, 2), vec(ir.I32, 3, 4)).Int64s())
	require.Equal(t, []int64{3, 4}, eval(t, fmt.Sprintf(sel, "[]"), array.FromFloat64s(ir.Bool, nil, []float64{0}), vec(ir.I32, 1, 2), vec(ir.I32, 3, 4)).Int64s())
}

// Conversions between all pairs of element types are those of host arrays.
func TestConvert(t *testing.T) {
	values := []float64{0, 1, -1.5, 2.5, 1e10, -1e10, 70000, 1 + 1./256, 0x1p-30}
	all := []ir.DType{ir.F64, ir.F32, ir.F16, ir.BF16, ir.I64, ir.I32, ir.U32, ir.U16, ir.Bool}
	for _, from := range all {
		for _, to := range all {
			x := vec(from, values...)
			got := eval(t, fmt.Sprintf("module t (%%a: %s[9]) -> (o) { %%1 = convert %%a : %s[9] yield %%1 }", from, to), x)
			require.Equal(t, x.Convert(to).Data, got.Data, "%s to %s", from, to)
		}
	}
}

func TestBitsOps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, pair := range [][2]ir.DType{{ir.F32, ir.U32}, {ir.F32, ir.I32}, {ir.I32, ir.U32}, {ir.BF16, ir.U16}, {ir.F16, ir.U16}, {ir.F16, ir.BF16}, {ir.F64, ir.I64}} {
		x := random(r, pair[0], 5)
		m := fmt.Sprintf("module t (%%a: %s[5]) -> (o) { %%1 = bitcast %%a : %s[5] yield %%1 }", pair[0], pair[1])
		y := eval(t, m, x)
		require.Equal(t, x.Data, y.Data, m)
		m = fmt.Sprintf("module t (%%a: %s[5]) -> (o) { %%1 = bitcast %%a : %s[5] yield %%1 }", pair[1], pair[0])
		require.Equal(t, x.Data, eval(t, m, y).Data, m)
	}
	require.Equal(t, []int64{0x40003f80}, eval(t, "module t (%a: f32[1], %b: f32[1]) -> (o) { %1 = pack %a, %b : u32[1] yield %1 }",
		vec(ir.F32, 1), vec(ir.F32, 2.0001)).Int64s())
	x := mat(ir.BF16, 4, 1, 2, 3, 4, 5, 6, 7, 8)
	w := eval(t, "module t (%a: bf16[4,2]) -> (o) { %1 = words %a : u32[2,2] yield %1 }", x)
	require.Equal(t, []int64{0x40403f80, 0x40804000, 0x40e040a0, 0x410040c0}, w.Int64s())
	require.Equal(t, x.Data, eval(t, "module t (%a: u32[2,2]) -> (o) { %1 = halves %a : bf16[4,2] yield %1 }", w).Data)
}

func TestMoves(t *testing.T) {
	x := mat(ir.I32, 2, 0, 1, 2, 3, 4, 5)
	for _, c := range []struct {
		op    string
		shape string
		want  []int64
	}{
		{"broadcast %a {dims=[0,2]}", "[2,2,3]", []int64{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
		{"reshape %a", "[3,2]", []int64{0, 1, 2, 3, 4, 5}},
		{"transpose %a {dims=[1,0]}", "[3,2]", []int64{0, 3, 1, 4, 2, 5}},
		{"slice %a {starts=[0,0], limits=[2,3], strides=[1,2]}", "[2,2]", []int64{0, 2, 3, 5}},
		{"slice %a {starts=[1,1], limits=[1,3]}", "[0,2]", []int64{}},
		{"concat %a, %a {axis=1}", "[2,6]", []int64{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
		{"pad %a {value=-7, starts=[1,0], limits=[0,1]}", "[3,4]", []int64{-7, -7, -7, -7, 0, 1, 2, -7, 3, 4, 5, -7}},
		{"reduce_sum %a {dims=[0]}", "[3]", []int64{3, 5, 7}},
		{"reduce_sum %a {dims=[1]}", "[2]", []int64{3, 12}},
		{"reduce_sum %a {dims=[0,1]}", "[]", []int64{15}},
		{"reduce_max %a {dims=[0]}", "[3]", []int64{3, 4, 5}},
		{"cumsum %a {axis=0}", "[2,3]", []int64{0, 1, 2, 3, 5, 7}},
		{"cumsum %a {axis=1}", "[2,3]", []int64{0, 1, 3, 3, 7, 12}},
	} {
		text := fmt.Sprintf("module t (%%a: i32[2,3]) -> (o) { %%1 = %s : i32%s yield %%1 }", c.op, c.shape)
		require.Equal(t, c.want, eval(t, text, x).Int64s(), c.op)
	}
	require.Equal(t, []int64{1, 1, 1, 1}, eval(t, "module t (%a: i32[1,2]) -> (o) { %1 = broadcast %a {dims=[0,1]} : i32[2,2] yield %1 }", mat(ir.I32, 1, 1, 1)).Int64s())
	require.Equal(t, []int64{0, 1, 2, 0, 1, 2}, eval(t, "module t () -> (o) { %1 = iota {axis=1} : i32[2,3] yield %1 }").Int64s())
	require.Equal(t, []float64{.5, .5}, eval(t, "module t () -> (o) { %1 = const {value=0.5} : bf16[2] yield %1 }").Float64s())
	require.Equal(t, []int64{math.MinInt64}, eval(t, "module t (%a: i64[1,0]) -> (o) { %1 = reduce_max %a {dims=[1]} : i64[1] yield %1 }", array.New(ir.I64, 1, 0)).Int64s())
}

// Sums of narrow floats are kept in f32: 256 and many halves would stick in bf16.
func TestNarrowSums(t *testing.T) {
	v := []float64{256, .5, .5, .5, .5}
	require.Equal(t, []float64{258}, eval(t, "module t (%a: bf16[5]) -> (o) { %1 = reduce_sum %a {dims=[0]} : bf16[] yield %1 }", vec(ir.BF16, v...)).Float64s())
	require.Equal(t, []float64{256, 256, 256, 258, 258}, eval(t, "module t (%a: bf16[5]) -> (o) { %1 = cumsum %a {axis=0} : bf16[5] yield %1 }", vec(ir.BF16, v...)).Float64s())
}

func TestIndexed(t *testing.T) {
	x, idx := mat(ir.F32, 3, 1, 2, 3, 4, 5, 6), mat(ir.I32, 2, 2, 0, 1, 1)
	take := "module t (%a: f32[3,2], %b: i32[2,2]) -> (o) { %1 = take %a, %b {axis=0} : f32[2,2] @pick.h1 yield %1 }"
	require.Equal(t, []float64{5, 2, 3, 4}, eval(t, take, x, idx).Float64s())
	_, err := tryEval(t, take, x, mat(ir.I32, 2, 3, 0, 0, 0))
	require.ErrorContains(t, err, "take @pick.h1 (line 1): index 3 of 3 along axis 0 is out of range\n    in: %0 = take %1, %2 {axis=0}")
	gather := "module t (%a: f32[3,2], %b: i32[3]) -> (o) { %1 = gather_rows %a, %b {axis=0} : f32[3,2] yield %1 }"
	require.Equal(t, []float64{5, 6, 0, 0, 0, 0}, eval(t, gather, x, vec(ir.I32, 2, -1, 3)).Float64s())
	gather = "module t (%a: f32[3,2], %b: i32[1]) -> (o) { %1 = gather_rows %a, %b {axis=1} : f32[3,1] yield %1 }"
	require.Equal(t, []float64{2, 4, 6}, eval(t, gather, x, vec(ir.I32, 1)).Float64s())
	at := func(i float64) *array.Array { return array.FromFloat64s(ir.I32, nil, []float64{i}) }
	dyn := "module t (%a: f32[3,2], %b: i32[], %c: i32[]) -> (o) { %1 = dyn_slice %a, %b, %c : f32[2,1] yield %1 }"
	require.Equal(t, []float64{3, 5}, eval(t, dyn, x, at(9), at(-4)).Float64s())
	upd := "module t (%a: f32[3,2], %b: i32[], %c: i32[]) -> (o) { %1 = const {value=9} : f32[1,2] %2 = dyn_update %a, %1, %b, %c : f32[3,2] yield %2 }"
	require.Equal(t, []float64{1, 2, 9, 9, 5, 6}, eval(t, upd, x, at(1), at(1)).Float64s())
}

func TestDotAgainstFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		x, y []int
		d    ir.DotDims
	}{
		{[]int{5, 7}, []int{7, 3}, ir.DotDims{LC: []int{1}, RC: []int{0}}},
		{[]int{7, 5}, []int{3, 7}, ir.DotDims{LC: []int{0}, RC: []int{1}}},
		{[]int{2, 65, 9, 3}, []int{9, 3, 2, 6}, ir.DotDims{LB: []int{0, 3}, RB: []int{2, 1}, LC: []int{2}, RC: []int{0}}},
		{[]int{4, 3, 5}, []int{5, 4, 2}, ir.DotDims{LC: []int{0, 2}, RC: []int{1, 0}}},
		{[]int{3}, []int{3}, ir.DotDims{LC: []int{0}, RC: []int{0}}},
		{[]int{3}, []int{2}, ir.DotDims{}},
		{[]int{0, 2}, []int{0, 3}, ir.DotDims{LC: []int{0}, RC: []int{0}}},
		{[]int{130, 40}, []int{40, 67}, ir.DotDims{LC: []int{1}, RC: []int{0}}},
	} {
		x, y := random(r, ir.F32, c.x...), random(r, ir.F32, c.y...)
		m := build(t, func(b *ir.Builder) []*ir.Value {
			p, q := b.Param("x", ir.T(ir.F32, c.x...)), b.Param("y", ir.T(ir.F32, c.y...))
			f := b.Dot(p, q, c.d, ir.PrecF32)
			d := c.d
			w := b.Append(ir.OpDot, []*ir.Value{p, q}, ir.Attrs{Dot: &d}, nil, ir.T(ir.F64, f.Type.Shape...))[0]
			return []*ir.Value{f, w, b.Dot(p, q, c.d, ir.PrecBF16x1), b.Dot(p, q, c.d, ir.PrecBF16x3), b.Dot(p, q, c.d, ir.PrecBF16x6)}
		})
		out := run(t, m, map[string]*array.Array{"x": x, "y": y})
		want := naiveDot(x, y, c.d)
		require.InDeltaSlice(t, want, out["r1"].Float64s(), 1e-12)
		for name, tol := range map[string]float64{"r0": 2e-6, "r2": 2e-2, "r3": 5e-5, "r4": 2e-6} {
			scale := math.Sqrt(float64(ir.T(ir.F32, c.x...).Size()))
			require.InDeltaSlice(t, want, out[name].Float64s(), tol*max(1, scale), name)
		}
	}
}

// naiveDot walks all index tuples, recursively, in float64.
func naiveDot(x, y *array.Array, d ir.DotDims) []float64 {
	xv, yv := x.Float64s(), y.Float64s()
	xs, ys := strides(x.Shape), strides(y.Shape)
	type axis struct{ n, x, y int }
	var outer, inner []axis
	used := map[[2]int]bool{}
	for i := range d.LB {
		outer = append(outer, axis{x.Shape[d.LB[i]], xs[d.LB[i]], ys[d.RB[i]]})
		used[[2]int{0, d.LB[i]}], used[[2]int{1, d.RB[i]}] = true, true
	}
	for i := range d.LC {
		inner = append(inner, axis{x.Shape[d.LC[i]], xs[d.LC[i]], ys[d.RC[i]]})
		used[[2]int{0, d.LC[i]}], used[[2]int{1, d.RC[i]}] = true, true
	}
	for i, n := range x.Shape {
		if !used[[2]int{0, i}] {
			outer = append(outer, axis{n, xs[i], 0})
		}
	}
	for i, n := range y.Shape {
		if !used[[2]int{1, i}] {
			outer = append(outer, axis{n, 0, ys[i]})
		}
	}
	var out []float64
	var sum func(ax []axis, xo, yo int) float64
	sum = func(ax []axis, xo, yo int) float64 {
		if len(ax) == 0 {
			return xv[xo] * yv[yo]
		}
		s := 0.
		for i := range ax[0].n {
			s += sum(ax[1:], xo+i*ax[0].x, yo+i*ax[0].y)
		}
		return s
	}
	var each func(ax []axis, xo, yo int)
	each = func(ax []axis, xo, yo int) {
		if len(ax) == 0 {
			out = append(out, sum(inner, xo, yo))
			return
		}
		for i := range ax[0].n {
			each(ax[1:], xo+i*ax[0].x, yo+i*ax[0].y)
		}
	}
	each(outer, 0, 0)
	return out
}

func TestDotPrecisions(t *testing.T) {
	x := vec(ir.F32, 1+0x1p-9+0x1p-18)
	for prec, want := range map[string]float64{
		"f32":    1 + 0x1p-8 + 0x1p-17 + 0x1p-18, // the square, to f32
		"bf16x1": 1,
		"bf16x3": 1 + 0x1p-8, // parts 1 and 2^-9; 2^-18 is lost
		"bf16x6": 1 + 0x1p-8 + 0x1p-17 + 0x1p-18,
	} {
		got := eval(t, "module t (%a: f32[1]) -> (o) { %1 = dot %a, %a {lb=[], rb=[], lc=[0], rc=[0], prec="+prec+"} : f32[] yield %1 }", x).Float64s()[0]
		require.InDelta(t, want, got, 0x1p-23, prec)
	}
	got := eval(t, "module t (%a: bf16[2]) -> (o) { %1 = dot %a, %a {lb=[], rb=[], lc=[0], rc=[0], prec=bf16x3} : bf16[] yield %1 }", vec(ir.BF16, 16, 1)).Float64s()[0]
	require.Equal(t, 256., got, "257 in f32, rounded once to even")
}

func TestLoop(t *testing.T) {
	text := `module t (%a: i32[]) -> (o) {
  %1, %2 = loop %a, %a {count=4} (%i: i32[], %x: i32[], %y: i32[]) {
    %3 = add %x, %i : i32[]
    yield %y, %3
  } : i32[], i32[]
  yield %1
}`
	for start, want := range map[float64]int64{0: 2, 7: 9} {
		require.Equal(t, []int64{want}, eval(t, text, array.FromFloat64s(ir.I32, nil, []float64{start})).Int64s())
	}
}

func TestArguments(t *testing.T) {
	m, err := ir.Parse("module t (%a: f32[2]) -> (o) { yield %a }")
	require.NoError(t, err)
	for _, c := range []struct {
		args map[string]*array.Array
		want string
	}{
		{nil, "argument a (f32[2]) is missing"},
		{map[string]*array.Array{"a": vec(ir.F32, 1)}, "argument a is f32[1], wants f32[2]"},
		{map[string]*array.Array{"a": {Type: ir.F32, Shape: []int{2}}}, "argument a: f32[2] needs 8 bytes"},
		{map[string]*array.Array{"a": vec(ir.F32, 1, 2), "z": vec(ir.F32, 1)}, `no parameter named "z"`},
	} {
		_, err := Run(m, c.args, Options{})
		require.ErrorContains(t, err, c.want)
	}
	m, err = ir.Parse("module t () -> (o) { %1 = const {value=1} : f32[1000,1000] yield %1 }")
	require.NoError(t, err)
	_, err = Run(m, nil, Options{MaxElements: 1000})
	require.ErrorContains(t, err, "a value of f32[1000,1000] has more than 1000 elements")
}
