package gdn

// Schedules, each field with its row of Axes. They only reorder a program: gdn/schedule turns them into an ir.Sched, which
// codegen/tpu applies to the built and tiled program.

// ForwardSchedule orders the instructions of a forward kernel, and chooses how its blocks are fetched.
type ForwardSchedule struct {
	PhasesBefore int      // phases that run ahead of the state's phase
	Steps        int      // chunks of a grid step
	HeadGroup    int      // heads interleaved between dots; 0: as built
	StateDelay   int      // delay of the state's phase, in hundredths of a chunk's time
	StateWhole   bool     // values applied to the state are computed in its phase
	Grain        int      // scheduling quantum, in ten-thousandths of a chunk's time: work of one phase stays together for that long
	PrologueEnd  int      // end of the first phase, in hundredths of a chunk's time
	Interleave   bool     // values applied to the state are computed interleaved with the rest of its phase
	Prefetch     Prefetch // how blocks of tokens reach vector memory
	HBM          bool     // arrays of the caller stay in HBM
}

type BackwardSchedule struct {
	PhasesBefore int // phases that run ahead of the state's phase
	PhasesAfter  int // phases that run after the state's phase
	Steps        int // chunks of a grid step
	HeadGroup    int // heads interleaved between dots; 0: as built
	StateDelay   int // delay of the state's phase, in hundredths of a chunk's time
	Grain        int // scheduling quantum, in ten-thousandths of a chunk's time: work of one phase stays together for that long
	HeadSkew     int // a group of HeadGroup heads issues its next products this many groups after the current one; 0: after all groups
}

// Rows of Axes, in the order of the text form.
var (
	grains = []int{0, 25, 40, 60, 75, 100}

	prefetchAxis = choiceAxis(GroupForward, "prefetch", "blocks: the pipeline of the grid brings whole blocks, and the first step waits for all of them; dma: the kernel copies blocks of tokens and states itself, one step ahead, and its first step waits for each part when it needs it", prefetchNames, PrefetchBlocks,
		ofChunks.and("phases_before", func(v Variant) bool { return v.Forward.PhasesBefore > 0 }), func(v *Variant) *Prefetch { return &v.Forward.Prefetch }).was("fetch", "windows=blocks", "copies=dma")
	hbmAxis = boolAxis(GroupForward, "hbm", "arguments and results of the kernel stay in HBM, from where the kernel copies blocks, whatever the compiler would move to VMEM before", false,
		when("algo phases_before", func(v Variant) bool { return v.Algo == AlgoToken || v.Forward.PhasesBefore > 0 }), func(v *Variant) *bool { return &v.Forward.HBM }).was("main")

	forwardAxes = []Axis{
		intAxis(GroupForward, "phases_before", "phases of a kernel that run ahead of the state: 1 has all work without the state, 2 makes the solve a phase of its own", 0, ofChunks,
			func(v *Variant) *int { return &v.Forward.PhasesBefore }, 0, 1, 2).was("ahead"),
		intAxis(GroupForward, "steps", "chunks of a kernel's grid step", 1, ofChunks, func(v *Variant) *int { return &v.Forward.Steps }, 1, 2, 4),
		intAxis(GroupForward, "head_group", "heads of a kernel that are interleaved between two matrix products; 0: all, in the order of the program", 0, always,
			func(v *Variant) *int { return &v.Forward.HeadGroup }, 0, 1, 2, 4, 8).was("lock"),
		intAxis(GroupForward, "state_delay", "start of the state's phase after the phases before it, in hundredths of a chunk's time", 0,
			ofPhases, func(v *Variant) *int { return &v.Forward.StateDelay }, 0, 3, 6, 10, 20).was("late"),
		intAxis(GroupForward, "grain", "how much work of one phase is issued before another phase has its turn, in ten-thousandths of a chunk's time; 0: none, as always in Pallas files", 0,
			ofPhases, func(v *Variant) *int { return &v.Forward.Grain }, grains...),
		boolAxis(GroupForward, "state_whole", "yes: operands of the state that do not depend on it, such as transposed values and broadcast decays, are computed in the state's phase, and take no VMEM between two phases", false,
			ofPhases, func(v *Variant) *bool { return &v.Forward.StateWhole }),
		intAxis(GroupForward, "prologue_end", "end of the first phase, in hundredths of a chunk's time", 100,
			ofPhases, func(v *Variant) *int { return &v.Forward.PrologueEnd }, 60, 70, 80, 90, 100).was("ready"),
		boolAxis(GroupForward, "interleave", "yes: operands of the state are computed beside the rest of their phase, not after it", false,
			ofPhases, func(v *Variant) *bool { return &v.Forward.Interleave }).was("beside"),
	}

	backwardAxes = []Axis{
		intAxis(GroupBackward, "bwd.phases_before", "phases of a backward kernel that run ahead of the state", 0, ofChunks, func(v *Variant) *int { return &v.Backward.PhasesBefore }, 0, 1).was("backahead"),
		intAxis(GroupBackward, "bwd.phases_after", "phases of a backward kernel behind the state: 1 has the work that reads the state's gradient and does not change it", 0, ofChunks, func(v *Variant) *int { return &v.Backward.PhasesAfter }, 0, 1).was("behind"),
		intAxis(GroupBackward, "bwd.steps", "chunks of a backward kernel's grid step", 1, ofChunks, func(v *Variant) *int { return &v.Backward.Steps }, 1, 2, 4).was("backsteps"),
		intAxis(GroupBackward, "bwd.head_group", "head_group of a backward kernel", 0, ofChunks, func(v *Variant) *int { return &v.Backward.HeadGroup }, 0, 1, 2, 4, 8).was("backlock"),
		intAxis(GroupBackward, "bwd.state_delay", "state_delay of a backward kernel", 0, ofOverlap, func(v *Variant) *int { return &v.Backward.StateDelay }, 0, 3, 6, 8, 10, 12, 20).was("backlate"),
		intAxis(GroupBackward, "bwd.grain", "grain of a backward kernel", 0, ofOverlap, func(v *Variant) *int { return &v.Backward.Grain }, grains...),
		intAxis(GroupBackward, "bwd.head_skew", "in the last phase of a backward kernel, a group of bwd.head_group heads starts its next product after so many other groups; 0: after all groups", 0,
			ofChunks.and("bwd.phases_after", func(v Variant) bool { return v.Backward.PhasesAfter > 0 }), func(v *Variant) *int { return &v.Backward.HeadSkew }, 0, 1, 2, 3).was("stagger"),
	}
)

// overlapped reports whether phases of a backward kernel overlap.
func overlapped(v Variant) bool {
	return chunked(v) && v.Backward.PhasesBefore+v.Backward.PhasesAfter > 0
}
