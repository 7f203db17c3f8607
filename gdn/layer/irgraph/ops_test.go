package irgraph_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// Ops that builders use little, and what is easy to get wrong: NaN, saturation, clamped starts, rows out of range, loops
// whose index is known and not known.
var opModules = []string{
	"module t (%a: f32[8], %b: f32[8]) -> (x, y, z, w) { %1 = max %a, %b : f32[8] %2 = min %a, %b : f32[8] %3 = exp2 %b : f32[8] %4 = reduce_max %a {dims=[0]} : f32[] yield %1, %2, %3, %4 }",
	"module t (%a: f32[8], %b: f32[8]) -> (x, y, z) { %1 = convert %a : i32[8] %2 = convert %a : u16[8] %3 = convert %b : bool[8] yield %1, %2, %3 }",
	"module t (%a: i32[8], %b: i32[8]) -> (x, y, z) { %1 = shl %a, %b : i32[8] %2 = shr %a, %b : i32[8] %3 = not %a : i32[8] yield %1, %2, %3 }",
	"module t (%a: i32[8]) -> (x, y) { %1 = cumsum %a {axis=0} : i32[8] %2 = reduce_max %a {dims=[0]} : i32[] yield %1, %2 }",
	"module t (%a: f32[3,8]) -> (x) { %1 = const {value=2} : i32[8] %2 = iota {axis=0} : i32[8] %3 = sub %2, %1 : i32[8] %4 = gather_rows %a, %3 {axis=0} : f32[8,8] yield %4 }",
	"module t (%a: f32[3,8]) -> (x) { %1 = iota {axis=0} : i32[3,8] %2 = take %a, %1 {axis=1} : f32[3,8] yield %2 }",
	"module t (%a: f32[8,4], %n: i32[8]) -> (x, y) { %z = const {value=0} : i32[] %0 = slice %n {starts=[3], limits=[4]} : i32[1] %1 = reshape %0 : i32[] %2 = dyn_slice %a, %1, %z : f32[2,4] %3 = dyn_slice %a, %1, %z : f32[1,4] %4 = dyn_update %a, %3, %1, %z : f32[8,4] yield %2, %4 }",
	"module t (%a: f32[6,4]) -> (x, y) { %z = const {value=0} : i32[] %s = const {value=0} : f32[1,4] %1, %2 = loop %a, %s {count=4} (%i: i32[], %x: f32[6,4], %y: f32[1,4]) { %7 = dyn_slice %a, %i, %z : f32[1,4] %3 = add %7, %y : f32[1,4] %4 = dyn_update %x, %3, %i, %z : f32[6,4] %5 = reduce_sum %4 {dims=[0]} : f32[4] %6 = reshape %5 : f32[1,4] yield %4, %6 } : f32[6,4], f32[1,4] yield %1, %2 }",
	"module t (%a: bf16[3,8], %b: f32[8,5]) -> (x, y) { %1 = dot %a, %b {lb=[], rb=[], lc=[1], rc=[0], prec=bf16x3} : f32[3,5] %2 = reduce_sum %a {dims=[1]} : bf16[3] yield %1, %2 }",
	"module t (%a: f32[3,4]) -> (x, y) { %1 = pad %a {value=7, starts=[1,0], limits=[0,2]} : f32[4,6] %2 = slice %1 {starts=[0,1], limits=[4,6], strides=[2,3]} : f32[2,2] yield %1, %2 }",
	"module t (%a: f32[8]) -> (x, y, z) { %1 = log1p %a : f32[8] %2 = logistic %a : f32[8] %3 = rsqrt %a : f32[8] yield %1, %2, %3 }",
}

func TestOps(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	numbers := map[ir.DType][]float64{
		ir.F32:  {1.5, nan, -3e9, 3e9, -0.25, inf, 65535.9, -inf, 2, 0.125, -7, 40},
		ir.BF16: {1.5, -2, 3, 0.25, -0.25, 8, 65, -1},
		ir.I32:  {5, -3, 31, 40, -7, 2, 0, 1},
	}
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		for _, text := range opModules {
			m, err := ir.Parse(text)
			require.NoError(t, err, text)
			in := map[string]*array.Array{}
			for i, p := range m.Params() {
				v := make([]float64, p.Type.Size())
				for j := range v {
					n := numbers[p.Type.DType]
					v[j] = n[(j+3*i)%len(n)]
					if len(p.Type.Shape) > 1 && (math.IsNaN(v[j]) || math.IsInf(v[j], 0)) {
						v[j] = 3
					}
				}
				in[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, v)
			}
			want, err := interp.Run(m, in, interp.Options{})
			require.NoError(t, err, text)
			for name, x := range run(t, b, m, in) {
				got, exp := x.Float64s(), want[name].Float64s()
				for i := range exp {
					same := got[i] == exp[i] || math.IsNaN(got[i]) && math.IsNaN(exp[i]) || math.Abs(got[i]-exp[i]) <= 2e-6*math.Abs(exp[i])
					require.True(t, same, "%s\n%s[%d] is %v, want %v", text, name, i, got[i], exp[i])
				}
			}
		}
	})
}
