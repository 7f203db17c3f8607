package gdn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
)

// Axis is one choice of a Variant.
type Axis struct {
	Name    string
	Doc     string
	Group   Group
	Also    []Group  // other groups whose subject it touches
	Always  bool     // printed even at its default
	Values  []string // legal texts
	Default string
	Sets    []string // the axes that it stands for; it is no choice of its own
	Get     func(*Variant) string
	Set     func(*Variant, string) error
	Applies func(Variant) bool // to a canonical variant; nil: always
	Former  string             // the name that journals and scripts may have; none: the same

	reads        []string          // the axes that Applies looks at
	formerValues map[string]string // values by their former names
}

var (
	algoNames        = []string{AlgoChunk: "chunk", AlgoToken: "token"}
	solveNames       = []string{SolveMerge: "merge", SolveLadder: "ladder", SolveBlock: "block", SolveForward: "forward", SolveNeumann: "neumann", SolveNewton: "newton"}
	leafByNames      = []string{LeafSubst: "subst", LeafNeumann: "neumann"}
	mergeNames       = []string{MergePacked: "packed", MergeRows: "rows", MergeBlocks: "blocks"}
	formNames        = []string{FormVPrime: "vprime", FormUW: "uw", FormMap: "map"}
	flowNames        = []string{FlowFused: "fused", FlowSplit: "split", FlowSolve: "solve"}
	tokenLayoutNames = []string{LayoutBHTD: "bhtd", LayoutBTHD: "bthd", LayoutBTLanes: "bt_hd", LayoutBHDT: "bhdt"}
	decayNames       = []string{DecaySplit: "split", DecayClamp: "clamp", DecaySegment: "segment", DecayBase2: "base2"}
	placeNames       = []string{PlaceXLA: "xla", PlaceKernel: "kernel"}
	jointNames       = []string{JointSeparate: "separate", JointJoined: "joined"}
	outNames         = []string{OutSeparate: "separate", OutJoined: "joined", OutShared: "shared"}
	sideNames        = []string{BetaLeft: "left", BetaRight: "right", BetaExponent: "exponent"}
	maskNames        = []string{MaskSelect: "select", MaskWords: "words"}
	broadcastNames   = []string{BroadcastLanes: "lanes", BroadcastTranspose: "transpose"}
	transposeNames   = []string{TransposeValue: "value", TransposeKey: "key"}
	scaleNames       = []string{ScaleQuery: "query", ScaleOutput: "output"}
	tailNames        = []string{TailDecayK: "k", TailDecayV: "v"}
	splitNames       = []string{SplitUse: "use", SplitDef: "def"}
	ownNames         = []string{OwnInherit: "inherit", OwnF32: "f32", OwnBF16x1: "bf16x1", OwnBF16x3: "bf16x3", OwnBF16x6: "bf16x6"}
	byNames          = []string{DecayByTokens: "tokens", DecayByInverse: "inverse"}
	sumNames         = []string{SumProducts: "products", SumLanes: "lanes"}
	gradNames        = []string{GradsInRows: "rows", GradsInLanes: "lanes"}
	saveNames        = []string{SaveNone: "none", SaveState: "state", SaveInverse: "inverse", SaveAll: "all"}
	packNames        = []string{PackGather: "gather", PackAligned: "aligned", PackStream: "stream", PackMasked: "masked", PackSegments: "segments"}
	fetchNames       = []string{"windows", "copies"}
	unitNames        = []string{UnitMatrix: "matrix", UnitVector: "vector", UnitLanes: "lanes", UnitSums: "sums"}
	decayBF16Names   = []string{DecayBF16None: "none", DecayBF16Rows: "rows", DecayBF16Operands: "operands", DecayBF16All: "all"}
)

