package tpu_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/stretchr/testify/require"
)

// movers builds a grid that uses every way in which elements move between tiles: token-major bf16
// windows, rows and columns of gates, blocks of rows, a transpose through scratch, reductions, a
// loop, and token-major bf16 results.
func movers(t *testing.T) *ir.Module {
	const B, T, H, C, D = 2, 64, 4, 32, 32
	m, b := ir.NewModule("movers")
	q := b.Param("q", ir.T(ir.BF16, B, T*H, D))
	g := b.Param("g", ir.T(ir.F32, B, T/C, H, C))
	s0 := b.Param("s0", ir.T(ir.F32, B, H, D, D))
	grid := &ir.Grid{
		Name: "movers", Dims: []ir.GridDim{{Name: "b", Size: B}, {Name: "c", Size: T / C, Seq: true}},
		In: []ir.Window{
			{Block: []int{1, C * H, D}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1), ir.IndexConst(0)}},
			{Block: []int{1, 1, H, C}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1), ir.IndexConst(0), ir.IndexConst(0)}},
		},
		Out: []ir.Window{
			{Block: []int{1, C * H, D}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1), ir.IndexConst(0)}},
			{Block: []int{1, 1, H, C}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexAxis(1), ir.IndexConst(0), ir.IndexConst(0)}},
		},
		Outs:  []ir.Type{ir.T(ir.BF16, B, T*H, D), ir.T(ir.F32, B, T/C, H, C)},
		Carry: []ir.Window{{Block: []int{1, H, D, D}, Index: []ir.Index{ir.IndexAxis(0), ir.IndexConst(0), ir.IndexConst(0), ir.IndexConst(0)}}},
	}
	rs := b.Grid(grid, []*ir.Value{q, g, s0}, func(b *ir.Builder, in, carried []*ir.Value) (outs, next []*ir.Value) {
		b.Stage("work")
		q := b.Convert(b.Transpose(b.Reshape(in[0], C, H, D), 1, 0, 2), ir.F32) // [H,C,D]
		g := b.Reshape(in[1], H, C)
		s := b.Reshape(carried[0], H, D, D)
		col := b.Broadcast(g, []int{H, C, D}, 0, 1)
		row := b.Broadcast(g, []int{H, D, C}, 0, 2)
		last := b.Broadcast(b.SliceAxis(g, 1, C-1, C), []int{H, D, D}, 0, 1)
		x := b.Mul(q, col)
		kk := b.MatMul(x, q, false, true, ir.PrecF32) // [H,C,C]
		kk = b.Add(kk, b.Transpose(kk, 0, 2, 1))
		kk = b.Mul(kk, b.SliceAxis(row, 1, 0, C))
		blocks := b.Reshape(kk, H, C/8, 8, C)
		packed := b.Sum(blocks, 1)             // [H,8,C]
		turned := b.Transpose(packed, 1, 0, 2) // [8,H,C]
		one := b.Reshape(b.SliceAxis(turned, 0, 3, 4), H, C)
		mask := b.Compare(ir.LT, b.Iota(ir.T(ir.I32, H, C), 1), b.Const(ir.T(ir.I32, H, C), 7))
		one = b.Select(mask, one, b.Scale(one, 2))
		back := b.Transpose(b.Concat(0, b.Reshape(one, 1, H, C), b.SliceAxis(turned, 0, 1, 8)), 1, 0, 2) // [H,8,C]
		big := b.Reshape(b.Broadcast(back, []int{H, C / 8, 8, C}, 0, 2, 3), H, C, C)
		norm := b.Sum(b.Mul(q, q), 2) // [H,C]
		big = b.Mul(big, b.Broadcast(b.Unary(ir.OpLogistic, norm), []int{H, C, C}, 0, 1))
		y := b.MatMul(big, q, false, false, ir.PrecF32)
		y = b.Add(y, b.MatMul(q, s, false, false, ir.PrecBF16x1))
		rows := b.Loop(3, []*ir.Value{y}, func(b *ir.Builder, i *ir.Value, c []*ir.Value) []*ir.Value {
			z := b.Const(ir.T(ir.I32), 0)
			r := b.Append(ir.OpDynSlice, []*ir.Value{q, z, i, z}, ir.Attrs{}, nil, ir.T(ir.F32, H, 1, D))[0]
			return []*ir.Value{b.Add(c[0], b.Broadcast(r, []int{H, C, D}, 0, 1, 2))}
		})
		y = b.Convert(rows[0], ir.BF16)
		sNext := b.Add(b.Mul(s, last), b.MatMul(q, x, true, false, ir.PrecF32))
		o := b.Reshape(b.Transpose(y, 1, 0, 2), 1, C*H, D)
		return []*ir.Value{o, b.Reshape(b.Add(one, norm), 1, 1, H, C)}, []*ir.Value{b.Reshape(sNext, 1, H, D, D)}
	})
	require.NoError(t, b.Finish(m, []string{"o", "w", "s"}, rs))
	return m
}

