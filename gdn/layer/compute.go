package layer

import (
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// Compute runs a spec of any direction on a backend, with arrays named as in s.Inputs and s.Outputs. Gradients are
// GoMLX's gradients of the loss sum(o do) + sum(final_state dfinal_state). A nil variant selects the backend's default.
func Compute(b compute.Backend, s gdn.Spec, v *gdn.Variant, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	if err := truth.CheckInputs(s, inputs); err != nil {
		return nil, err
	}
	if v == nil {
		d, err := DefaultVariant(b, s)
		if err != nil {
			return nil, err
		}
		v = &d
	}
	var args []any
	for _, p := range s.Inputs() {
		t, err := device.Tensor(inputs[p.Name])
		if err != nil {
			return nil, fmt.Errorf("layer: input %s: %w", p.Name, err)
		}
		args = append(args, t)
	}
	if s.Direction != gdn.Forward {
		f := s
		f.Direction = gdn.Forward
		p, err := modules(f, *v)
		if err == nil {
			err = p.missing
		}
		if err != nil {
			return nil, fmt.Errorf("layer: %w", err)
		}
	}
	exec, err := NewExec(b, func(in []*Node) []*Node {
		named := map[string]*Node{}
		for i, p := range s.Inputs() {
			named[p.Name] = in[i]
		}
		return differentiate(s, *v, named)
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	out, err := exec.Call(args...)
	if err != nil {
		return nil, err
	}
	results := map[string]*array.Array{}
	for i, p := range s.Outputs() {
		if results[p.Name], err = device.Array(out[i]); err != nil {
			return nil, fmt.Errorf("layer: output %s: %w", p.Name, err)
		}
	}
	return results, nil
}

// differentiate returns the outputs of a spec of any direction, in order.
func differentiate(s gdn.Spec, v gdn.Variant, in map[string]*Node) []*Node {
	f := s
	f.Direction = gdn.Forward
	results, err := Apply(f, v, in)
	if err != nil {
		panic(err)
	}
	if s.Direction != gdn.Forward {
		var loss *Node
		for _, p := range f.Outputs() {
			term := ReduceAllSum(Mul(ConvertDType(results[p.Name], in["d"+p.Name].DType()), in["d"+p.Name]))
			if loss == nil {
				loss = term
			} else {
				loss = Add(loss, ConvertDType(term, loss.DType()))
			}
		}
		var names []string
		var wrt []*Node
		for _, p := range f.Inputs() {
			if p.Type.DType.IsFloat() {
				names, wrt = append(names, p.Name), append(wrt, in[p.Name])
			}
		}
		for i, d := range Gradient(loss, wrt...) {
			results["d"+names[i]] = d
		}
	}
	var out []*Node
	for _, p := range s.Outputs() {
		out = append(out, results[p.Name])
	}
	return out
}
