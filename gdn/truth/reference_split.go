package truth

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
)

// splitGates are separate erase and write gates per channel. With b in R^K and w in R^V a token computes
//
//	S <- S + k (w v - S^T (b k))^T
//
// This is the delta rule with beta 1, values w v, and b k as the key that reads the state. Its gradients by w v, k and b k are converted to gradients of
// b and w by the product rule. In the zero value there are no gates, and k reads the state.
type splitGates struct {
	erase, write []float64 // [tokens, Hv, K] and [tokens, Hv, V]
	read         []float64 // [tokens, Hv, K]: b k
	v            []float64 // [tokens, Hv, V], before it is multiplied by w
	dread        []float64 // gradients of read
}

// weighBySplitGates applies split gates to the keys and values of a recurrence.
func (r *recurrence) weighBySplitGates(inputs map[string]*array.Array) {
	s := r.s
	if !s.Rule.SplitGates() {
		return
	}
	if s.Gates == gdn.GatesFused {
		_, r.erase = FusedGates(s, nil, nil, nil, inputs["b"].Float64s())
		for _, x := range inputs["w"].Float64s() {
			r.write = append(r.write, sigmoid(x))
		}
	} else {
		r.erase, r.write = inputs["erase"].Float64s(), inputs["write"].Float64s()
	}
	r.read, r.splitGates.v, r.v = slices.Clone(r.erase), r.v, slices.Clone(r.v)
	for i, b := range r.erase {
		r.read[i] = b * r.k[r.keyAt(i)]
	}
	for i, w := range r.write {
		r.v[i] *= w
	}
}

// keyAt returns the index in k [tokens, Hk, K] of element i of [tokens, Hv, K].
func (r *recurrence) keyAt(i int) int {
	row := i / r.s.K
	return row/r.s.Groups()*r.s.K + i%r.s.K
}

// reading returns the key [K] with which a row of tokens x heads reads the state.
func (r *recurrence) reading(row int, k []float64) []float64 {
	if r.read == nil {
		return k
	}
	return r.read[row*r.s.K:][:r.s.K]
}

// dreading returns the slice that accumulates the gradient of reading.
func (t *tangent) dreading(row int, dk []float64) []float64 {
	if t.read == nil {
		return dk
	}
	return t.dread[row*t.s.K:][:t.s.K]
}

// splitGateGradients converts gradients of b k and w v to gradients of the gates (or of their raw form), and of k and v.
func (t *tangent) splitGateGradients(out map[string][]float64) {
	if !t.s.Rule.SplitGates() {
		return
	}
	derase, dwrite := make([]float64, len(t.erase)), make([]float64, len(t.write))
	for i, d := range t.dread {
		derase[i] = d * t.k[t.keyAt(i)]
		t.dk[i] += d * t.erase[i]
	}
	for i := range dwrite {
		dwrite[i] = t.dv[i] * t.splitGates.v[i]
		t.dv[i] *= t.write[i]
	}
	if t.s.Gates == gdn.GatesFused {
		out["db"], out["dw"] = rawSigmoid(t.erase, derase, t.s.Top()), rawSigmoid(t.write, dwrite, 1)
		return
	}
	out["derase"], out["dwrite"] = derase, dwrite
}
