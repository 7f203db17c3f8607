package bench

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tokens "github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// BenchmarkCPUDecode reports the HBM traffic of a decode step of the FlashInfer contest, 64 sequences updated in place,
// against a copy on all processors, taken in turns: what the step must read and write over its median time, and the ratio.
func BenchmarkCPUDecode(b *testing.B) {
	pjrttest.Alone(b)
	e := pjrttest.CPU(b)
	s, err := gdn.Parse("contest-decode,inplace")
	require.NoError(b, err)
	v, err := gdn.LookupVariant("cpu-decode")
	require.NoError(b, err)
	a, err := route.Program(s, v, "stablehlo", nil)
	require.NoError(b, err)
	p, args := program(b, e, s, a, nil)
	warm(b, p, args)
	source, target := make([]byte, 256<<20), make([]byte, 256<<20)
	for i := range source {
		source[i] = byte(i) // pages that were never written would all be one
	}
	copyAll(target, source)
	var steps, copies []time.Duration
	for b.Loop() {
		for range 3 {
			start := time.Now()
			copyAll(target, source)
			copies = append(copies, time.Since(start))
		}
		steps = append(steps, several(b, p, args, 30)...)
	}
	step := float64(s.NecessaryBytes()) / float64(median(steps))
	stream := float64(2*len(source)) / float64(median(copies))
	b.ReportMetric(step, "GB/s")
	b.ReportMetric(stream, "copy-GB/s")
	b.ReportMetric(step/stream, "ratio")
}

// copyAll copies on all processors.
func copyAll(target, source []byte) {
	n := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			lo, hi := len(source)*i/n, len(source)*(i+1)/n
			copy(target[lo:hi], source[lo:hi])
		})
	}
	wg.Wait()
}

// BenchmarkCPUPacked reports the time of 8192 tokens in 57 sequences, the largest work of the FlashInfer contest, against the token
// loop of gdngen contest bench in the same runtime, in turns; and what the ratio could be at most in float32: of the loop to the matrix
// products of the packed prefill alone, those with the state at the speed that the runtime has for products of such sizes, and
// those of the tokens of a chunk with one another as if they had it too.
func BenchmarkCPUPacked(b *testing.B) {
	pjrttest.Alone(b)
	e := pjrttest.CPU(b)
	s, err := gdn.Parse("contest-prefill,seqs=57")
	require.NoError(b, err)
	cu := make([]int64, s.Seqs+1)
	for i := range cu {
		cu[i] = int64(s.Tokens) * int64(i) / int64(s.Seqs)
	}
	v, err := gdn.LookupVariant("cpu-packed")
	require.NoError(b, err)
	a, err := route.Program(s, v, "stablehlo", nil)
	require.NoError(b, err)
	m, err := tokens.TokenLoop(s)
	require.NoError(b, err)
	literal, err := stablehlo.Backend{}.Emit(m, nil)
	require.NoError(b, err)
	packed, args := program(b, e, s, a, cu)
	loop, loopArgs := program(b, e, s, literal, cu)
	products, productArgs := stateProducts(b, e, s)
	warm(b, packed, args)
	warm(b, products, productArgs)
	var packedTimes, loopTimes, productTimes []time.Duration
	for b.Loop() {
		loopTimes = append(loopTimes, several(b, loop, loopArgs, 2)...)
		packedTimes = append(packedTimes, several(b, packed, args, 6)...)
		productTimes = append(productTimes, several(b, products, productArgs, 6)...)
	}
	p, l := median(packedTimes), median(loopTimes)
	product := 2 * s.HeadsV * s.K * s.V                                                               // operations of a token and the states
	speed := float64(product*productLanes*productTokens*productTurns) / float64(median(productTimes)) // GFLOP/s
	inChunk := 4 * v.Chunk * (s.HeadsK*s.K + s.HeadsV*s.V)                                            // K K^T, Q K^T, T x and P V'
	least := float64(s.Tokens*(3*product+inChunk)) / speed                                            // ns
	b.ReportMetric(float64(p)/1e6, "packed-ms")
	b.ReportMetric(float64(l)/1e6, "loop-ms")
	b.ReportMetric(float64(l)/float64(p), "ratio")
	b.ReportMetric(speed, "products-GFLOP/s")
	b.ReportMetric(float64(l)/least, "most-ratio")
}

// several times n executions after one that is not counted.
func several(b *testing.B, p *pjrt.Program, args []*array.Array, n int) []time.Duration {
	t, err := p.Time(pjrt.TimeOptions{Warmup: 1, Trials: n}, args...)
	require.NoError(b, err)
	return t.All
}

// Sizes of stateProducts: sequences at once, rows of K and Q of a chunk, and how often.
const (
	productLanes  = 4
	productTokens = 64
	productTurns  = 50
)

// stateProducts compiles a loop of products of rows by states, as a step of the packed stream has them, all value heads of a key
// head in one.
func stateProducts(b *testing.B, e *pjrt.Engine, s gdn.Spec) (*pjrt.Program, []*array.Array) {
	m, build := ir.NewModule("products")
	n := productLanes * s.HeadsK
	rows, state := ir.T(ir.F32, n, productTokens, s.K), ir.T(ir.F32, n, s.Groups()*s.V, s.K)
	x, y := build.Param("x", rows), build.Param("y", state)
	z := build.Loop(productTurns, []*ir.Value{x}, func(b *ir.Builder, _ *ir.Value, carried []*ir.Value) []*ir.Value {
		z := b.MatMul(carried[0], y, false, true, ir.PrecF32)
		return []*ir.Value{b.SliceAxis(z, 2, 0, s.K)}
	})
	require.NoError(b, build.Finish(m, []string{"z"}, z))
	a, err := stablehlo.Backend{}.Emit(m, nil)
	require.NoError(b, err)
	prog, err := e.Compile(a.Text)
	require.NoError(b, err)
	var args []*array.Array
	for _, t := range []ir.Type{rows, state} {
		v := make([]float32, t.Size())
		for i := range v {
			v[i] = (float32(i%1021)/1021 - .5) / 8 // the products neither grow nor vanish
		}
		args = append(args, array.FromFloat32s(ir.F32, t.Shape, v))
	}
	return prog, args
}

// program compiles an emitted program of a spec and draws its arguments; cu takes the place of cu_seqlens.
func program(b *testing.B, e *pjrt.Engine, s gdn.Spec, a *codegen.Artifact, cu []int64) (*pjrt.Program, []*array.Array) {
	p, err := e.Compile(a.Text)
	require.NoError(b, err)
	class, err := truth.LookupClass("random")
	require.NoError(b, err)
	drawn, err := class.Generate(s, 1)
	require.NoError(b, err)
	if cu != nil {
		drawn["cu_seqlens"] = array.FromInt64s(ir.I64, []int{len(cu)}, cu)
	}
	var args []*array.Array
	for _, in := range s.Inputs() {
		args = append(args, drawn[in.Name])
	}
	return p, args
}
