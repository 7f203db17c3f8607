package truth

import (
	"math"

	"github.com/gdngen/gdngen/ir/array"
)

// convolve takes q, k and v through the convolution of the spec and SiLU: x[t] becomes silu(sum over j of w[j] x[t - (W-1) + j]), each channel by
// taps of its own, with zeros before the first token. What the rule takes is of the type of the inputs, as a layer hands it over.
func (r *recurrence) convolve(inputs map[string]*array.Array) {
	s := r.s
	if s.Conv == 0 {
		return
	}
	for _, x := range []struct {
		taps   string
		values []float64
		width  int
	}{{"conv_q", r.q, s.K}, {"conv_k", r.k, s.K}, {"conv_v", r.v, s.V}} {
		w := inputs[x.taps].Float64s()
		n := len(w) / s.Conv                               // channels
		for row := s.Batch*s.Tokens - 1; row >= 0; row-- { // from the last on: a row reads itself and those before it
			for c := range n {
				sum := 0.0
				for back := range min(s.Conv, row%s.Tokens+1) {
					sum += w[(c/x.width*s.Conv+s.Conv-1-back)*x.width+c%x.width] * x.values[(row-back)*n+c]
				}
				x.values[row*n+c] = sum / (1 + math.Exp(-sum))
			}
		}
		copy(x.values, array.FromFloat64s(s.DType, []int{len(x.values)}, x.values).Float64s())
	}
}

// taps draws taps around those that leave a token as it is, so that inputs stay what their class says: alike, or growing.
func (d draw) taps(values map[string][]float64) {
	for _, p := range d.s.Inputs() {
		switch p.Name {
		case "conv_q", "conv_k", "conv_v":
			w := d.normal(p.Name, p.Type.Size())
			for i := range w {
				if w[i] *= .3; i/p.Type.Shape[2]%d.s.Conv == d.s.Conv-1 {
					w[i]++
				}
			}
			values[p.Name] = w
		}
	}
}
