package mosaic

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// mtype is an MLIR type: a vector, a scalar (no shape) or, if ref is set, a reference.
type mtype struct {
	elem  string
	shape []int
	ref   string // memory space
}

func (t mtype) String() string {
	if len(t.shape) == 0 && t.ref == "" {
		return t.elem
	}
	var b strings.Builder
	if t.ref != "" {
		b.WriteString("memref<")
	} else {
		b.WriteString("vector<")
	}
	for _, d := range t.shape {
		b.WriteString(strconv.Itoa(d))
		b.WriteByte('x')
	}
	b.WriteString(t.elem)
	if t.ref != "" {
		b.WriteString(", #tpu.memory_space<" + t.ref + ">")
	}
	return b.String() + ">"
}

// as replaces the element type; of replaces the shape.
func (t mtype) as(elem string) mtype  { t.elem = elem; return t }
func (t mtype) of(shape ...int) mtype { t.shape = shape; return t }
func scalarType(elem string) mtype    { return mtype{elem: elem} }

// value is an SSA value of the emitted text.
type value struct {
	id string
	t  mtype
}

// elems are the MLIR names of the element types in kernels; integers are signless.
var elems = map[ir.DType]string{ir.F32: "f32", ir.BF16: "bf16", ir.I32: "i32", ir.U32: "i32", ir.U16: "i16", ir.Bool: "i1", ir.Sem: "!tpu.dma_semaphore"}

var memories = map[ir.Space]string{ir.HBM: "hbm", ir.VMEM: "vmem", ir.SMEM: "smem"}

func mlirType(t ir.Type) (mtype, error) {
	elem, ok := elems[t.DType]
	if !ok {
		return mtype{}, fmt.Errorf("a TPU kernel has no %s: convert outside it (known: f32 bf16 i32 u32 u16 bool)", t.DType)
	}
	m := mtype{elem: elem, shape: t.Shape}
	switch {
	case !t.IsRef():
		if t.Rank() > 2 {
			return m, fmt.Errorf("%s has rank %d: a value in a kernel has rank 2 at most; unroll the leading dimensions", t, t.Rank())
		}
	case t.DType == ir.Bool:
		return m, fmt.Errorf("%s: a reference can not hold bool; use i32", t)
	case t.DType == ir.Sem:
		m.ref = "semaphore_mem"
	default:
		m.ref = memories[t.Space]
	}
	return m, nil
}

// emitter prints one function of the Mosaic module.
type emitter struct {
	grid   *ir.Grid
	target *target.Target
	head   strings.Builder // constants
	out    strings.Builder
	depth  int
	next   int
	values map[*ir.Value]value
	consts map[string]value
	ids    []value // grid ids
	facts  facts
	loc    string
}

func (e *emitter) fresh() string {
	e.next++
	return "%" + strconv.Itoa(e.next-1)
}

func list[T any](xs []T, f func(T) string) string {
	s := make([]string, len(xs))
	for i, x := range xs {
		s[i] = f(x)
	}
	return strings.Join(s, ", ")
}

func ids(vs []value) string   { return list(vs, func(v value) string { return v.id }) }
func types(vs []value) string { return list(vs, func(v value) string { return v.t.String() }) }
func ints(xs []int) string    { return list(xs, strconv.Itoa) }

func (e *emitter) printf(format string, args ...any) {
	e.out.WriteString(strings.Repeat("  ", e.depth))
	fmt.Fprintf(&e.out, format, args...)
}

// op prints an operation with one result; attrs is the inside of its attribute dictionary.
func (e *emitter) op(name string, t mtype, attrs string, args ...value) value {
	v := value{e.fresh(), t}
	e.printf("%s = \"stable_mosaic.%s\"(%s)%s : (%s) -> %s%s\n", v.id, name, ids(args), dict(attrs), types(args), t, e.loc)
	return v
}

// do prints an operation without results.
func (e *emitter) do(name, attrs string, args ...value) {
	e.printf("\"stable_mosaic.%s\"(%s)%s : (%s) -> ()%s\n", name, ids(args), dict(attrs), types(args), e.loc)
}

func dict(attrs string) string {
	if attrs == "" {
		return ""
	}
	return " {" + attrs + "}"
}

