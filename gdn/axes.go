package gdn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
)

// Axis is one tunable of a Variant.
type Axis struct {
	Name    string
	Doc     string
	Group   Group
	Also    []Group  // other groups that the axis also affects
	Always  bool     // printed even at its default
	Values  []string // legal texts
	Default string
	Sets    []string // the axes that this shorthand axis sets together; nil for an ordinary axis
	Get     func(*Variant) string
	Set     func(*Variant, string) error
	Applies func(Variant) bool // whether the axis applies to a canonical variant; nil: always
	Former  string             // a former name, still accepted when read; empty: none

	reads        []string          // the axes that Applies looks at
	formerValues map[string]string // former value -> present value
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
	prefetchNames    = []string{"blocks", "dma"}
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
func (f Prefetch) String() string     { return enumName(prefetchNames, int(f)) }
func (u Unit) String() string         { return enumName(unitNames, int(u)) }
func (p Split) String() string        { return enumName(splitNames, int(p)) }

// condition decides whether an axis applies to a variant, and lists the axes that holds reads. The zero condition always holds.
type condition struct {
	reads []string
	holds func(Variant) bool
}

// when returns a condition that reads the given axes, separated by spaces.
func when(axes string, holds func(Variant) bool) condition {
	return condition{strings.Fields(axes), holds}
}

// and returns the conjunction of c and holds, which reads the given axes.
func (c condition) and(axes string, holds func(Variant) bool) condition {
	return condition{append(slices.Clone(c.reads), strings.Fields(axes)...), func(v Variant) bool { return c.holds(v) && holds(v) }}
}

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

// chainable reports whether batch rows can run back to back. They need one kernel and tokens before heads, so that rows are contiguous in memory.
func chainable(v Variant) bool {
	return chunked(v) && v.Flow == FlowFused && (v.Layout == LayoutBTHD || v.Layout == LayoutBTLanes)
}

func leafed(v Variant) bool {
	return chunked(v) && (v.Inverse.Solve == SolveMerge || v.Inverse.Solve == SolveLadder || v.Inverse.Solve == SolveBlock)
}

// Axes is the table of tunables in the order of the text form. The axes of schedules are in schedules.go, next to their fields.
var Axes = slices.Concat([]Axis{
	choiceAxis(GroupForm, "algo", "chunkwise matrix products, or the token recurrence", algoNames, 0, always, func(v *Variant) *Algo { return &v.Algo }).always(),
	intAxis(GroupForm, "chunk", "tokens of a chunk; for the token recurrence, tokens of a grid step, at most 16", 64, always,
		func(v *Variant) *int { return &v.Chunk }, 1, 8, 16, 32, 64, 128, 256).always(),
	choiceAxis(GroupInverse, "solve", "how (I + A)^-1 is computed; neumann and newton, over a whole chunk, are wrong on correlated keys and serve as negative examples",
		solveNames, SolveMerge, ofChunks, func(v *Variant) *Solve { return &v.Inverse.Solve }).always(),
	intAxis(GroupInverse, "leaf", "size of the diagonal blocks that merge, ladder and block start from", 8, leafSolvers, func(v *Variant) *int { return &v.Inverse.Leaf }, 1, 4, 8, 16, 32).always(),
	choiceAxis(GroupInverse, "leafby", "how a leaf is inverted: row substitution or a power series", leafByNames, LeafSubst,
		leafSolvers.and("leaf", func(v Variant) bool { return v.Inverse.Leaf > 1 }), func(v *Variant) *LeafBy { return &v.Inverse.LeafBy }),
	intAxis(GroupInverse, "leafnewton", "Newton steps after a leaf's power series", 0,
		leafSolvers.and("leaf leafby", func(v Variant) bool { return v.Inverse.Leaf > 1 && v.Inverse.LeafBy == LeafNeumann }), func(v *Variant) *int { return &v.Inverse.LeafNewton }, 0, 1, 2),
	choiceAxis(GroupInverse, "merge", "operands of a merge: packed moves the rows of odd blocks into one dense operand, rows takes all rows of odd blocks, blocks is a batch of small products", mergeNames, MergeBlocks,
		ofMerges, func(v *Variant) *Merge { return &v.Inverse.Merge }).also(GroupMapping),
	choiceAxis(GroupForm, "form", "vprime: V' = T(beta(V - K S)); uw: V' = U - W S with explicit U and W; map: output and next state are affine maps of the state, [O; S'] = M S + N, with M and N computed before the state is known, for one or two heads", formNames, FormVPrime, ofChunks, func(v *Variant) *Form { return &v.Form }),
	choiceAxis(GroupForm, "flow", "fused: one kernel; split: a kernel without the state, then a scan; solve: a kernel for the inverse, then the rest", flowNames, FlowFused, ofChunks,
		func(v *Variant) *Flow { return &v.Flow }).always(),
	intAxis(GroupMapping, "heads", "value heads of a program, interleaved; 0: all", 0, always, func(v *Variant) *int { return &v.Mapping.Heads }, 0, 1, 2, 4, 8, 16, 24),
	intAxis(GroupMapping, "batch", "batch rows of a program, interleaved; with pack=stream, sequences", 1, always, func(v *Variant) *int { return &v.Mapping.Batch }, 1, 2, 4, 8, 16),
	intAxis(GroupMapping, "chunks", "chunks of a grid step, whose work without the state is interleaved", 1, ofChunks, func(v *Variant) *int { return &v.Mapping.Chunks }, 1, 2, 4, 8),
	boolAxis(GroupMapping, "persistent_rows", "yes: batch rows run back to back in one program, without draining the pipeline between rows; no: each row is a program", false,
		when("algo flow layout", chainable), func(v *Variant) *bool { return &v.Mapping.PersistentRows }).was("row_chain"),
	choiceAxis(GroupLayout, "layout", "order of the axes of q, k, v and o in the grid (b batch, t tokens, h heads, d width): bhtd; bthd, as the caller has them; bt_hd, heads side by side in a row; bhdt, tokens along the lanes, as TPUs store heads narrower than a register. bthd and bt_hd need all value heads of a key head in a program",
		tokenLayoutNames, LayoutBHTD, always, func(v *Variant) *TokenLayout { return &v.Layout }).was("layout", "head=bhtd", "token=bthd", "lane=bt_hd", "turned=bhdt"),
	choiceAxis(GroupForm, "decay", "how decays inside of a chunk are computed from prefix sums of the log decay: split takes them in two parts (accurate); clamp in one, clamped at -40 (off by 5e-6 after a reset); segment sums each segment by itself; base2 is clamp with powers of 2 and sums of bf16 parts", decayNames, DecaySplit, ofChunks,
		func(v *Variant) *Decay { return &v.Decay }).also(GroupLayout),
	choiceAxis(GroupLayout, "fuse", "where raw gates and norms are computed: by XLA before the kernel, or in the kernel", placeNames, PlaceXLA, always, func(v *Variant) *Place { return &v.Fuse }).was("fuse", "glue=xla").also(GroupForm),
	choiceAxis(GroupForm, "kq", "[K;Q] K^T and [K;Q] S as two products each, or as one. In the token recurrence joined keeps the state in the spec's layout and type", jointNames, JointSeparate,
		when("algo unit", func(v Variant) bool { return chunked(v) || v.Unit == UnitMatrix }), func(v *Variant) *Joint { return &v.KQ }).also(GroupMapping),
	boolAxis(GroupForm, "share", "K K^T and Q K^T once for each key head, for all its value heads; with pack=stream and states [V, K] also the products with states", true, ofChunks, func(v *Variant) *bool { return &v.Share }).also(GroupMapping, GroupLayout),
	choiceAxis(GroupForm, "beta", "left: A = beta (K K^T . D); right: A = (K K^T . D) beta, with beta in the operands after the inverse; exponent: the logarithm of beta is added to the decay", sideNames, BetaLeft, ofChunks,
		func(v *Variant) *Side { return &v.Beta }),
	boolAxis(GroupForm, "fold", "yes: exp(G) multiplies the rows of K and Q, before the state is needed; no: it multiplies K S and Q S", false, ofChunks, func(v *Variant) *bool { return &v.Fold }),
	choiceAxis(GroupLayout, "transpose_k", "K^T of the state's update: transposed for each value head, or once for each key head", transposeNames, TransposeValue, ofChunks, func(v *Variant) *Transpose { return &v.TransposeK }).was("turn"),
	choiceAxis(GroupLayout, "row_broadcast", "how the decay of each row is spread along its lanes: by broadcasts, or by rows over a tile that is then transposed", broadcastNames, BroadcastLanes,
		ofChunks.and("decay", func(v Variant) bool { return v.Decay != DecaySegment }), func(v *Variant) *RowBroadcast { return &v.RowBroadcast }).was("spread", "turned=transpose"),
	intAxis(GroupForm, "span", "where each channel has a decay: tokens of a block whose pairs share one reference for their decays. It is halved until the lowest log decay allows it: the spec's bound, or -40 without one", defaultSpan,
		ofChunks, func(v *Variant) *int { return &v.Span }, 1, 4, 8, 16, 32),
	choiceAxis(GroupForm, "out", "separate: Q S + P V' as two products; joined: [Q, P] [S; V'] as one; shared: P V' in one product with the state's update, [P; K^T] V'", outNames, OutSeparate,
		ofChunks.and("precintra precstate fold transpose_k", func(v Variant) bool {
			return v.Numerics.PrecIntra == v.Numerics.PrecState && (v.Fold || v.TransposeK == TransposeKey)
		}), func(v *Variant) *Out { return &v.Out }).also(GroupMapping),
	choiceAxis(GroupMapping, "pack", "how packed sequences become chunks: gather copies tokens so that a chunk has one sequence; aligned takes blocks of tokens as they lie, two sequences at once; stream takes slices of tokens as they lie, by plain ops on CPUs and GPUs; masked makes each of a few short sequences a batch row with the other tokens masked; segments takes blocks as they lie once for each sequence in them", packNames, PackGather,
		always, func(v *Variant) *Pack { return &v.Mapping.Pack }).was("pack", "visits=segments"),
	prefetchAxis, hbmAxis,
	choiceAxis(GroupForm, "scale", "where the scale of q is applied: to q, or to the output", scaleNames, ScaleQuery, ofChunks, func(v *Variant) *Scale { return &v.Scale }),
	choiceAxis(GroupForm, "tail_decay", "where the decay from a token to the end of its chunk is applied in the state's update: to K^T, or to V', which keeps K exact", tailNames, TailDecayK,
		ofChunks.and("out", func(v Variant) bool { return v.Out != OutShared }), func(v *Variant) *TailDecay { return &v.TailDecay }).also(GroupNumerics).was("rest", "key=k", "value=v"),
	choiceAxis(GroupForm, "unit", "unit of the token recurrence. matrix: products on the MXU. vector: K S in float32 on the VALU, and Q S too, except where precstate is below f32 and states are [V, K] or the kernel normalises q; the state then keeps the spec's layout and type. lanes: as vector, with the columns of a state [V, K] in the lanes of one tile. sums: both products before the update in float32, by eight running sums for each row of a state [V, K], which CPUs vectorise", unitNames, UnitMatrix,
		when("algo", func(v Variant) bool { return v.Algo == AlgoToken }), func(v *Variant) *Unit { return &v.Unit }),
	{Name: "prec", Doc: "sets precinv, precintra and precstate", Group: GroupNumerics, Values: precisionNames, Sets: []string{"precinv", "precintra", "precstate"},
		Get: func(v *Variant) string { return v.Numerics.PrecState.String() },
		Set: func(v *Variant, text string) error {
			p, err := parsePrecision(text)
			if err == nil {
				v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState = p, p, p
			}
			return err
		}},
	precAxis(GroupNumerics, "precinv", "precision of the products of the inverse", ofChunks, func(v *Variant) *ir.Precision { return &v.Numerics.PrecInv }).also(GroupInverse),
	precAxis(GroupNumerics, "precintra", "precision of K K^T, Q K^T, T x and P x", ofChunks, func(v *Variant) *ir.Precision { return &v.Numerics.PrecIntra }),
	precAxis(GroupNumerics, "precstate", "precision of K S, Q S, W S and K^T V'", always, func(v *Variant) *ir.Precision { return &v.Numerics.PrecState }),
	choiceAxis(GroupNumerics, "precapply", "precision of the products with the inverse; inherit: as precintra", ownNames, OwnInherit, ofChunks, func(v *Variant) *Own { return &v.Numerics.PrecApply }).was("precapply", "intra=inherit"),
	choiceAxis(GroupTraining, "precgrad", "precision of dO U^T, dV U^T, and of the product of dO U^T with K, for the gradients of gates and q inside of a chunk; inherit: as precintra", ownNames, OwnInherit, ofChunks,
		func(v *Variant) *Own { return &v.Training.PrecGrad }).also(GroupNumerics).was("precgrad", "intra=inherit"),
	choiceAxis(GroupTraining, "precupdate", "precision of the update K^T V' in training, and of dV'; inherit: as precstate", ownNames, OwnInherit, ofChunks,
		func(v *Variant) *Own { return &v.Training.PrecUpdate }).also(GroupNumerics).was("precupdate", "state=inherit"),
	choiceAxis(GroupNumerics, "split_at", "where operands of bf16x3 products are split into bf16 parts: at each use, or once where they are computed, to be stored and multiplied side by side", splitNames, SplitUse,
		ofChunks.and("precinv precintra precstate precapply precgrad precupdate", func(v Variant) bool {
			return slices.Contains([]ir.Precision{v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.ApplyPrecision(), v.GradPrecision(), v.UpdatePrecision()}, ir.PrecBF16x3)
		}), func(v *Variant) *Split { return &v.Numerics.Split }).was("parts", "late=use", "kept=def"),
	storageAxis(GroupNumerics, "store", "element type of T, P and V' between stages", ofChunks, func(v *Variant) *ir.DType { return &v.Numerics.Store }),
	choiceAxis(GroupNumerics, "decay_bf16", "products with decays in bf16 in place of float32, half of the work on targets whose VALU has bf16: none; rows, on the rows of K and Q; operands, on the columns of K^T too; all. Where each channel has a decay, rows are queries and the terms of the decay's gradient, operands adds keys", decayBF16Names, DecayBF16None, ofBF16,
		func(v *Variant) *DecayBF16 { return &v.Numerics.DecayBF16 }).was("low", "no=none", "yes=all"),
	intAxis(GroupNumerics, "error_feedback", "number of row blocks of V' that pass their bf16 rounding error on to the next block, since such errors add up on correlated keys; 0: none", 0, ofBF16,
		func(v *Variant) *int { return &v.Numerics.ErrorFeedback }, 0, 2, 4, 8).was("feedback"),
	choiceAxis(GroupInverse, "mask", "masks of a bf16 inverse: by select on elements, or by AND on 32-bit words of two bf16 rows", maskNames, MaskSelect, ofWords, func(v *Variant) *Mask { return &v.Inverse.Mask }).also(GroupLayout),
	intAxis(GroupInverse, "mergepairs", "widest block whose merges take two heads in one product, with the rows of one head in the gaps of the other; 0: none", 0,
		ofWords.and("mask", func(v Variant) bool { return v.Inverse.Mask == MaskWords }), func(v *Variant) *int { return &v.Inverse.MergePairs }, 0, 16, 32, 64).also(GroupMapping),
	boolAxis(GroupInverse, "refine", "one step of Newton's iteration on the inverse of the chunk, T + T (I - (I + A) T), with A and T in two bf16 parts, which removes most of the error on alike keys. In training, keys also stay unscaled, and precapply and precgrad take bf16x3 in two parts", false,
		ofWords.and("mask store flow form decay_bf16", refinable), func(v *Variant) *bool { return &v.Inverse.Refine }).also(GroupNumerics),
}, forwardAxes, []Axis{
	choiceAxis(GroupTraining, "save", "what a training step stores for its backward pass: none (states are recomputed), state: the state before each chunk, inverse: also T, all: also U", saveNames, SaveState, ofChunks,
		func(v *Variant) *Save { return &v.Training.Save }),
	storageAxis(GroupTraining, "saved", "element type of what is stored for the backward pass", ofChunks, func(v *Variant) *ir.DType { return &v.Training.Saved }).also(GroupNumerics),
	choiceAxis(GroupTraining, "decaygrad", "gradient of the decay: tokens sums the pairs of an earlier and a later token around each token; inverse solves (I + N)^T dV = dV' in place of sums over columns, which needs an accurate inverse", byNames, DecayByTokens, ofChunks,
		func(v *Variant) *DecayBy { return &v.Training.DecayBy }),
	choiceAxis(GroupTraining, "grads", "dq and dk with tokens in rows, or in lanes until the end, where sums over keys for the decay's gradient add whole registers", gradNames, GradsInRows, ofChunks,
		func(v *Variant) *Grads { return &v.Training.Grads }),
	choiceAxis(GroupTraining, "bwd.decay_bf16", "decay_bf16 of a backward kernel", decayBF16Names, DecayBF16None, ofBF16, func(v *Variant) *DecayBF16 { return &v.Training.DecayBF16 }).also(GroupNumerics).was("backlow", "no=none", "yes=all"),
	choiceAxis(GroupTraining, "decaysums", "lane sums for the gradient of the decay, where the other products are in one bf16 pass: products with ones on the MXU, or float32 sums on the XLU", sumNames, SumProducts, ofChunks,
		func(v *Variant) *Sums { return &v.Training.DecaySums }),
}, backwardAxes)

// defaultSpan is the largest span, in tokens, that stays in float32 range with Kimi's gate bound of -5.
const defaultSpan = 16

// storageAxis returns an axis that chooses f32 or bf16.
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

// alignable reports whether packed sequences can run as aligned blocks; streamable, as a stream of chunks.
func alignable(v Variant) bool {
	if v.Layout == LayoutBTLanes { // heads stored next to each other are in token order too
		v.Layout = LayoutBTHD
	}
	return fusedTokens(v) && !v.Fold && v.Numerics.ErrorFeedback < 2 && v.Out == OutSeparate && v.TransposeK == TransposeValue && (v.Decay == DecayClamp || v.Decay == DecayBase2)
}

// mappable reports whether output and next state can be affine maps of the state. That needs one kernel in which K carries the decay to both chunk ends.
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

// wordable reports whether the inverse can run on packed 32-bit words. It needs packed merges from leaves of at least 16, on bf16 or on bf16 parts
// split at their definition.
func wordable(v Variant) bool {
	low := v.Numerics.Store == ir.BF16 && v.Numerics.PrecInv == ir.PrecBF16x1 && v.Numerics.Split == SplitUse || v.Numerics.Store == ir.F32 && v.Numerics.PrecInv == ir.PrecBF16x3 && v.Numerics.Split == SplitDef
	return chunked(v) && low && v.Inverse.Solve == SolveMerge && v.Inverse.Merge == MergePacked && v.Inverse.LeafBy == LeafSubst && v.Inverse.Leaf >= 16
}

// refinable reports whether the inverse can be made in one bf16 pass and then refined from values more precise than bf16.
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

// LookupAxis returns the axis with this name or former name, or an error that suggests a near one.
func LookupAxis(name string) (Axis, error) {
	if a := lookupAxis(name); a != nil {
		return *a, nil
	}
	return Axis{}, unknownAxis(name)
}

// byName maps names and former names to axes.
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
