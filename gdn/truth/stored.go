package truth

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Stored is Reference with states that go through a pool between tokens, as in decode. round = store() is called once per head and sequence; round(state)
// then rounds the state [K, V] in place after each token, and may remember the rounding errors. All else is exact, so differences from Reference
// come from the pool only. It fails for other directions than forward and for windows.
func Stored(s gdn.Spec, inputs map[string]*array.Array, store func() func(state []float64)) (map[string]*array.Array, error) {
	if s.Direction != gdn.Forward || s.Window {
		return nil, fmt.Errorf("states are stored between the tokens of the forward pass: leave out direction and window of %s", s)
	}
	if err := CheckInputs(s, inputs); err != nil {
		return nil, err
	}
	r := newRecurrence(s, SplitQKV(s, inputs))
	r.each(func() func(n, h int) {
		state, u := make([]float64, s.K*s.V), make([]float64, s.V)
		return func(n, h int) {
			if r.slots[n] < 0 {
				return
			}
			round := store()
			r.start(n, h, state)
			for t := r.bounds[n]; t < r.bounds[n+1]; t++ {
				k, q, v := r.token(t, h)
				row := t*s.HeadsV + h
				step(s.Rule, state, k, r.reading(row, k), q, v, r.decay(row), r.beta[row], r.o[row*s.V:][:s.V], u)
				round(state)
				r.passed(n, h, t-r.bounds[n], state)
			}
			r.ended(n, h, state)
		}
	})
	out := map[string]*array.Array{}
	for _, p := range s.Results() {
		out[p.Name] = array.FromFloat64s(ir.F64, p.Type.Shape, r.results()[p.Name])
	}
	return out, nil
}
