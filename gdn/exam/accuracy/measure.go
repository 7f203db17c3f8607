package accuracy

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// seeds are those of the inputs of a column.
func (c Column) seeds() []uint64 {
	if c.Long() {
		return []uint64{1}
	}
	return []uint64{1, 2}
}

// Measure gives the errors of what computes a spec on a column.
func (c Column) Measure(run func(gdn.Spec, map[string]*array.Array) (map[string]*array.Array, error)) (Error, error) {
	return c.measure(c.Spec(), run)
}

// measure is Measure of a spec of the caller's own.
func (c Column) measure(s gdn.Spec, run func(gdn.Spec, map[string]*array.Array) (map[string]*array.Array, error)) (Error, error) {
	var first, last, state share
	for _, seed := range c.seeds() {
		in, err := c.Class.Generate(s, seed)
		if err != nil {
			return Error{}, fmt.Errorf("inputs of column %s: %w", c.Name, err)
		}
		want, err := truth.Reference(s, in)
		if err != nil {
			return Error{}, fmt.Errorf("reference of column %s: %w", c.Name, err)
		}
		got, err := run(s, in)
		if err != nil {
			return Error{}, fmt.Errorf("column %s: %w", c.Name, err)
		}
		o, exact := got["o"].Float64s(), want["o"].Float64s()
		if c.Long() {
			n := window * s.HeadsV * s.V
			first.add(o[:n], exact[:n])
			last.add(o[len(o)-n:], exact[len(exact)-n:])
		} else {
			first.add(o, exact)
		}
		state.add(got["final_state"].Float64s(), want["final_state"].Float64s())
	}
	return Error{first.ratio(), last.ratio(), state.ratio()}, nil
}

// share sums squares of errors and of the reference.
type share struct{ off, whole float64 }

func (x *share) add(got, want []float64) {
	for i, y := range want {
		x.off += (got[i] - y) * (got[i] - y)
		x.whole += y * y
	}
}

// ratio is zero where nothing was added.
func (x share) ratio() float64 {
	if x.whole == 0 {
		return 0
	}
	return math.Sqrt(x.off / x.whole)
}
