package interp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/stretchr/testify/require"
)

// A scan: o = q S per step, S halves after each; against the same in plain arithmetic.
func TestGridCarriesState(t *testing.T) {
	m, err := ir.Parse(`module scan (%q: f32[3,8,4], %s: f32[3,4,4]) -> (o, final) {
  %0, %1 = grid %q, %s {name=step, dims=(b:3, c:4:seq), in=([1,2,4]@(b,c,0)), out=([1,2,4]@(b,c,0):f32[3,8,4]), carry=([1,4,4]@(b,0,0))} (%2: f32[1,2,4], %3: f32[1,4,4]) {
    %4 = dot %2, %3 {lb=[0], rb=[0], lc=[2], rc=[1], prec=f32} : f32[1,2,4]
    %5 = const {value=0.5} : f32[1,4,4]
    %6 = mul %3, %5 : f32[1,4,4]
    yield %4, %6
  } : f32[3,8,4], f32[3,4,4]
  yield %0, %1
}`)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(7, 8))
	q, s := random(r, ir.F32, 3, 8, 4), random(r, ir.F32, 3, 4, 4)
	out := run(t, m, map[string]*array.Array{"q": q, "s": s})
	want := naiveDot(q, s, ir.DotDims{LB: []int{0}, RB: []int{0}, LC: []int{2}, RC: []int{1}})
	final := s.Float64s()
	for i := range want {
		want[i] *= math.Pow(.5, float64(i/4%8/2))
	}
	for i := range final {
		final[i] /= 16
	}
	require.InDeltaSlice(t, want, out["o"].Float64s(), 1e-6)
	require.InDeltaSlice(t, final, out["final"].Float64s(), 0)
}

// The carry window follows a table: runs of points share a block, block 1 is never visited and
// keeps its content, and the window is loaded anew when its index changes.
func TestGridTables(t *testing.T) {
	text := `module t (%a: i32[4], %b: f32[3], %c: f32[4]) -> (o) {
  %0, %1 = grid %a, %c, %b {name=g, dims=(i:4:seq), tables=1, in=([1]@(clamp(i+1,3))), out=([1]@(i):f32[4]), carry=([1]@(t0[i]))} (%x: f32[1], %s: f32[1]) {
    %2 = program_id {axis=0} : i32[]
    %3 = convert %2 : f32[]
    %4 = broadcast %3 {dims=[]} : f32[1]
    %5 = add %x, %4 : f32[1]
    %6 = add %s, %5 : f32[1]
    yield %6, %6
  } : f32[4], f32[3]
  %7 = concat %0, %1 {axis=0} : f32[7]
  yield %7
}`
	x := vec(ir.F32, 10, 20, 30, 40)
	got := eval(t, text, vec(ir.I32, 0, 0, 2, 2), vec(ir.F32, 100, 200, 300), x)
	require.Equal(t, []float64{120, 151, 342, 385, 151, 200, 385}, got.Float64s())
	_, err := tryEval(t, text, vec(ir.I32, 0, 0, 3, 2), vec(ir.F32, 100, 200, 300), x)
	require.ErrorContains(t, err, "carry 0: block 3 of 1 elements lies outside dimension 0 of [3] at point [2]")
	_, err = tryEval(t, text, vec(ir.I32, 0, -1, 0, 2), vec(ir.F32, 100, 200, 300), x)
	require.ErrorContains(t, err, "block -1")
}