// constant returns a splat of a number, hoisted and shared.
func (e *emitter) constant(t mtype, v float64) value {
	lit := literal(t.elem, v)
	if len(t.shape) > 0 {
		lit = "dense<" + lit + ">"
	}
	key := lit + " : " + t.String()
	if t.elem == "i1" && len(t.shape) == 0 {
		key = lit
	}
	c, ok := e.consts[key]
	if !ok {
		c = value{"%c" + strconv.Itoa(len(e.consts)), t}
		e.consts[key] = c
		fmt.Fprintf(&e.head, "    %s = \"stable_mosaic.arith.constant\"() {value = %s} : () -> %s%s\n", c.id, key, t, nowhere)
	}
	return c
}

func (e *emitter) index(i int) value { return e.constant(scalarType("index"), float64(i)) }
func (e *emitter) int(i int) value   { return e.constant(scalarType("i32"), float64(i)) }

// literal prints a number of an element type; floats are rounded to it.
func literal(elem string, v float64) string {
	switch elem {
	case "i1":
		return strconv.FormatBool(v != 0)
	case "f32", "bf16":
		f := float32(v)
		bits := math.Float32bits(f)
		if elem == "bf16" && v == v {
			bits = (bits + 0x7fff + bits>>16&1) &^ 0xffff
			f = math.Float32frombits(bits)
		}
		if math.IsInf(float64(f), 0) || f != f {
			if elem == "bf16" {
				return fmt.Sprintf("0x%04X", bits>>16)
			}
			return fmt.Sprintf("0x%08X", bits)
		}
		s := strconv.FormatFloat(float64(f), 'e', -1, 32)
		if mant, exp, _ := strings.Cut(s, "e"); !strings.Contains(mant, ".") {
			s = mant + ".0e" + exp
		}
		return s
	case "i32":
		return strconv.Itoa(int(int32(uint32(int64(v)))))
	case "i16":
		return strconv.Itoa(int(int16(uint16(int64(v)))))
	}
	return strconv.FormatInt(int64(v), 10)
}

// arg returns the emitted value of an operand.
func (e *emitter) arg(in *ir.Instr, i int) value { return e.values[in.Args[i]] }

func (e *emitter) args(vs []*ir.Value) []value {
	out := make([]value, len(vs))
	for i, v := range vs {
		out[i] = e.values[v]
	}
	return out
}

// result returns the MLIR type of an instruction's only result.
func (e *emitter) result(in *ir.Instr) mtype {
	t, _ := mlirType(in.Result().Type) // checked by instr
	return t
}

// block prints the instructions of a block.
func (e *emitter) block(b *ir.Block) error {
	for _, in := range b.Instrs {
		if err := e.instr(in); err != nil {
			return err
		}
	}
	return nil
}

func (e *emitter) instr(in *ir.Instr) error {
	fail := func(err error) error {
		if _, ok := err.(*codegen.Error); ok {
			return err
		}
		return codegen.Refuse("mosaic", in, err)
	}
	if in.Op == ir.BadOp || in.Op >= ir.NumOps {
		return fail(fmt.Errorf("unknown op"))
	}
	r := rules[in.Op]
	if r.emit == nil {
		return fail(fmt.Errorf("%s", r.refuse))
	}
	for _, v := range in.Results {
		if _, err := mlirType(v.Type); err != nil {
			return fail(err)
		}
	}
	e.loc = location(in.Task)
	out, err := r.emit(e, in)
	if err != nil {
		return fail(err)
	}
	if len(out) != len(in.Results) {
		return fail(fmt.Errorf("rule gives %d results", len(out)))
	}
	for i, v := range in.Results {
		e.values[v] = out[i]
	}
	e.facts.add(in)
	return nil
}

// location returns the location suffix that names a task; the compiler keeps file locations to the end.
func location(t ir.Task) string {
	if t.Stage != "" {
		return fmt.Sprintf(" loc(%q:1:1)", t)
	}
	return nowhere
}

// nowhere is the location of ops without a task. An op without a location gets its place in the text. When libtpu 0.0.51 merges a
// kernel's body with the functions of its windows, such a place would replace the locations of all ops of the body.
const nowhere = " loc(unknown)"