func (a Algo) String() string         { return enumName(algoNames, int(a)) }
func (s Solve) String() string        { return enumName(solveNames, int(s)) }
func (l LeafBy) String() string       { return enumName(leafByNames, int(l)) }
func (m Merge) String() string        { return enumName(mergeNames, int(m)) }
func (f Form) String() string         { return enumName(formNames, int(f)) }
func (f Flow) String() string         { return enumName(flowNames, int(f)) }
func (l TokenLayout) String() string  { return enumName(tokenLayoutNames, int(l)) }
func (d Decay) String() string        { return enumName(decayNames, int(d)) }
func (p Place) String() string        { return enumName(placeNames, int(p)) }
func (j Joint) String() string        { return enumName(jointNames, int(j)) }
func (o Out) String() string          { return enumName(outNames, int(o)) }
func (s Side) String() string         { return enumName(sideNames, int(s)) }
func (m Mask) String() string         { return enumName(maskNames, int(m)) }
func (t Transpose) String() string    { return enumName(transposeNames, int(t)) }
func (s RowBroadcast) String() string { return enumName(broadcastNames, int(s)) }
func (s Scale) String() string        { return enumName(scaleNames, int(s)) }
func (r TailDecay) String() string    { return enumName(tailNames, int(r)) }
func (l DecayBF16) String() string    { return enumName(decayBF16Names, int(l)) }
func (o Own) String() string          { return enumName(ownNames, int(o)) }
func (d DecayBy) String() string      { return enumName(byNames, int(d)) }
func (s Sums) String() string         { return enumName(sumNames, int(s)) }
func (g Grads) String() string        { return enumName(gradNames, int(g)) }
func (s Save) String() string         { return enumName(saveNames, int(s)) }
func (p Pack) String() string         { return enumName(packNames, int(p)) }
func (f Fetch) String() string        { return enumName(fetchNames, int(f)) }
func (u Unit) String() string         { return enumName(unitNames, int(u)) }
func (p Split) String() string        { return enumName(splitNames, int(p)) }

// condition says to which variants an axis applies, and by which axes that is judged. The zero condition holds always.
type condition struct {
	reads []string
	holds func(Variant) bool
}

// when is a condition on the axes that are named, separated by spaces.
func when(axes string, holds func(Variant) bool) condition {
	return condition{strings.Fields(axes), holds}
}

// and is c where something else holds too.
func (c condition) and(axes string, holds func(Variant) bool) condition {
	return condition{append(slices.Clone(c.reads), strings.Fields(axes)...), func(v Variant) bool { return c.holds(v) && holds(v) }}
}

// The conditions that several axes share.
var (
	always      condition
	ofChunks    = when("algo", chunked)
	leafSolvers = when("algo solve", leafed)
	ofMerges    = ofChunks.and("solve", func(v Variant) bool { return v.Inverse.Solve == SolveMerge })
	ofBF16      = ofChunks.and("store", stored)
	ofWords     = when("algo solve merge leafby leaf store precinv split_at", wordable)
	ofPhases    = ofChunks.and("phases_before", func(v Variant) bool { return v.Forward.PhasesBefore > 0 })
	ofOverlap   = when("algo bwd.phases_before bwd.phases_after", overlapped)
)

func chunked(v Variant) bool { return v.Algo == AlgoChunk }

// chainable says whether rows may follow one another: in one grid, with tokens before heads, so that rows are one behind another in memory too.
func chainable(v Variant) bool {
	return chunked(v) && v.Flow == FlowFused && (v.Layout == LayoutBTHD || v.Layout == LayoutBTLanes)
}

func leafed(v Variant) bool {
	return chunked(v) && (v.Inverse.Solve == SolveMerge || v.Inverse.Solve == SolveLadder || v.Inverse.Solve == SolveBlock)
}

