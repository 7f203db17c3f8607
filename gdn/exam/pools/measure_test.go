// Package pools measures what the type of a pool costs: the error of outputs after thousands of decode steps, each of which reads a
// state as the pool holds it and leaves it there rounded. All else is float64, so that errors are of the pool alone. bfloat16 is what
// kernels have today (statedtype=bf16); int8 is an experiment.
package pools

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// Width is that of keys and values, as models have them.
const Width = 128

// Steps is the length of a run; errors are of its last Tail steps.
const (
	Steps = 10000
	Tail  = 1000
)

// Type is how a pool holds a state.
type Type struct {
	Name  string
	Doc   string
	Bytes float64 // of an element, scales included
	Store func() func(state []float64)
}

// Types lists them.
var Types = []Type{
	{"f32", "float32", 4, plain(func(x float64) float64 { return float64(float32(x)) })},
	{"bf16", "bfloat16, to the nearest", 2, plain(func(x float64) float64 { return float64(array.RoundBF16(float32(x))) })},
	{"bf16, dithered", "bfloat16, up or down at random, right in the mean", 2, func() func([]float64) { return dithered(bfloat16Step) }},
	{"int8", "eight bits and a float32 scale for each head and channel, to the nearest", 1 + 4./Width, func() func([]float64) { return eightBits(math.RoundToEven) }},
	{"int8, dithered", "the same, up or down at random", 1 + 4./Width, func() func([]float64) {
		r := rand.New(rand.NewPCG(1, 2))
		return eightBits(func(x float64) float64 { return math.Floor(x + r.Float64()) })
	}},
}

// Classes are the inputs that a pool is measured on: usual ones, a state that is held long, and keys that are alike.
var Classes = []string{"random", "slow", "cos.9", "cos.99", "identical", "drift", "resets"}

func plain(round func(float64) float64) func() func([]float64) {
	return func() func([]float64) {
		return func(state []float64) {
			for i, x := range state {
				state[i] = round(x)
			}
		}
	}
}

// bfloat16Step is the distance between the bfloat16 numbers around x.
func bfloat16Step(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, e-8)
}

// dithered rounds to multiples of a step, up with the chance of what is above the lower one.
func dithered(step func(float64) float64) func([]float64) {
	r := rand.New(rand.NewPCG(1, 1))
	return func(state []float64) {
		for i, x := range state {
			if x != 0 {
				s := step(x)
				state[i] = s * math.Floor(x/s+r.Float64())
			}
		}
	}
}

// eightBits rounds each row of a state [K, V], a channel, to whole numbers from -127 to 127 of a scale of its own.
func eightBits(round func(float64) float64) func([]float64) {
	return func(state []float64) {
		for at := 0; at < len(state); at += Width {
			row := state[at : at+Width]
			top := 0.0
			for _, x := range row {
				top = max(top, math.Abs(x))
			}
			if top == 0 {
				continue
			}
			scale := float64(float32(top / 127))
			for i, x := range row {
				row[i] = scale * max(-127, min(127, round(x/scale)))
			}
		}
	}
}

// Measure is the rms of the error over that of the outputs, of the last tail tokens of a run of so many steps, for a rule.
func Measure(rule, class string, t Type, steps, tail int) (float64, error) {
	s, err := gdn.Parse(fmt.Sprintf("t=%d,hk=1,k=%d,final=false,rule=%s", steps, Width, rule))
	if err != nil {
		return 0, err
	}
	c, err := truth.LookupClass(class)
	if err != nil {
		return 0, err
	}
	inputs, err := c.Generate(s, 1)
	if err != nil {
		return 0, err
	}
	want, err := truth.Reference(s, inputs)
	if err != nil {
		return 0, err
	}
	got, err := truth.Stored(s, inputs, t.Store)
	if err != nil {
		return 0, err
	}
	x, y := got["o"].Float64s(), want["o"].Float64s()
	var e, r float64
	for i := len(y) - tail*Width; i < len(y); i++ {
		e, r = e+(x[i]-y[i])*(x[i]-y[i]), r+y[i]*y[i]
	}
	return math.Sqrt(e / r), nil
}
