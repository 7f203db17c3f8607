package explain

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/pjrt/llo"
)

// Each stage is followed through all steps, and its lines are those of the passes. Of a kernel without locations the builder's stages are followed, without cycles.
func TestWays(t *testing.T) {
	e := tiny(t, PageColumns)
	side := newPageSide("", e, map[string]string{})
	list, err := ways(e, side.Stages)
	require.NoError(t, err)
	names, most := []string{}, 0
	for _, w := range list {
		names = append(names, w.Name)
		require.Len(t, w.Steps, 3)
		for _, step := range w.Steps {
			require.Positive(t, step.Of)
			require.Len(t, step.Lines, min(step.Count, wayLines), w.Name)
			for _, line := range step.Lines {
				require.Contains(t, line, "@"+w.Name)
			}
		}
		require.Positive(t, w.Cycles)
		require.NotNil(t, w.Schedule)
		most += w.Steps[1].Count
	}
	require.Subset(t, names, []string{"products", "decay", "solve", "state"})
	require.LessOrEqual(t, most, list[0].Steps[1].Of)
	require.Equal(t, []pageStage{{Name: "solve", Colour: stageColours[0]}}, followed(e, []pageStage{{Name: "(fused)", Cycles: 9}}, []stageLine{{stage: "glue"}, {stage: "solve"}, {stage: "solve"}}))
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, (&Result{Module: NewModule(e.module.Program), Targets: []*Explanation{e}}).WritePage(file))

	// where the schedule has locations, the stage has its bundles and what they fill
	op := &llo.OpReport{Name: "fused", Profile: &llo.Profile{Bundles: 30, Slots: []string{"MXU", "VALU"}, Columns: []llo.Column{
		{Bundles: 10, Use: []float64{1, .5}, Files: map[string]int64{"solve.c0": 3, "state.c0": 1}},
		{Bundles: 10, Use: []float64{.2, 1}, Files: map[string]int64{"state.c0": 2}},
		{Bundles: 10, Use: []float64{0, 0}, Files: map[string]int64{"solve.c1": 1}},
	}}}
	w := &stageWay{pageStage: pageStage{Name: "state"}}
	w.onSchedule(op, e.module.Program)
	require.Equal(t, 20, w.Schedule.Count)
	require.Equal(t, "VALU 90 %, MXU 36 %", w.Units)
	require.Equal(t, "M0 10V7.5H33.33V0.0H66.67V10.0H100.00V10Z", w.Schedule.Strip)
}

func TestStageLines(t *testing.T) {
	lines := []stageLine{{"state", "dot", "a"}, {"decay", "exp", "b"}, {"state", "dot", "c"}, {"state", "add", "d"}}
	s := stepOf(lines, "state")
	require.Equal(t, []any{3, 4, "2 dot, 1 add"}, []any{s.Count, s.Of, s.Ops})
	require.Equal(t, []string{"a", "c", "d"}, s.Lines)
	require.Equal(t, 4, strings.Count(s.Strip, "H"))
}
