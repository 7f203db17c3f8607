package parallel

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Arrays are inputs or results by name.
type Arrays = map[string]*array.Array

// Run executes a module and returns its results by name.
type Run func(m *ir.Module, inputs Arrays) (Arrays, error)

// Split is a sequence in parts; Run computes each part.
type Split struct {
	*Programs
	Whole gdn.Spec
	N     int
	Run   Run

	maps   []Arrays       // transition and offset of each part, from the last forward pass
	states []*array.Array // state before each part, from the last forward pass
}

// NewSplit returns a Split with the programs of New; run executes them.
func NewSplit(s gdn.Spec, n int, forward gdn.Variant, backward *gdn.Variant, run Run) (*Split, error) {
	p, err := New(s, n, forward, backward)
	if err != nil {
		return nil, err
	}
	s.Direction = gdn.Forward
	return &Split{Programs: p, Whole: s, N: n, Run: run}, nil
}

// Forward returns the outputs of the whole sequence from its inputs.
func (x *Split) Forward(inputs Arrays) (Arrays, error) {
	parts := x.cut(inputs)
	x.maps = nil
	for _, part := range parts {
		m, err := x.run(x.Summary, part)
		if err != nil {
			return nil, err
		}
		x.maps = append(x.maps, m)
	}
	_, state := types(x.Part)
	first := inputs["initial_state"]
	if first == nil {
		first = array.New(state.DType, state.Shape...)
	}
	var err error
	if x.states, err = x.scan(x.maps, first, x.Compose, x.Carry); err != nil {
		return nil, err
	}
	var made []Arrays
	for i, part := range parts {
		part["initial_state"] = x.states[i]
		out, err := x.run(x.Programs.Forward, part)
		if err != nil {
			return nil, err
		}
		made = append(made, out)
	}
	return x.join(made, x.Whole.Outputs(), func(p gdn.Param) (*array.Array, error) { return made[x.N-1][p.Name], nil })
}

// Backward returns the gradients of the inputs from the inputs, do and dfinal_state. Call Forward with the same inputs first.
func (x *Split) Backward(inputs Arrays) (Arrays, error) {
	switch {
	case x.Programs.Backward == nil:
		return nil, errors.New("parallel: this split is for the forward pass alone: give New a variant for gradients")
	case x.states == nil:
		return nil, errors.New("parallel: gradients need the states of the parts: call Forward first")
	}
	parts := x.cut(inputs)
	var back []Arrays // from the last part to the first
	for i := x.N - 1; i >= 0; i-- {
		d, err := x.run(x.StateGradient, parts[i])
		if err != nil {
			return nil, err
		}
		back = append(back, Arrays{gdn.TransitionName: x.maps[i][gdn.TransitionName], gdn.OffsetName: d["dinitial_state"]})
	}
	_, state := types(x.Part)
	last := inputs["dfinal_state"]
	if last == nil {
		last = array.New(state.DType, state.Shape...)
	}
	after, err := x.scan(back, last, x.ComposeBack, x.CarryBack)
	if err != nil {
		return nil, err
	}
	var made []Arrays
	for i, part := range parts {
		part["initial_state"], part["dfinal_state"] = x.states[i], after[x.N-1-i]
		out, err := x.run(x.Programs.Backward, part)
		if err != nil {
			return nil, err
		}
		made = append(made, out)
	}
	gradients := x.Whole
	gradients.Direction = gdn.Backward
	return x.join(made, gradients.Outputs(), func(p gdn.Param) (*array.Array, error) {
		if p.Name == "dinitial_state" {
			return made[0][p.Name], nil
		}
		return sum(made, p), nil // inputs without tokens, such as A_log
	})
}

// scan returns the state before each part, in traversal order, by rounds of messages to the part 1, 2, 4, ... further on.
func (x *Split) scan(list []Arrays, first *array.Array, compose, carry *ir.Module) ([]*array.Array, error) {
	back := compose == x.ComposeBack
	upto := slices.Clone(list) // the composed map of all parts up to each one
	for far := 1; far < len(list); far *= 2 {
		was := slices.Clone(upto)
		for i := far; i < len(list); i++ {
			earlier, later := was[i-far], was[i]
			if back { // traversed from the end: later maps in the list have the first tokens
				earlier, later = later, earlier
			}
			var err error
			if upto[i], err = x.Run(compose, Arrays{
				"first_" + gdn.TransitionName: earlier[gdn.TransitionName], "first_" + gdn.OffsetName: earlier[gdn.OffsetName],
				"last_" + gdn.TransitionName: later[gdn.TransitionName], "last_" + gdn.OffsetName: later[gdn.OffsetName],
			}); err != nil {
				return nil, err
			}
		}
	}
	states := []*array.Array{first}
	for _, m := range upto[:len(list)-1] {
		in := maps.Clone(m)
		in["state"] = first
		out, err := x.Run(carry, in)
		if err != nil {
			return nil, err
		}
		states = append(states, out["state"])
	}
	return states, nil
}

