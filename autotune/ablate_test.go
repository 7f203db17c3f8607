package autotune

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
)

// joint is a run of two candidates, the second being the first with several moves.
func joint(t *testing.T, from, to string) (dir string) {
	c := quick(t, 2)
	c.Seeds = []string{from, to}
	_, err := Search(t.Context(), c)
	require.NoError(t, err)
	return c.Dir
}

func TestAblate(t *testing.T) {
	dir := joint(t, "naive", "naive,solve=merge,heads=2,decay=base2")
	config := Config{Evaluator: &fake{roomy: true}, Generator: "test", Backoff: time.Millisecond}
	b, err := Ablate(t.Context(), dir, 2, 1, config)
	require.NoError(t, err)
	require.Len(t, b.Moves, 3)
	require.Equal(t, filepath.Join(dir, "ablate-2"), b.Run)

	cost := func(text string) journal.Figure {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		return fakeCost(&judge.Work{Variant: v, Ruler: ruler.InOrder, Shapes: []judge.Shape{{Spec: spec(t, quickSpec), Weight: 1}}}, b.Target).PerToken
	}
	require.Equal(t, cost("naive"), b.Base.Alone.PerToken)
	require.Equal(t, cost("naive,solve=merge,heads=2,decay=base2"), b.Whole.Alone.PerToken)
	text := "naive"
	for i, m := range b.Moves {
		require.Equal(t, cost("naive,"+m.Move), m.Alone.PerToken, m.Move)
		text += "," + m.Move
		require.Equal(t, cost(text), m.After.PerToken, text)
		if i > 0 {
			require.LessOrEqual(t, m.Expected, b.Moves[i-1].Expected, "in the order of what is expected")
		}
	}
	v, err := Verify(b.Run, nil)
	require.NoError(t, err)
	require.Empty(t, v.Faults)

	again, err := Ablate(t.Context(), dir, 2, 1, Config{}) // nothing is judged again
	require.NoError(t, err)
	require.Equal(t, b, again)

	var refused *ConfigError
	for _, x := range []struct {
		id, from int
		want     string
	}{{9, 0, "has no candidate 9"}, {1, 0, "by --from"}, {2, 2, "another candidate"}, {2, 7, "another candidate"}} {
		_, err := Ablate(t.Context(), dir, x.id, x.from, config)
		require.True(t, errors.As(err, &refused), "%v", err)
		require.ErrorContains(t, err, x.want)
	}
	config.Dir = dir
	_, err = Ablate(t.Context(), dir, 2, 1, config)
	require.ErrorContains(t, err, "holds another run")
	_, err = Ablate(t.Context(), joint(t, "naive", "naive,heads=2"), 2, 1, config)
	require.ErrorContains(t, err, "nothing to take apart")
}
