package gdn

// Schedules, each field with its row of Axes. They change no program: gdn/schedule makes an ir.Sched of them, which
// codegen/tpu applies to what is built and tiled without one.

// ForwardSchedule orders the instructions of a forward kernel, and says how its blocks come.
type ForwardSchedule struct {
	PhasesBefore int   // phases ahead of the state
	Steps        int   // chunks of a kernel's step
	HeadGroup    int   // heads in lockstep between dots; 0: as built
	StateDelay   int   // hundredths of a chunk's time that the state waits for the other phases
	StateWhole   bool  // what meets the state is made in its phase
	Grain        int   // ten-thousandths of a chunk's time for which the work of a phase stands together
	PrologueEnd  int   // hundredths of a chunk's time after which the first phase is done
	Interleave   bool  // what meets the state is made beside the rest of its phase
	Fetch        Fetch // how blocks of tokens come to vector memory
	Main         bool  // arrays of the caller stay in main memory
}

// BackwardSchedule orders the instructions of a backward kernel.
type BackwardSchedule struct {
	PhasesBefore int // phases ahead of the state
	PhasesAfter  int // phases behind the state
	Steps        int // chunks of a kernel's step
	HeadGroup    int // heads in lockstep between dots; 0: as built
	StateDelay   int // hundredths of a chunk's time that the state waits for the other phases
	Grain        int // ten-thousandths of a chunk's time for which the work of a phase stands together
	HeadSkew     int // groups of Lock heads behind which a group takes the next products; 0: behind all
}

// The rows of Axes, in the order of the text form.
var (
	grains = []int{0, 25, 40, 60, 75, 100}

	fetchAxis = choiceAxis(GroupForward, "fetch", "blocks of tokens, and of the states of packed sequences, are windows, all of which the first step waits for, or copied by the kernel: those of the next step while it does one, and at first those alone that the first step reads", fetchNames, FetchWindows,
		ofChunks.and("phases_before", func(v Variant) bool { return v.Forward.PhasesBefore > 0 }), func(v *Variant) *Fetch { return &v.Forward.Fetch })
	mainAxis = boolAxis(GroupForward, "main", "arrays that a kernel has from the caller and for it stay in main memory, from where their blocks come beside the work, whatever the compiler would bring to vector memory before", false,
		when("algo phases_before", func(v Variant) bool { return v.Algo == AlgoToken || v.Forward.PhasesBefore > 0 }), func(v *Variant) *bool { return &v.Forward.Main })

	forwardAxes = []Axis{
		intAxis(GroupForward, "phases_before", "phases of a kernel that run ahead of the state: 1 is all that needs no state, 2 gives the solve a phase of its own", 0, ofChunks,
			func(v *Variant) *int { return &v.Forward.PhasesBefore }, 0, 1, 2).was("ahead"),
		intAxis(GroupForward, "steps", "chunks of a kernel's grid step", 1, ofChunks, func(v *Variant) *int { return &v.Forward.Steps }, 1, 2, 4),
		intAxis(GroupForward, "head_group", "heads of a kernel in lockstep between two matrix products; 0: all, and instructions stay as built", 0, always,
			func(v *Variant) *int { return &v.Forward.HeadGroup }, 0, 1, 2, 4, 8).was("lock"),
		intAxis(GroupForward, "state_delay", "hundredths of a chunk's time that the state's phase starts after those ahead of it", 0,
			ofPhases, func(v *Variant) *int { return &v.Forward.StateDelay }, 0, 3, 6, 10, 20).was("late"),
		intAxis(GroupForward, "grain", "ten-thousandths of a chunk's time for which the work of a phase stands together before that of other phases comes between; 0: none, as always in Pallas files", 0,
			ofPhases, func(v *Variant) *int { return &v.Forward.Grain }, grains...),
		boolAxis(GroupForward, "state_whole", "what meets the state and needs none, such as turned values and spread decays, is made in the state's phase instead of ahead of it, and takes no vector memory between the two", false,
			ofPhases, func(v *Variant) *bool { return &v.Forward.StateWhole }),
		intAxis(GroupForward, "prologue_end", "hundredths of a chunk's time after which the first phase is done", 100,
			ofPhases, func(v *Variant) *int { return &v.Forward.PrologueEnd }, 60, 70, 80, 90, 100).was("ready"),
		boolAxis(GroupForward, "interleave", "what meets the state is made beside the rest of its phase instead of after it", false,
			ofPhases, func(v *Variant) *bool { return &v.Forward.Interleave }).was("beside"),
	}

	backwardAxes = []Axis{
		intAxis(GroupBackward, "bwd.phases_before", "phases of a backward kernel that run ahead of the state", 0, ofChunks, func(v *Variant) *int { return &v.Backward.PhasesBefore }, 0, 1).was("backahead"),
		intAxis(GroupBackward, "bwd.phases_after", "phases of a backward kernel behind the state: 1 is what needs the state and makes none of it", 0, ofChunks, func(v *Variant) *int { return &v.Backward.PhasesAfter }, 0, 1).was("behind"),
		intAxis(GroupBackward, "bwd.steps", "chunks of a backward kernel's grid step", 1, ofChunks, func(v *Variant) *int { return &v.Backward.Steps }, 1, 2, 4).was("backsteps"),
		intAxis(GroupBackward, "bwd.head_group", "head_group of a backward kernel", 0, ofChunks, func(v *Variant) *int { return &v.Backward.HeadGroup }, 0, 1, 2, 4, 8).was("backlock"),
		intAxis(GroupBackward, "bwd.state_delay", "state_delay of a backward kernel", 0, ofOverlap, func(v *Variant) *int { return &v.Backward.StateDelay }, 0, 3, 6, 8, 10, 12, 20).was("backlate"),
		intAxis(GroupBackward, "bwd.grain", "grain of a backward kernel", 0, ofOverlap, func(v *Variant) *int { return &v.Backward.Grain }, grains...),
		intAxis(GroupBackward, "bwd.head_skew", "groups of bwd.head_group heads behind which a group takes the next products of a backward kernel's phase behind the state; 0: behind all groups", 0,
			ofChunks.and("bwd.phases_after", func(v Variant) bool { return v.Backward.PhasesAfter > 0 }), func(v *Variant) *int { return &v.Backward.HeadSkew }, 0, 1, 2, 3).was("stagger"),
	}
)

// overlapped says whether phases of a backward kernel overlap.
func overlapped(v Variant) bool {
	return chunked(v) && v.Backward.PhasesBefore+v.Backward.PhasesAfter > 0
}