func TestTile(t *testing.T) {
	m := movers(t)
	k, err := tpu.Tile(m)
	require.NoError(t, err)
	require.NoError(t, k.Verify())
	back, err := ir.Parse(k.String())
	require.NoError(t, err)
	require.Equal(t, k.String(), back.String())
	args := randomArgs(m, 1)
	want, err := interp.Run(m, args, interp.Options{})
	require.NoError(t, err)
	got, err := interp.Run(k, args, interp.Options{})
	require.NoError(t, err)
	for name := range want {
		require.LessOrEqual(t, array.Compare(got[name], want[name]).RelMax, 1e-6, name)
	}
}

// randomArgs makes normal inputs for a module.
func randomArgs(m *ir.Module, seed uint64) map[string]*array.Array {
	r := rand.New(rand.NewPCG(seed, 7))
	args := map[string]*array.Array{}
	for _, p := range m.Params() {
		v := make([]float64, p.Type.Size())
		for i := range v {
			v[i] = r.NormFloat64()
		}
		args[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, v)
	}
	return args
}

// Several windows of a step that write to one array, some of them nothing, and a carried block that
// is written at the end: the same as plain ops, and as a kernel that copies its blocks itself and
// loads nothing that it does not read.
func TestSeveralWindowsOfAnArray(t *testing.T) {
	text := `module t (%t: i32[13], %x: f32[8,8,128]) -> (o, p) {
  %z = const {value=0} : f32[1,8,128]
  %o, %p, %s = grid %t, %x, %x, %z {name=g, dims=(h:1, c:4:seq), tables=1, in=([1,8,128]@(c,0,0), [1,8,128]@(plus(4,c),0,0)),
    out=([1,8,128]@(t0[plus(1,c)],h,0):f32[7,8,128], [8,128]@(t0[plus(9,c)],0):f32[32,128], [1,8,128]@(t0[plus(5,c)],0,0):f32[7,8,128], [1,8,128]@(t0[plus(9,c)],0,0):f32[7,8,128]), into=[0,1,0,0],
    carry=([1,8,128]@(0,0,0)), steps=1, lags=[0], lock=1, live=1} (%a: f32[1,8,128], %b: f32[1,8,128], %c: f32[1,8,128]) {
    %d = add %c, %a : f32[1,8,128]
    %e = mul %d, %b : f32[1,8,128]
    %f = reshape %e : f32[8,128]
    %g = reshape %d : f32[8,128]
    yield %e, %f, %d, %d, %d
  } : f32[7,8,128], f32[32,128], f32[1,8,128]
  yield %o, %p
}`
	m, err := ir.Parse(text)
	require.NoError(t, err)
	values := make([]float64, 8*8*128)
	for i := range values {
		values[i] = float64(i%13) / 8
	}
	x := array.FromFloat64s(ir.F32, []int{8, 8, 128}, values)
	// The steps that run, all of them; then the blocks that windows write.
	table := []int64{4, 5, -1, -1, 5, 4, -1, 6, -1, 3, 0, 1, 2}
	in := map[string]*array.Array{"t": array.FromInt64s(ir.I32, []int{13}, table), "x": x}
	want, err := interp.Run(m, in, interp.Options{})
	require.NoError(t, err)
	for _, names := range [][]string{{"batch"}, {"tile"}, {"tile", "pipeline"}} {
		n, err := pass.Apply(m, names...)
		require.NoError(t, err, names)
		read := map[*ir.Value]bool{}
		n.Body.Walk(func(in *ir.Instr) {
			for _, a := range in.Args {
				read[a] = true
			}
		})
		n.Body.Walk(func(in *ir.Instr) {
			require.False(t, in.Op == ir.OpLoad && !read[in.Result()], "%s: a load at %q that nothing reads", names, in.Task)
		})
		p, err := ir.Parse(n.String())
		require.NoError(t, err, names)
		got, err := interp.Run(p, in, interp.Options{})
		require.NoError(t, err, names)
		require.Equal(t, want, got, names)
	}
}

