package ir

import (
	"fmt"
	"strings"
)

// Sched is how the steps of a kernel are ordered and overlap; it changes no result. A chunk, one point of the sequential axis,
// passes through phases 0, 1, ...; in time slot t phase p works on chunk t - Lags[p], and a step holds Steps time slots.
type Sched struct {
	Steps  int          // chunks of a step; divides the points of the sequential axis
	Lags   []int        // lag of each phase in chunks: 0 for the first, then ascending
	Phases []StagePhase // least phase of the dots of a stage, and of all of it that depends on the state
	Lock   int          // heads interleaved between two dots
	Late   int          // hundredths of a time slot that the phase of the state waits for the others
	Grain  int          // ten-thousandths of a time slot for which the work of a phase stands together before other phases' comes between
	Ends   []int        // hundredths of a time slot at which each phase is done; nil: at its end
	Side   []string     // stages that are spread over the time of their phase beside the rest of it, instead of in their turn
	With   []string     // stages that are of the phase of the state whole, though they need no state
	Enter  []int        // input windows that are read in the phase of the state: what sequences start from
	After  int          // phases after that of the state, which is otherwise the last
	// Waves are stages ordered as one in which groups of heads follow one another: a group's next dots come when Stagger groups
	// have had theirs, and not when all have.
	Waves   []string
	Stagger int
	// Fetch has the kernel copy the blocks of input windows itself, those of the next step while it does one: of windows that are looked
	// up where the grid's Live says how many steps run, else of those that follow the steps. What another kernel of the module gives or takes stays in windows.
	Fetch bool
}

// State is the phase of what carries state.
func (s *Sched) State() int { return len(s.Lags) - 1 - s.After }

// StagePhase assigns a stage to a phase.
type StagePhase struct {
	Stage string
	Phase int
}

// schedFields are those of its schedule.
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

// text is stage:phase.
func (s StagePhase) text() string { return fmt.Sprintf("%s:%d", s.Stage, s.Phase) }

func (p *parser) stagePhase() (StagePhase, error) {
	s := StagePhase{Stage: p.word()}
	if err := p.expect(":"); err != nil {
		return s, err
	}
	err := p.int(&s.Phase)
	return s, err
}

// Check says what keeps a grid or kernel from having the schedule; nil, which is none, suits all.
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
		return fmt.Errorf("%d heads in lockstep", s.Lock)
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

// known refuses a stage that no program has: a schedule that names it would change nothing.
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