func TestGridFaults(t *testing.T) {
	x := vec(ir.F32, 1, 2, 3, 4)
	for name, c := range map[string]struct{ attrs, want string }{
		"twice":     {"dims=(i:4), in=([1]@(i)), out=([1]@(clamp(i,2)):f32[4])", "writes a block that another point has written"},
		"missing":   {"dims=(i:3), in=([1]@(i)), out=([1]@(i):f32[4])", "3 of 4 blocks are written"},
		"one point": {"dims=(i:1), in=([1]@(i)), out=([1]@(i):f32[1])", ""},
	} {
		text := "module t (%a: f32[4]) -> (o) { %0 = grid %a {name=g, " + c.attrs + "} (%1: f32[1]) { yield %1 } : f32[4] yield %0 }"
		if c.want == "" {
			text = "module t (%a: f32[4]) -> (o) { %0 = grid %a {name=g, " + c.attrs + "} (%1: f32[1]) { yield %1 } : f32[1] yield %0 }"
			require.Equal(t, []float64{1}, eval(t, text, x).Float64s(), name)
			continue
		}
		_, err := tryEval(t, text, x)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := tryEval(t, `module t (%a: f32[4], %b: f32[1]) -> (o) {
  %0, %1 = grid %a, %b {name=g, dims=(i:4), in=([1]@(i)), out=([1]@(i):f32[4]), carry=([1]@(0))} (%2: f32[1], %3: f32[1]) { yield %2, %3 } : f32[4], f32[1]
  yield %0
}`, x, vec(ir.F32, 0))
	require.ErrorContains(t, err, "point [1] shares a block with one that differs in a parallel axis")
	_, err = tryEval(t, `module t (%a: i32[4], %b: f32[4,1]) -> (o) {
  %0 = grid %a, %b {name=g, dims=(i:4), in=([1]@(i), [4,1]@(0,0)), out=([1,1]@(i,0):f32[4,1])} (%1: i32[1], %2: f32[4,1]) {
    %3 = reshape %1 : i32[1,1]
    %4 = take %2, %3 {axis=0} : f32[1,1] @pick
    yield %4
  } : f32[4,1]
  yield %0
}`, vec(ir.I32, 0, 1, 2, 4), mat(ir.F32, 4, 1, 2, 3, 4))
	require.ErrorContains(t, err, "take @pick (line 4) at grid point (i=3): index 4 of 4")
}

// kernel wraps a body over one input window and one output window of 2 rows of 4 and some scratch.
func kernel(attrs, body string) string {
	return `module t (%a: f32[4,4]) -> (o) {
  %0 = kernel %a {name=k, dims=(i:2:seq), in=([2,4]@(i,0)), out=([2,4]@(i,0):f32[4,4]), ` + attrs + `} (%x: vmem:f32[2,4], %y: vmem:f32[2,4], %s: vmem:f32[2,4], %q: vmem:u32[2,4], %m: vmem:sem[]) {
    ` + body + `
    yield
  } : f32[4,4]
  yield %0
}`
}

const pieces = "scratch=(vmem:f32[2,4], vmem:u32[2,4], vmem:sem[])"

func TestKernel(t *testing.T) {
	x := array.FromFloat64s(ir.F32, []int{4, 4}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	// Scratch keeps a running sum over the points; the first point initialises it under when.
	got := eval(t, kernel(pieces, `%1 = program_id {axis=0} : i32[]
    %2 = const {value=0} : i32[]
    %3 = compare %1, %2 {cmp=eq} : bool[]
    when %3 () { %z = const {value=0} : f32[2,4] store %z, %s {starts=[0,0]} yield }
    %4 = load %x {starts=[0,0]} : f32[2,4]
    %5 = load %s {starts=[0,0]} : f32[2,4]
    %6 = add %4, %5 : f32[2,4]
    store %6, %s {starts=[0,0]}
    store %6, %y {starts=[0,0]}`), x)
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22}, got.Float64s())

	// Strided and dynamic access; what is not stored is NaN.
	got = eval(t, kernel(pieces, `%1 = program_id {axis=0} : i32[]
    %2 = const {value=0} : i32[]
    %4 = load %x, %1, %2 {starts=[0,0], strides=[1,2]} : f32[2]
    store %4, %y, %1, %2 {starts=[0,1], strides=[1,2]}`), x)
	nan := math.NaN()
	want := []float64{nan, 0, nan, 2, nan, nan, nan, nan, nan, nan, nan, nan, nan, 12, nan, 14}
	for i, w := range want {
		require.Equal(t, math.IsNaN(w), math.IsNaN(got.Float64s()[i]), i)
		if !math.IsNaN(w) {
			require.Equal(t, w, got.Float64s()[i])
		}
	}

	// Integer poison, and a copy.
	got = eval(t, kernel(pieces, `%1 = load %q {starts=[0,0]} : u32[2,4]
    %2 = convert %1 : f32[2,4]
    store %2, %y {starts=[0,0]}`), x)
	require.Equal(t, float64(float32(0x7EADBEEF)), got.Float64s()[5])
	got = eval(t, kernel(pieces, `dma_start %x, %s, %m
    %5 = load %s {starts=[0,0]} : f32[2,4]
    dma_wait %x, %s, %m
    %6 = load %s {starts=[0,0]} : f32[2,4]
    %7 = compare %5, %5 {cmp=ne} : bool[2,4]
    %8 = select %7, %6, %5 : f32[2,4]
    store %8, %y {starts=[0,0]}`), x)
	require.Equal(t, x.Data, got.Data)
}

