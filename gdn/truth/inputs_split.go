package truth

import "github.com/gdngen/gdngen/gdn"

// Erase gates [tokens, Hv, K] and write gates [tokens, Hv, V] are drawn like beta of the class, each from its own stream. Only the erase gate gets beta
// beyond 1.

// erases draws [tokens, Hv, K].
func (d draw) erases() []float64 {
	x := d.ofBeta("erase", d.s.K)
	if d.c.doubles && d.s.NegEigval {
		for i := range x {
			x[i] *= 2
		}
	}
	return x
}

// writes draws [tokens, Hv, V].
func (d draw) writes() []float64 {
	x := d.ofBeta("write", d.s.V)
	for i := range x {
		x[i] = min(x[i], 1)
	}
	return x
}

func (d draw) ofBeta(tensor string, width int) []float64 {
	r := d.stream(tensor)
	x := make([]float64, d.tokens()*d.s.HeadsV*width)
	for i := range x {
		x[i] = d.c.beta(r, i/width/d.s.HeadsV%d.s.Tokens)
	}
	return x
}

// rawSplitGates converts drawn gates to raw form if the spec has raw gates.
func (d draw) rawSplitGates(values map[string][]float64) {
	if !d.s.Rule.SplitGates() || d.s.Gates != gdn.GatesFused {
		return
	}
	values["b"], values["w"] = make([]float64, len(values["erase"])), make([]float64, len(values["write"]))
	for i, x := range values["erase"] {
		values["b"][i] = inverseSigmoid(x / d.s.Top())
	}
	for i, x := range values["write"] {
		values["w"][i] = inverseSigmoid(x)
	}
}
