package mosaic_test

import (
	"fmt"
	"testing"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/stretchr/testify/require"
)

// windows holds a kernel with every form of block index: fixed, an axis, shifted and clamped, through a table; leading
// dimensions of 1; several axes; a sequential axis with scratch; an alias; a table read in the body; tensor-level work around it.
const windows = `module windows (%t: i32[3], %x: f32[64,128], %w: f32[8,128], %s: f32[4,8,128], %k: f32[4,8,128], %h: bf16[2,3,16,128]) -> (o, final, g) {
  %u = exp %w : f32[8,128]
  %0, %1 = kernel %t, %x, %x, %u, %s, %k {name=scan, dims=(b:2, c:3:seq), tables=1, in=([8,128]@(clamp(c-1,1),0), [16,128]@(clamp(c+1,2),0), [8,128]@(0,0), [1,8,128]@(b,0,0), [1,8,128]@(t0[c],0,0)), out=([8,128]@(c,b):f32[24,256], [1,8,128]@(b,0,0):f32[4,8,128]), scratch=(vmem:f32[8,128]), alias=(1=3)} (%tab: smem:i32[3], %a: vmem:f32[8,128], %n: vmem:f32[16,128], %m: vmem:f32[8,128], %s0: vmem:f32[1,8,128], %z: vmem:f32[1,8,128], %o: vmem:f32[8,128], %f: vmem:f32[1,8,128], %acc: vmem:f32[8,128]) {
    %c = program_id {axis=1} : i32[]
    %b = program_id {axis=0} : i32[]
    %zero = const {value=0} : i32[]
    %first = compare %c, %zero {cmp=eq} : bool[]
    when %first () {
      %k0 = load %m {starts=[0,0]} : f32[8,128]
      %k1 = load %s0 {starts=[0,0,0]} : f32[8,128]
      %k2 = add %k0, %k1 : f32[8,128]
      store %k2, %acc {starts=[0,0]} @init
      yield
    }
    %v = load %acc {starts=[0,0]} : f32[8,128]
    %p = load %a {starts=[0,0]} : f32[8,128]
    %q = load %n, %b, %zero {starts=[3,0]} : f32[8,128]
    %d = load %z {starts=[0,0,0]} : f32[8,128]
    %r = add %v, %p : f32[8,128] @state.c0.h1
    %e = add %r, %q : f32[8,128] @state.c0.h1
    %i = load %tab, %c {starts=[0]} : i32[]
    %j = convert %i : f32[]
    %l = broadcast %j {dims=[]} : f32[8,128]
    %y = mul %e, %l : f32[8,128]
    %g = add %y, %d : f32[8,128]
    store %g, %o {starts=[0,0]} @write
    store %e, %acc {starts=[0,0]} @state
    store %e, %f {starts=[0,0,0]} @write
    yield
  } : f32[24,256], f32[4,8,128]
  %2 = kernel %h {name=heads, dims=(i:2, j:3), in=([1,1,16,128]@(i,j,0,0)), out=([16,128]@(j,i):f32[48,256])} (%a2: vmem:bf16[1,1,16,128], %o2: vmem:f32[16,128]) {
    %v2 = load %a2 {starts=[0,0,0,0]} : bf16[16,128]
    %w2 = convert %v2 : f32[16,128]
    store %w2, %o2 {starts=[0,0]}
    yield
  } : f32[48,256]
  yield %0, %1, %2
}
`

func TestWindowsAgainstInterpreter(t *testing.T) {
	m := parse(t, windows)
	byName, list := inputs(m)
	list[0] = array.FromInt64s(list[0].Type, []int{3}, []int64{2, 0, 3})
	byName["t"] = list[0]
	want, err := interp.Run(m, byName, interp.Options{})
	require.NoError(t, err)
	a, err := mosaic.Backend{}.Emit(m, machine(t, "v6e"))
	require.NoError(t, err)
	require.Len(t, a.Kernels, 2)
	require.Equal(t, "scan", a.Kernels[0].Name)
	for _, by := range evaluators {
		t.Run(by.name, func(t *testing.T) {
			for i, got := range by.run(t, a.Text, list) {
				w := want[m.Results[i]]
				s := array.Compare(got, w)
				require.False(t, s.RelMax > 1e-6 || s.NaN, "%s: %s", m.Results[i], s)
			}
		})
	}
}

// Of a bounded axis as many points run as the last operand says, none for 0, which a call has before all others; the rest of the array keeps
// what the alias holds.
func TestBoundedAxis(t *testing.T) {
	m := parse(t, `module bounded (%t: i32[4], %x: f32[32,128], %n: i32[]) -> (y) {
  %0 = kernel %t, %x, %n {name=some, dims=(c:4:seq:bound), tables=1, in=([8,128]@(t0[c],0)), out=([8,128]@(t0[c],0):f32[32,128]), alias=(0=0)} (%tab: smem:i32[4], %a: vmem:f32[8,128], %o: vmem:f32[8,128]) {
    %v = load %a {starts=[0,0]} : f32[8,128]
    %w = add %v, %v : f32[8,128]
    store %w, %o {starts=[0,0]}
    yield
  } : f32[32,128]
  yield %0
}
`)
	byName, list := inputs(m)
	list[0] = array.FromInt64s(list[0].Type, []int{4}, []int64{2, 0, 3, 1})
	a, err := mosaic.Backend{}.Emit(m, machine(t, "v6e"))
	require.NoError(t, err)
	for _, n := range []int64{0, 1, 3, 4} {
		list[2] = array.FromInt64s(list[2].Type, nil, []int64{n})
		byName["t"], byName["n"] = list[0], list[2]
		want, err := interp.Run(m, byName, interp.Options{})
		require.NoError(t, err)
		x, y := list[1].Float64s(), want["y"].Float64s()
		for i, block := range list[0].Int64s() {
			times := 1.
			if int64(i) < n {
				times = 2
			}
			require.Equal(t, times*x[block*8*128], y[block*8*128], "%d of 4 points, point %d", n, i)
		}
		for _, by := range evaluators {
			t.Run(fmt.Sprint(by.name, n), func(t *testing.T) {
				require.Zero(t, array.Compare(by.run(t, a.Text, list)[0], want["y"]).RelMax)
			})
		}
	}
	for _, n := range []int64{-1, 5} {
		byName["n"] = array.FromInt64s(list[2].Type, nil, []int64{n})
		_, err = interp.Run(m, byName, interp.Options{})
		require.ErrorContains(t, err, "points of axis c run, of 4")
	}
}
