// Package bench measures emitted programs on the machine at hand.
package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"

	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// chunked is the variant that is fastest on CPUs: tensors as they are, so that nothing is transposed as a whole, and the
// state-free work of a few chunks at once inside the loop, so that what it makes stays in the cache.
const chunked = "algo=chunk,chunk=64,layout=bthd,chunks=4"

// matmulSize makes one matrix product of 5.4 GFLOP, the arithmetic of the chunked rule at the size measured.
const matmulSize = 1392

// BenchmarkCPUChunked reports the time of the chunked rule (float32, batch 1, 4096 tokens, 8 value heads, K = V = 128) and of
// a float32 product of as many operations, taken in turns, and the ratio of the medians.
func BenchmarkCPUChunked(b *testing.B) {
	pjrttest.Alone(b)
	for _, keyHeads := range []int{8, 4} {
		b.Run(fmt.Sprintf("keyheads=%d", keyHeads), func(b *testing.B) {
			e := pjrttest.CPU(b)
			s := gdn.NewSpec(1, 4096, keyHeads, 8, 128, 128)
			rule, ruleArgs := ruleProgram(b, e, s)
			product, productArgs := productProgram(b, e)
			var ruleTimes, productTimes []time.Duration
			warm(b, rule, ruleArgs)
			warm(b, product, productArgs)
			for b.Loop() {
				productTimes = append(productTimes, once(b, product, productArgs))
				ruleTimes = append(ruleTimes, once(b, rule, ruleArgs))
			}
			r, p := median(ruleTimes), median(productTimes)
			b.ReportMetric(float64(r)/float64(p), "ratio")
			b.ReportMetric(float64(r)/1e6, "chunked-ms")
			b.ReportMetric(float64(p)/1e6, "matmul-ms")
		})
	}
}

// ruleProgram compiles the chunked rule and draws its arguments.
func ruleProgram(b *testing.B, e *pjrt.Engine, s gdn.Spec) (*pjrt.Program, []*array.Array) {
	v, err := gdn.ParseVariant(chunked)
	require.NoError(b, err)
	m, err := build.Module(s, v)
	require.NoError(b, err)
	a, err := stablehlo.Backend{}.Emit(m, nil)
	require.NoError(b, err)
	prog, err := e.Compile(a.Text)
	require.NoError(b, err)
	class, err := truth.LookupClass("random")
	require.NoError(b, err)
	drawn, err := class.Generate(s, 1)
	require.NoError(b, err)
	var args []*array.Array
	for _, p := range m.Params() {
		args = append(args, drawn[p.Name])
	}
	results, err := prog.Run(args...)
	require.NoError(b, err)
	for i, r := range results {
		for _, x := range r.Float32s() {
			require.Zero(b, x-x, "%s is not finite", m.Results[i])
		}
	}
	return prog, args
}

// productProgram compiles the matrix product that the rule is compared with.
func productProgram(b *testing.B, e *pjrt.Engine) (*pjrt.Program, []*array.Array) {
	m, build := ir.NewModule("product")
	t := ir.T(ir.F32, matmulSize, matmulSize)
	x, y := build.Param("x", t), build.Param("y", t)
	require.NoError(b, build.Finish(m, []string{"z"}, []*ir.Value{build.MatMul(x, y, false, false, ir.PrecF32)}))
	a, err := stablehlo.Backend{}.Emit(m, nil)
	require.NoError(b, err)
	prog, err := e.Compile(a.Text)
	require.NoError(b, err)
	v := make([]float32, t.Size())
	for i := range v {
		v[i] = float32(i%1021)/1021 - 0.5
	}
	arg := array.FromFloat32s(ir.F32, t.Shape, v)
	return prog, []*array.Array{arg, arg}
}

func warm(b *testing.B, p *pjrt.Program, args []*array.Array) {
	_, err := p.Time(pjrt.TimeOptions{Trials: 3}, args...)
	require.NoError(b, err)
}

// once times one execution; the copies of the arguments to the device are outside of it.
func once(b *testing.B, p *pjrt.Program, args []*array.Array) time.Duration {
	t, err := p.Time(pjrt.TimeOptions{Trials: 1}, args...)
	require.NoError(b, err)
	return t.Median
}

func median(all []time.Duration) time.Duration {
	s := make([]float64, len(all))
	for i, t := range all {
		s[i] = float64(t)
	}
	slices.Sort(s)
	return time.Duration(stat.Quantile(.5, stat.Empirical, s, nil))
}
