package gpu

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
)

//go:embed probe.py
var probeText string

// Probe is a kernel of a form that some releases of Triton compile wrongly.
type Probe struct {
	Name  string
	Fault string // the wrong result, and the releases of Triton
	// columns per program, columns of V per block, and stages of the software pipeline
	columns, block, stages int
}

// Probes are the kernels that a selftest runs. Files of gdngen have neither form.
var Probes = []Probe{
	{"transposed", "a sum of products, transposed, as an operand of a product: Triton 3.4.0 to 3.7.0 on Hopper (flash-linear-attention issues 640 and 826)", 64, 64, 2},
	{"narrow", "products of fewer than 64 columns outside of a pipeline: Triton 3.6.0 to 3.7.1 on Hopper (triton-lang/triton issues 10486, 10573 and 11366)", 32, 128, 1},
}

// ProbeLimit is the largest relative error of a probe: the rms of the difference to float64, over the rms. The reference rounds operands
// to bf16 as the kernel does. So only the order of sums differs, and the rounding to bf16 of a sum between two values.
const ProbeLimit = 1e-3

const probeTokens, probeWidth = 64, 128

// source returns the Python file of the probe.
func (p Probe) source() string {
	return fmt.Sprintf("%s\n\nCOLUMNS, BLOCK, STAGES = %d, %d, %d\n", probeText, p.columns, p.block, p.stages)
}

// tensors returns the arguments of run: normally distributed values, and outputs that are NaN.
func (p Probe) tensors() map[string]*array.Array {
	r := rand.New(rand.NewPCG(1, 2))
	all := map[string]*array.Array{}
	for _, name := range []string{"do", "v", "h", "dh", "q", "k"} {
		rows := probeTokens
		if strings.HasSuffix(name, "h") {
			rows = probeWidth
		}
		x := make([]float64, rows*probeWidth)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		all[name] = array.FromFloat64s(ir.BF16, []int{rows, probeWidth}, x)
	}
	for _, name := range []string{"dq", "dk"} {
		all[name] = array.New(ir.F32, probeTokens, probeWidth)
		for i := range all[name].Data {
			all[name].Data[i] = 0xff
		}
	}
	return all
}

// off returns the larger relative error of the outputs dQ = dO H^T + S K and dK = V dH^T + S^T Q, where S is dO V^T on and below the
// diagonal.
func off(in, out map[string]*array.Array) float64 {
	const n, w = probeTokens, probeWidth
	x := map[string][]float64{}
	for name, a := range in {
		x[name] = a.Float64s()
	}
	var s [n][n]float64
	for i := range n {
		for j := range i + 1 {
			for c := range w {
				s[i][j] += x["do"][i*w+c] * x["v"][j*w+c]
			}
			s[i][j] = float64(array.RoundBF16(float32(s[i][j])))
		}
	}
	worst := 0.0
	for name, of := range map[string]struct {
		rows, states, other string
		score               func(i, j int) float64
	}{"dq": {"do", "h", "k", func(i, j int) float64 { return s[i][j] }}, "dk": {"v", "dh", "q", func(i, j int) float64 { return s[j][i] }}} {
		got, difference, size := out[name].Float64s(), 0.0, 0.0
		for i := range n {
			for d := range w {
				want := 0.0
				for c := range w {
					want += x[of.rows][i*w+c] * x[of.states][d*w+c]
				}
				for j := range n {
					want += of.score(i, j) * x[of.other][j*w+d]
				}
				difference += (got[i*w+d] - want) * (got[i*w+d] - want)
				size += want * want
			}
		}
		if e := math.Sqrt(difference / size); !(e <= worst) { // a NaN is kept
			worst = e
		}
	}
	return worst
}

// Probe runs a probe's kernel on the attached GPU, and returns its relative error.
func (t *Toolkit) Probe(ctx context.Context, p Probe, g *target.GPU) (float64, error) {
	tensors := p.tensors()
	launches, err := t.compile(ctx, p.source(), tensors, g)
	if err == nil {
		err = Fit(launches, []*target.GPU{g})
	}
	if err != nil {
		return 0, err
	}
	out, err := t.run(ctx, launches, "probe "+p.Name, tensors, []string{"dq", "dk"})
	if err != nil {
		return 0, err
	}
	return off(tensors, out), nil
}
