package target

// Timing is how long the parts of one generation take, in cycles: what the wall model of a schedule needs beside the rates of a Target.
//
// Where the numbers come from, all for libtpu 0.0.51 and none from hardware:
//
//   - listing: the latency and the resources that the compiler prints for each instruction of the encoded program.
//   - profile: the compiler's own static profile of kernels of one operation, by its critical path.
//   - schedule: the shortest and the most common distances in schedules.
//
// The units are interlocked: an instruction whose operand or unit is not ready waits, and all after it.
type Timing struct {
	// Vector unit, by the listing: arithmetic; moves, selects and comparisons; a load.
	VectorALU, VectorMove, VectorLoad int64
	// Transcendental functions: from the push to the earliest pop; listing and profile.
	Transcendental int64
	// Matrix unit: from a product to its first result (profile; schedule), between two pops of the result queue (listing), and results of
	// a product of 16 rows of bf16, twice those of 8 rows (listing).
	Matmul        int64
	MatmulPop     int64 `zero:"results have addresses, there is no queue"`
	MatmulResults int
	// Lane permutes, rotates and broadcasts, and sums over lanes: latency and how long they hold their unit; listing and profile.
	Permute, LaneSum, LanePath int64
	// Transposes: cycles from the last of n pushes to the first result are First - Step (n-1); a push holds the unit for Path. Profile
	// at n = 1, 2, 8 and 16. PairFirst is for pushes of two registers, by the schedule alone.
	Transpose32, Transpose16 TransposeTiming
	PairFirst                int64 `zero:"no push takes two registers"`
	// Cycles between two pops of permuted, summed or transposed registers: listing.
	LanePop int64
	// Switches of a lane unit: how long after one class an instruction of another has to wait; listing.
	TransposeAfterPermute32, TransposeAfterPermute16, SumAfterPermute int64
	TransposeAfterSum, PermuteAfterSum                                int64
	PermuteAfterTranspose, SumAfterTranspose                          int64
	PermuteAfterTranspose16                                           int64 // of a single register
	// Fixed part of a transfer before its bytes: from and to main memory, and between vector and scalar memory; profile of copies of 64
	// bytes to 2 MiB. The profile of v5e has none of the last kind: that of v6e is in.
	Read, Write, Local int64
	// Bundles that one overlay of code holds: regular, with room to fetch the next meanwhile, and jumbo, the most that a loop may have;
	// log of the compiler's partitioner.
	Overlay, JumboOverlay int
}

// TransposeTiming is described in Timing.
type TransposeTiming struct{ First, Step, Path int64 }
