package ir

import (
	"fmt"
	"strings"
)

// Sched orders and overlaps the steps of a kernel; it does not change results. A chunk, one point of the sequential axis,
// passes through phases 0, 1, ...; in time slot t, phase p works on chunk t - Lags[p]. A step has Steps time slots.
type Sched struct {
	Steps  int          // chunks of a step; divides the size of the sequential axis
	Lags   []int        // lag of each phase in chunks: 0 for the first, then ascending
	Phases []StagePhase // lowest phase of a stage's dots, and of its instructions that depend on the state
	Lock   int          // heads interleaved between two dots
	Late   int          // start offset of the state's phase, in hundredths of a time slot
	Grain  int          // quantum in ten-thousandths of a time slot: work of one phase stays together for that long
	Ends   []int        // end of each phase, in hundredths of a time slot; nil: 100
	Side   []string     // stages interleaved with the rest of their phase over its whole time, instead of in program order
	With   []string     // stages that run entirely in the state's phase, though they need no state
	Enter  []int        // input windows read in the state's phase: initial states of sequences
	After  int          // number of phases after the state's phase
	// Waves are stages scheduled together, with groups of heads staggered: a group issues its next dots after Stagger other groups
	// have issued theirs, instead of after all groups.
	Waves   []string
	Stagger int
	// Fetch makes the kernel copy the blocks of input windows itself, one step ahead. It applies to windows indexed by a table if the grid
	// has Live, else to windows that follow the steps. Arrays passed between kernels of the module stay in windows.
	Fetch bool
}

// State returns the index of the phase that carries the state.
func (s *Sched) State() int { return len(s.Lags) - 1 - s.After }

// StagePhase puts a stage into a phase.
type StagePhase struct {
	Stage string
	Phase int
}

// schedFields are the attributes of a schedule in printing order.
var schedFields = []field[*Sched]{
	always(number("steps", func(s *Sched) *int { return &s.Steps })),
	always(numbers("lags", func(s *Sched) *[]int { return &s.Lags })),
	always(number("lock", func(s *Sched) *int { return &s.Lock })),
	number("late", func(s *Sched) *int { return &s.Late }),
	number("grain", func(s *Sched) *int { return &s.Grain }),
	numbers("ends", func(s *Sched) *[]int { return &s.Ends }),
	words("beside", func(s *Sched) *[]string { return &s.Side }),
	words("with", func(s *Sched) *[]string { return &s.With }),
	numbers("enter", func(s *Sched) *[]int { return &s.Enter }),
	number("stagger", func(s *Sched) *int { return &s.Stagger }),
	words("waves", func(s *Sched) *[]string { return &s.Waves }),
	number("after", func(s *Sched) *int { return &s.After }),
	flag("fetch", func(s *Sched) *bool { return &s.Fetch }),
	list("phases", func(s *Sched) *[]StagePhase { return &s.Phases }, StagePhase.text, (*parser).stagePhase),
}

// text returns stage:phase.
func (s StagePhase) text() string { return fmt.Sprintf("%s:%d", s.Stage, s.Phase) }

func (p *parser) stagePhase() (StagePhase, error) {
	s := StagePhase{Stage: p.word()}
	if err := p.expect(":"); err != nil {
		return s, err
	}
	err := p.int(&s.Phase)
	return s, err
}

// Check returns an error if a grid or kernel cannot use the schedule. A nil schedule fits every grid.
func (s *Sched) Check(g *Grid) error {
	if err := g.checkLive(); err != nil || s == nil {
		return err
	}
	n := len(g.Dims)
	switch {
	case n == 0 || !g.Dims[n-1].Seq:
		return fmt.Errorf("a schedule needs a sequential axis")
	case s.Steps < 1 || g.Dims[n-1].Size%s.Steps != 0:
		return fmt.Errorf("%d chunks do not make whole steps of %d", g.Dims[n-1].Size, s.Steps)
	case s.Lock < 1:
		return fmt.Errorf("%d interleaved heads", s.Lock)
	case s.Late < 0 || s.Late > 90:
		return fmt.Errorf("the state is late by %d hundredths of a time slot; 0 to 90 are possible", s.Late)
	case s.Grain < 0 || s.Grain > 1000:
		return fmt.Errorf("a grain of %d ten-thousandths of a time slot; 0 to 1000 are possible", s.Grain)
	case s.Ends != nil && len(s.Ends) != len(s.Lags):
		return fmt.Errorf("%d ends for %d phases", len(s.Ends), len(s.Lags))
	case g.Live > 0 && s.Steps != 1:
		return fmt.Errorf("live needs steps of one chunk, not of %d", s.Steps)
	case s.Stagger < 0 || s.Stagger > 64 || (s.Stagger == 0) != (len(s.Waves) == 0):
		return fmt.Errorf("groups of heads staggered by %d in %d stages; 1 to 64 in some, or 0 in none", s.Stagger, len(s.Waves))
	case len(s.Lags) == 0 || s.Lags[0] != 0:
		return fmt.Errorf("lags %v do not start at 0", s.Lags)
	case s.After < 0 || s.State() < 0:
		return fmt.Errorf("%d of %d phases after the state", s.After, len(s.Lags))
	}
	for i := 1; i < len(s.Lags); i++ {
		if s.Lags[i] <= s.Lags[i-1] || s.Lags[i] > 1<<20 {
			return fmt.Errorf("lags %v do not ascend", s.Lags)
		}
	}
	for _, e := range s.Ends {
		if e <= s.Late || e > 100 {
			return fmt.Errorf("a phase ends at %d hundredths of its time slot; %d to 100 are possible", e, s.Late+1)
		}
	}
	for _, b := range s.Side {
		if err := known(b); err != nil {
			return fmt.Errorf("beside its phase: %w", err)
		}
	}
	for _, w := range s.With {
		if err := known(w); err != nil {
			return fmt.Errorf("with the state: %w", err)
		}
	}
	for _, i := range s.Enter {
		if i < 0 || i >= len(g.In) {
			return fmt.Errorf("window %d of %d is read in the phase of the state", i, len(g.In))
		}
	}
	for _, w := range s.Waves {
		if err := known(w); err != nil {
			return fmt.Errorf("in waves: %w", err)
		}
	}
	for _, p := range s.Phases {
		if err := known(p.Stage); err != nil {
			return err
		}
		if p.Phase < 0 || p.Phase >= len(s.Lags) {
			return fmt.Errorf("stage %q in phase %d of %d", p.Stage, p.Phase, len(s.Lags))
		}
	}
	return nil
}

// known refuses an unknown stage, since naming it in a schedule would have no effect.
func known(stage string) error {
	if _, ok := LookupStage(stage); ok {
		return nil
	}
	var names []string
	for _, s := range Stages {
		names = append(names, s.Name)
	}
	return fmt.Errorf("%q is no stage (known: %s)", stage, strings.Join(names, " "))
}
