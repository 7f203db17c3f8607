package layer

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// withGradient returns the outputs of forward with a hand-written gradient. forward may use any nodes, also ones that
// GoMLX cannot differentiate, such as While. backward receives the gradient of the loss by each output (zeros if the loss does not use it)
// and returns the gradient by each input (nil: none).
//
// GoMLX has custom gradients for single nodes only (IdentityWithCustomGradient). So each input passes through an identity that
// replaces its adjoint by the given gradient, and each output through one that records its adjoint. A sum that is never
// selected connects them in GoMLX's graph.
func withGradient(inputs []*Node, forward func(inputs []*Node) []*Node, backward func(adjoints []*Node) []*Node) []*Node {
	var noted, gradients []*Node
	gates := make([]*Node, len(inputs))
	for i, x := range inputs {
		gates[i] = IdentityWithCustomGradient(x, func(x, _ *Node) *Node {
			if noted != nil { // the first input of this pass; outputs come before inputs in a backward pass
				gradients, noted = backward(noted), nil
			}
			if gradients[i] == nil {
				return ZerosLike(x)
			}
			return gradients[i]
		})
	}
	stopped := make([]*Node, len(inputs))
	for i, x := range gates {
		stopped[i] = StopGradient(x)
	}
	outputs := forward(stopped)
	result := make([]*Node, len(outputs))
	for i, y := range outputs {
		linked := StopGradient(y)
		never := ConstAs(y, 0)
		for _, x := range gates {
			never = Where(Const(y.Graph(), false), ConvertDType(first(x), y.DType()), never)
		}
		linked = Add(linked, never)
		result[i] = IdentityWithCustomGradient(linked, func(_, v *Node) *Node {
			if noted == nil {
				noted = make([]*Node, len(outputs))
				for j, y := range outputs {
					noted[j] = ZerosLike(y)
				}
			}
			noted[i] = v
			return v
		})
	}
	return result
}

// first returns the first element of x as a scalar.
func first(x *Node) *Node {
	spec := make([]SliceAxisSpec, x.Rank())
	for i := range spec {
		spec[i] = AxisElem(0)
	}
	if len(spec) > 0 {
		x = Slice(x, spec...)
	}
	return Reshape(x)
}
