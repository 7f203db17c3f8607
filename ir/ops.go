package ir

import "fmt"

// Op is an operation; Ops[op] describes it.
type Op uint8

// The ops. Their meaning is the Doc of their rows.
const (
	BadOp Op = iota
	OpConst
	OpIota
	OpNeg
	OpAbs
	OpExp
	OpExp2
	OpLog
	OpLog2
	OpLog1p
	OpSqrt
	OpRsqrt
	OpTanh
	OpLogistic
	OpNot
	OpAdd
	OpSub
	OpMul
	OpDiv
	OpMax
	OpMin
	OpAnd
	OpOr
	OpXor
	OpShl
	OpShr
	OpCompare
	OpSelect
	OpConvert
	OpBitcast
	OpPack
	OpWords
	OpHalves
	OpBroadcast
	OpReshape
	OpTranspose
	OpSlice
	OpConcat
	OpPad
	OpKeep
	OpReduceSum
	OpReduceMax
	OpCumsum
	OpTake
	OpGatherRows
	OpDynSlice
	OpDynUpdate
	OpDot
	OpLoop
	OpGrid
	OpKernel
	OpProgramID
	OpWhen
	OpLoad
	OpStore
	OpRefCast
	OpDMAStart
	OpDMAWait
	NumOps
)

// Unit is the hardware unit that executes an op. On machines without MXUs, a vector machine does all work.
type Unit uint8

const (
	unitUnset    Unit = iota
	UnitNone          // no work: constants, views, ops with a body
	UnitVector        // elementwise
	UnitFunction      // roots, logarithms, other functions, and quotients
	UnitLane          // movement between lanes or rows: transposes, reductions, gathers
	UnitMatrix        // matrix products
	UnitLoad          // from memory
	UnitStore         // to memory
	UnitCopy          // between memories
)

// Row is the static description of an op.
type Row struct {
	Name     string
	Args     int // operand count; -1: Min or more
	Min      int // least operand count
	Unit     Unit
	Level    Level
	Effect   bool     // touches references: never removed, merged or reordered
	Explicit bool     // the result type is given, not inferred
	Body     bool     // has a body
	Attrs    []string // attribute names, in printing order
	Doc      string
	// Types returns the result types for given operands and attributes. For ops with Explicit it checks the types in the
	// instruction's results.
	Types func(in *Instr) ([]Type, error)
}

// Ops is the op table, indexed by Op. Filled in init because some rows' type rules refer back to it.
var Ops [NumOps]Row