// Axes is the table of choices, in the order of the text form. Those of schedules stand in schedules.go, each beside its field.
var Axes = slices.Concat([]Axis{
	choiceAxis(GroupForm, "algo", "chunkwise matrix products, or the token recurrence", algoNames, 0, always, func(v *Variant) *Algo { return &v.Algo }).always(),
	intAxis(GroupForm, "chunk", "tokens of a chunk; for the token recurrence, tokens of a grid step, at most 16", 64, always,
		func(v *Variant) *int { return &v.Chunk }, 1, 8, 16, 32, 64, 128, 256).always(),
	choiceAxis(GroupInverse, "solve", "how (I + A)^-1 is made; neumann and newton, over a whole chunk, are wrong on correlated keys and exist as negative examples",
		solveNames, SolveMerge, ofChunks, func(v *Variant) *Solve { return &v.Inverse.Solve }).always(),
	intAxis(GroupInverse, "leaf", "block that merge, ladder and block start from", 8, leafSolvers, func(v *Variant) *int { return &v.Inverse.Leaf }, 1, 4, 8, 16, 32).always(),
	choiceAxis(GroupInverse, "leafby", "how a leaf is inverted: row substitution or a power series", leafByNames, LeafSubst,
		leafSolvers.and("leaf", func(v Variant) bool { return v.Inverse.Leaf > 1 }), func(v *Variant) *LeafBy { return &v.Inverse.LeafBy }),
	intAxis(GroupInverse, "leafnewton", "Newton steps on a leaf made by a power series", 0,
		leafSolvers.and("leaf leafby", func(v Variant) bool { return v.Inverse.Leaf > 1 && v.Inverse.LeafBy == LeafNeumann }), func(v *Variant) *int { return &v.Inverse.LeafNewton }, 0, 1, 2),
	choiceAxis(GroupInverse, "merge", "operands of a merge: odd blocks packed into the rows of one, all rows of odd blocks, or small blocks batched", mergeNames, MergeBlocks,
		ofMerges, func(v *Variant) *Merge { return &v.Inverse.Merge }).also(GroupMapping),
	choiceAxis(GroupForm, "form", "V' = T(beta(V - K S)); or V' = U - W S with explicit U and W; or output and next state as affine maps of the state, [O; S'] = M S + N with M and N made before, for few heads, which wait for the state", formNames, FormVPrime, ofChunks, func(v *Variant) *Form { return &v.Form }),
	choiceAxis(GroupForm, "flow", "one grid; a state-free grid, then a scan; or a grid for the inverse alone, then the rest", flowNames, FlowFused, ofChunks,
		func(v *Variant) *Flow { return &v.Flow }).always(),
	intAxis(GroupMapping, "heads", "value heads in lockstep in a program; 0: all", 0, always, func(v *Variant) *int { return &v.Mapping.Heads }, 0, 1, 2, 4, 8, 16, 24),
	intAxis(GroupMapping, "batch", "batch rows in lockstep in a program, or sequences of a stream", 1, always, func(v *Variant) *int { return &v.Mapping.Batch }, 1, 2, 4, 8, 16),
	intAxis(GroupMapping, "chunks", "chunks of a grid step, whose state-free work is done together", 1, ofChunks, func(v *Variant) *int { return &v.Mapping.Chunks }, 1, 2, 4, 8),
	boolAxis(GroupMapping, "row_chain", "batch rows follow one another in one program, whose pipeline goes on from the last chunk of a row to the first of the next; or each is a program, whose pipeline fills and drains", false,
		when("algo flow layout", chainable), func(v *Variant) *bool { return &v.Mapping.Chain }),
	choiceAxis(GroupLayout, "layout", "order of the axes of q, k, v and o in the grid, b batch, t tokens, h heads, d width: heads before tokens, as they are, with the heads of a token side by side as [B, T, heads D], or with tokens along the lanes, as TPUs keep heads narrower than a register; bthd and bt_hd need all value heads of a key head in a program",
		tokenLayoutNames, LayoutBHTD, always, func(v *Variant) *TokenLayout { return &v.Layout }).was("layout", "head=bhtd", "token=bthd", "lane=bt_hd", "turned=bhdt"),
	choiceAxis(GroupForm, "decay", "differences of prefix sums of a log decay clamped at -40, in two parts (accurate) or one (5e-6 after a reset), or a sum for each segment; base2 is clamp with powers of 2 and sums of bf16 parts", decayNames, DecaySplit, ofChunks,
		func(v *Variant) *Decay { return &v.Decay }).also(GroupLayout),
	choiceAxis(GroupLayout, "fuse", "where fused gates and norms are computed", placeNames, PlaceXLA, always, func(v *Variant) *Place { return &v.Fuse }).was("fuse", "glue=xla").also(GroupForm),
	choiceAxis(GroupForm, "kq", "[K;Q] K^T and [K;Q] S as two products each or one; in the token recurrence the one leaves the state in the spec's order and type", jointNames, JointSeparate,
		when("algo unit", func(v Variant) bool { return chunked(v) || v.Unit == UnitMatrix }), func(v *Variant) *Joint { return &v.KQ }).also(GroupMapping),
	boolAxis(GroupForm, "share", "K K^T and Q K^T once per key head, for all its value heads; in a stream with states [V, K] also what meets the states", true, ofChunks, func(v *Variant) *bool { return &v.Share }).also(GroupMapping, GroupLayout),
	choiceAxis(GroupForm, "beta", "A = beta (K K^T . D), or A = (K K^T . D) beta with beta taken into the operands after the inverse; exponent adds its logarithm to the decay instead", sideNames, BetaLeft, ofChunks,
		func(v *Variant) *Side { return &v.Beta }),
	boolAxis(GroupForm, "fold", "exp(G) into the rows of K and Q, before the state is needed, instead of into K S and Q S", false, ofChunks, func(v *Variant) *bool { return &v.Fold }),
	choiceAxis(GroupLayout, "transpose_k", "K^T of the state's update for each value head, or turned once per key head", transposeNames, TransposeValue, ofChunks, func(v *Variant) *Transpose { return &v.TransposeK }).was("turn"),
	choiceAxis(GroupLayout, "row_broadcast", "the sums of decay of rows are spread along the lanes of their row, or rows of them over a tile that is transposed", broadcastNames, BroadcastLanes,
		ofChunks.and("decay", func(v Variant) bool { return v.Decay != DecaySegment }), func(v *Variant) *RowBroadcast { return &v.RowBroadcast }).was("spread", "turned=transpose"),
	intAxis(GroupForm, "span", "where each channel has a decay: tokens of a block whose pairs share one boundary; half as many until the lowest log decay allows it: that of the spec's bound, or -40, below which one bf16 pass takes none", defaultSpan,
		ofChunks, func(v *Variant) *int { return &v.Span }, 1, 4, 8, 16, 32),
	choiceAxis(GroupForm, "out", "Q S + P V' as two products, [Q, P] [S; V'] as one, or P V' in one product with the state's update, [P; K^T] V'", outNames, OutSeparate,
		ofChunks.and("precintra precstate fold transpose_k", func(v Variant) bool {
			return v.Numerics.PrecIntra == v.Numerics.PrecState && (v.Fold || v.TransposeK == TransposeKey)
		}), func(v *Variant) *Out { return &v.Out }).also(GroupMapping),
	choiceAxis(GroupMapping, "pack", "packed sequences: gathered so that a chunk has tokens of one, or aligned blocks of tokens as they lie, in which two sequences meet their states at once, or slices of the tokens as they lie, a stream of plain ops for CPUs and GPUs, or each sequence as a batch row of all tokens with those of others masked, for few short ones, or blocks of tokens as they lie, each masked for one of its sequences after another (a segment is the tokens of one sequence in one block)", packNames, PackGather,
		always, func(v *Variant) *Pack { return &v.Mapping.Pack }).was("pack", "visits=segments"),
	fetchAxis, mainAxis,
	choiceAxis(GroupForm, "scale", "the scale of q in its products, or on the output", scaleNames, ScaleQuery, ofChunks, func(v *Variant) *Scale { return &v.Scale }),
	choiceAxis(GroupForm, "tail_decay", "the decay that is left after each token in K^T of the state's update, or in V', so that K is as it is", tailNames, TailDecayK,
		ofChunks.and("out", func(v Variant) bool { return v.Out != OutShared }), func(v *Variant) *TailDecay { return &v.TailDecay }).also(GroupNumerics).was("rest", "key=k", "value=v"),
	choiceAxis(GroupForm, "unit", "products of the token recurrence on the matrix unit, or K S in f32 on the vector unit, and Q S there too unless precstate is below f32 and k is last or q has its norm in the kernel; the state then stays in the spec's order and type, and lanes keeps the columns that one with k last needs in the lanes of one tile; sums is both before the update in f32, by eight running sums for each row of a state with k last, which CPUs vectorise", unitNames, UnitMatrix,
		when("algo", func(v Variant) bool { return v.Algo == AlgoToken }), func(v *Variant) *Unit { return &v.Unit }),
	{Name: "prec", Doc: "sets the three precisions", Group: GroupNumerics, Values: precisionNames, Sets: []string{"precinv", "precintra", "precstate"},
		Get: func(v *Variant) string { return v.Numerics.PrecState.String() },
		Set: func(v *Variant, text string) error {
			p, err := parsePrecision(text)
			if err == nil {
				v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState = p, p, p
			}
			return err
		}},
	precAxis(GroupNumerics, "precinv", "precision of the products that make the inverse", ofChunks, func(v *Variant) *ir.Precision { return &v.Numerics.PrecInv }).also(GroupInverse),
	precAxis(GroupNumerics, "precintra", "precision of K K^T, Q K^T, T x and P x", ofChunks, func(v *Variant) *ir.Precision { return &v.Numerics.PrecIntra }),
	precAxis(GroupNumerics, "precstate", "precision of K S, Q S, W S and K^T V'", always, func(v *Variant) *ir.Precision { return &v.Numerics.PrecState }),
	choiceAxis(GroupNumerics, "precapply", "precision of the products with the inverse: that of precintra, or its own", ownNames, OwnInherit, ofChunks, func(v *Variant) *Own { return &v.Numerics.PrecApply }).was("precapply", "intra=inherit"),
	choiceAxis(GroupTraining, "precgrad", "precision of dO U^T and dV U^T, and of the product of the first with K, which make the gradients of gates and q inside a chunk: that of precintra, or its own", ownNames, OwnInherit, ofChunks,
		func(v *Variant) *Own { return &v.Training.PrecGrad }).also(GroupNumerics).was("precgrad", "intra=inherit"),
	choiceAxis(GroupTraining, "precupdate", "precision of the update K^T V' of a training step, and of dV', the gradient of what it adds: that of precstate, or its own", ownNames, OwnInherit, ofChunks,
		func(v *Variant) *Own { return &v.Training.PrecUpdate }).also(GroupNumerics).was("precupdate", "state=inherit"),
	choiceAxis(GroupNumerics, "split_at", "operands of bf16x3 products are split at each product, or where they are made, kept as bf16 parts, and multiplied side by side in one product", splitNames, SplitUse,
		ofChunks.and("precinv precintra precstate precapply precgrad precupdate", func(v Variant) bool {
			return slices.Contains([]ir.Precision{v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.ApplyPrecision(), v.GradPrecision(), v.UpdatePrecision()}, ir.PrecBF16x3)
		}), func(v *Variant) *Split { return &v.Numerics.Split }).was("parts", "late=use", "kept=def"),
	storageAxis(GroupNumerics, "store", "element type of T, P and V' between stages", ofChunks, func(v *Variant) *ir.DType { return &v.Numerics.Store }),
	choiceAxis(GroupNumerics, "decay_bf16", "products with decay in bf16 instead of f32, half the work on targets whose vector unit has bf16: none, those of the rows of K and Q, of the columns of K^T too, or all; where each channel has a decay, rows are queries and what sums to the gradient of the decay, and keys follow with the columns", decayBF16Names, DecayBF16None, ofBF16,
		func(v *Variant) *DecayBF16 { return &v.Numerics.DecayBF16 }).was("low", "no=none", "yes=all"),
	intAxis(GroupNumerics, "error_feedback", "blocks of rows of V' of which each takes what rounding to bf16 left of the one before, since correlated keys sum these errors; 0: none", 0, ofBF16,
		func(v *Variant) *int { return &v.Numerics.ErrorFeedback }, 0, 2, 4, 8).was("feedback"),
	choiceAxis(GroupInverse, "mask", "masks by select on elements, or by AND on u32 words of two bf16 rows, where the inverse is made of bf16", maskNames, MaskSelect, ofWords, func(v *Variant) *Mask { return &v.Inverse.Mask }).also(GroupLayout),
	intAxis(GroupInverse, "mergepairs", "widest block whose merges take two heads in one product, the rows of one in the gaps between those of the other", 0,
		ofWords.and("mask", func(v Variant) bool { return v.Inverse.Mask == MaskWords }), func(v *Variant) *int { return &v.Inverse.MergePairs }, 0, 16, 32, 64).also(GroupMapping),
	boolAxis(GroupInverse, "refine", "one step of Newton's iteration on the inverse T of the chunk, T + T (I - (I + A) T), with A and T in two bf16 parts: where keys are alike, errors of A and T are all there is; in training, keys stay as they are, and what precapply and precgrad are bf16x3 for is in two parts", false,
		ofWords.and("mask store flow form decay_bf16", refinable), func(v *Variant) *bool { return &v.Inverse.Refine }).also(GroupNumerics),
}, forwardAxes, []Axis{
	choiceAxis(GroupTraining, "save", "what a training step keeps for its backward pass: nothing (states are computed again), the state before each chunk, also T, also U", saveNames, SaveState, ofChunks,
		func(v *Variant) *Save { return &v.Training.Save }),
	storageAxis(GroupTraining, "saved", "element type of what is kept for the backward pass", ofChunks, func(v *Variant) *ir.DType { return &v.Training.Saved }).also(GroupNumerics),
	choiceAxis(GroupTraining, "decaygrad", "the gradient of the decay by what passes from the tokens before each token to those after it, or by (I + N)^T dV = dV', without sums over columns: needs an accurate inverse", byNames, DecayByTokens, ofChunks,
		func(v *Variant) *DecayBy { return &v.Training.DecayBy }),
	choiceAxis(GroupTraining, "grads", "tokens of dq and dk in rows, or in lanes until they are done: what the gradient of the decay sums over keys is then a sum of registers", gradNames, GradsInRows, ofChunks,
		func(v *Variant) *Grads { return &v.Training.Grads }),
	choiceAxis(GroupTraining, "bwd.decay_bf16", "decay_bf16 of a backward kernel", decayBF16Names, DecayBF16None, ofBF16, func(v *Variant) *DecayBF16 { return &v.Training.DecayBF16 }).also(GroupNumerics).was("backlow", "no=none", "yes=all"),
	choiceAxis(GroupTraining, "decaysums", "sums over lanes for the gradient of the decay, where the other products are in one bf16 pass: as products with ones, or in float32 by the unit that moves lanes", sumNames, SumProducts, ofChunks,
		func(v *Variant) *Sums { return &v.Training.DecaySums }),
}, backwardAxes)

