//go:build cgo

package pjrt_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	xla "github.com/gomlx/go-xla/pjrt"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

func compile(t *testing.T, e *pjrt.Engine, text string) *pjrt.Program {
	t.Helper()
	p, err := e.Compile(text)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

const matmul = `
module @m {
  func.func public @main(%a: tensor<2x3xf32> {jax.arg = "a) {"}, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}`

func floats(shape []int, v ...float64) *array.Array { return array.FromFloat64s(ir.F32, shape, v) }

func matmulArgs() []*array.Array {
	return []*array.Array{floats([]int{2, 3}, 1, 2, 3, 4, 5, 6), floats([]int{3, 2}, 1, 0, 0, 1, 1, -1)}
}

func TestMatmul(t *testing.T) {
	e := pjrttest.CPU(t)
	require.Equal(t, "cpu", strings.ToLower(e.Platform()))
	require.NotEmpty(t, e.Devices())
	require.Contains(t, e.Version(), "PJRT 0.")
	out, err := compile(t, e, matmul).Run(matmulArgs()...)
	require.NoError(t, err)
	require.Len(t, out, 1)
	require.Equal(t, "f32[2,2]", out[0].String())
	require.Equal(t, []float64{4, -1, 10, -1}, out[0].Float64s())
}

func TestWhile(t *testing.T) {
	p := compile(t, pjrttest.CPU(t), `
func.func @main(%n: tensor<i32>, %x: tensor<4xf64>) -> (tensor<i32>, tensor<4xf64>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<4xf64>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %d = stablehlo.add %s, %s : tensor<4xf64>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %d : tensor<i32>, tensor<4xf64>
    }
  return %r#0, %r#1 : tensor<i32>, tensor<4xf64>
}`)
	for _, n := range []int64{0, 1, 10} {
		out, err := p.Run(array.FromInt64s(ir.I32, nil, []int64{n}), array.FromFloat64s(ir.F64, []int{4}, []float64{1, -2, 0.5, 0}))
		require.NoError(t, err)
		require.Equal(t, []int64{n}, out[0].Int64s())
		f := math.Ldexp(1, int(n))
		require.Equal(t, []float64{f, -2 * f, f / 2, 0}, out[1].Float64s())
	}
}

// Each element type goes through the device unchanged, and converts as the host does.
func TestElementTypes(t *testing.T) {
	e := pjrttest.CPU(t)
	for name, d := range map[string]ir.DType{"f64": ir.F64, "f32": ir.F32, "f16": ir.F16, "bf16": ir.BF16,
		"i64": ir.I64, "i32": ir.I32, "ui32": ir.U32, "ui16": ir.U16, "i1": ir.Bool} {
		for _, shape := range [][]int{nil, {2, 3}, {0, 3}} {
			in := array.New(d, shape...)
			v := []float64{1, 0, 3.1415926, 1000.7, 1, 5}[:in.Size()]
			in = array.FromFloat64s(d, shape, v)
			dims := strings.Repeat("0x3x", map[bool]int{true: 1}[len(shape) > 0 && shape[0] == 0]) +
				strings.Repeat("2x3x", map[bool]int{true: 1}[len(shape) > 0 && shape[0] == 2])
			text := strings.NewReplacer("IN", "tensor<"+dims+name+">", "OUT", "tensor<"+dims+"f32>").Replace(`
func.func @main(%x: IN) -> (IN, OUT) {
  %y = stablehlo.convert %x : (IN) -> OUT
  return %x, %y : IN, OUT
}`)
			out, err := compile(t, e, text).Run(in)
			require.NoError(t, err, in)
			require.Equal(t, in.String(), out[0].String())
			require.Equal(t, in.Data, out[0].Data)
			require.Equal(t, in.Convert(ir.F32).Data, out[1].Data, in)
		}
	}
}

func TestBF16RoundsLikeTheHost(t *testing.T) {
	p := compile(t, pjrttest.CPU(t), `
func.func @main(%x: tensor<5xf32>) -> tensor<5xbf16> {
  %y = stablehlo.convert %x : (tensor<5xf32>) -> tensor<5xbf16>
  return %y : tensor<5xbf16>
}`)
	in := floats([]int{5}, 1+1.0/256, 1+3.0/256, -3.3e38, 3.4e38, math.Inf(-1))
	out, err := p.Run(in)
	require.NoError(t, err)
	require.Equal(t, in.Convert(ir.BF16).Data, out[0].Data)
}

func TestRefusedArguments(t *testing.T) {
	e := pjrttest.CPU(t)
	generic := `
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = "main"}> ({
  ^bb0(%x: tensor<2xf32>):
    %0 = "stablehlo.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()`
	for name, text := range map[string]string{"pretty": matmul, "generic": generic} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, e, text)
			args := matmulArgs()
			if name == "generic" {
				args = []*array.Array{floats([]int{2}, 1, 2)}
			}
			_, err := p.Run(args...)
			require.NoError(t, err)
			n := len(args)

			_, err = p.Run(args[1:]...)
			require.ErrorContains(t, err, "arguments, given")
			_, err = p.Run(append(args[:n:n], args[0])...)
			require.ErrorContains(t, err, "arguments, given")
			bad := append([]*array.Array{args[0].Reshape(args[0].Size(), 1)}, args[1:]...)
			_, err = p.Run(bad...)
			require.ErrorContains(t, err, "argument 0 must be f32[2")
			bad[0] = args[0].Convert(ir.F64)
			_, err = p.Time(pjrt.TimeOptions{}, bad...)
			require.ErrorContains(t, err, "given f64[2")
			bad[0] = nil
			_, err = p.Run(bad...)
			require.ErrorContains(t, err, "argument 0: the array is nil")
			bad[0] = &array.Array{Type: ir.F32, Shape: []int{2, 3}, Data: make([]byte, 5)}
			_, err = p.Run(bad...)
			require.ErrorContains(t, err, "needs 24 bytes of data, has 5")
		})
	}
}

