package plain_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/plain"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// batchCases are modules whose grids are batched; tables give the i32 parameters.
var batchCases = []struct {
	name   string
	tables map[string][]int64
	text   string
}{
	{"scan", nil, `module scan (%q: f32[2,12,3,4], %v: f32[2,12,3,5], %s: f32[2,3,4,5]) -> (o, final) {
  %0, %1 = grid %q, %v, %s {name=scan, dims=(b:2, h:3, c:4:seq), in=([1,3,1,4]@(b,c,h,0), [1,3,1,5]@(b,c,h,0)), out=([1,3,1,5]@(b,c,h,0):f32[2,12,3,5]), carry=([1,1,4,5]@(b,h,0,0))} (%2: f32[1,3,1,4], %3: f32[1,3,1,5], %4: f32[1,1,4,5]) {
    %5 = reshape %2 : f32[3,4]
    %6 = reshape %3 : f32[3,5]
    %7 = reshape %4 : f32[4,5]
    %8 = dot %5, %7 {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[3,5]
    %9 = sub %6, %8 : f32[3,5]
    %10 = dot %5, %9 {lb=[], rb=[], lc=[0], rc=[0], prec=bf16x3} : f32[4,5]
    %11 = const {value=0.25} : f32[4,5]
    %12 = mul %10, %11 : f32[4,5]
    %13 = add %7, %12 : f32[4,5]
    %14 = reshape %9 : f32[1,3,1,5]
    %15 = reshape %13 : f32[1,1,4,5]
    yield %14, %15
  } : f32[2,12,3,5], f32[2,3,4,5]
  yield %0, %1
}`},
	// Five chunks of four sequences, of which one has none; the third is visited twice.
	{"sequences", map[string][]int64{"t": {2, 2, 0, 3, 2}}, `module sequences (%t: i32[5], %x: f32[2,10], %s: f32[4,2,3]) -> (o, final, last) {
  %0, %1, %2 = grid %t, %x, %s, %s {name=v, dims=(h:2, c:5:seq), tables=1, in=([1,2]@(h,c)), out=([1,2]@(h,c):f32[2,10]), carry=([1,1,3]@(t0[c],h,0), [1,1,3]@(3,h,0))} (%3: f32[1,2], %4: f32[1,1,3], %5: f32[1,1,3]) {
    %6 = reduce_sum %3 {dims=[1]} : f32[1]
    %7 = broadcast %6 {dims=[0]} : f32[1,1,3]
    %8 = add %4, %7 : f32[1,1,3]
    %9 = reduce_max %8 {dims=[1,2]} : f32[1]
    %10 = broadcast %9 {dims=[0]} : f32[1,2]
    %11 = mul %5, %8 : f32[1,1,3]
    yield %10, %8, %11
  } : f32[2,10], f32[4,2,3], f32[4,2,3]
  yield %0, %1, %2
}`},
	{"shifted", nil, `module shifted (%x: f32[3,8], %s: f32[3,8]) -> (o, final) {
  %0, %1 = grid %x, %x, %x, %x, %s {name=v, dims=(h:3, c:4:seq), in=([1,2]@(h,c-1), [1,2]@(h,clamp(c+1,3)), [1,2]@(clamp(h+1,2),c), [1,2]@(h-1,2)), out=([1,2]@(h,c):f32[3,8]), carry=([1,2]@(h,clamp(c-1,1)))} (%2: f32[1,2], %3: f32[1,2], %4: f32[1,2], %5: f32[1,2], %6: f32[1,2]) {
    %7 = sub %2, %3 : f32[1,2]
    %8 = mul %4, %5 : f32[1,2]
    %9 = add %7, %8 : f32[1,2]
    %10 = sub %6, %9 : f32[1,2]
    yield %9, %10
  } : f32[3,8], f32[3,8]
  yield %0, %1
}`},
	// Without a sequential axis; blocks picked and placed by tables, some left alone.
	{"picked", map[string][]int64{"t": {2, 0, 1}, "u": {4, 1, 3}}, `module picked (%t: i32[3], %u: i32[3], %x: f32[6,2], %s: f32[5,4]) -> (o, final) {
  %0, %1 = grid %t, %u, %x, %s {name=v, dims=(b:3, one:1, j:2), tables=2, in=([2,1]@(t0[b],j)), out=([1,2,1]@(t0[b],j,0):f32[3,4,1]), carry=([1,2]@(t1[b],j))} (%3: f32[2,1], %4: f32[1,2]) {
    %6 = reshape %3 : f32[1,2,1]
    %7 = program_id {axis=0} : i32[]
    %8 = program_id {axis=2} : i32[]
    %9 = program_id {axis=1} : i32[]
    %10 = add %7, %9 : i32[]
    %11 = mul %10, %8 : i32[]
    %12 = convert %11 : f32[]
    %13 = broadcast %12 {dims=[]} : f32[1,2]
    %14 = reshape %3 : f32[1,2]
    %15 = sub %4, %14 : f32[1,2]
    %16 = add %15, %13 : f32[1,2]
    yield %6, %16
  } : f32[3,4,1], f32[5,4]
  yield %0, %1
}`},
	{"single", map[string][]int64{"t": {1}}, `module single (%t: i32[1], %x: f32[4], %s: f32[3,2]) -> (o, final) {
  %0, %1 = grid %t, %x, %s {name=v, dims=(c:1:seq), tables=1, in=([2]@(c)), out=([2]@(c):f32[2]), carry=([1,2]@(t0[c],0))} (%2: f32[2], %3: f32[1,2]) {
    %4 = reshape %2 : f32[1,2]
    %5 = add %3, %4 : f32[1,2]
    yield %2, %5
  } : f32[2], f32[3,2]
  yield %0, %1
}`},
	// A pool's states, two a step, by entries of a table that are known: the only step has the id 0. State 2 keeps what it has.
	{"pool", map[string][]int64{"t": {3, 1, 0}}, `module pool (%t: i32[3], %s: f32[4,2]) -> (final) {
  %0 = grid %t, %s, %s {name=v, dims=(h:2, c:1:seq), tables=1, in=([1,1]@(t0[c],h), [1,1]@(t0[plus(1,c)],h)), out=([1,1]@(t0[c],h):f32[4,2], [1,1]@(t0[plus(1,c)],h):f32[4,2]), into=[0,0], alias=(0=0)} (%1: f32[1,1], %2: f32[1,1]) {
    %3 = add %1, %1 : f32[1,1]
    %4 = mul %2, %2 : f32[1,1]
    yield %3, %4
  } : f32[4,2]
  yield %0
}`},
	{"nested", nil, `module nested (%x: f32[4,6]) -> (o) {
  %0 = grid %x {name=outer, dims=(i:2), in=([2,6]@(i,0)), out=([2,6]@(i,0):f32[4,6])} (%1: f32[2,6]) {
    %2 = program_id {axis=0} : i32[]
    %3 = convert %2 : f32[]
    %4 = grid %1 {name=inner, dims=(r:2, c:3:seq), in=([1,2]@(r,c)), out=([1,2]@(r,c):f32[2,6])} (%5: f32[1,2]) {
      %6 = program_id {axis=1} : i32[]
      %7 = convert %6 : f32[]
      %8 = add %7, %3 : f32[]
      %9 = broadcast %8 {dims=[]} : f32[1,2]
      %10 = mul %5, %9 : f32[1,2]
      yield %10
    } : f32[2,6]
    yield %4
  } : f32[4,6]
  yield %0
}`},
	// Every kind of op, over values that depend on no axis, on either and on both.
	{"ops", nil, `module ops (%x: f32[2,4,6], %y: f32[3,6,4], %i: i32[2,3], %w: f32[5,4]) -> (o, p, r) {
  %0, %1, %2 = grid %x, %y, %i {name=v, dims=(a:2, b:3), in=([1,4,6]@(a,0,0), [1,6,4]@(b,0,0), [1,1]@(a,b)), out=([1,1,4,4]@(a,b,0,0):f32[2,3,4,4], [1,1,4,6]@(a,b,0,0):f32[2,3,4,6], [1,1,7]@(a,b,0):f32[2,3,7])} (%3: f32[1,4,6], %4: f32[1,6,4], %5: i32[1,1]) {
    %6 = reshape %3 : f32[4,6]
    %7 = reshape %4 : f32[6,4]
    %8 = dot %6, %7 {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[4,4]
    %9 = dot %7, %6 {lb=[1], rb=[0], lc=[], rc=[], prec=f32} : f32[4,6,6]
    %10 = dot %w, %8 {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[5,4]
    %11 = dot %8, %w {lb=[], rb=[], lc=[1], rc=[1], prec=bf16x1} : f32[4,5]
    %12 = transpose %11 {dims=[1,0]} : f32[5,4]
    %13 = add %10, %12 : f32[5,4]
    %14 = reshape %5 : i32[]
    %15 = const {value=0} : i32[]
    %16 = const {value=1} : i32[]
    %17 = dyn_slice %13, %14, %15 : f32[2,4]
    %18 = dyn_slice %w, %14, %16 : f32[2,3]
    %19 = pad %18 {value=2, starts=[1,0], limits=[1,1]} : f32[4,4]
    %20 = dyn_update %19, %17, %14, %15 : f32[4,4]
    %21 = dyn_update %8, %18, %15, %16 : f32[4,4]
    %22 = program_id {axis=0} : i32[]
    %23 = compare %22, %15 {cmp=eq} : bool[]
    %24 = select %23, %20, %21 : f32[4,4]
    %25 = iota {axis=0} : i32[4]
    %26 = broadcast %14 {dims=[]} : i32[4]
    %27 = add %25, %26 : i32[4]
    %28 = gather_rows %7, %27 {axis=0} : f32[4,4]
    %29 = gather_rows %24, %25 {axis=1} : f32[4,4]
    %30 = add %28, %29 : f32[4,4]
    %31 = broadcast %25 {dims=[1]} : i32[4,4]
    %32 = take %30, %31 {axis=1} : f32[4,4]
    %33 = cumsum %32 {axis=0} : f32[4,4]
    %34 = const {value=0} : f32[4,4]
    %35, %36 = loop %34, %14 {count=3} (%37: i32[], %38: f32[4,4], %39: i32[]) {
      %40 = convert %37 : f32[]
      %41 = broadcast %40 {dims=[]} : f32[4,4]
      %42 = mul %41, %33 : f32[4,4]
      %43 = add %38, %42 : f32[4,4]
      %44 = loop %43 {count=2} (%45: i32[], %46: f32[4,4]) {
        %47 = program_id {axis=1} : i32[]
        %48 = add %47, %45 : i32[]
        %49 = convert %48 : f32[]
        %50 = broadcast %49 {dims=[]} : f32[4,4]
        %51 = sub %46, %50 : f32[4,4]
        yield %51
      } : f32[4,4]
      %52 = add %39, %16 : i32[]
      yield %44, %52
    } : f32[4,4], i32[]
    %53 = concat %35, %11 {axis=1} : f32[4,9]
    %54 = slice %53 {starts=[0,1], limits=[4,8], strides=[1,2]} : f32[4,4]
    %55 = reduce_sum %9 {dims=[0]} : f32[6,6]
    %56 = slice %55 {starts=[1,0], limits=[5,6]} : f32[4,6]
    %57 = convert %56 : bf16[4,6]
    %58 = words %57 : u32[2,6]
    %59 = halves %58 : bf16[4,6]
    %60 = convert %59 : f32[4,6]
    %61 = pack %60, %6 : u32[4,6]
    %62 = convert %61 : f32[4,6]
    %63 = reshape %54 : f32[1,1,4,4]
    %64 = reshape %62 : f32[1,1,4,6]
    %65 = convert %36 : f32[]
    %66 = broadcast %65 {dims=[]} : f32[1,1,7]
    yield %63, %64, %66
  } : f32[2,3,4,4], f32[2,3,4,6], f32[2,3,7]
  yield %0, %1, %2
}`},
}

