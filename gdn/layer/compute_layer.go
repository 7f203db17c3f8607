package layer

import (
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// ComputeLayer runs a stored layer case on a backend: the first tokens at once, the others one by one from the
// caches, and all of them in one call without a cache; then the gradients, if the case has them. variant is as for
// Builder.Variant. It returns the outputs that truth.LayerCase names.
func ComputeLayer(b compute.Backend, c truth.LayerCase, variant string, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	cfg := Config{Hidden: c.Hidden, HeadsK: c.HeadsK, HeadsV: c.HeadsV, KeyDim: c.KeyDim, ValueDim: c.ValueDim, ConvWidth: c.ConvWidth, NormEps: c.NormEps,
		Rule: c.Rule, Bound: c.Bound, DecayRank: c.DecayRank, GateRank: c.GateRank}
	weights := map[string]*array.Array{}
	for name, a := range inputs {
		if strings.HasPrefix(name, truth.LayerWeights) {
			weights[name] = a
		}
	}
	scope := model.NewStore().RootScope().In("layer")
	format, err := Load(scope, WeightsOf(weights), truth.LayerWeights, cfg, dtypes.Float32)
	if err != nil {
		return nil, err
	}
	x := inputs["x"].Convert(ir.F32)
	mask := inputs["attention_mask"]
	parts := []*array.Array{sliceTokens(x, 0, c.Prefill)}
	for i := range c.Steps {
		parts = append(parts, sliceTokens(x, c.Prefill+i, c.Prefill+i+1))
	}
	session := func() (*Session, error) { return NewSession(b, scope, cfg, variant) }
	out, err := runParts(session, parts, mask)
	if err != nil {
		return nil, err
	}
	if c.Steps == 0 {
		out["y_decode"] = array.New(ir.F32, x.Shape[0], 0, c.Hidden)
		out["conv_state_end"], out["recurrent_state_end"] = out["conv_state_prefill"], out["recurrent_state_prefill"]
	}
	if mask != nil {
		mask = extendMask(mask, x.Shape[1])
	}
	full, err := runParts(session, []*array.Array{x}, mask)
	if err != nil {
		return nil, err
	}
	out["y_full"] = full["y_prefill"]
	if dy := inputs["dy"]; dy != nil {
		grads, err := layerGradients(b, scope, cfg, format, variant, x, dy.Convert(ir.F32))
		if err != nil {
			return nil, err
		}
		for name, g := range grads {
			out["d"+name] = g.Reshape(inputs[name].Shape...)
		}
	}
	return out, nil
}

// layerGradients returns the gradients of sum(y dy) by x and by the weights, in the file format.
func layerGradients(b compute.Backend, scope *model.Scope, c Config, f Format, variant string, x, dy *array.Array) (map[string]*array.Array, error) {
	variables := slices.Sorted(maps.Keys(c.variableShapes()))
	exec, err := model.NewExec(b, scope.Store(), func(_ *model.Scope, in []*Node) []*Node {
		scope.Store().SetTraining(in[0].Graph(), true)
		loss := ReduceAllSum(Mul(New(scope, in[0]).With(c).Variant(variant).Done(), in[1]))
		wrt := []*Node{in[0]}
		for _, name := range variables {
			wrt = append(wrt, scope.GetVariable(name).NodeValue(in[0].Graph()))
		}
		return Gradient(loss, wrt...)
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	var args []any
	for _, a := range []*array.Array{x, dy} {
		t, err := device.Tensor(a)
		if err != nil {
			return nil, err
		}
		args = append(args, t)
	}
	out, err := exec.Call(args...)
	if err != nil {
		return nil, err
	}
	grads := model.NewStore().RootScope().In("gradients")
	for i, name := range variables {
		grads.VariableWithValue(name, out[1+i])
	}
	file, err := Save(grads, truth.LayerWeights, c, f, dtypes.Float32)
	if err != nil {
		return nil, err
	}
	file.Tensors["x"], err = device.Array(out[0])
	return file.Tensors, err
}

// runParts runs a new session on parts of the tokens in turn; the mask belongs to the first part. It returns the outputs of the first
// part and of all others, and the caches after the first and after the last.
func runParts(session func() (*Session, error), parts []*array.Array, mask *array.Array) (map[string]*array.Array, error) {
	s, err := session()
	if err != nil {
		return nil, err
	}
	defer s.Finalize()
	out := map[string]*array.Array{}
	keep := func(when string) (err error) {
		out["conv_state_"+when], out["recurrent_state_"+when], err = s.Caches()
		return err
	}
	if out["y_prefill"], err = s.Run(parts[0], mask); err != nil {
		return nil, err
	}
	if err := keep("prefill"); err != nil || len(parts) == 1 {
		return out, err
	}
	for _, part := range parts[1:] {
		y, err := s.Run(part, nil)
		if err != nil {
			return nil, err
		}
		if before := out["y_decode"]; before != nil {
			y = joinTokens(before, y)
		}
		out["y_decode"] = y
	}
	return out, keep("end")
}

// extendMask extends a mask of the first tokens to more tokens; the new ones are real.
func extendMask(mask *array.Array, tokens int) *array.Array {
	batch, first := mask.Shape[0], mask.Shape[1]
	v := make([]float32, batch*tokens)
	for i := range v {
		v[i] = 1
	}
	for i, m := range mask.Float64s() {
		v[i/first*tokens+i%first] = float32(m)
	}
	return array.FromFloat32s(ir.F32, []int{batch, tokens}, v)
}

// sliceTokens returns tokens begin to end-1 of [batch, tokens, width] in f32.
func sliceTokens(a *array.Array, begin, end int) *array.Array {
	batch, tokens, width := a.Shape[0], a.Shape[1], a.Shape[2]
	var v []float32
	all := a.Float32s()
	for i := range batch {
		v = append(v, all[(i*tokens+begin)*width:(i*tokens+end)*width]...)
	}
	return array.FromFloat32s(ir.F32, []int{batch, end - begin, width}, v)
}

// joinTokens concatenates x and y along the tokens.
func joinTokens(x, y *array.Array) *array.Array {
	batch, width := x.Shape[0], x.Shape[2]
	var v []float32
	xs, ys := x.Float32s(), y.Float32s()
	nx, ny := x.Shape[1]*width, y.Shape[1]*width
	for i := range batch {
		v = append(append(v, xs[i*nx:(i+1)*nx]...), ys[i*ny:(i+1)*ny]...)
	}
	return array.FromFloat32s(ir.F32, []int{batch, x.Shape[1] + y.Shape[1], width}, v)
}