func TestKernelFaults(t *testing.T) {
	x := array.New(ir.F32, 4, 4)
	for body, want := range map[string]string{
		`dma_wait %x, %s, %m`:  "no copy of these operands was started",
		`dma_start %x, %s, %m`: "busy with a copy",
		`dma_start %s, %s, %m`: "same memory",
		`dma_start %s, %x, %m`: "target: an input window is read only",
		`%1 = load %x {starts=[0,0]} : f32[2,4] store %1, %x {starts=[0,0]}`: "an input window is read only",
		`dma_start %s, %y, %m
		 %1 = const {value=1} : f32[2,4]
		 store %1, %s {starts=[0,0]}
		 dma_wait %s, %y, %m`: "the source changed between start and wait",
		`dma_start %x, %y, %m
		 %1 = const {value=1} : f32[2,4]
		 store %1, %y {starts=[0,0]}
		 dma_wait %x, %y, %m`: "the target was written between start and wait",
		`%1 = const {value=1} : i32[]
		 %2 = load %x, %1, %1 {starts=[0,0]} : f32[2,2] @leaf`: "load @leaf (line 4) at grid point (i=0): elements 1 to 2 of dimension 0 are outside vmem:f32[2,4]",
		`%1 = const {value=-1} : i32[]
		 %2 = load %x, %1, %1 {starts=[0,0]} : f32[1,1]`: "elements -1 to -1",
	} {
		_, err := tryEval(t, kernel(pieces, body), x)
		require.ErrorContains(t, err, want, body)
	}
	_, err := tryEval(t, kernel(pieces, `%1 = program_id {axis=0} : i32[]
    %2 = const {value=1} : i32[]
    %3 = compare %1, %2 {cmp=eq} : bool[]
    when %3 () { dma_start %x, %s, %m yield }`), x)
	require.ErrorContains(t, err, "1 copies were started and not waited for, the first by dma_start")
}

