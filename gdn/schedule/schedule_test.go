package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

func TestOf(t *testing.T) {
	carriers := []Carrier{{Grid: "fused", Heads: 8, Enter: []int{3}}, {Grid: "backward", Heads: 4, Reverse: true}}
	for text, want := range map[string]map[string]*ir.Sched{
		"default,head_group=0": {},
		"default,head_group=2": {"fused": {Steps: 1, Lags: []int{0}, Lock: 2, Enter: []int{3}}},
		"default,phases_before=2,steps=2,state_delay=6,interleave=yes": {"fused": {Steps: 2, Lags: []int{0, 1, 2}, Lock: 8, Late: 6, Enter: []int{3}, Side: []string{"operands"},
			Phases: []ir.StagePhase{{Stage: "solve", Phase: 1}}}},
		"default,phases_before=1,grain=60":        {"fused": {Steps: 1, Lags: []int{0, 1}, Lock: 8, Grain: 60, Enter: []int{3}}},
		"default,phases_before=1,state_whole=yes": {"fused": {Steps: 1, Lags: []int{0, 1}, Lock: 8, With: []string{"state"}, Enter: []int{3}}},
		// The last lag is whole steps, so that results come from whole steps.
		"default,phases_before=1,steps=4": {"fused": {Steps: 4, Lags: []int{0, 4}, Lock: 8, Enter: []int{3}}},
		"default,bwd.phases_before=1,bwd.phases_after=1,bwd.head_group=1,bwd.head_skew=2": {"backward": {Steps: 1, Lags: []int{0, 1, 2}, Lock: 1, After: 1, Stagger: 2, Waves: gradients,
			Phases: []ir.StagePhase{{Stage: "dq", Phase: 2}, {Stage: "dk", Phase: 2}, {Stage: "dg", Phase: 2}, {Stage: "output", Phase: 2}, {Stage: "store", Phase: 2}}}},
	} {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		require.Equal(t, want, Of(carriers, v), text)
		require.Equal(t, want["fused"] != nil, Ordered(v), text)
	}
}

// A schedule that a grid can not have is refused by the grid's name; grids without one stay as they are.
func TestAttach(t *testing.T) {
	m, err := ir.Parse(`module t (%x: f32[6,2]) -> (o) {
  %0 = grid %x {name=k, dims=(c:3:seq), in=([2,2]@(c,0)), out=([2,2]@(c,0):f32[6,2])} (%1: f32[2,2]) {
    yield %1
  } : f32[6,2]
  yield %0
}`)
	require.NoError(t, err)
	text := m.String()
	require.NoError(t, Attach(m, map[string]*ir.Sched{"other": {Steps: 1, Lags: []int{0}, Lock: 1}}))
	require.Equal(t, text, m.String())
	require.ErrorContains(t, Attach(m, map[string]*ir.Sched{"k": {Steps: 2, Lags: []int{0}, Lock: 1}}), "grid k: 3 chunks do not make whole steps of 2")
	require.NoError(t, Attach(m, map[string]*ir.Sched{"k": {Steps: 3, Lags: []int{0}, Lock: 1}}))
	require.Contains(t, m.String(), "steps=3")
}