// defaultSpan is the most tokens that the bound of Kimi's gate, -5, allows in float32.
const defaultSpan = 16

// storageAxis is a choice between f32 and bf16.
func storageAxis(g Group, name, doc string, applies condition, at func(*Variant) *ir.DType) Axis {
	values := []string{"f32", "bf16"}
	return Axis{Name: name, Doc: doc, Group: g, Values: values, Default: "f32", Applies: applies.holds, reads: applies.reads,
		Get: func(v *Variant) string { return at(v).String() },
		Set: func(v *Variant, text string) error {
			if !slices.Contains(values, text) {
				return notLegal(text, values)
			}
			*at(v), _ = ir.ParseDType(text)
			return nil
		}}
}

func stored(v Variant) bool { return chunked(v) && v.Numerics.Store == ir.BF16 }

// alignable and streamable say whether packed sequences can be taken by aligned blocks, and as a stream of chunks.
func alignable(v Variant) bool {
	if v.Layout == LayoutBTLanes { // heads side by side are tokens as they lie too
		v.Layout = LayoutBTHD
	}
	return fusedTokens(v) && !v.Fold && v.Numerics.ErrorFeedback < 2 && v.Out == OutSeparate && v.TransposeK == TransposeValue && (v.Decay == DecayClamp || v.Decay == DecayBase2)
}

