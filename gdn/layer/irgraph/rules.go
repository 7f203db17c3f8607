package irgraph

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/ir"
)

// rule builds an op: node for ops with one result on nodes, values for ops that use known numbers, refuse for unsupported
// ops.
type rule struct {
	node   func(b *builder, in *ir.Instr, a []*Node) *Node
	values func(b *builder, in *ir.Instr) []*value
	refuse string
}

const (
	insideKernels = "acts on references, which exist only inside a kernel"
	onWords       = "works on packed words of kernels; choose a variant without mask=words, such as cpu"
)

// rules has a row for every op.
var rules [ir.NumOps]rule

func init() { // loop's rule refers back to the table
	rules = [ir.NumOps]rule{
		ir.BadOp: {refuse: "is no op"},

		ir.OpConst: {values: buildConst},
		ir.OpIota:  {node: buildIota},

		ir.OpNeg:  unary(Neg),
		ir.OpAbs:  unary(Abs),
		ir.OpExp:  unary(Exp),
		ir.OpExp2: {node: func(b *builder, in *ir.Instr, a []*Node) *Node { return Pow(b.fill(in.Result().Type, 2), a[0]) }},
		ir.OpLog:  unary(Log),
		ir.OpLog2: {node: func(b *builder, in *ir.Instr, a []*Node) *Node {
			return Mul(Log(a[0]), b.fill(in.Result().Type, 1/math.Ln2))
		}},
		ir.OpLog1p:    unary(Log1p),
		ir.OpSqrt:     unary(Sqrt),
		ir.OpRsqrt:    unary(Rsqrt),
		ir.OpTanh:     unary(Tanh),
		ir.OpLogistic: unary(Logistic),
		ir.OpNot:      {node: buildNot},
		ir.OpAdd:      binary(Add),
		ir.OpSub:      binary(Sub),
		ir.OpMul:      binary(Mul),
		ir.OpDiv:      binary(Div),
		ir.OpMax:      extremum(Max, GreaterThan),
		ir.OpMin:      extremum(Min, LessThan),
		ir.OpAnd:      bits(LogicalAnd, BitwiseAnd),
		ir.OpOr:       bits(LogicalOr, BitwiseOr),
		ir.OpXor:      bits(LogicalXor, BitwiseXor),
		ir.OpShl:      shift(BitwiseShiftLeft),
		ir.OpShr:      shift(BitwiseShiftRightLogical),
		ir.OpCompare:  {node: buildCompare},
		ir.OpSelect:   {node: func(_ *builder, _ *ir.Instr, a []*Node) *Node { return Where(a[0], a[1], a[2]) }},
		ir.OpConvert:  {node: buildConvert},
		ir.OpBitcast:  {node: func(_ *builder, in *ir.Instr, a []*Node) *Node { return Bitcast(a[0], Types[in.Result().Type.DType]) }},

		ir.OpPack:   {refuse: onWords},
		ir.OpWords:  {refuse: onWords},
		ir.OpHalves: {refuse: onWords},

		ir.OpBroadcast: {node: buildBroadcast},
		ir.OpReshape:   {node: func(_ *builder, in *ir.Instr, a []*Node) *Node { return Reshape(a[0], in.Result().Type.Shape...) }},
		ir.OpTranspose: {node: func(_ *builder, in *ir.Instr, a []*Node) *Node { return TransposeAllAxes(a[0], in.Attrs.Dims...) }},
		ir.OpSlice:     {node: buildSlice},
		ir.OpConcat:    {node: func(_ *builder, in *ir.Instr, a []*Node) *Node { return Concatenate(a, in.Attrs.Axis) }},
		ir.OpPad:       {node: buildPad},
		ir.OpKeep:      {node: func(_ *builder, _ *ir.Instr, a []*Node) *Node { return a[0] }},

		ir.OpReduceSum:  {node: buildReduceSum},
		ir.OpReduceMax:  {node: buildReduceMax},
		ir.OpCumsum:     {node: buildCumsum},
		ir.OpTake:       {node: buildTake},
		ir.OpGatherRows: {node: buildGatherRows},
		ir.OpDynSlice:   {values: buildDynSlice},
		ir.OpDynUpdate:  {values: buildDynUpdate},
		ir.OpDot:        {node: buildDot},

		ir.OpLoop:      {values: buildLoop},
		ir.OpGrid:      {refuse: "must be batched first: use Prepare"},
		ir.OpKernel:    {refuse: "is a TPU kernel; use the module before it was lowered to kernels"},
		ir.OpProgramID: {refuse: "belongs to a grid, and the batch pass replaces it"},

		ir.OpWhen:     {refuse: insideKernels},
		ir.OpLoad:     {refuse: insideKernels},
		ir.OpStore:    {refuse: insideKernels},
		ir.OpRefCast:  {refuse: insideKernels},
		ir.OpDMAStart: {refuse: insideKernels},
		ir.OpDMAWait:  {refuse: insideKernels},
	}
}

