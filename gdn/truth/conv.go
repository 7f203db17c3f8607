package truth

import (
	"math"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// channels is one convolved input of a run: q, k or v, in this order in a cache.
type channels struct {
	values      []float64 // [tokens, n], before the convolution, later after it
	taps, bias  []float64 // [heads, W, width] and [heads, width]; bias may be nil
	n, width, w int
}

// weighed returns a tap's weight for channel c. The last tap belongs to the current token.
func (x *channels) weighed(c, tap int) float64 {
	return x.taps[(c/x.width*x.w+tap)*x.width+c%x.width]
}

// convolve applies the convolution and SiLU to q, k and v of each sequence, token by token:
//
//	x[t] <- silu(bias + sum over j of w[j] x[t - (W-1) + j])
//
// Inputs before a sequence's first token come from its cache, the oldest first, or are zeros. The sequence's last inputs are written back unchanged.
// The results are rounded to the type of the inputs, as a layer passes them on.
func (r *recurrence) convolve(inputs map[string]*array.Array) {
	s := r.s
	if s.Conv == 0 {
		return
	}
	parts := []*channels{
		{values: r.q, n: s.HeadsK * s.K, width: s.K}, {values: r.k, n: s.HeadsK * s.K, width: s.K}, {values: r.v, n: s.HeadsV * s.V, width: s.V}}
	for i, name := range []string{"q", "k", "v"} {
		parts[i].w, parts[i].taps = s.Conv, inputs["conv_"+name].Float64s()
		if s.ConvBias {
			parts[i].bias = inputs["bias_"+name].Float64s()
		}
	}
	var initial []float64
	if size := s.ConvStateType().Size(); s.ConvState {
		r.convs = make([]float64, size)
		if s.Every > 0 {
			r.convEnds = make([]float64, size/s.States()*s.Batch*(s.Tokens/s.Every))
		}
		if s.Init {
			initial = inputs["initial_conv"].Float64s()
		}
		if s.Pool > 0 {
			copy(r.convs, initial)
		}
	}
	for n := range s.Sequences() {
		if r.slots[n] >= 0 {
			r.convolveSequence(n, parts, initial)
		}
	}
	for _, x := range parts {
		copy(x.values, array.FromFloat64s(s.DType, []int{len(x.values)}, x.values).Float64s())
	}
}

// convolveSequence is convolve for one sequence. Its window holds the last inputs of all channels, [rows, channels], in the layout of a cache.
func (r *recurrence) convolveSequence(n int, parts []*channels, initial []float64) {
	s, begin, end := r.s, r.bounds[n], r.bounds[n+1]
	all := s.ConvChannels()
	rows := s.CacheRows()
	window := make([]float64, rows*all)
	if initial != nil && r.reads[n] >= 0 && (begin < end || s.Empty == gdn.EmptyKeep) {
		copy(window, initial[r.reads[n]*len(window):])
	}
	leave := func(convs []float64, slot int) {
		if convs != nil {
			copy(convs[slot*len(window):], window)
		}
	}
	for t := begin; t < end; t++ {
		var token []float64
		for _, x := range parts {
			token = append(token, x.values[t*x.n:][:x.n]...)
		}
		first := 0
		for _, x := range parts {
			for c := range x.n {
				sum := x.weighed(c, s.Conv-1) * token[first+c]
				for j := range s.Conv - 1 {
					sum += x.weighed(c, j) * window[(rows-s.Conv+1+j)*all+first+c]
				}
				if x.bias != nil {
					sum += x.bias[c]
				}
				x.values[t*x.n+c] = sum / (1 + math.Exp(-sum))
			}
			first += x.n
		}
		window = append(window[all:], token...)
		switch i := t - begin; {
		case r.windowed(n):
			leave(r.convs, r.slots[n]+i)
		case s.Every > 0 && (i+1)%s.Every == 0:
			leave(r.convEnds, n*(s.Tokens/s.Every)+i/s.Every)
		}
	}
	if !r.windowed(n) {
		leave(r.convs, r.slots[n])
	}
	for i := end - begin; s.Mixed > 0 && r.windowed(n) && i < s.Mixed; i++ { // a short window is filled up with zero tokens
		window = append(window[all:], make([]float64, all)...)
		leave(r.convs, r.slots[n]+i)
	}
}

// convolution draws taps near the identity, so that inputs keep the properties of their class. Biases are small, and
// caches have the distribution of inputs.
func (d draw) convolution(values map[string][]float64) {
	for _, p := range d.s.Inputs() {
		switch {
		case strings.HasPrefix(p.Name, "conv_"):
			w := d.normal(p.Name, p.Type.Size())
			for i := range w {
				if w[i] *= .3; i/p.Type.Shape[2]%d.s.Conv == d.s.Conv-1 {
					w[i]++
				}
			}
			values[p.Name] = w
		case strings.HasPrefix(p.Name, "bias_"):
			w := d.normal(p.Name, p.Type.Size())
			for i := range w {
				w[i] *= .1
			}
			values[p.Name] = w
		case p.Name == "initial_conv":
			values[p.Name] = d.normal(p.Name, p.Type.Size())
		}
	}
}