// mappable says whether output and next state can be affine maps of the state: in one kernel, where K has the decay of both its sides.
func mappable(v Variant, s Spec) bool {
	return chunked(v) && v.Flow == FlowFused && (v.Fold || !s.Rule.Decays()) && v.Out == OutSeparate && v.TransposeK == TransposeKey && v.TailDecay == TailDecayK
}

func visitable(v Variant) bool { return chunked(v) && v.Flow == FlowFused }

func streamable(v Variant) bool {
	return fusedTokens(v) && v.Out == OutSeparate && v.TransposeK == TransposeValue && v.Numerics.Split == SplitUse && v.Forward.PhasesBefore == 0
}

func fusedTokens(v Variant) bool {
	return chunked(v) && v.Flow == FlowFused && v.Form == FormVPrime && v.Layout == LayoutBTHD
}

// wordable says whether the inverse can be made on words: by packed merges of bf16, or of kept parts in bf16, from leaves
// that fill registers.
func wordable(v Variant) bool {
	low := v.Numerics.Store == ir.BF16 && v.Numerics.PrecInv == ir.PrecBF16x1 && v.Numerics.Split == SplitUse || v.Numerics.Store == ir.F32 && v.Numerics.PrecInv == ir.PrecBF16x3 && v.Numerics.Split == SplitDef
	return chunked(v) && low && v.Inverse.Solve == SolveMerge && v.Inverse.Merge == MergePacked && v.Inverse.LeafBy == LeafSubst && v.Inverse.Leaf >= 16
}

