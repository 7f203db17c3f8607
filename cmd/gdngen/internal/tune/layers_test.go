package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
)

// Sizes of the rule alone are a model: what is not given of the values is as of the keys. One that can not be is refused.
func TestModelOf(t *testing.T) {
	c, err := ModelOf(model.Rule{HeadsK: 4, HeadsV: 8, K: 128, V: 64}, 3)
	require.NoError(t, err)
	require.Equal(t, []int{3, 512, 3}, []int{c.Layers, c.Hidden, c.RuleLayers()})
	c, err = ModelOf(model.Rule{HeadsK: 4, K: 128}, 1)
	require.NoError(t, err)
	require.Equal(t, []int{4, 128}, []int{c.Rule.HeadsV, c.Rule.V})
	_, err = ModelOf(model.Rule{HeadsK: 4, HeadsV: 6, K: 128}, 1)
	require.ErrorContains(t, err, "hv")
}

// Whole layers are of prefill and training, at the sizes of the work; other works have none.
func TestLayers(t *testing.T) {
	c, err := model.Preset("130m")
	require.NoError(t, err)
	works, err := ParseWorks("all")
	require.NoError(t, err)
	targets, err := target.Parse("v5e,v6e")
	require.NoError(t, err)
	steps, err := Layers(c, works, Sizes{Tokens: 2048, Batch: 2}, gdn.Auto, targets)
	require.NoError(t, err)
	require.Len(t, steps, 2)
	require.Equal(t, []bool{true, false}, []bool{steps[0].forward, steps[1].forward})
	for _, s := range steps {
		require.Equal(t, []int{2, 2048}, []int{s.Model.Batch, s.Model.Tokens})
		require.Len(t, s.rules, 2)
	}
}

func TestNext(t *testing.T) {
	row := &Row{Spec: "tiny", Target: "v6e"}
	r := &Result{Rows: []*Row{row}}
	require.Contains(t, r.Next(true, false), "without --stored")
	require.Contains(t, r.Next(false, false), "gdngen setup")
	row.Cycles = 7
	require.Contains(t, r.Next(false, false), "--out kernels")
	require.Equal(t, "gdngen check --spec tiny --target v6e, its numbers", r.Next(false, true))
	row.Files = []string{"a.mlir", "a.py"}
	require.Contains(t, r.Next(false, true), "python a.py")
}
