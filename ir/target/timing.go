package target

// Timing has latencies and intervals of one generation in cycles, for the model of stalls in a schedule.
//
// Sources, all for libtpu 0.0.51 and none from hardware:
//
//   - listing: the latency and the resources that the compiler prints for each instruction of the encoded program.
//   - profile: the compiler's static profile of single-operation kernels, by its critical path.
//   - schedule: the shortest and the most common distances in schedules.
//
// The units are interlocked: an instruction whose operand or unit is not ready waits, and so do all instructions after it.
type Timing struct {
	// Vector unit (listing): arithmetic; moves, selects and comparisons; a load.
	VectorALU, VectorMove, VectorLoad int64
	// Transcendental functions, from the push to the earliest pop (listing and profile).
	Transcendental int64
	// MXU: from a product to its first result (profile; schedule); between two pops of the result queue (listing); number of
	// results of a product of 16 bf16 rows, twice the number for 8 rows (listing).
	Matmul        int64
	MatmulPop     int64 `zero:"results have addresses, there is no queue"`
	MatmulResults int
	// Lane permutes, rotates and broadcasts, and lane sums: latency and occupancy of their unit (listing and profile).
	Permute, LaneSum, LanePath int64
	// Transposes: First - Step (n-1) cycles pass from the last of n pushes to the first result; a push holds the unit for Path (profile
	// at n = 1, 2, 8 and 16). PairFirst is for pushes of two registers (schedule).
	Transpose32, Transpose16 TransposeTiming
	PairFirst                int64 `zero:"no push takes two registers"`
	// Cycles between two pops of permuted, summed or transposed registers (listing).
	LanePop int64
	// Switches of an XLU: delay of an instruction after another class (listing).
	TransposeAfterPermute32, TransposeAfterPermute16, SumAfterPermute int64
	TransposeAfterSum, PermuteAfterSum                                int64
	PermuteAfterTranspose, SumAfterTranspose                          int64
	PermuteAfterTranspose16                                           int64 // of a single register
	// Fixed cycles of a transfer: from HBM, to HBM, and between vector and scalar memory (profile of copies of 64 bytes to 2 MiB). v5e has
	// no profile of the last kind and uses v6e's.
	Read, Write, Local int64
	// Bundles in one code overlay: regular, with room to fetch the next one meanwhile, and jumbo, the largest possible for a loop (log
	// of the compiler's partitioner).
	Overlay, JumboOverlay int
}

// TransposeTiming is described in Timing.
type TransposeTiming struct{ First, Step, Path int64 }