// refinable says whether the inverse is made in one bf16 pass from what is more than bf16.
func refinable(v Variant) bool {
	return v.Inverse.Mask == MaskWords && v.Numerics.Store == ir.BF16 && v.Numerics.DecayBF16 != DecayBF16All && v.Flow == FlowFused && v.Form == FormVPrime
}

var precisionNames = []string{"f32", "bf16x1", "bf16x3", "bf16x6"}

func parsePrecision(text string) (ir.Precision, error) {
	if !slices.Contains(precisionNames, text) {
		return 0, notLegal(text, precisionNames)
	}
	return ir.ParsePrecision(text)
}

func notLegal(text string, values []string) error {
	return fmt.Errorf("%q is not allowed%s (allowed: %s)", text, suggest.Name(text, values), strings.Join(values, " "))
}

func (a Axis) always() Axis { a.Always = true; return a }

func (a Axis) also(groups ...Group) Axis { a.Also = groups; return a }

func choiceAxis[E ~uint8](g Group, name, doc string, names []string, def E, applies condition, at func(*Variant) *E) Axis {
	return Axis{Name: name, Doc: doc, Group: g, Values: names, Default: names[def], Applies: applies.holds, reads: applies.reads,
		Get: func(v *Variant) string { return enumName(names, int(*at(v))) },
		Set: func(v *Variant, text string) error {
			i := slices.Index(names, text)
			if i < 0 {
				return notLegal(text, names)
			}
			*at(v) = E(i)
			return nil
		}}
}

