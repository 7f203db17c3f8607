package layer

import (
	"strings"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/gomlx/gomlx/pkg/ml/context"

	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// ComputeLayer runs a stored case of a whole layer on a backend: its first tokens at once, the others one by one from the
// caches, and all of them in one call of a layer without a cache. The variant is as Builder.Variant takes it.
func ComputeLayer(b backends.Backend, c truth.LayerCase, variant string, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	cfg := Config{Hidden: c.Hidden, HeadsK: c.HeadsK, HeadsV: c.HeadsV, KeyDim: c.KeyDim, ValueDim: c.ValueDim, ConvWidth: c.ConvWidth, NormEps: c.NormEps}
	weights := map[string]*array.Array{}
	for name, a := range inputs {
		if strings.HasPrefix(name, truth.LayerWeights) {
			weights[name] = a
		}
	}
	ctx := context.New().In("layer")
	if _, err := Load(ctx, WeightsOf(weights), truth.LayerWeights, cfg, dtypes.Float32); err != nil {
		return nil, err
	}
	x := inputs["x"].Convert(ir.F32)
	mask := inputs["attention_mask"]
	run := func(parts []*array.Array, outputs []string) (map[string]*array.Array, error) {
		s, err := NewSession(b, ctx, cfg, variant)
		if err != nil {
			return nil, err
		}
		defer s.Finalize()
		out := map[string]*array.Array{}
		for i, part := range parts {
			m := mask
			if i > 0 {
				m = nil // it is of the first tokens alone
			}
			y, err := s.Run(part, m)
			if err != nil {
				return nil, err
			}
			name := outputs[min(i, len(outputs)-1)]
			if out[name] != nil {
				y = joinTokens(out[name], y)
			}
			out[name] = y
			if i == 0 || i == len(parts)-1 {
				suffix := "_prefill"
				if i > 0 {
					suffix = "_end"
				}
				if out["conv_state"+suffix], out["recurrent_state"+suffix], err = s.Caches(); err != nil {
					return nil, err
				}
			}
		}
		return out, nil
	}
	parts := []*array.Array{sliceTokens(x, 0, c.Prefill)}
	for i := range c.Steps {
		parts = append(parts, sliceTokens(x, c.Prefill+i, c.Prefill+i+1))
	}
	out, err := run(parts, []string{"y_prefill", "y_decode"})
	if err != nil {
		return nil, err
	}
	if c.Steps == 0 {
		out["y_decode"] = array.New(ir.F32, x.Shape[0], 0, c.Hidden)
		out["conv_state_end"], out["recurrent_state_end"] = out["conv_state_prefill"], out["recurrent_state_prefill"]
	}
	if mask != nil { // over all tokens, those after the first are real
		padded := array.New(ir.F32, x.Shape[0], x.Shape[1])
		v := padded.Float32s()
		for i, m := range mask.Float64s() {
			v[i/c.Prefill*x.Shape[1]+i%c.Prefill] = float32(m)
		}
		for i := range v {
			if i%x.Shape[1] >= c.Prefill {
				v[i] = 1
			}
		}
		mask = array.FromFloat32s(ir.F32, padded.Shape, v)
	}
	full, err := run([]*array.Array{x}, []string{"y_full"})
	if err != nil {
		return nil, err
	}
	out["y_full"] = full["y_full"]
	return out, nil
}

// sliceTokens gives tokens begin to end of [batch, tokens, width] in f32.
func sliceTokens(a *array.Array, begin, end int) *array.Array {
	batch, tokens, width := a.Shape[0], a.Shape[1], a.Shape[2]
	var v []float32
	all := a.Float32s()
	for i := range batch {
		v = append(v, all[(i*tokens+begin)*width:(i*tokens+end)*width]...)
	}
	return array.FromFloat32s(ir.F32, []int{batch, end - begin, width}, v)
}

// joinTokens puts the tokens of y after those of x.
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
