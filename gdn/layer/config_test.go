package layer_test

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// What no layer can be is refused, with what is wrong.
func TestCheck(t *testing.T) {
	for want, edit := range map[string]func(c *layer.Config){
		"rule gla has no layer, only gdn and kda have":                          func(c *layer.Config) { c.Rule = gdn.Rule{Decay: gdn.DecayChannel, Update: gdn.UpdateAdditive} },
		"bound -5 and ranks 6 and 10 are of rule kda, the rule is gdn":          func(c *layer.Config) { c.Rule, c.Bound = gdn.Rule{}, -5 },
		"ranks of the gates are -1 and 10, want none below 0":                   func(c *layer.Config) { c.DecayRank = -1 },
		"bound of the log decay is 5, want a number below 0, or 0 for no bound": func(c *layer.Config) { c.Bound = 5 },
		`output gate "tanh" is unknown, want silu or sigmoid`:                   func(c *layer.Config) { c.OutputGate = "tanh" },
		"3 value heads over 2 key heads: the value heads must be a multiple":    func(c *layer.Config) { c.HeadsV = 3 },
	} {
		c := kimi
		require.NoError(t, c.Check())
		edit(&c)
		require.ErrorContains(t, c.Check(), want)
	}
}

// Hyperparameters and the builder make the same layers.
func TestKDAOptions(t *testing.T) {
	scope := model.NewStore().RootScope()
	scope.SetParams(map[string]any{layer.ParamHeadsK: 2, layer.ParamKeyDim: 8, layer.ParamRule: "kda", layer.ParamBound: -5., layer.ParamRank: 4})
	var got []layer.Config
	run(t, layertest.Backend(t, device.Go), scope, func(scope *model.Scope, in []*Node) []*Node {
		got = append(got, layer.New(scope, in[0]).Config())
		scope.SetParam(layer.ParamRule, "gdn")
		got = append(got, layer.New(scope, in[0]).KDA(4, -5).Config(), layer.New(scope, in[0]).Config())
		return in
	}, array.New(ir.F32, 1, 1, 24))
	require.Equal(t, layer.Config{Hidden: 24, HeadsK: 2, HeadsV: 2, KeyDim: 8, ValueDim: 8, ConvWidth: 4, NormEps: 1e-6,
		Rule: gdn.Rule{Decay: gdn.DecayChannel}, Bound: -5, DecayRank: 4, GateRank: 4}, got[0])
	require.Equal(t, got[0], got[1])
	require.Equal(t, gdn.Rule{}, got[2].Rule)
	require.Zero(t, got[2].DecayRank)
}
