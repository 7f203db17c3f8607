package stablehlo

import (
	"math"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// rule says how an op is written: emit for one result, multi for others; refuse is the reason if it can not be written.
type rule struct {
	emit   func(p *printer, in *ir.Instr, a []string) string
	multi  func(p *printer, in *ir.Instr, a []string) ([]string, error)
	refuse string
}

const insideKernels = "acts on references, which exist only inside a kernel; emit the kernel with the mosaic backend, or the module before it was lowered to kernels"

// rules has a row for every op.
var rules [ir.NumOps]rule

func init() { // loop's rule refers back to the table
	rules = [ir.NumOps]rule{
		ir.BadOp: {refuse: "is no op"},

		ir.OpConst: {emit: emitConst},
		ir.OpIota:  {emit: emitIota},

		ir.OpNeg:      exact("negate"),
		ir.OpAbs:      {emit: emitAbs},
		ir.OpExp:      rounded("exponential"),
		ir.OpExp2:     {emit: emitExp2},
		ir.OpLog:      rounded("log"),
		ir.OpLog2:     {emit: emitLog2},
		ir.OpLog1p:    rounded("log_plus_one"),
		ir.OpSqrt:     rounded("sqrt"),
		ir.OpRsqrt:    rounded("rsqrt"),
		ir.OpTanh:     rounded("tanh"),
		ir.OpLogistic: rounded("logistic"),
		ir.OpNot:      exact("not"),
		ir.OpAdd:      rounded("add"),
		ir.OpSub:      rounded("subtract"),
		ir.OpMul:      rounded("multiply"),
		ir.OpDiv:      rounded("divide"),
		ir.OpMax:      extremum("maximum", "GT"),
		ir.OpMin:      extremum("minimum", "LT"),
		ir.OpAnd:      exact("and"),
		ir.OpOr:       exact("or"),
		ir.OpXor:      exact("xor"),
		ir.OpShl:      exact("shift_left"),
		ir.OpShr:      exact("shift_right_logical"),
		ir.OpCompare:  {emit: emitCompare},
		ir.OpSelect:   {emit: emitSelect},
		ir.OpConvert:  {emit: emitConvert},
		ir.OpBitcast:  {emit: emitBitcast},

		ir.OpPack:   {emit: emitPack},
		ir.OpWords:  {emit: emitWords},
		ir.OpHalves: {emit: emitHalves},

		ir.OpBroadcast: {emit: emitBroadcast},
		ir.OpReshape:   {emit: emitReshape},
		ir.OpTranspose: {emit: emitTranspose},
		ir.OpSlice:     {emit: emitSlice},
		ir.OpConcat:    {emit: emitConcat},
		ir.OpPad:       {emit: emitPad},
		ir.OpKeep:      {emit: emitKeep},

		ir.OpReduceSum:  {emit: emitReduceSum},
		ir.OpReduceMax:  {emit: emitReduceMax},
		ir.OpCumsum:     {emit: emitCumsum},
		ir.OpTake:       {emit: emitTake},
		ir.OpGatherRows: {emit: emitGatherRows},
		ir.OpDynSlice:   {emit: emitDynSlice},
		ir.OpDynUpdate:  {emit: emitDynUpdate},
		ir.OpDot:        {emit: emitDot},

		ir.OpLoop:      {multi: emitLoop},
		ir.OpGrid:      {refuse: "must be batched first: run the batch pass"},
		ir.OpKernel:    {refuse: "is a TPU kernel; emit it with the mosaic backend, or the module before it was lowered to kernels"},
		ir.OpProgramID: {refuse: "belongs to a grid, and the batch pass replaces it"},

		ir.OpWhen:     {refuse: insideKernels},
		ir.OpLoad:     {refuse: insideKernels},
		ir.OpStore:    {refuse: insideKernels},
		ir.OpRefCast:  {refuse: insideKernels},
		ir.OpDMAStart: {refuse: insideKernels},
		ir.OpDMAWait:  {refuse: insideKernels},
	}
}

// typ returns the text of the carrier type of t.
func (p *printer) typ(t ir.Type) string { return TensorType(p.carrier(t)) }

// result returns the text of the carrier type of an instruction's only result.
func (p *printer) result(in *ir.Instr) string { return p.typ(in.Result().Type) }

// operands returns the carrier types of the operands.
func (p *printer) operands(in *ir.Instr) string {
	ts := make([]string, len(in.Args))
	for i, a := range in.Args {
		ts[i] = p.typ(a.Type)
	}
	return strings.Join(ts, ", ")
}

// exact returns the rule of an elementwise op whose result needs no rounding.
func exact(name string) rule {
	return rule{emit: func(p *printer, in *ir.Instr, a []string) string {
		return p.let("stablehlo.%s %s : %s", name, strings.Join(a, ", "), p.result(in))
	}}
}

// rounded returns the rule of an elementwise op whose result may need rounding to a type narrower than its carrier.
func rounded(name string) rule {
	return rule{emit: func(p *printer, in *ir.Instr, a []string) string {
		t := in.Result().Type
		return p.round(p.let("stablehlo.%s %s : %s", name, strings.Join(a, ", "), p.typ(t)), t)
	}}
}

func emitAbs(p *printer, in *ir.Instr, a []string) string {
	if d := in.Result().Type.DType; d == ir.U32 || d == ir.U16 {
		return a[0] // the op is not defined on unsigned numbers
	}
	return exact("abs").emit(p, in, a)
}

// extremum returns the rule of max and min.
func extremum(name, relation string) rule {
	return rule{emit: func(p *printer, in *ir.Instr, a []string) string {
		return p.extreme(name, relation, a[0], a[1], p.carrier(in.Result().Type))
	}}
}

// extreme returns the larger or smaller of plain values. For floats it is written out so that NaN wins: the runtime's own op drops NaN
// on a CPU.
func (p *printer) extreme(name, relation, x, y string, t ir.Type) string {
	if !t.DType.IsFloat() {
		return p.bits(name, x, y, t)
	}
	c := ir.T(ir.Bool, t.Shape...)
	first := p.bits("or", p.compare(relation, x, y, t, "FLOAT"), p.compare("NE", x, x, t, "FLOAT"), c)
	return p.let("stablehlo.select %s, %s, %s : %s, %s", first, x, y, TensorType(c), TensorType(t))
}

// round rounds x, in t's carrier type, to t's precision.
func (p *printer) round(x string, t ir.Type) string {
	if p.carrier(t).Equal(t) {
		return x
	}
	return p.reduce(x, p.carrier(t), t.DType)
}

// reduce rounds x of type t to the precision of d, keeping the type.
func (p *printer) reduce(x string, t ir.Type, d ir.DType) string {
	e := elements[d]
	return p.let("stablehlo.reduce_precision %s, format = e%dm%d : %s", x, e.exponent, e.mantissa, TensorType(t))
}

// convert converts a plain tensor to another type of the same shape, if the types differ.
func (p *printer) convert(x string, from, to ir.Type) string {
	if from.Equal(to) {
		return x
	}
	return p.let("stablehlo.convert %s : (%s) -> %s", x, TensorType(from), TensorType(to))
}

// splat returns a plain tensor of one number.
func (p *printer) splat(v float64, t ir.Type) string {
	return p.let("stablehlo.constant dense<%s> : %s", literal(v, t.DType, t.DType), TensorType(t))
}

func emitConst(p *printer, in *ir.Instr, _ []string) string {
	t := in.Result().Type
	return p.let("stablehlo.constant dense<%s> : %s", literal(in.Attrs.Value, t.DType, p.carrier(t).DType), p.typ(t))
}

func emitIota(p *printer, in *ir.Instr, _ []string) string {
	t := in.Result().Type
	return p.round(p.let("stablehlo.iota dim = %d : %s", in.Attrs.Axis, p.typ(t)), t)
}

// emitExp2 uses a power of 2: a product with ln 2 would lose precision for large exponents.
func emitExp2(p *printer, in *ir.Instr, a []string) string {
	t := in.Result().Type
	two := p.splat(2, p.carrier(t))
	return p.round(p.let("stablehlo.power %s, %s : %s", two, a[0], p.typ(t)), t)
}

func emitLog2(p *printer, in *ir.Instr, a []string) string {
	t := in.Result().Type
	l := p.let("stablehlo.log %s : %s", a[0], p.typ(t))
	c := p.splat(1/math.Ln2, p.carrier(t))
	return p.round(p.let("stablehlo.multiply %s, %s : %s", l, c, p.typ(t)), t)
}

func emitCompare(p *printer, in *ir.Instr, a []string) string {
	t := in.Args[0].Type
	kind := "SIGNED"
	switch {
	case t.DType.IsFloat():
		kind = "FLOAT"
	case t.DType == ir.U32 || t.DType == ir.U16 || t.DType == ir.Bool:
		kind = "UNSIGNED"
	}
	return p.compare(strings.ToUpper(in.Attrs.Cmp.String()), a[0], a[1], p.carrier(t), kind)
}

// compare compares plain tensors of type t.
func (p *printer) compare(relation, x, y string, t ir.Type, kind string) string {
	return p.let("stablehlo.compare %s, %s, %s, %s : (%[5]s, %[5]s) -> %s", relation, x, y, kind, TensorType(t),
		TensorType(ir.T(ir.Bool, t.Shape...)))
}

func emitSelect(p *printer, in *ir.Instr, a []string) string {
	return p.let("stablehlo.select %s, %s, %s : %s, %s", a[0], a[1], a[2], p.typ(in.Args[0].Type), p.result(in))
}

func emitConvert(p *printer, in *ir.Instr, a []string) string {
	from, to := in.Args[0].Type, in.Result().Type
	x, have := a[0], p.carrier(from)
	switch {
	case to.DType == ir.Bool:
		kind := "SIGNED"
		switch {
		case have.DType == ir.Bool:
			return x
		case have.DType.IsFloat():
			kind = "FLOAT"
		case have.DType == ir.U32 || have.DType == ir.U16:
			kind = "UNSIGNED"
		}
		return p.compare("NE", x, p.splat(0, have), have, kind)
	case to.DType.IsFloat():
		if narrow := to.DType == ir.BF16 || to.DType == ir.F16; narrow && have.DType.IsInt() {
			wide := shaped(ir.F64, to) // exact, so there is only one rounding
			x, have = p.convert(x, have, wide), wide
		}
		if have.DType.IsFloat() {
			return p.narrow(x, have, to)
		}
	case have.DType.IsFloat():
		return p.saturate(x, have, to)
	}
	return p.convert(x, have, p.carrier(to))
}

// saturate converts floats to integers: truncated, clamped to the type's range, NaN to 0.
func (p *printer) saturate(x string, have, to ir.Type) string {
	r := p.convert(x, have, to)
	lo, hi := intBounds[to.DType][0], intBounds[to.DType][1]
	over := p.compare("GE", x, p.splat(hi+1, have), have, "FLOAT")
	under := p.compare("LE", x, p.splat(lo, have), have, "FLOAT")
	nan := p.compare("NE", x, x, have, "FLOAT")
	pick := func(c, y, z string) string {
		return p.let("stablehlo.select %s, %s, %s : %s, %s", c, y, z, TensorType(ir.T(ir.Bool, to.Shape...)), TensorType(to))
	}
	r = pick(over, p.let("stablehlo.constant dense<%s> : %s", intMax[to.DType], TensorType(to)), r)
	r = pick(under, p.splat(lo, to), r)
	return pick(nan, p.splat(0, to), r)
}

var (
	intBounds = map[ir.DType][2]float64{
		ir.I64: {math.MinInt64, math.MaxInt64}, ir.I32: {math.MinInt32, math.MaxInt32},
		ir.U32: {0, math.MaxUint32}, ir.U16: {0, math.MaxUint16},
	}
	intMax = map[ir.DType]string{
		ir.I64: "9223372036854775807", ir.I32: "2147483647", ir.U32: "4294967295", ir.U16: "65535",
	}
)