// Blocks that a table numbers, two a step, fetched by the kernel from an operand that both write
// back to; -1 shows zeros and writes nothing.
func TestCopies(t *testing.T) {
	m, err := ir.Parse(`module t (%t: i32[6], %f: i32[6], %x: f32[6,16,128]) -> (o, p) {
  %p, %o = grid %t, %f, %x, %x {name=g, dims=(c:3:seq), tables=2, in=([1,16,128]@(t1[c],0,0), [1,16,128]@(t1[plus(3,c)],0,0)),
    out=([1,8,128]@(c,0,0):f32[3,8,128], [1,16,128]@(t0[c],0,0):f32[6,16,128], [1,16,128]@(t0[plus(3,c)],0,0):f32[6,16,128]), into=[0,1,1], copies=1, alias=(1=0)} (%a: f32[1,16,128], %b: f32[1,16,128]) {
    %c = slice %a {starts=[0,8,0], limits=[1,16,128], strides=[1,1,1]} : f32[1,8,128]
    %d = slice %b {starts=[0,0,0], limits=[1,8,128], strides=[1,1,1]} : f32[1,8,128]
    %e = sub %c, %d : f32[1,8,128]
    %g = exp %a : f32[1,16,128]
    %h = add %b, %b : f32[1,16,128]
    yield %e, %g, %h
  } : f32[3,8,128], f32[6,16,128]
  yield %o, %p
}`)
	require.NoError(t, err)
	in := randomArgs(m, 1)
	x := in["x"].Float64s()
	for name, tables := range map[string][2][]int64{
		"each its own": {{0, 3, 5, 1, 2, 4}, {0, 3, 5, 1, 2, 4}},
		"some none":    {{0, -1, -1, 5, 4, -1}, {-1, -1, 3, 5, 1, -1}},
		"one for all":  {{0, 1, 2, 3, 4, -1}, {5, 5, 5, 5, 5, 5}},
	} {
		in["t"], in["f"] = array.FromInt64s(ir.I32, []int{6}, tables[0]), array.FromInt64s(ir.I32, []int{6}, tables[1])
		want, err := interp.Run(m, in, interp.Options{})
		require.NoError(t, err, name)
		o, p := want["o"].Float64s(), want["p"].Float64s()
		const block = 16 * 128
		for c := range 3 {
			from := func(i, at int) float64 {
				if n := tables[1][i]; n >= 0 {
					return x[int(n)*block+at]
				}
				return 0
			}
			require.InDelta(t, from(c, 8*128+5)-from(3+c, 5), p[c*8*128+5], 1e-6, name)
			if to := tables[0][c]; to >= 0 {
				require.InDelta(t, math.Exp(from(c, 77)), o[int(to)*block+77], 1e-5, name)
			}
			if to := tables[0][3+c]; to >= 0 {
				require.InDelta(t, 2*from(3+c, 77), o[int(to)*block+77], 1e-6, name)
			}
		}
		for _, names := range [][]string{{"batch"}, {"tile"}, {"tile", "pipeline"}} {
			n, err := pass.Apply(m, names...)
			require.NoError(t, err, names)
			q, err := ir.Parse(n.String())
			require.NoError(t, err, names)
			got, err := interp.Run(q, in, interp.Options{})
			require.NoError(t, err, names)
			for _, result := range []string{"o", "p"} {
				require.LessOrEqual(t, array.Compare(got[result], want[result]).RelMax, 1e-6, "%s: %s by %v", name, result, names)
			}
		}
	}
}