func TestRefCast(t *testing.T) {
	text := `module t (%a: bf16[2,4,2]) -> (o) {
  %0 = kernel %a {name=k, dims=(), in=([2,4,2]@(0,0,0)), out=([4,2]@(0,0):u32[4,2]), scratch=(vmem:u32[2,2,2])} (%x: vmem:bf16[2,4,2], %y: vmem:u32[4,2], %s: vmem:u32[2,2,2]) {
    %1 = refcast %x : vmem:u32[4,2]
    %2 = load %1 {starts=[0,0]} : u32[4,2]
    %3 = refcast %s : vmem:bf16[8,2]
    %4 = refcast %x : vmem:bf16[8,2]
    %5 = load %4 {starts=[0,0]} : bf16[8,2]
    store %5, %3 {starts=[0,0]}
    %6 = refcast %s : vmem:u32[4,2]
    %7 = load %6 {starts=[0,0]} : u32[4,2]
    %8 = sub %7, %2 : u32[4,2]
    %9 = add %8, %2 : u32[4,2]
    store %9, %y {starts=[0,0]}
    yield
  } : u32[4,2]
  yield %0
}`
	x := random(rand.New(rand.NewPCG(9, 9)), ir.BF16, 2, 4, 2)
	want := eval(t, "module t (%a: bf16[2,4,2]) -> (o) { %1 = words %a : u32[2,2,2] %2 = reshape %1 : u32[4,2] yield %2 }", x)
	require.Equal(t, want.Data, eval(t, text, x).Data)
}

// Blocks of an aliased output that no point visits keep the input's content; others are undefined.
// A window of an output that stays where it is keeps what was stored.
func TestKernelAliasAndRevisit(t *testing.T) {
	text := func(attrs string) string {
		return `module t (%a: f32[3]) -> (o) {
  %0 = kernel %a {name=k, dims=(i:2:seq), in=([1]@(i)), out=([1]@(clamp(i,0)):f32[3])` + attrs + `} (%x: vmem:f32[1], %y: vmem:f32[1]) {
    %1 = program_id {axis=0} : i32[]
    %2 = const {value=0} : i32[]
    %3 = compare %1, %2 {cmp=eq} : bool[]
    when %3 () { %4 = const {value=7} : f32[1] store %4, %y {starts=[0]} yield }
    yield
  } : f32[3]
  yield %0
}`
	}
	x := vec(ir.F32, 1, 2, 3)
	require.Equal(t, []float64{7, 2, 3}, eval(t, text(", alias=(0=0)"), x).Float64s())
	got := eval(t, text(""), x).Float64s()
	require.Equal(t, 7., got[0])
	require.True(t, math.IsNaN(got[1]) && math.IsNaN(got[2]))

	_, err := tryEval(t, `module t (%a: f32[2]) -> (o) {
  %0 = kernel %a {name=k, dims=(i:2:seq), in=([1]@(clamp(i-1,1))), out=([1]@(i):f32[2]), alias=(0=0)} (%x: vmem:f32[1], %y: vmem:f32[1]) {
    %1 = load %x {starts=[0]} : f32[1]
    store %1, %y {starts=[0]}
    yield
  } : f32[2]
  yield %0
}`, vec(ir.F32, 1, 2))
	require.NoError(t, err, "the input window stays: nothing is read after it was overwritten")
	_, err = tryEval(t, `module t (%a: f32[3]) -> (o) {
  %0 = kernel %a {name=k, dims=(i:3:seq), in=([1]@(clamp(i-1,2))), out=([1]@(i):f32[3]), alias=(0=0)} (%x: vmem:f32[1], %y: vmem:f32[1]) {
    yield
  } : f32[3]
  yield %0
}`, vec(ir.F32, 1, 2, 3))
	require.ErrorContains(t, err, "at point [2] input 0 reads a block that an output, its alias, has overwritten")
}

// A grid gives the same bits whatever the number of processors; sums depend on the program alone.
func TestRunsAreReproducible(t *testing.T) {
	m := build(t, func(b *ir.Builder) []*ir.Value {
		x, y := b.Param("x", ir.T(ir.F32, 4, 130, 64)), b.Param("y", ir.T(ir.F32, 4, 64, 50))
		return []*ir.Value{b.MatMul(x, y, false, false, ir.PrecBF16x6)}
	})
	r := rand.New(rand.NewPCG(1, 2))
	args := map[string]*array.Array{"x": random(r, ir.F32, 4, 130, 64), "y": random(r, ir.F32, 4, 64, 50)}
	require.Equal(t, run(t, m, args)["r0"].Data, run(t, m, args)["r0"].Data)
}
