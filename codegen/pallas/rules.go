package pallas

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// expr is Python text with the precedence of its outermost operator.
type expr struct {
	s    string
	prec int
}

// Operator precedences, loosest first.
const (
	precOr = iota + 1
	precXor
	precAnd
	precShift
	precAdd
	precMul
	precUnary
	atom
)

const precCompare = 0

func (e expr) in(prec int) string {
	if e.prec < prec {
		return "(" + e.s + ")"
	}
	return e.s
}

func call(f string, args ...string) expr { return expr{f + "(" + strings.Join(args, ", ") + ")", atom} }

// operands gives a rule the operands of one instruction.
type operands struct {
	in    *ir.Instr
	texts []expr       // of all operands; constants are scalars
	ints  []loops.Form // starts, then limits of a slice or pad
	p     *printer
}

func (o *operands) dtype() ir.DType { return o.in.Results[0].Type.DType }

func (o *operands) shape() []int { return o.in.Results[0].Type.Shape }

// full returns operand i as an array, even if it is a constant.
func (o *operands) full(i int) expr {
	a := o.in.Args[i]
	c, ok := loops.Constant(a)
	if !ok || a.Type.Rank() == 0 {
		return o.texts[i]
	}
	return expr{o.p.filled(a.Type, c, o.texts[i].s), atom}
}

func filled(t ir.Type, c float64, text string) expr {
	if c == 0 && text == scalarText(t.DType, 0) {
		return call("jnp.zeros", shapeText(t.Shape), dtypes[t.DType])
	}
	return call("jnp.full", shapeText(t.Shape), text, dtypes[t.DType])
}

func shapeText(s []int) string {
	if len(s) == 1 {
		return fmt.Sprintf("(%d,)", s[0])
	}
	return "(" + ints(s) + ")"
}

func ints(s []int) string {
	t := make([]string, len(s))
	for i, n := range s {
		t[i] = strconv.Itoa(n)
	}
	return strings.Join(t, ", ")
}

var dtypes = map[ir.DType]string{
	ir.F32: "jnp.float32", ir.BF16: "jnp.bfloat16", ir.F16: "jnp.float16", ir.I32: "jnp.int32", ir.U32: "jnp.uint32", ir.U16: "jnp.uint16",
	ir.I64: "jnp.int32", ir.Bool: "jnp.bool_",
}

// rule says how an op is written in Python, or why it is refused.
type rule struct {
	write  func(*operands) (expr, error)
	name   string // the result's name if no better one is known
	refuse string
}

func infix(op string, prec int) func(*operands) (expr, error) {
	return func(o *operands) (expr, error) {
		x, y := o.texts[0], o.texts[1]
		if y := o.texts[1].s; o.in.Result().Type.Rank() == 0 && (isNumber(y, "0") && prec == precAdd || isNumber(y, "1") && op == "*") {
			return x, nil
		}
		if rest, ok := strings.CutPrefix(y.s, "-"); ok && op == "+" && (y.prec == precUnary && rest[0] >= 'a' || isInteger(rest)) { // a term that a loop varies, or a number
			return expr{x.in(prec) + " - " + rest, prec}, nil
		}
		if _, ok := loops.Constant(o.in.Args[0]); ok {
			if _, ok := loops.Constant(o.in.Args[1]); ok {
				x = o.full(0)
			}
		}
		return expr{x.in(prec) + " " + op + " " + y.in(prec+1), prec}, nil
	}
}