// Where the signature can not be read from the text, the runtime objects itself.
func TestRefusedByTheRuntime(t *testing.T) {
	p := compile(t, pjrttest.CPU(t), `
!t = tensor<2xf32>
func.func @main(%x: !t) -> !t {
  return %x : !t
}`)
	_, err := p.Run(floats([]int{2}, 1, 2), floats([]int{2}, 1, 2))
	require.Error(t, err)
	_, err = p.Run(floats([]int{3}, 1, 2, 3))
	require.Error(t, err)
	_, err = p.Run(floats([]int{2}, 1, 2))
	require.NoError(t, err)
}

func TestRefusedPrograms(t *testing.T) {
	e := pjrttest.CPU(t)
	one := func(body string) string {
		return "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n" + body + "\nreturn %y : tensor<2xf32>\n}"
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"", "empty"},
		"not MLIR":     {"hello", ""},
		"truncated":    {matmul[:len(matmul)/2], ""},
		"binary":       {"ML\xefR\x00\x01\x02", ""},
		"unknown op":   {one("%y = stablehlo.frobnicate %x : tensor<2xf32>"), "frobnicate"},
		"wrong types":  {one("%y = stablehlo.reshape %x : (tensor<2xf32>) -> tensor<3xf32>"), ""},
		"no main":      {"func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> {\nreturn %x : tensor<2xf32>\n}", "main"},
		"no result":    {"func.func @main(%x: tensor<2xf32>) {\nreturn\n}", "gives no result"},
		"TPU kernel":   {one(`%y = stablehlo.custom_call @tpu_custom_call(%x) {backend_config = "", api_version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>`), "tpu_custom_call"},
		"unknown call": {one(`%y = stablehlo.custom_call @nonesuch(%x) : (tensor<2xf32>) -> tensor<2xf32>`), "nonesuch"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := e.Compile(c.text)
			if err == nil {
				p.Close()
			}
			var refused *pjrt.CompileError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Message, c.want)
			require.NotContains(t, refused.Message, "PJRT error")
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	require.NoError(t, os.WriteFile(text, []byte("no library"), 0o644))
	_, err := pjrt.Open(text)
	require.ErrorContains(t, err, "not a shared library")
	_, err = pjrt.Open(filepath.Join(dir, "none.so"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = pjrt.Open(dir)
	require.Error(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	_, err = pjrt.Open(self)
	require.ErrorContains(t, err, "not a PJRT plugin")
}

func TestUseAfterClose(t *testing.T) {
	e := pjrttest.CPU(t)
	p, err := e.Compile(matmul)
	require.NoError(t, err)
	q, err := e.Compile(matmul)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	_, err = p.Run(matmulArgs()...)
	require.ErrorContains(t, err, "closed")
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	_, err = q.Run(matmulArgs()...)
	require.ErrorContains(t, err, "closed")
	require.NoError(t, q.Close())
	_, err = e.Compile(matmul)
	require.ErrorContains(t, err, "closed")
	require.Empty(t, e.Platform()+e.Version())
	require.Empty(t, e.Devices())
}

func TestTime(t *testing.T) {
	p := compile(t, pjrttest.CPU(t), matmul)
	timing, err := p.Time(pjrt.TimeOptions{Warmup: 1, Trials: 7}, matmulArgs()...)
	require.NoError(t, err)
	require.Len(t, timing.All, 7)
	require.Positive(t, timing.Min)
	require.LessOrEqual(t, timing.Min, timing.Median)
	timing, err = p.Time(pjrt.TimeOptions{}, matmulArgs()...)
	require.NoError(t, err)
	require.Len(t, timing.All, 10)
	_, err = p.Time(pjrt.TimeOptions{Trials: -1}, matmulArgs()...)
	require.Error(t, err)
}

// Many goroutines on one engine, and no buffer left behind.
func TestNoLeak(t *testing.T) {
	e := pjrttest.CPU(t)
	before, programs := xla.BuffersAlive(), xla.LoadedExecutablesAlive()
	p, err := e.Compile(matmul)
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 500 {
				out, err := p.Run(matmulArgs()...)
				if err != nil || out[0].Float64s()[2] != 10 {
					t.Errorf("%v %v", out, err)
					return
				}
			}
			_, err := p.Run(floats(nil, 1), floats(nil, 1)) // an error path frees too
			if err == nil {
				t.Error("scalars accepted")
			}
			q, err := e.Compile(matmul)
			if err != nil || q.Close() != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, before, xla.BuffersAlive())
	require.NoError(t, p.Close())
	require.Equal(t, programs, xla.LoadedExecutablesAlive())
}

func BenchmarkRunSmall(b *testing.B) {
	p, err := pjrttest.CPU(b).Compile(matmul)
	require.NoError(b, err)
	args := matmulArgs()
	for b.Loop() {
		if _, err := p.Run(args...); err != nil {
			b.Fatal(err)
		}
	}
}

// A result in the memory of an argument: the values are the same, and a timed program goes on from its own results.
func TestReuse(t *testing.T) {
	e := pjrttest.CPU(t)
	p := compile(t, e, `module @m {
  func.func public @main(%x: tensor<3xf32>, %y: tensor<3xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.multiply %x, %y : tensor<3xf32>
    %1 = stablehlo.add %x, %y : tensor<3xf32>
    return %0, %1 : tensor<3xf32>, tensor<3xf32>
  }
}
`)
	x, y := array.FromFloat32s(ir.F32, []int{3}, []float32{1, 2, 3}), array.FromFloat32s(ir.F32, []int{3}, []float32{4, 5, 6})
	for range 2 {
		out, err := p.Run(x, y)
		require.NoError(t, err)
		require.Equal(t, []float32{4, 10, 18}, out[0].Float32s())
		require.Equal(t, []float32{5, 7, 9}, out[1].Float32s())
	}
	_, err := p.Time(pjrt.TimeOptions{Warmup: 1, Trials: 5}, x, y)
	require.NoError(t, err)
}

// Measured runs take fresh copies: a result in the memory of an argument does not change the next run.
func TestBench(t *testing.T) {
	e := pjrttest.CPU(t)
	p := compile(t, e, `module @m {
  func.func public @main(%x: tensor<3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<3xf32> {
    %0 = stablehlo.add %x, %x : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
`)
	flush, err := e.NewFlush(1 << 16)
	require.NoError(t, err)
	x := floats([]int{3}, 1, 2, 3)
	buffers := xla.BuffersAlive()
	timing, err := p.Bench(context.Background(), pjrt.BenchOptions{Warmup: 2, Iterations: 5, Flush: flush}, x)
	require.NoError(t, err)
	require.Len(t, timing.All, 5)
	require.Positive(t, timing.Min)
	require.LessOrEqual(t, timing.Min, timing.Mean())
	require.Equal(t, []float32{1, 2, 3}, x.Float32s())
	require.Equal(t, buffers, xla.BuffersAlive())

	timing, err = p.Bench(context.Background(), pjrt.BenchOptions{Warmup: 1 << 30, Iterations: 1 << 30, Limit: time.Nanosecond}, x)
	require.NoError(t, err)
	require.Len(t, timing.All, pjrt.LeastIterations)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = p.Bench(ctx, pjrt.BenchOptions{Iterations: 1}, x)
	require.ErrorIs(t, err, context.Canceled)
	_, err = p.Bench(context.Background(), pjrt.BenchOptions{}, x)
	require.ErrorContains(t, err, "iterations 0 at least 1")
	_, err = p.Bench(context.Background(), pjrt.BenchOptions{Iterations: 1}, x, x)
	require.ErrorContains(t, err, "takes 1 arguments")
	require.NoError(t, e.Close())
	_, err = p.Bench(context.Background(), pjrt.BenchOptions{Iterations: 1, Flush: flush}, x)
	require.Error(t, err)
}

// Buffers stay on the device between calls; one whose memory a result takes is gone, the others serve again.
func TestBuffers(t *testing.T) {
	e := pjrttest.CPU(t)
	p := compile(t, e, `module @m {
  func.func public @main(%x: tensor<3xf32>, %y: tensor<3xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.multiply %x, %y : tensor<3xf32>
    %1 = stablehlo.add %x, %y : tensor<3xf32>
    return %0, %1 : tensor<3xf32>, tensor<3xf32>
  }
}
`)
	before := xla.BuffersAlive()
	x, err := e.Put(floats([]int{3}, 1, 2, 3))
	require.NoError(t, err)
	y, err := e.Put(floats([]int{3}, 4, 5, 6))
	require.NoError(t, err)
	require.Equal(t, ir.T(ir.F32, 3), x.Type())
	for i := range 3 {
		out, err := p.Call(x, y)
		require.NoError(t, err)
		_, err = y.Get()
		require.ErrorContains(t, err, "given up")
		_, err = p.Call(x, y)
		require.ErrorContains(t, err, "argument 1: the buffer was closed or given up already")
		product, err := out[0].Get()
		require.NoError(t, err)
		require.Equal(t, []float32{float32(4 + i), float32(2 * (5 + 2*i)), float32(3 * (6 + 3*i))}, product.Float32s())
		require.NoError(t, out[0].Close())
		require.NoError(t, out[0].Close())
		y = out[1]
	}
	_, err = p.Call(x)
	require.ErrorContains(t, err, "takes 2 arguments, given 1")
	_, err = p.Call(x, nil)
	require.ErrorContains(t, err, "argument 1 is nil")
	_, err = p.Call(y, y)
	require.ErrorContains(t, err, "is another argument too")
	wrong, err := e.Put(floats([]int{2}, 1, 2))
	require.NoError(t, err)
	_, err = p.Call(x, wrong)
	require.ErrorContains(t, err, "argument 1 must be f32[3], given f32[2]")
	_, err = e.Put(&array.Array{Type: ir.F32, Shape: []int{2}})
	require.ErrorContains(t, err, "needs 8 bytes")
	_, err = y.Get()
	require.NoError(t, err, "a refused call takes nothing")
	require.NoError(t, wrong.Close())
	require.NoError(t, y.Close())
	require.NoError(t, x.Close())
	require.Equal(t, before, xla.BuffersAlive())

	x, err = e.Put(floats([]int{3}, 1, 2, 3))
	require.NoError(t, err)
	require.NoError(t, e.Close())
	_, err = x.Get()
	require.Error(t, err)
	require.NoError(t, x.Close())
	_, err = e.Put(floats([]int{3}, 1, 2, 3))
	require.Error(t, err)
	require.Equal(t, before, xla.BuffersAlive())
}
