package truth

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// LayerCase is a stored case of a whole layer. Prefill tokens are computed at once, then Steps tokens one by one. Inputs are x [B, Prefill+Steps, Hidden],
// attention_mask [B, Prefill] if the case has one, and weights named w.in_proj_qkvz.weight and so on. Outputs are y_prefill, y_decode, y_full (all tokens
// at once), and the caches conv_state_prefill, recurrent_state_prefill, conv_state_end and recurrent_state_end. A case with the input dy (shape of x)
// also has the gradients of sum(y_full dy): dx, and dw.NAME for each weight.
type LayerCase struct {
	Hidden    int     `json:"hidden"`
	HeadsK    int     `json:"hk"`
	HeadsV    int     `json:"hv"`
	KeyDim    int     `json:"dk"`
	ValueDim  int     `json:"dv"`
	ConvWidth int     `json:"conv"`
	NormEps   float64 `json:"rms_norm_eps"`
	Bound     float64 `json:"bound"`      // rule kda: lower bound of the log decay, 0: none
	DecayRank int     `json:"decay_rank"` // rule kda: rank of the decay projection, 0: full
	GateRank  int     `json:"gate_rank"`  // rule kda: rank of the output gate projection
	Act       string  `json:"act"`
	L2Eps     float64 `json:"l2norm_eps"`
	Prefill   int     `json:"-"`
	Steps     int     `json:"-"`

	Rule gdn.Rule `json:"-"`
}

// LayerWeights is the name prefix of weights in a LayerCase.
const LayerWeights = "w."

// layerOnly is the Reason of layer cases: they have no Spec.
const layerOnly = "a whole layer: only engines that have layers compute it (gomlx)"

// describeLayer reads a layer case. It sets Reason if the case is valid but not supported.
func (c *Case) describeLayer(m *manifestCase, rule gdn.Rule) error {
	types, err := m.types(c.File)
	if err != nil {
		return err
	}
	if m.Config == nil {
		return fmt.Errorf("field config is missing: the sizes of the layer")
	}
	l := *m.Config
	l.Prefill, l.Steps, l.Rule = m.Prefill, m.Steps, rule
	for _, f := range []struct {
		name string
		n    int
	}{{"hidden", l.Hidden}, {"hk", l.HeadsK}, {"hv", l.HeadsV}, {"dk", l.KeyDim}, {"dv", l.ValueDim}, {"conv", l.ConvWidth}} {
		if f.n < 1 || f.n > gdn.MaxTokens {
			return fmt.Errorf("field config.%s: %d is out of range: 1 to %d", f.name, f.n, gdn.MaxTokens)
		}
	}
	x, ok := types["x"]
	if !ok || x.Rank() != 3 || x.Shape[2] != l.Hidden {
		return fmt.Errorf("field tensors.x: %v, want [batch, tokens, %d]", x, l.Hidden)
	}
	if l.Prefill < 1 || l.Steps < 0 || l.Prefill+l.Steps != x.Shape[1] {
		return fmt.Errorf("fields prefill_len and decode_steps: %d and %d, want at least one and none, %d tokens together", l.Prefill, l.Steps, x.Shape[1])
	}
	c.Reason = layerOnly
	switch {
	case l.Act != "" && l.Act != "silu":
		c.Reason = fmt.Sprintf("the activation is %q: only silu is computed", l.Act)
		return nil
	case l.L2Eps != 0 && l.L2Eps != gdn.L2Eps:
		c.Reason = fmt.Sprintf("the epsilon of the l2 norm is %g: only %g is computed", l.L2Eps, gdn.L2Eps)
		return nil
	}
	b, channels := x.Shape[0], 2*l.HeadsK*l.KeyDim+l.HeadsV*l.ValueDim
	conv, state := ir.T(ir.F32, b, channels, l.ConvWidth), ir.T(ir.F32, b, l.HeadsV, l.KeyDim, l.ValueDim)
	result := func(name string, t ir.Type) gdn.Param { return gdn.Param{Name: name, Type: t} }
	results := []gdn.Param{
		result("y_prefill", ir.T(ir.F32, b, l.Prefill, l.Hidden)), result("conv_state_prefill", conv), result("recurrent_state_prefill", state),
		result("y_decode", ir.T(ir.F32, b, l.Steps, l.Hidden)), result("conv_state_end", conv), result("recurrent_state_end", state),
		result("y_full", ir.T(ir.F32, b, x.Shape[1], l.Hidden)),
	}
	given := func(name string) bool {
		return name == "x" || name == "dy" || name == "attention_mask" || strings.HasPrefix(name, LayerWeights)
	}
	if dy, ok := types["dy"]; ok {
		if !slices.Equal(dy.Shape, x.Shape) {
			return fmt.Errorf("field tensors.dy.shape: %v, x makes it %v", dy.Shape, x.Shape)
		}
		for _, name := range slices.Sorted(maps.Keys(types)) {
			if name == "x" || strings.HasPrefix(name, LayerWeights) {
				results = append(results, result("d"+name, ir.T(ir.F32, types[name].Shape...)))
			}
		}
	}
	c.inputs, c.expected = map[string]gdn.Param{}, map[string]gdn.Param{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		i := slices.IndexFunc(results, func(p gdn.Param) bool { return p.Name == name })
		switch {
		case i >= 0:
			if !slices.Equal(t.Shape, results[i].Type.Shape) {
				return fmt.Errorf("field tensors.%s.shape: %v, the sizes make it %v", name, t.Shape, results[i].Type.Shape)
			}
			c.expected[name] = gdn.Param{Name: name, Type: t}
			c.Outputs = append(c.Outputs, Output{Name: name, Type: t, Param: name, Stored: true})
		case given(name):
			c.inputs[name] = gdn.Param{Name: name, Type: t}
		default:
			c.Reason = fmt.Sprintf("tensor %s has no meaning known for op %s", name, m.Op)
			return nil
		}
	}
	if len(c.expected) == 0 { // a file of inputs only
		for _, p := range results {
			c.Outputs = append(c.Outputs, Output{Name: p.Name, Type: p.Type, Param: p.Name})
		}
	}
	c.Layer = &l
	return nil
}