func unary(f func(x *Node) *Node) rule {
	return rule{node: func(_ *builder, _ *ir.Instr, a []*Node) *Node { return f(a[0]) }}
}

func binary(f func(x, y *Node) *Node) rule {
	return rule{node: func(_ *builder, _ *ir.Instr, a []*Node) *Node { return f(a[0], a[1]) }}
}

// bits is the rule for an op that is logical on bools and bitwise on integers.
func bits(logical, bitwise func(x, y *Node) *Node) rule {
	return rule{node: func(_ *builder, in *ir.Instr, a []*Node) *Node {
		if in.Result().Type.DType == ir.Bool {
			return logical(a[0], a[1])
		}
		return bitwise(a[0], a[1])
	}}
}

func buildNot(_ *builder, in *ir.Instr, a []*Node) *Node {
	if in.Result().Type.DType == ir.Bool {
		return LogicalNot(a[0])
	}
	return BitwiseNot(a[0])
}

// shift is the rule for a shift. It gives 0 for counts from the type's width on, where backends differ.
func shift(f func(x, n *Node) *Node) rule {
	return rule{node: func(b *builder, in *ir.Instr, a []*Node) *Node {
		t := in.Result().Type
		x, n, zero := a[0], a[1], b.fill(t, 0)
		inRange := LessThan(n, b.fill(t, float64(8*t.DType.Bytes())))
		if t.DType == ir.I32 || t.DType == ir.I64 {
			inRange = LogicalAnd(inRange, GreaterOrEqual(n, zero))
		}
		return Where(inRange, f(x, Where(inRange, n, zero)), zero)
	}}
}

// extremum is the rule for max and min. NaN wins, which the backends' own ops do not guarantee.
func extremum(f, first func(x, y *Node) *Node) rule {
	return rule{node: func(_ *builder, in *ir.Instr, a []*Node) *Node {
		return extreme(in.Result().Type.DType, a[0], a[1], f, first)
	}}
}

func extreme(d ir.DType, x, y *Node, f, first func(x, y *Node) *Node) *Node {
	if !d.IsFloat() {
		return f(x, y)
	}
	return Where(LogicalOr(first(x, y), NotEqual(x, x)), x, y)
}

func greatest(d ir.DType, x, y *Node) *Node { return extreme(d, x, y, Max, GreaterThan) }

var relations = map[ir.Cmp]func(x, y *Node) *Node{
	ir.EQ: Equal, ir.NE: NotEqual, ir.LT: LessThan, ir.LE: LessOrEqual, ir.GT: GreaterThan, ir.GE: GreaterOrEqual,
}

func buildCompare(_ *builder, in *ir.Instr, a []*Node) *Node {
	return relations[in.Attrs.Cmp](a[0], a[1])
}

func buildConst(b *builder, in *ir.Instr) []*value {
	t := in.Result().Type
	if t.Rank() == 0 && t.DType.IsInt() {
		k := int(in.Attrs.Value)
		return []*value{{known: &k}}
	}
	if t.DType == ir.Bool {
		return []*value{{n: b.truth(b.fill(ir.T(ir.I32, t.Shape...), in.Attrs.Value), ir.T(ir.I32, t.Shape...))}}
	}
	return []*value{{n: b.fill(t, in.Attrs.Value)}}
}

// truth is x != 0.
func (b *builder) truth(x *Node, t ir.Type) *Node { return NotEqual(x, b.fill(t, 0)) }

func buildIota(b *builder, in *ir.Instr, _ []*Node) *Node {
	return Iota(b.g, Shape(in.Result().Type), in.Attrs.Axis)
}

// buildConvert truncates floats to integers and saturates: NaN gives 0.
func buildConvert(b *builder, in *ir.Instr, a []*Node) *Node {
	x, t, to := a[0], in.Args[0].Type, in.Result().Type
	switch {
	case t.DType == to.DType:
		return x
	case to.DType == ir.Bool:
		return b.truth(x, t)
	case !t.DType.IsFloat() || to.DType.IsFloat():
		return b.as(x, to.DType)
	}
	lo, hi := bounds[to.DType][0], bounds[to.DType][1] // hi is the first number above the type's largest
	low, high := LessThan(x, b.fill(t, lo)), GreaterOrEqual(x, b.fill(t, hi))
	ok := LogicalAnd(LogicalNot(LogicalOr(low, high)), Equal(x, x))
	least := b.fill(to, lo)
	y := ConvertDType(Where(ok, x, b.fill(t, 0)), Types[to.DType])
	return Where(high, BitwiseNot(least), Where(low, least, y)) // the largest value is the complement of the least
}

// bounds are the least value of an integer type, and its largest plus one.
var bounds = map[ir.DType][2]float64{
	ir.I64: {-1 << 63, 1 << 63}, ir.I32: {-1 << 31, 1 << 31}, ir.U32: {0, 1 << 32}, ir.U16: {0, 1 << 16},
}