func intAxis(g Group, name, doc string, def int, applies condition, at func(*Variant) *int, legal ...int) Axis {
	values := make([]string, len(legal))
	for i, n := range legal {
		values[i] = strconv.Itoa(n)
	}
	return Axis{Name: name, Doc: doc, Group: g, Values: values, Default: strconv.Itoa(def), Applies: applies.holds, reads: applies.reads,
		Get: func(v *Variant) string { return strconv.Itoa(*at(v)) },
		Set: func(v *Variant, text string) error {
			if !slices.Contains(values, text) {
				return notLegal(text, values)
			}
			*at(v), _ = strconv.Atoi(text)
			return nil
		}}
}

func boolAxis(g Group, name, doc string, def bool, applies condition, at func(*Variant) *bool) Axis {
	names := []string{"no", "yes"}
	text := func(b bool) string {
		if b {
			return names[1]
		}
		return names[0]
	}
	return Axis{Name: name, Doc: doc, Group: g, Values: names, Default: text(def), Applies: applies.holds, reads: applies.reads,
		Get: func(v *Variant) string { return text(*at(v)) },
		Set: func(v *Variant, t string) error {
			if !slices.Contains(names, t) {
				return notLegal(t, names)
			}
			*at(v) = t == names[1]
			return nil
		}}
}

func precAxis(g Group, name, doc string, applies condition, at func(*Variant) *ir.Precision) Axis {
	return Axis{Name: name, Doc: doc, Group: g, Values: precisionNames, Default: "f32", Applies: applies.holds, reads: applies.reads,
		Get: func(v *Variant) string { return at(v).String() },
		Set: func(v *Variant, text string) error {
			p, err := parsePrecision(text)
			if err == nil {
				*at(v) = p
			}
			return err
		}}
}

// LookupAxis finds an axis by its name, or its former one.
func LookupAxis(name string) (Axis, error) {
	if a := lookupAxis(name); a != nil {
		return *a, nil
	}
	return Axis{}, unknownAxis(name)
}

// byName holds the axes by name, and by former name.
var byName = func() map[string]*Axis {
	m := map[string]*Axis{}
	for i := range Axes {
		m[Axes[i].Name] = &Axes[i]
		if former := Axes[i].Former; former != "" {
			m[former] = &Axes[i]
		}
	}
	return m
}()

func lookupAxis(name string) *Axis { return byName[name] }

func unknownAxis(name string) error {
	names := make([]string, len(Axes))
	for i, a := range Axes {
		names[i] = a.Name
	}
	return fmt.Errorf("variant: unknown axis %q%s (known: %s)", name, suggest.Name(name, names), strings.Join(names, " "))
}
