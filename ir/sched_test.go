package ir

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A schedule that can not be kept is refused, with the field and its range.
func TestSchedCheck(t *testing.T) {
	g := &Grid{Dims: []GridDim{{Name: "b", Size: 3}, {Name: "c", Size: 8, Seq: true}}, In: make([]Window, 3)}
	good := func() *Sched { return &Sched{Steps: 2, Lags: []int{0, 1, 2}, Lock: 1, Late: 6} }
	require.NoError(t, good().Check(g))
	full := good()
	full.Ends, full.Side, full.Phases = []int{80, 100, 7}, []string{"operands"}, []StagePhase{{"solve", 1}}
	full.Waves, full.Stagger = []string{"dq", "dk"}, 2
	full.With, full.Enter = []string{"state"}, []int{1, 2}
	require.NoError(t, full.Check(g))
	for want, change := range map[string]func(*Sched){
		"whole steps of 3":                                func(s *Sched) { s.Steps = 3 },
		"0 interleaved heads":                             func(s *Sched) { s.Lock = 0 },
		"late by 91":                                      func(s *Sched) { s.Late = 91 },
		"do not start at 0":                               func(s *Sched) { s.Lags = []int{1, 2, 3} },
		"do not ascend":                                   func(s *Sched) { s.Lags = []int{0, 2, 2} },
		"2 ends for 3 phases":                             func(s *Sched) { s.Ends = []int{100, 100} },
		"ends at 6 hundredths":                            func(s *Sched) { s.Ends = []int{100, 6, 100} },
		"ends at 101 hundredths":                          func(s *Sched) { s.Ends = []int{100, 101, 100} },
		`beside its phase: "two words" is no stage`:       func(s *Sched) { s.Side = []string{"two words"} },
		"window 3 of 3 is read":                           func(s *Sched) { s.Enter = []int{2, 3} },
		"window -1 of 3":                                  func(s *Sched) { s.Enter = []int{-1} },
		"staggered by 2 in 0 stages":                      func(s *Sched) { s.Stagger = 2 },
		`in waves: "solv" is no stage (known: glue load `: func(s *Sched) { s.Stagger, s.Waves = 1, []string{"solv"} },
		"in phase 3 of 3":                                 func(s *Sched) { s.Phases = []StagePhase{{"solve", 3}} },
		"phases after the state":                          func(s *Sched) { s.After = 3 },
	} {
		s := good()
		change(s)
		require.ErrorContains(t, s.Check(g), want)
	}
	require.ErrorContains(t, good().Check(&Grid{Dims: g.Dims[:1]}), "sequential axis")
}
