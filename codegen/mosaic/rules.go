package mosaic

import (
	"fmt"

	"github.com/gdngen/gdngen/ir"
)

// rule says how an op is emitted, or why it is refused.
type rule struct {
	emit   func(*emitter, *ir.Instr) ([]value, error)
	refuse string
}

const tensorOnly = "belongs outside kernels"

// rules is the rule table, indexed by op. Filled in init because the rules of loop and when refer back to it.
var rules [ir.NumOps]rule

func init() {
	rules = [ir.NumOps]rule{
		ir.OpConst: {emit: emitConst},
		ir.OpIota:  {emit: emitIota},

		ir.OpNeg:      {emit: pure(names{f: "arith.negf", native: true}, negInt)},
		ir.OpAbs:      {emit: pure(names{f: "math.absf", i: "math.absi", native: true}, absUnsigned)},
		ir.OpExp:      {emit: pure(names{f: "math.exp", native: true}, nil)},
		ir.OpExp2:     {emit: pure(names{f: "math.exp2", native: true}, nil)},
		ir.OpLog:      {emit: pure(names{f: "math.log", native: true}, nil)},
		ir.OpLog2:     {emit: pure(names{}, log2)},
		ir.OpLog1p:    {emit: pure(names{f: "math.log1p"}, nil)},
		ir.OpSqrt:     {emit: pure(names{f: "math.sqrt"}, nil)},
		ir.OpRsqrt:    {emit: pure(names{f: "math.rsqrt"}, nil)},
		ir.OpTanh:     {emit: pure(names{f: "math.tanh", native: true}, nil)},
		ir.OpLogistic: {emit: pure(names{}, logistic)},
		ir.OpNot:      {emit: pure(names{}, not)},

		ir.OpAdd: {emit: pure(names{f: "arith.addf", i: "arith.addi", u: "arith.addi", native: true}, nil)},
		ir.OpSub: {emit: pure(names{f: "arith.subf", i: "arith.subi", u: "arith.subi", native: true}, nil)},
		ir.OpMul: {emit: pure(names{f: "arith.mulf", i: "arith.muli", u: "arith.muli", native: true}, nil)},
		ir.OpDiv: {emit: pure(names{f: "arith.divf", i: "arith.divsi", u: "arith.divui"}, nil)},
		ir.OpMax: {emit: pure(names{f: "arith.maximumf", i: "arith.maxsi", native: true}, unsignedOrder("arith.maxsi"))},
		ir.OpMin: {emit: pure(names{f: "arith.minimumf", i: "arith.minsi", native: true}, unsignedOrder("arith.minsi"))},
		ir.OpAnd: {emit: pure(names{i: "arith.andi", u: "arith.andi", b: "arith.andi"}, nil)},
		ir.OpOr:  {emit: pure(names{i: "arith.ori", u: "arith.ori", b: "arith.ori"}, nil)},
		ir.OpXor: {emit: pure(names{i: "arith.xori", u: "arith.xori", b: "arith.xori"}, nil)},
		ir.OpShl: {emit: shift("arith.shli")},
		ir.OpShr: {emit: shift("arith.shrui")},

		ir.OpCompare: {emit: emitCompare},
		ir.OpSelect:  {emit: emitSelect},
		ir.OpConvert: {emit: emitConvert},
		ir.OpBitcast: {emit: emitBitcast},

		ir.OpPack:   {emit: emitPack},
		ir.OpWords:  {emit: emitRows},
		ir.OpHalves: {emit: emitRows},

		ir.OpBroadcast: {emit: emitBroadcast},
		ir.OpReshape:   {emit: emitReshape},
		ir.OpTranspose: {emit: emitTranspose},
		ir.OpSlice:     {emit: emitSlice},
		ir.OpConcat:    {emit: emitConcat},
		ir.OpPad:       {emit: emitPad},
		ir.OpKeep:      {refuse: "says nothing to a kernel: lowering removes it"},

		ir.OpReduceSum:  {emit: emitReduce},
		ir.OpReduceMax:  {emit: emitReduce},
		ir.OpCumsum:     {refuse: "vector units have no prefix sum: use a dot with a triangle of ones"},
		ir.OpTake:       {emit: emitTake},
		ir.OpGatherRows: {refuse: "rows can not be gathered in a kernel: choose them with table operands in the windows, or gather outside"},
		ir.OpDynSlice:   {refuse: "a value can not be sliced at a run-time index: load the block from a reference"},
		ir.OpDynUpdate:  {refuse: tensorOnly},
		ir.OpDot:        {emit: emitDot},

		ir.OpLoop:      {emit: emitLoop},
		ir.OpGrid:      {refuse: tensorOnly + ": lower it to a kernel first"},
		ir.OpKernel:    {refuse: "kernels do not nest"},
		ir.OpProgramID: {emit: emitProgramID},

		ir.OpWhen:     {emit: emitWhen},
		ir.OpLoad:     {emit: emitLoad},
		ir.OpStore:    {emit: emitStore},
		ir.OpRefCast:  {emit: emitRefCast},
		ir.OpDMAStart: {emit: emitDMA},
		ir.OpDMAWait:  {emit: emitDMA},
	}
}

// Supports returns nil for an op that can be in a kernel's body, else an error with the reason.
func Supports(op ir.Op) error {
	if op == ir.BadOp || op >= ir.NumOps {
		return fmt.Errorf("mosaic: unknown op %s", op)
	}
	if rules[op].emit == nil {
		return fmt.Errorf("mosaic: %s: %s", op, rules[op].refuse)
	}
	return nil
}