// run executes a module on the arrays that it needs.
func (x *Split) run(m *ir.Module, from Arrays) (Arrays, error) {
	in := Arrays{}
	for _, p := range m.Params() {
		if in[p.Name] = from[p.Name]; in[p.Name] == nil {
			return nil, fmt.Errorf("parallel: input %s is missing, want %v", p.Name, p.Type)
		}
	}
	return x.Run(m, in)
}

// shared are parameters without tokens, and their gradients.
var shared = []string{"initial_state", "final_state", "dinitial_state", "dfinal_state", "A_log", "dA_log", "dt_bias", "ddt_bias"}

// tokenAxis returns the axis of tokens in a parameter; -1: none.
func (x *Split) tokenAxis(p gdn.Param) int {
	switch {
	case slices.Contains(shared, p.Name):
		return -1
	case x.Whole.Packed:
		return 0
	}
	return 1
}

// cut slices inputs along the tokens for each part; inputs without tokens go to all parts.
func (x *Split) cut(inputs Arrays) []Arrays {
	s := x.Whole
	s.Direction = gdn.Backward // includes the inputs of both directions
	parts := make([]Arrays, x.N)
	for i := range parts {
		parts[i] = maps.Clone(inputs)
	}
	for _, p := range s.Inputs() {
		a, axis := inputs[p.Name], x.tokenAxis(p)
		if a == nil || axis < 0 {
			continue
		}
		for i := range parts {
			parts[i][p.Name] = Slice(a, axis, i*x.Part.Tokens, (i+1)*x.Part.Tokens)
		}
	}
	return parts
}

// join concatenates results of the parts along the tokens; other supplies results without tokens.
func (x *Split) join(made []Arrays, params []gdn.Param, other func(gdn.Param) (*array.Array, error)) (Arrays, error) {
	out := Arrays{}
	for _, p := range params {
		axis := x.tokenAxis(p)
		if axis < 0 {
			var err error
			if out[p.Name], err = other(p); err != nil {
				return nil, err
			}
			continue
		}
		var l []*array.Array
		for _, m := range made {
			l = append(l, m[p.Name])
		}
		out[p.Name] = Concat(axis, l...)
	}
	return out, nil
}

// sum adds a result over all parts.
func sum(made []Arrays, p gdn.Param) *array.Array {
	total := make([]float64, p.Type.Size())
	for _, m := range made {
		for i, v := range m[p.Name].Float64s() {
			total[i] += v
		}
	}
	return array.FromFloat64s(p.Type.DType, p.Type.Shape, total)
}

// rows returns the byte length of contiguous runs along an axis, and their number.
func rows(a *array.Array, axis int) (length, count int) {
	count = 1
	for _, d := range a.Shape[:axis] {
		count *= d
	}
	return len(a.Data) / count, count
}

// Slice returns elements lo to hi-1 along an axis.
func Slice(a *array.Array, axis, lo, hi int) *array.Array {
	length, count := rows(a, axis)
	one := length / a.Shape[axis]
	out := &array.Array{Type: a.Type, Shape: slices.Clone(a.Shape)}
	out.Shape[axis] = hi - lo
	for i := range count {
		out.Data = append(out.Data, a.Data[i*length+lo*one:i*length+hi*one]...)
	}
	return out
}

// Concat concatenates arrays along an axis.
func Concat(axis int, l ...*array.Array) *array.Array {
	out := &array.Array{Type: l[0].Type, Shape: slices.Clone(l[0].Shape)}
	out.Shape[axis] = 0
	_, count := rows(l[0], axis)
	for i := range count {
		for _, a := range l {
			length, _ := rows(a, axis)
			out.Data = append(out.Data, a.Data[i*length:(i+1)*length]...)
		}
	}
	for _, a := range l {
		out.Shape[axis] += a.Shape[axis]
	}
	return out
}
