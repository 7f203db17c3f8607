package truth

import "github.com/gdngen/gdngen/gdn"

// The gates of rules with separate erase and write gates are drawn as the class draws beta: an erase gate for each channel of the key, a write gate for each
// of the value. Each is a stream of its own. Beta beyond 1 is the erase gate's alone.

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

// rawSplitGates turns drawn gates into their raw form where they are fused.
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