// testArgs makes an argument for every parameter: the given tables, small indices for other i32, else numbers near 1.
func testArgs(m *ir.Module, tables map[string][]int64) map[string]*array.Array {
	r := rand.New(rand.NewPCG(1, 2))
	args := map[string]*array.Array{}
	for _, p := range m.Params() {
		if t, ok := tables[p.Name]; ok {
			args[p.Name] = array.FromInt64s(p.Type.DType, p.Type.Shape, t)
			continue
		}
		v := make([]float64, p.Type.Size())
		for i := range v {
			v[i] = r.NormFloat64()
			if p.Type.DType.IsInt() {
				v[i] = float64(r.IntN(5))
			}
		}
		args[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, v)
	}
	return args
}

func TestBatch(t *testing.T) {
	for _, c := range batchCases {
		t.Run(c.name, func(t *testing.T) {
			m, err := ir.Parse(c.text)
			require.NoError(t, err)
			before := m.String()
			n, err := plain.Batch(m)
			require.NoError(t, err)
			require.Equal(t, before, m.String())
			require.NotContains(t, n.String(), " grid ")
			require.NotContains(t, n.String(), "program_id")
			args := testArgs(m, c.tables)
			want, err := interp.Run(m, args, interp.Options{})
			require.NoError(t, err)
			got, err := interp.Run(n, args, interp.Options{})
			require.NoError(t, err)
			for name, w := range want {
				require.Equal(t, w.Float64s(), got[name].Float64s(), "%s\n%s", name, n)
			}
		})
	}
}

func TestBatchRefuses(t *testing.T) {
	for name, c := range map[string]struct{ window, want string }{
		"shared": {"[1,2]@(0,j)", "points along the parallel axis i write the same block"},
		"twice":  {"[1,2]@(j,j)", "two dimensions of the window follow the parallel axis j"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ir.Parse(`module m (%x: f32[2,4]) -> (o) {
  %0 = grid %x {name=g, dims=(i:2, j:2), carry=(` + c.window + `)} (%1: f32[1,2]) {
    %2 = program_id {axis=0} : i32[]
    %3 = convert %2 : f32[]
    %4 = broadcast %3 {dims=[]} : f32[1,2]
    %5 = add %4, %1 : f32[1,2]
    yield %5
  } : f32[2,4]
  yield %0
}`)
			require.NoError(t, err)
			_, err = plain.Batch(m)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestBatchRulesAreTotal(t *testing.T) {
	for op := ir.BadOp; op < ir.NumOps; op++ {
		require.True(t, plain.Batches(op), "no rule for %s", op)
	}
}
