package arith

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Outputs runs an arithmetic on the value heads of a forward spec with one batch row and given gates, and returns its outputs by name.
func Outputs(s gdn.Spec, inputs map[string]*array.Array, run func(Head) (o, state Matrix)) map[string]*array.Array {
	all := map[string][]float64{}
	for name, x := range truth.SplitQKV(s, inputs) {
		all[name] = x.Float64s()
	}
	o, states := make([]float32, s.Tokens*s.HeadsV*s.V), make([]float32, s.HeadsV*s.K*s.V)
	for h := range s.HeadsV {
		rows := func(name string, h, heads, width int) Matrix {
			m := New(s.Tokens, width)
			for i := range m.X {
				m.X[i] = float32(all[name][(i/width*heads+h)*width+i%width])
			}
			return m
		}
		key := h / s.Groups()
		head := Head{
			Q: rows("q", key, s.HeadsK, s.K), K: rows("k", key, s.HeadsK, s.K), V: rows("v", h, s.HeadsV, s.V),
			Scale: s.EffectiveScale(), Initial: New(s.K, s.V),
		}
		if s.Init {
			for i, x := range all["initial_state"][h*s.K*s.V:][:s.K*s.V] {
				head.Initial.X[i] = float32(x)
			}
		}
		for i := range s.Tokens {
			head.Beta = append(head.Beta, all["beta"][i*s.HeadsV+h])
			if !s.Rule.Channels() {
				head.G = append(head.G, all["g"][i*s.HeadsV+h])
			}
		}
		if s.Rule.Channels() {
			head.Channels, head.Bound = rows("g", h, s.HeadsV, s.K), s.Bound
		}
		out, end := run(head)
		for i, y := range out.X {
			o[(i/s.V*s.HeadsV+h)*s.V+i%s.V] = y
		}
		copy(states[h*s.K*s.V:], end.X)
	}
	got := map[string]*array.Array{}
	for name, x := range map[string][]float32{"o": o, "final_state": states} {
		for _, p := range s.Outputs() {
			if p.Name == name {
				got[name] = array.FromFloat32s(ir.F32, p.Type.Shape, x)
			}
		}
	}
	return got
}
