package layer

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// withGradient gives computed nodes a hand-written gradient. forward computes outputs from its arguments in any way, also
// through nodes that GoMLX can not differentiate, such as While; backward gives the gradient of the loss with respect to
// each input (nil: none) from that with respect to each output. An output that the loss does not use has zeros.
//
// GoMLX has custom gradients for one node only (IdentityWithCustomGradient). So each input passes through an identity that
// replaces whatever adjoint comes back to it by its own gradient, and each output through one that notes its adjoint. What
// connects them for GoMLX is a sum that is selected away.
func withGradient(inputs []*Node, forward func(inputs []*Node) []*Node, backward func(adjoints []*Node) []*Node) []*Node {
	var noted, gradients []*Node
	gates := make([]*Node, len(inputs))
	for i, x := range inputs {
		gates[i] = IdentityWithCustomGradient(x, func(x, _ *Node) *Node {
			if noted != nil { // the first input of this pass; outputs come before inputs
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

// first is the first element of x, as a scalar.
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