func init() {
	const any = -1
	Ops = [NumOps]Row{
		OpConst: {Name: "const", Unit: UnitNone, Explicit: true, Attrs: []string{"value"}, Types: tConst, Doc: "every element is value"},
		OpIota:  {Name: "iota", Unit: UnitNone, Explicit: true, Attrs: []string{"axis"}, Types: tIota, Doc: "every element is its index along axis"},

		OpNeg:      {Name: "neg", Unit: UnitVector, Args: 1, Types: tUnary(isNumber), Doc: "-x"},
		OpAbs:      {Name: "abs", Unit: UnitVector, Args: 1, Types: tUnary(isNumber), Doc: "|x|"},
		OpExp:      {Name: "exp", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "e to the x"},
		OpExp2:     {Name: "exp2", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "2 to the x"},
		OpLog:      {Name: "log", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "natural logarithm"},
		OpLog2:     {Name: "log2", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "logarithm to base 2"},
		OpLog1p:    {Name: "log1p", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "natural logarithm of 1 + x"},
		OpSqrt:     {Name: "sqrt", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "square root"},
		OpRsqrt:    {Name: "rsqrt", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "1 / square root"},
		OpTanh:     {Name: "tanh", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "hyperbolic tangent"},
		OpLogistic: {Name: "logistic", Unit: UnitFunction, Args: 1, Types: tUnary(isFloat), Doc: "1 / (1 + exp(-x))"},
		OpNot:      {Name: "not", Unit: UnitVector, Args: 1, Types: tUnary(isBits), Doc: "bitwise, or logical for bool"},

		OpAdd: {Name: "add", Unit: UnitVector, Args: 2, Types: tBinary(isNumber), Doc: "x + y"},
		OpSub: {Name: "sub", Unit: UnitVector, Args: 2, Types: tBinary(isNumber), Doc: "x - y"},
		OpMul: {Name: "mul", Unit: UnitVector, Args: 2, Types: tBinary(isNumber), Doc: "x * y"},
		OpDiv: {Name: "div", Unit: UnitFunction, Args: 2, Types: tBinary(isNumber), Doc: "x / y; integers truncate toward zero"},
		OpMax: {Name: "max", Unit: UnitVector, Args: 2, Types: tBinary(isNumber), Doc: "the larger; NaN wins"},
		OpMin: {Name: "min", Unit: UnitVector, Args: 2, Types: tBinary(isNumber), Doc: "the smaller; NaN wins"},
		OpAnd: {Name: "and", Unit: UnitVector, Args: 2, Types: tBinary(isBits), Doc: "bitwise, or logical for bool"},
		OpOr:  {Name: "or", Unit: UnitVector, Args: 2, Types: tBinary(isBits), Doc: "bitwise, or logical for bool"},
		OpXor: {Name: "xor", Unit: UnitVector, Args: 2, Types: tBinary(isBits), Doc: "bitwise, or logical for bool"},
		OpShl: {Name: "shl", Unit: UnitVector, Args: 2, Types: tBinary(isInt), Doc: "x shifted left by y bits; 0 from the width on"},
		OpShr: {Name: "shr", Unit: UnitVector, Args: 2, Types: tBinary(isInt), Doc: "x shifted right by y bits, zeros shifted in; 0 from the width on"},

		OpCompare: {Name: "compare", Unit: UnitVector, Args: 2, Attrs: []string{"cmp"}, Types: tCompare, Doc: "x cmp y, as bool"},
		OpSelect:  {Name: "select", Unit: UnitVector, Args: 3, Types: tSelect, Doc: "y where x, else z"},
		OpConvert: {Name: "convert", Unit: UnitVector, Args: 1, Explicit: true, Types: tConvert, Doc: "to another element type; floats round to nearest even, floats to integers truncate and saturate"},
		OpBitcast: {Name: "bitcast", Unit: UnitNone, Args: 1, Explicit: true, Types: tBitcast, Doc: "same bits, another element type of the same width"},

		OpPack:   {Name: "pack", Unit: UnitVector, Args: 2, Types: tPack, Doc: "u32 words of two f32 rounded to bf16: the first in the low half"},
		OpWords:  {Name: "words", Unit: UnitNone, Args: 1, Types: tWords, Doc: "bf16 rows 2i (low half) and 2i+1 (high half) as u32 row i"},
		OpHalves: {Name: "halves", Unit: UnitNone, Args: 1, Types: tHalves, Doc: "the inverse of words"},

		OpBroadcast: {Name: "broadcast", Unit: UnitLane, Args: 1, Explicit: true, Attrs: []string{"dims"}, Types: tBroadcast, Doc: "operand dimension i becomes result dimension dims[i]; size 1 stretches, other dimensions repeat"},
		OpReshape:   {Name: "reshape", Unit: UnitNone, Args: 1, Explicit: true, Types: tReshape, Doc: "same elements in row-major order"},
		OpTranspose: {Name: "transpose", Unit: UnitLane, Args: 1, Attrs: []string{"dims"}, Types: tTranspose, Doc: "result dimension i is operand dimension dims[i]"},
		OpSlice:     {Name: "slice", Unit: UnitNone, Args: 1, Attrs: []string{"starts", "limits", "strides"}, Types: tSlice, Doc: "elements starts to limits by strides"},
		OpConcat:    {Name: "concat", Unit: UnitNone, Args: any, Min: 1, Attrs: []string{"axis"}, Types: tConcat, Doc: "operands one after another along axis"},
		OpPad:       {Name: "pad", Unit: UnitVector, Args: 1, Attrs: []string{"value", "starts", "limits"}, Types: tPad, Doc: "starts elements of value before, limits after, per dimension"},

		OpKeep: {Name: "keep", Unit: UnitNone, Args: 1, Types: tUnary(isAny), Doc: "x, as an array of its own: a backend that fuses ops does not fuse what reads it with what made it"},

		OpReduceSum: {Name: "reduce_sum", Unit: UnitLane, Args: 1, Attrs: []string{"dims"}, Types: tReduce, Doc: "sum over dims, which are dropped; floats narrower than f32 are summed in f32 and rounded once"},
		OpReduceMax: {Name: "reduce_max", Unit: UnitLane, Args: 1, Attrs: []string{"dims"}, Types: tReduce, Doc: "maximum over dims, which are dropped"},
		OpCumsum:    {Name: "cumsum", Unit: UnitLane, Args: 1, Attrs: []string{"axis"}, Types: tCumsum, Doc: "inclusive prefix sums along axis"},
		OpTake:      {Name: "take", Unit: UnitLane, Args: 2, Attrs: []string{"axis"}, Types: tTake, Doc: "x[.., y[..], ..]: indices along axis, same rank and shape elsewhere; every index in range"},
		OpGatherRows: {Name: "gather_rows", Unit: UnitLane, Args: 2, Attrs: []string{"axis"}, Types: tGatherRows,
			Doc: "rows of x along axis picked by the i32 vector y; an index out of range gives zeros"},
		OpDynSlice:  {Name: "dyn_slice", Unit: UnitVector, Args: any, Min: 1, Explicit: true, Types: tDynSlice, Doc: "block of the result's shape from i32 scalar starts, one a dimension, clamped to fit"},
		OpDynUpdate: {Name: "dyn_update", Unit: UnitVector, Args: any, Min: 2, Level: Tensor, Types: tDynUpdate, Doc: "x with block y written at i32 scalar starts, clamped to fit"},
		OpDot:       {Name: "dot", Unit: UnitMatrix, Args: 2, Explicit: true, Attrs: []string{"lb", "rb", "lc", "rc", "prec"}, Types: tDot, Doc: "general matrix product; result dimensions are batch, left free, right free; sums in f32"},

		OpLoop: {Name: "loop", Unit: UnitNone, Args: any, Attrs: []string{"count", "until"}, Body: true, Types: tLoop,
			Doc: "body(i, carried...) -> carried, for i = 0 .. count-1; i is an i32 scalar. until=n: iterations from the value of parameter n on, an i32 scalar that every iteration yields as it is, change nothing that is read later, and may be left out"},
		OpGrid: {Name: "grid", Unit: UnitNone, Args: any, Level: Tensor, Body: true, Types: tGrid, Doc: "body over windows at every point of a grid; see Grid"},
		OpKernel: {Name: "kernel", Unit: UnitNone, Args: any, Level: Tensor, Body: true, Types: tKernel,
			Doc: "a grid whose body works on references; see Grid"},
		OpProgramID: {Name: "program_id", Unit: UnitNone, Attrs: []string{"axis"}, Types: tProgramID, Doc: "id of the grid point along axis; inside a grid's or kernel's body"},

		OpWhen: {Name: "when", Unit: UnitNone, Args: 1, Level: Kernel, Effect: true, Body: true, Types: tWhen, Doc: "runs the body, which only has effects, if the bool scalar holds"},
		OpLoad: {Name: "load", Unit: UnitLoad, Args: any, Min: 1, Level: Kernel, Effect: true, Explicit: true, Attrs: []string{"starts", "strides"}, Types: tLoad,
			Doc: "block of a reference from starts (plus i32 scalar operands, one a dimension, if given) by strides; the result drops leading dimensions of 1; a scalar from smem"},
		OpStore: {Name: "store", Unit: UnitStore, Args: any, Min: 2, Level: Kernel, Effect: true, Attrs: []string{"starts", "strides"}, Types: tStore,
			Doc: "store(value, ref, scalars...): the inverse of load"},
		OpRefCast: {Name: "refcast", Unit: UnitNone, Args: 1, Level: Kernel, Explicit: true, Types: tRefCast,
			Doc: "the same memory seen as another element type; a width change halves or doubles the rows as words and halves do, a reshape may join leading dimensions"},
		OpDMAStart: {Name: "dma_start", Unit: UnitCopy, Args: any, Min: 3, Level: Kernel, Effect: true, Attrs: []string{"block"}, Types: tDMA,
			Doc: "dma_start(source, target, semaphore): copy begins; the target is undefined until the wait. With two i32 scalars more, a block of the shape is copied: the one of that number of the source to that of the target, counted along the last dimension first"},
		OpDMAWait: {Name: "dma_wait", Unit: UnitCopy, Args: any, Min: 3, Level: Kernel, Effect: true, Attrs: []string{"block"}, Types: tDMA, Doc: "waits for the copy of the same operands"},
	}
}

// String returns the op's name in the text form.
func (o Op) String() string {
	if o == BadOp || o >= NumOps {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return Ops[o].Name
}

// ParseOp returns the op with this name; false if there is none.
func ParseOp(s string) (Op, bool) {
	for o := BadOp + 1; o < NumOps; o++ {
		if Ops[o].Name == s {
			return o, true
		}
	}
	return BadOp, false
}

// Pure reports whether the op has no side effect and depends on its operands only. The instructions of a body must be checked separately.
func (o Op) Pure() bool { return !Ops[o].Effect }

// IsElementwise reports whether each element of the result depends on the operands' elements at the same index only.
func (o Op) IsElementwise() bool {
	return o >= OpNeg && o <= OpPack
}
