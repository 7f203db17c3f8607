package bench

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tokens "github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
)

// BenchmarkCPUDecode reports the main memory traffic of a decode step of the FlashInfer contest, 64 sequences updated in place,
// against a copy on all processors, taken in turns: what the step must read and write over its median time, and the ratio.
func BenchmarkCPUDecode(b *testing.B) {
	e := engine(b)
	s, err := gdn.Parse("contest-decode,inplace")
	require.NoError(b, err)
	v, err := gdn.LookupVariant("cpu-decode")
	require.NoError(b, err)
	a, err := lower.Program(s, v, "stablehlo", nil)
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
		t, err := p.Time(pjrt.TimeOptions{Warmup: 1, Trials: 10}, args...)
		require.NoError(b, err)
		steps = append(steps, t.All...)
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
// loop of gdngen bench in the same runtime, in turns; and what the ratio could be at most in float32: of the loop to the products
// with the state alone (K S, Q S and K^T U, which no chunk size avoids) at the speed of one large matrix product.
func BenchmarkCPUPacked(b *testing.B) {
	e := engine(b)
	s, err := gdn.Parse("contest-prefill,seqs=57")
	require.NoError(b, err)
	cu := make([]int64, s.Seqs+1)
	for i := range cu {
		cu[i] = int64(s.Tokens) * int64(i) / int64(s.Seqs)
	}
	v, err := gdn.LookupVariant("cpu-packed")
	require.NoError(b, err)
	a, err := lower.Program(s, v, "stablehlo", nil)
	require.NoError(b, err)
	m, err := tokens.TokenLoop(s)
	require.NoError(b, err)
	literal, err := stablehlo.Backend{}.Emit(m, nil)
	require.NoError(b, err)
	packed, args := program(b, e, s, a, cu)
	loop, loopArgs := program(b, e, s, literal, cu)
	product, productArgs := productProgram(b, e)
	warm(b, packed, args)
	warm(b, product, productArgs)
	var packedTimes, loopTimes, productTimes []time.Duration
	for b.Loop() {
		loopTimes = append(loopTimes, once(b, loop, loopArgs))
		packedTimes = append(packedTimes, once(b, packed, args))
		productTimes = append(productTimes, once(b, product, productArgs))
	}
	p, l := median(packedTimes), median(loopTimes)
	speed := 2 * math.Pow(matmulSize, 3) / float64(median(productTimes)) // GFLOP/s
	least := float64(6*s.Tokens*s.HeadsV*s.K*s.V) / speed                // ns
	b.ReportMetric(float64(p)/1e6, "packed-ms")
	b.ReportMetric(float64(l)/1e6, "loop-ms")
	b.ReportMetric(float64(l)/float64(p), "ratio")
	b.ReportMetric(speed, "matmul-GFLOP/s")
	b.ReportMetric(float64(l)/least, "most-ratio")
}

// program compiles an emitted program of a spec and draws its arguments; cu takes the place of cu_seqlens.
func program(b *testing.B, e *pjrt.Engine, s gdn.Spec, a *codegen.Artifact, cu []int64) (*pjrt.Program, []*array.Array) {
	p, err := e.Compile(a.Text)
	require.NoError(b, err)
	class, err := gdn.LookupClass("random")
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