func isInteger(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// isNumber reports whether a number is written with exactly these digits, as integer or float.
func isNumber(text, digits string) bool { return text == digits || text == digits+".0" }

func prefix(op string) func(*operands) (expr, error) {
	return func(o *operands) (expr, error) { return expr{op + o.full(0).in(precUnary), precUnary}, nil }
}

func function1(f string) func(*operands) (expr, error) {
	return func(o *operands) (expr, error) {
		args := make([]string, len(o.texts))
		for i, t := range o.texts {
			args[i] = t.s
		}
		if _, ok := loops.Constant(o.in.Args[0]); ok {
			args[0] = o.full(0).s
		}
		return call(f, args...), nil
	}
}

// rules is indexed by op. Effects (store, copies, when) and ops with bodies are written by the printer.
var rules [ir.NumOps]rule

func init() {
	rules = [ir.NumOps]rule{
		ir.OpConst: {write: func(o *operands) (expr, error) {
			return filled(o.in.Results[0].Type, o.in.Attrs.Value, scalarText(o.dtype(), o.in.Attrs.Value)), nil
		}, name: "constant"},
		ir.OpIota: {write: writeIota, name: "index"},

		ir.OpNeg:      {write: prefix("-"), name: "negative"},
		ir.OpAbs:      {write: function1("jnp.abs"), name: "size"},
		ir.OpExp:      {write: function1("jnp.exp"), name: "growth"},
		ir.OpExp2:     {write: function1("jnp.exp2"), name: "growth"},
		ir.OpLog:      {write: function1("jnp.log"), name: "log"},
		ir.OpLog2:     {write: function1("jnp.log2"), name: "log"},
		ir.OpLog1p:    {write: function1("jnp.log1p"), name: "log"},
		ir.OpSqrt:     {write: function1("jnp.sqrt"), name: "root"},
		ir.OpRsqrt:    {write: function1("lax.rsqrt"), name: "norm"},
		ir.OpTanh:     {write: function1("jnp.tanh"), name: "tanh"},
		ir.OpLogistic: {write: function1("jax.nn.sigmoid"), name: "gate"},
		ir.OpNot:      {write: prefix("~"), name: "others"},

		ir.OpAdd: {write: infix("+", precAdd), name: "total"},
		ir.OpSub: {write: infix("-", precAdd), name: "rest"},
		ir.OpMul: {write: infix("*", precMul), name: "scaled"},
		ir.OpDiv: {write: writeDiv, name: "ratio"},
		ir.OpMax: {write: function1("jnp.maximum"), name: "bounded"},
		ir.OpMin: {write: function1("jnp.minimum"), name: "bounded"},
		ir.OpAnd: {write: infix("&", precAnd), name: "masked"},
		ir.OpOr:  {write: infix("|", precOr), name: "merged"},
		ir.OpXor: {write: infix("^", precXor), name: "flipped"},
		ir.OpShl: {write: infix("<<", precShift), name: "shifted"},
		ir.OpShr: {write: writeShr, name: "shifted"},

		ir.OpCompare: {write: writeCompare, name: "mask"},
		ir.OpSelect:  {write: writeSelect, name: "chosen"},
		ir.OpConvert: {write: writeConvert},
		ir.OpBitcast: {write: func(o *operands) (expr, error) {
			return call("lax.bitcast_convert_type", o.full(0).s, dtypes[o.dtype()]), nil
		}},

		ir.OpPack:   {write: writePack, name: "words"},
		ir.OpWords:  {write: helper("words", 1)},
		ir.OpHalves: {write: helper("halves", 1)},

		ir.OpBroadcast: {write: writeBroadcast},
		ir.OpReshape: {write: func(o *operands) (expr, error) {
			s := shapeText(o.shape())
			return expr{fmt.Sprintf("%s.reshape%s", o.full(0).in(atom), strings.Replace(s, ",)", ")", 1)), atom}, nil
		}},
		ir.OpTranspose: {write: writeTranspose},
		ir.OpSlice:     {write: writeSlice},
		ir.OpConcat:    {write: writeConcat, name: "stacked"},
		ir.OpPad:       {write: writePad, name: "padded"},
		ir.OpKeep:      {write: function1("lax.optimization_barrier"), name: "kept"},

		ir.OpReduceSum: {write: writeReduce("jnp.sum"), name: "total"},
		ir.OpReduceMax: {write: writeReduce("jnp.max"), name: "largest"},
		ir.OpCumsum: {write: func(o *operands) (expr, error) {
			return call("jnp.cumsum", o.full(0).s, fmt.Sprintf("axis=%d", o.in.Attrs.Axis)), nil
		}, name: "total"},
		ir.OpTake: {write: func(o *operands) (expr, error) {
			if o.in.Attrs.Axis == 1 {
				o.p.takes(o.in.Args[0].Type)
				return helper("take", 2)(o)
			}
			return call("jnp.take_along_axis", o.full(0).s, o.full(1).s, fmt.Sprintf("axis=%d", o.in.Attrs.Axis), `mode="promise_in_bounds"`), nil
		}, name: "picked"},
		ir.OpGatherRows: {write: writeGatherRows, name: "rows"},
		ir.OpDynSlice:   {refuse: "a value can not be sliced at a run-time index: load the block from a reference"},
		ir.OpDynUpdate:  {write: writeDynUpdate, name: "changed"},
		ir.OpDot:        {write: writeDot, name: "product"},

		ir.OpLoop:   {write: byPrinter, name: "carried"},
		ir.OpGrid:   {refuse: "lower it to a kernel first"},
		ir.OpKernel: {write: byPrinter},
		ir.OpProgramID: {write: func(o *operands) (expr, error) {
			return call("pl.program_id", strconv.Itoa(o.in.Attrs.Axis)), nil
		}, name: "step"},

		ir.OpWhen:  {write: byPrinter},
		ir.OpLoad:  {write: writeLoad},
		ir.OpStore: {write: byPrinter},
		ir.OpRefCast: {write: func(o *operands) (expr, error) {
			from, to := o.in.Args[0].Type, o.in.Results[0].Type
			if from.Rank() != to.Rank() {
				return expr{}, fmt.Errorf("%s as %s: a reference keeps its dimensions", from, to)
			}
			if from.DType == to.DType { // leading dimensions are rows
				return expr{o.texts[0].s + ".reshape(" + strings.Trim(shapeText(to.Shape), "()") + ")", atom}, nil
			}
			return expr{o.texts[0].s + ".bitcast(" + dtypes[o.dtype()] + ")", atom}, nil
		}},
		ir.OpDMAStart: {write: byPrinter},
		ir.OpDMAWait:  {write: byPrinter},
	}
}

func byPrinter(o *operands) (expr, error) {
	return expr{}, fmt.Errorf("%s is a statement", o.in.Op)
}

// helper writes an op as a call of a helper function, which is then included in the module.
func helper(name string, args int) func(*operands) (expr, error) {
	return func(o *operands) (expr, error) {
		o.p.need(name)
		var l []string
		for i := range args {
			l = append(l, o.full(i).s)
		}
		return call("_"+name, l...), nil
	}
}

func writePack(o *operands) (expr, error) {
	o.p.need("pack")
	o.p.flags["interpret"] = true
	return call("_pack", o.full(0).s, o.full(1).s, "interpret"), nil
}

// scalarText returns a number in Python for an element type.
func scalarText(d ir.DType, c float64) string {
	switch {
	case d == ir.Bool:
		if c != 0 {
			return "True"
		}
		return "False"
	case d.IsFloat() && math.IsInf(c, 1):
		return "jnp.inf"
	case d.IsFloat() && math.IsInf(c, -1):
		return "-jnp.inf"
	case d.IsFloat() && c != c:
		return "jnp.nan"
	case d.IsFloat():
		s := strings.Replace(strconv.FormatFloat(c, 'g', -1, 64), "e+", "e", 1)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	case d == ir.U32 && c >= 1<<15:
		return fmt.Sprintf("np.uint32(0x%X)", uint32(int64(c)))
	case d == ir.U32:
		return fmt.Sprintf("np.uint32(%d)", uint32(int64(c)))
	}
	return strconv.FormatInt(int64(c), 10)
}

func writeIota(o *operands) (expr, error) {
	e := call("lax.broadcasted_iota", "jnp.int32", shapeText(o.shape()), strconv.Itoa(o.in.Attrs.Axis))
	if o.dtype() != ir.I32 {
		e = expr{e.s + ".astype(" + dtypes[o.dtype()] + ")", atom}
	}
	return e, nil
}

func writeDiv(o *operands) (expr, error) {
	if o.dtype().IsFloat() {
		return infix("/", precMul)(o)
	}
	if _, ok := loops.Shift(o.in); ok {
		return expr{o.texts[0].in(precShift) + " >> " + formText(o.ints[0]).in(precAdd), precShift}, nil
	}
	return call("lax.div", o.full(0).s, o.full(1).s), nil
}

func writeShr(o *operands) (expr, error) {
	if o.dtype() == ir.U32 {
		return infix(">>", precShift)(o)
	}
	return call("lax.shift_right_logical", o.full(0).s, o.full(1).s), nil
}

var relations = [...]string{ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<=", ir.GT: ">", ir.GE: ">="}

var turned = [...]string{ir.EQ: "==", ir.NE: "!=", ir.LT: ">", ir.LE: ">=", ir.GT: "<", ir.GE: "<="}

func writeCompare(o *operands) (expr, error) {
	if _, ok := loops.Constant(o.in.Args[0]); ok { // the constant goes to the right
		return expr{o.texts[1].in(precOr) + " " + turned[o.in.Attrs.Cmp] + " " + o.texts[0].in(precOr), precCompare}, nil
	}
	return expr{o.texts[0].in(precOr) + " " + relations[o.in.Attrs.Cmp] + " " + o.texts[1].in(precOr), precCompare}, nil
}

func writeSelect(o *operands) (expr, error) {
	_, x := loops.Constant(o.in.Args[1])
	_, y := loops.Constant(o.in.Args[2])
	e := call("jnp.where", o.texts[0].s, o.texts[1].s, o.texts[2].s)
	if d := o.dtype(); x && y && (d == ir.BF16 || d == ir.F16) {
		e = o.p.cast(e, d)
	}
	return e, nil
}

func writeConvert(o *operands) (expr, error) {
	if o.in.Args[0].Type.DType == o.dtype() {
		return o.full(0), nil
	}
	return o.p.cast(o.full(0), o.dtype()), nil
}

// spreads reports whether Python operators do a broadcast implicitly: no dimension moves, some stretch.
func spreads(in *ir.Instr) bool {
	if in.Op != ir.OpBroadcast {
		return false
	}
	from, to := in.Args[0].Type.Shape, in.Results[0].Type.Shape
	if len(from) != len(to) {
		return false
	}
	for i, d := range in.Attrs.Dims {
		if d != i {
			return false
		}
	}
	return true
}

func writeBroadcast(o *operands) (expr, error) {
	x, from, to := o.full(0), o.in.Args[0].Type.Shape, o.shape()
	if len(from) == 0 {
		return call("jnp.full", shapeText(to), x.s, dtypes[o.dtype()]), nil
	}
	if !slices.IsSorted(o.in.Attrs.Dims) {
		return expr{}, fmt.Errorf("dimensions %v: transpose first", o.in.Attrs.Dims)
	}
	if len(from) < len(to) { // new dimensions by None
		at := make([]string, 0, len(to))
		for d, k := 0, 0; d < len(to); d++ {
			if k < len(from) && o.in.Attrs.Dims[k] == d {
				at = append(at, ":")
				k++
			} else {
				at = append(at, "None")
			}
		}
		for len(at) > 0 && at[len(at)-1] == ":" {
			at = at[:len(at)-1]
		}
		if len(at) > 0 {
			x = expr{x.in(atom) + "[" + strings.Join(at, ", ") + "]", atom}
		}
	}
	return call("jnp.broadcast_to", x.s, shapeText(to)), nil
}

func writeTranspose(o *operands) (expr, error) {
	d := o.in.Attrs.Dims
	if len(d) == 2 && d[0] == 1 {
		return expr{o.full(0).in(atom) + ".T", atom}, nil
	}
	return expr{fmt.Sprintf("%s.transpose(%s)", o.full(0).in(atom), ints(d)), atom}, nil
}

// span returns the slice lo to hi of a dimension of size n.
func span(lo, hi loops.Form, n, step int) string {
	if lo.IsConst() && hi.IsConst() && lo.C == 0 && hi.C == n && step == 1 {
		return ":"
	}
	a, b := formText(lo), formText(hi)
	colon := ":"
	if a.prec < atom || b.prec < atom {
		colon = " : "
	}
	first := a.s
	if lo.IsConst() && lo.C == 0 {
		first, colon = "", strings.TrimPrefix(colon, " ")
	}
	last := b.s
	if hi.IsConst() && hi.C == n {
		last, colon = "", strings.TrimSuffix(colon, " ")
	}
	s := first + colon + last
	if step != 1 {
		s += fmt.Sprintf("%s%d", colon, step)
	}
	return s
}

func writeSlice(o *operands) (expr, error) {
	n := o.in.Args[0].Type.Shape
	at := make([]string, len(n))
	for d := range n {
		at[d] = span(o.ints[d], o.ints[len(n)+d], n[d], o.in.Attrs.Step(d))
	}
	for len(at) > 0 && at[len(at)-1] == ":" {
		at = at[:len(at)-1]
	}
	if len(at) == 0 {
		return o.full(0), nil
	}
	return expr{o.full(0).in(atom) + "[" + strings.Join(at, ", ") + "]", atom}, nil
}

func writeConcat(o *operands) (expr, error) {
	if len(o.texts) == 1 {
		return o.full(0), nil
	}
	l := make([]expr, len(o.texts))
	for i := range l {
		l[i] = o.full(i)
	}
	if name := [...]string{"stacked", "joined"}[min(o.in.Attrs.Axis, 1)]; o.p.k != nil && o.in.Result().Type.Rank() == 2 {
		o.p.need(name)
		return call("_"+name, o.p.listText(l)), nil
	}
	return call("jnp.concatenate", o.p.listText(l), fmt.Sprintf("axis=%d", o.in.Attrs.Axis)), nil
}

func writePad(o *operands) (expr, error) {
	x := o.full(0)
	n := o.in.Args[0].Type.Rank()
	var w []string
	for d := range n {
		w = append(w, fmt.Sprintf("(%d, %d)", o.in.Attrs.Starts[d], o.in.Attrs.Limits[d]))
	}
	return call("jnp.pad", x.s, "("+strings.Join(w, ", ")+")", "constant_values="+scalarText(o.dtype(), o.in.Attrs.Value)), nil
}

// writeGatherRows takes rows by number through a helper: -1 gives zeros, while numpy would take the last row.
func writeGatherRows(o *operands) (expr, error) {
	o.p.need("rows_at")
	args := []string{o.full(0).s, o.full(1).s}
	if o.in.Attrs.Axis > 0 {
		args = append(args, fmt.Sprintf("axis=%d", o.in.Attrs.Axis))
	}
	return call("_rows_at", args...), nil
}

// writeDynUpdate writes a block into a value, outside kernels.
func writeDynUpdate(o *operands) (expr, error) {
	if o.p.k != nil {
		return expr{}, fmt.Errorf("a value can not be changed at a run-time index: store the block to a reference")
	}
	var at []string
	for i := range o.texts[2:] {
		at = append(at, o.texts[2+i].s)
	}
	return call("lax.dynamic_update_slice", o.full(0).s, o.full(1).s, "("+strings.Join(at, ", ")+")"), nil
}

func writeReduce(f string) func(*operands) (expr, error) {
	return func(o *operands) (expr, error) {
		axis := shapeText(o.in.Attrs.Dims)
		if len(o.in.Attrs.Dims) == 1 {
			axis = strconv.Itoa(o.in.Attrs.Dims[0])
		}
		e := call(f, o.full(0).s, "axis="+axis)
		if d := o.dtype(); f == "jnp.sum" && (d == ir.BF16 || d == ir.F16) {
			e = expr{call(f, o.full(0).s, "axis="+axis, "dtype=jnp.float32").s + ".astype(" + dtypes[d] + ")", atom}
		}
		return e, nil
	}
}

func writeDot(o *operands) (expr, error) {
	d := o.in.Attrs.Dot
	x, y := o.full(0), o.full(1)
	f := ""
	if len(d.LB) == 0 && len(d.LC) == 1 && o.in.Args[0].Type.Rank() == 2 && o.in.Args[1].Type.Rank() == 2 {
		f = [2][2]string{{"dot_tn", "dot_tt"}, {"dot", "dot_nt"}}[d.LC[0]][d.RC[0]]
	} else {
		return expr{}, fmt.Errorf("wants rank 2 by rank 2 with one contracted dimension and no batch: unroll the batch")
	}
	exact := o.in.Args[0].Type.DType == ir.BF16 && o.in.Args[1].Type.DType == ir.BF16
	switch {
	case exact:
	case o.in.Attrs.Prec == ir.PrecBF16x1:
		cast := func(i int, e expr) expr {
			if o.in.Args[i].Type.DType == ir.BF16 {
				return e
			}
			return o.p.cast(e, ir.BF16)
		}
		x, y = cast(0, x), cast(1, y)
	case o.in.Attrs.Prec != ir.PrecF32 && o.in.Attrs.Prec != ir.PrecBF16x6:
		return expr{}, fmt.Errorf("%s on %s: run the precision pass first, which splits the operands", o.in.Attrs.Prec, o.in.Args[0].Type)
	}
	o.p.need(f)
	e := call("_"+f, x.s, y.s)
	if o.dtype() == ir.BF16 {
		e = o.p.cast(e, ir.BF16)
	}
	return e, nil
}

// Supports returns nil for an op that can be written as Python, else an error with the reason.
func Supports(op ir.Op) error {
	if op == ir.BadOp || op >= ir.NumOps {
		return fmt.Errorf("pallas: unknown op %s", op)
	}
	if rules[op].write == nil {
		return fmt.Errorf("pallas: %s: %s", op, rules[op].refuse)
	}
	return nil
}
