package layer

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer/device"
)

// RuleBuilder configures the gated delta rule, or the rule of Kimi Delta Attention. Its methods return it for
// chaining; Done or DoneWithState builds the graph.
type RuleBuilder struct {
	q, k, v, g, beta   *Node
	initial, cu, mask  *Node
	scale, bound       float64
	normalise, doubled bool
	variant            string
}

// Rule starts the gated delta rule alone, without a layer around it: q and k [batch, tokens, key heads, key width], v [batch,
// tokens, value heads, value width], all of float32, bfloat16 or float16; g, the logarithm of the decay, and beta [batch,
// tokens, value heads] in float32. The value heads are a multiple of the key heads, and value head h reads key head
// h / (value heads / key heads). With g [batch, tokens, value heads, key width] each channel of a key has a decay of its own: the
// rule is kda, Kimi Delta Attention.
func Rule(q, k, v, g, beta *Node) *RuleBuilder {
	return &RuleBuilder{q: q, k: k, v: v, g: g, beta: beta}
}

// InitialState sets the state before the first token, [sequences, value heads, key width, value width] in float32. The default
// is zero.
func (b *RuleBuilder) InitialState(s *Node) *RuleBuilder {
	b.initial = s
	return b
}

// CuSeqlens packs sequences; see Builder.CuSeqlens.
func (b *RuleBuilder) CuSeqlens(cu *Node) *RuleBuilder {
	b.cu = cu
	return b
}

// Mask marks the real tokens: [batch, tokens], zero for padding. A padded token leaves the state as it is, even if its inputs
// are NaN.
func (b *RuleBuilder) Mask(mask *Node) *RuleBuilder {
	b.mask = mask
	return b
}

// Scale sets the factor of q; 0, the default, means key width ^ -1/2.
func (b *RuleBuilder) Scale(scale float64) *RuleBuilder {
	b.scale = scale
	return b
}

// L2Norm normalises q and k per token and head.
func (b *RuleBuilder) L2Norm() *RuleBuilder {
	b.normalise = true
	return b
}

// NegativeEigenvalues states that beta may be up to 2, which rules out some variants.
func (b *RuleBuilder) NegativeEigenvalues() *RuleBuilder {
	b.doubled = true
	return b
}

// Bound states that no channel's log decay is below lowest, as in Kimi's safe gate (-5), which makes programs faster. 0, the default,
// means no bound. A decay below the bound gives wrong results.
func (b *RuleBuilder) Bound(lowest float64) *RuleBuilder {
	b.bound = lowest
	return b
}

// Variant sets the variant text; see Builder.Variant.
func (b *RuleBuilder) Variant(text string) *RuleBuilder {
	b.variant = text
	return b
}

// Accuracy selects the best known variant of an accuracy class; see Builder.Accuracy.
func (b *RuleBuilder) Accuracy(a gdn.Accuracy) *RuleBuilder { return b.Variant(a.Text()) }

// Done returns the output, [batch, tokens, value heads, value width] in the type of v. It panics with an error for invalid
// inputs.
func (b *RuleBuilder) Done() *Node {
	o, _ := b.build(false)
	return o
}

// DoneWithState is Done, and also returns the final states in the shape of InitialState.
func (b *RuleBuilder) DoneWithState() (o, state *Node) { return b.build(true) }

func (b *RuleBuilder) build(final bool) (o, state *Node) {
	if b.q.Rank() != 4 || b.v.Rank() != 4 {
		panic(fmt.Errorf("layer: q is %s and v is %s, want [batch, tokens, heads, width]", b.q.Shape(), b.v.Shape()))
	}
	q, v := b.q.Shape().Dimensions, b.v.Shape().Dimensions
	s := gdn.NewSpec(q[0], q[1], q[2], v[2], q[3], v[3])
	d, ok := device.ElementType(b.v.DType())
	if !ok || !d.IsFloat() {
		panic(fmt.Errorf("layer: v is %s, want Float32, BFloat16 or Float16", b.v.Shape()))
	}
	s.DType, s.Out, s.Bound = d, d, b.bound
	if b.g.Rank() == 4 {
		s.Rule = kda
	}
	s.Scale, s.L2Norm, s.NegEigval, s.Init, s.Final = b.scale, b.normalise, b.doubled, b.initial != nil, final
	in := map[string]*Node{"q": b.q, "k": b.k, "v": b.v, "g": b.g, "beta": b.beta}
	if b.initial != nil {
		in["initial_state"] = b.initial
	}
	if b.cu != nil {
		if b.cu.Rank() != 1 || b.cu.Shape().Dim(0) < 2 || !b.cu.DType().IsInt() {
			panic(fmt.Errorf("layer: cu_seqlens is %s, want integers [sequences+1]", b.cu.Shape()))
		}
		s.Seqs = b.cu.Shape().Dim(0) - 1
		in["cu_seqlens"] = ConvertDType(b.cu, dtypes.Int64)
	}
	if err := checkInputs(s, in); err != nil {
		panic(err)
	}
	if m := b.mask; m != nil {
		if m.Rank() != 2 || m.Shape().Dim(0) != q[0] || m.Shape().Dim(1) != q[1] {
			panic(fmt.Errorf("layer: the mask is %s, want [%d, %d], one value for each token", m.Shape(), q[0], q[1]))
		}
		for _, name := range []string{"q", "k", "v", "g", "beta"} { // beta 0 writes nothing, but 0 times NaN is NaN
			in[name] = whereReal(asBools(m), in[name])
		}
	}
	out := applyText(s, b.variant, false, in)
	return out["o"], out["final_state"]
}

// applyText applies a spec with a variant text; empty means the best known on the backend, in training the best for a step with its
// gradient. It panics with an error.
func applyText(s gdn.Spec, text string, training bool, in map[string]*Node) map[string]*Node {
	work := s
	if training {
		work.Direction = gdn.Train
	}
	v, err := variantFor(in["q"].Graph().Backend(), work, text)
	if err != nil {
		panic(fmt.Errorf("layer: %w", err))
	}
	out, err := Apply(s, v, in)
	if err != nil {
		panic(err)
	}
	return out
}
