package accuracy

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// seeds returns the seeds of a column's inputs.
func (c Column) seeds() []uint64 {
	if c.Long() {
		return []uint64{1}
	}
	return []uint64{1, 2}
}

// Measure runs a function that computes the column's spec, and returns its errors over all seeds.
func (c Column) Measure(run func(gdn.Spec, map[string]*array.Array) (map[string]*array.Array, error)) (Error, error) {
	return c.measure(c.Spec(), run)
}

// measure is Measure for a given spec.
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

// share sums the squares of errors (off) and of the reference (whole).
type share struct{ off, whole float64 }

func (x *share) add(got, want []float64) {
	for i, y := range want {
		x.off += (got[i] - y) * (got[i] - y)
		x.whole += y * y
	}
}

// ratio returns rms(error) / rms(reference); 0 if the reference is zero or nothing was added.
func (x share) ratio() float64 {
	if x.whole == 0 {
		return 0
	}
	return math.Sqrt(x.off / x.whole)
}