// A table says how many points run of a kernel that fetches ahead: one, as many as are fetched, or all. Those behind them fetch nothing and write nothing.
func TestCopiesOfSome(t *testing.T) {
	m, err := ir.Parse(`module t (%t: i32[7], %live: i32[1], %x: f32[8,8,128]) -> (o) {
  %o = grid %t, %live, %x {name=g, dims=(c:7:seq), tables=2, in=([1,8,128]@(t0[c],0,0)), out=([1,8,128]@(t0[c],0,0):f32[8,8,128]), into=[0], copies=2, live=2, alias=(0=0)} (%a: f32[1,8,128]) {
    %b = add %a, %a : f32[1,8,128]
    yield %b
  } : f32[8,8,128]
  yield %o
}`)
	require.NoError(t, err)
	n, err := pass.Apply(m, "tile", "pipeline")
	require.NoError(t, err)
	in := randomArgs(m, 1)
	x, table := in["x"].Float64s(), []int64{3, -1, 0, 7, 9, 1, 5}
	in["t"] = array.FromInt64s(ir.I32, []int{7}, table)
	for live := range 8 {
		if live == 0 {
			continue
		}
		in["live"] = array.FromInt64s(ir.I32, []int{1}, []int64{int64(live)})
		got, err := interp.Run(n, in, interp.Options{})
		require.NoError(t, err, live)
		for i, y := range got["o"].Float64s() {
			want := x[i]
			if slices.Contains(table[:live], int64(i/(8*128))) {
				want *= 2
			}
			require.InDelta(t, want, y, 1e-6, "%d points: element %d", live, i)
		}
	}
}

// An array that several windows write to is an alias of an input whose blocks are read before they
// are written: those that nothing writes keep what the input has there, whether windows show it or
// the kernel fetches it.
func TestSeveralWindowsOfAnAlias(t *testing.T) {
	text := func(sched string) string {
		return `module t (%t: i32[13], %x: f32[6,8,128]) -> (o) {
  %o = grid %t, %x {name=g, dims=(c:4:seq), tables=1, in=([1,8,128]@(t0[plus(1,c)],0,0)),
    out=([1,8,128]@(t0[plus(5,c)],0,0):f32[6,8,128], [1,8,128]@(t0[plus(9,c)],0,0):f32[6,8,128]), into=[0,0], steps=1, lags=[0, 1], lock=1, live=1` + sched + `, alias=(0=0)} (%a: f32[1,8,128]) {
    %b = add %a, %a : f32[1,8,128]
    %c = mul %a, %b : f32[1,8,128]
    yield %b, %c
  } : f32[6,8,128]
  yield %o
}`
	}
	for sched, fault := range map[string]string{"": "reads a block that an output, its alias, has overwritten", ", fetch=1": "busy with a copy"} {
		m, err := ir.Parse(text(sched))
		require.NoError(t, err)
		in := randomArgs(m, 1)
		// The steps that run, all of them; the blocks that they read; those that they write.
		in["t"] = array.FromInt64s(ir.I32, []int{13}, []int64{4, 0, 3, 1, 5, 0, -1, 1, 4, -1, 0, -1, 3})
		want, err := interp.Run(m, in, interp.Options{})
		require.NoError(t, err)
		block := func(x *array.Array, i int) []float64 { return x.Float64s()[i*1024 : (i+1)*1024] }
		for i := range 6 {
			require.Equal(t, i == 2 || i == 5, slices.Equal(block(in["x"], i), block(want["o"], i)), "block %d", i)
		}
		for _, names := range [][]string{{"batch"}, {"tile", "pipeline"}} {
			n, err := pass.Apply(m, names...)
			require.NoError(t, err, names)
			p, err := ir.Parse(n.String())
			require.NoError(t, err, names)
			got, err := interp.Run(p, in, interp.Options{})
			require.NoError(t, err, names)
			require.Equal(t, want, got, names)
		}
		if strings.Contains(sched, "fetch") { // copies start in blocks of their own: beside work the compiler would put them behind it
			tiled, err := pass.Apply(m, "tile", "pipeline")
			require.NoError(t, err)
			fetches := 0
			tiled.Body.Walk(func(in *ir.Instr) {
				var starts, stores int
				if in.Op == ir.OpWhen {
					for _, x := range in.Body.Instrs {
						starts += bit(x.Op == ir.OpDMAStart && x.Args[0].Type.Space == ir.HBM)
						stores += bit(x.Op == ir.OpStore)
					}
				}
				require.False(t, starts > 0 && stores > 0)
				fetches += starts
			})
			require.Positive(t, fetches)
		}
		// A block that is fetched while it is written back, or later.
		in["t"] = array.FromInt64s(ir.I32, []int{13}, []int64{4, 0, 3, 1, 0, 0, -1, 1, 4, -1, 0, -1, 3})
		p, err := pass.Apply(m, "tile", "pipeline")
		require.NoError(t, err)
		_, err = interp.Run(p, in, interp.Options{})
		require.ErrorContains(t, err, fault)
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
