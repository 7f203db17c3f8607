package llo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// A program is a schedule ready to execute: one code word per bundle.
type program struct {
	file    string
	code    []code
	symbols []string // names of the symbols of addresses; 0 is unused
	inputs  []input
	odd     string // an instruction that the in-order model does not know
}

// A code word holds what of a bundle matters for time and control.
type code struct {
	addr   int64
	cycles int64 // issue: 1 and the delays
	steps  []step
	matrix []matrixUse
	branch *branch
	calls  []string
	vector []*vectorOp // none where the target has no timing
}

// A matrixUse holds one MXU, or its weight port, for some cycles.
type matrixUse struct {
	unit   int
	push   bool
	cycles int64
}

// maxMXUs bounds the unit numbers that a schedule may name.
const maxMXUs = 8

type branch struct {
	target int // index in program.code
	guard  guard
	slots  int // bundles after it that execute before the target
}

// A guard is the predicate of an instruction: it runs where register reg is true (false, if negated).
type guard struct {
	reg    int // noRegister: always; negated, never
	negate bool
}

// An input is an operand of the op, as its first bundle declares it.
type input struct {
	index int    // addressTable: no operand, but where the operands are
	space string // hbm, vmem, smem, inTable where the address is in a table, or empty for a scalar passed by value
	sym   int16
	shape string // as in "s32[7]"
}

// addressTable is the index of the table in scalar memory that passes the addresses of the operands of an op that has many, in
// their order, and the values of those that are single words.
const addressTable = -1

const inTable = "table"

type stepKind uint8

const (
	stepCompute stepKind = iota
	stepLoad             // dst = smem[sum of args]
	stepStore            // smem[sum of args[1:]] = args[0]
	stepPush             // eval of args enters the queue of results of the divider
	stepPop              // dst = what entered that queue first
	stepDMA              // args: source, granules, destination, sync flag
	stepOddDMA           // a transfer of a form that is not known
	stepWait             // args: sync flag, granules
)

// A step is one decoded scalar instruction.
type step struct {
	kind   stepKind
	dst    int // register, or noRegister
	guard  guard
	old    *operand // value of dst where the guard fails, if not its own
	eval   func(typ string, a []value) value
	typ    string // suffix of the op name
	args   []operand
	from   string // DMA: memory spaces; empty: only the address tells
	to     string
	opname string
}

// An operand is a register or a constant.
type operand struct {
	reg    int // noRegister: the constant
	val    value
	negate bool // predicates
}

// Registers: scalars first, then predicates.
const (
	noRegister     = -1
	firstPredicate = 256
	registers      = 2 * firstPredicate
)

// A notUnderstood is an instruction or a state of the scalar program that the executor can not follow.
type notUnderstood struct {
	file string
	addr int64
	what string
}

func (e *notUnderstood) Error() string {
	return fmt.Sprintf("schedule not understood: %s:%#x: %s", e.file, e.addr, e.what)
}

// decode prepares a parsed schedule for execution on a target.
func decode(file string, bundles []bundle, t *target.Target) (*program, error) {
	d := &decoder{
		program: &program{file: file, code: make([]code, len(bundles)), symbols: []string{""}},
		target:  t, timing: t.Timing, symbol: map[string]int16{}, regions: map[int]int{}, spaces: map[string]string{}, exit: -1,
	}
	if last := len(bundles) - 1; last >= 0 && bundles[last].exit {
		d.exit = last
	}
	for i, b := range bundles {
		for _, r := range b.regions {
			if _, ok := d.regions[r]; !ok {
				d.regions[r] = i
			}
		}
		for _, in := range b.ins {
			if space := pointsTo(in.op); space != "" {
				d.spaces[in.dst] = space
			}
		}
	}
	for i, b := range bundles {
		if err := d.bundle(&d.code[i], b); err != nil {
			return nil, &notUnderstood{file, b.addr, err.Error()}
		}
		if br := d.code[i].branch; br != nil {
			br.slots = d.delaySlots(bundles, i)
		}
	}
	return d.program, nil
}

// sites counts the places that call each op.
func (p *program) sites() map[string]int {
	n := map[string]int{}
	for i := range p.code {
		for _, op := range p.code[i].calls {
			if !ofRuntime(op) {
				n[op]++
			}
		}
	}
	return n
}

type decoder struct {
	*program
	target  *target.Target
	timing  *target.Timing // nil: throughput alone
	symbol  map[string]int16
	regions map[int]int       // region number -> index of its first bundle
	spaces  map[string]string // name of a register, which has one definition -> memory space that it points into
	exit    int               // index of the exit bundle, -1 if there is none
}

func (d *decoder) bundle(c *code, b bundle) error {
	c.addr, c.cycles = b.addr, 1
	for _, in := range b.ins {
		if err := d.instruction(c, in); err != nil {
			return fmt.Errorf("%s: %w", in.op, err)
		}
		if d.timing == nil || d.odd != "" {
			continue
		}
		switch o, err := d.vectorOf(in, d.timing); {
		case err != nil:
			d.odd = fmt.Sprintf("%s at %#x: %v", in.op, b.addr, err)
		case o != nil:
			c.vector = append(c.vector, o)
		}
	}
	return nil
}

func (d *decoder) instruction(c *code, in instruction) error {
	name, suffix, _ := strings.Cut(in.op, ".")
	switch {
	case name == "vmatmul", strings.HasPrefix(name, "vmatpush"):
		return d.matrixUse(c, in.op, name != "vmatmul")
	case name == "vdelay":
		n, err := strconv.ParseInt(in.args, 0, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("delay %q is not a number of cycles", in.args)
		}
		c.cycles += n
	case name == "sbr":
		return d.branch(c, in.args)
	case name == "shalt" && suffix != "err", name == "scall", name == "sret":
		return fmt.Errorf("control transfer of an unknown kind")
	case name == "inlined_call":
		if in.call == "" {
			return fmt.Errorf("no comment tells which op is called")
		}
		c.calls = append(c.calls, in.call)
	case name == "inlined_call_operand":
		return d.operandOf(c, in, suffix)
	case name == "sphi": // names registers, is no instruction
	case name == "int_to_ptr":
		return d.alias(c, in)
	case name == "sst":
		return d.store(c, in)
	case in.op == "dma.done.wait":
		return d.wait(c, in)
	case name == "dma" && suffix != "done":
		return d.dma(c, in, suffix)
	case name == "sdivrem", register(in.dst) != noRegister:
		return d.compute(c, in, name, suffix)
	}
	return nil
}

func (d *decoder) matrixUse(c *code, op string, push bool) error {
	use := matrixUse{push: push}
	if i := strings.LastIndex(op, "mxu"); i >= 0 {
		n, err := strconv.Atoi(op[i+len("mxu"):])
		if err != nil || n < 0 || n >= maxMXUs {
			return fmt.Errorf("matrix unit %q", op[i:])
		}
		use.unit = n
	}
	suffixes := strings.Split(op, ".")
	f32, bf16 := slices.Contains(suffixes, "f32"), slices.Contains(suffixes, "bf16")
	switch {
	case push && bf16:
		use.cycles = d.target.PushBF16
	case push:
		use.cycles = d.target.PushF32
	case f32:
		use.cycles = int64(d.target.MatmulF32)
	default:
		use.cycles = int64(d.target.MatmulBF16)
	}
	c.matrix = append(c.matrix, use)
	return nil
}

func (d *decoder) branch(c *code, args string) error {
	g, _, rest, err := d.guard(args)
	if err != nil {
		return err
	}
	_, label, ok := strings.Cut(rest, "target = $region")
	if !ok {
		return fmt.Errorf("branch without a region as its target: %s", args)
	}
	n, err := strconv.Atoi(strings.TrimSpace(label))
	if err != nil {
		return fmt.Errorf("branch to region %q", label)
	}
	to, ok := d.regions[n]
	if !ok && d.exit >= 0 { // an empty region at the end
		to, ok = d.exit, true
	}
	if !ok {
		return fmt.Errorf("branch to region %d, which does not start anywhere: the file is cut short", n)
	}
	if c.branch != nil {
		return fmt.Errorf("two branches in one bundle")
	}
	c.branch = &branch{target: to, guard: g}
	return nil
}

// operandOf decodes `inlined_call_operand.hbm [shape: s32[5], index: 0, kind: input, ...]`.
func (d *decoder) operandOf(c *code, in instruction, space string) error {
	dst := register(in.dst)
	if dst == noRegister {
		return nil // an operand in vector memory that the op names directly
	}
	_, rest, ok := strings.Cut(in.args, "index: ")
	digits, _, ok2 := strings.Cut(rest, ",")
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	if !ok || !ok2 || err != nil || n < addressTable {
		return fmt.Errorf("operand without an index: %s", in.args)
	}
	if strings.HasPrefix(space, "<no") {
		space = "" // passed by value
	}
	sym, err := d.symbolOf(fmt.Sprintf("operand%d", n))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(d.inputs, func(i input) bool { return i.index == n }) {
		d.inputs = append(d.inputs, input{n, space, sym, shapeOf(in.args)})
		if n == addressTable {
			if err := d.addresses(shapeOf(in.args)); err != nil {
				return err
			}
		}
	}
	v := operand{reg: noRegister, val: value{sym: sym, known: true}}
	c.steps = append(c.steps, step{dst: dst, guard: always, args: []operand{v}, eval: scalarOps["smov"], opname: in.op})
	return nil
}

// addresses declares the operands whose addresses a table of a shape such as u32[51] holds.
func (d *decoder) addresses(shape string) error {
	var n int
	if _, err := fmt.Sscanf(shape, "u32[%d]", &n); err != nil {
		return fmt.Errorf("addresses of operands in a table of shape %q", shape)
	}
	for i := range n {
		sym, err := d.symbolOf(fmt.Sprintf("operand%d", i))
		if err != nil {
			return err
		}
		d.inputs = append(d.inputs, input{index: i, space: inTable, sym: sym})
	}
	return nil
}

// shapeOf is the shape in the arguments of an operand, empty if there is none.
func shapeOf(args string) string {
	_, rest, _ := strings.Cut(args, "shape: ")
	shape, _, ok := strings.Cut(rest, ", index")
	if !ok {
		return ""
	}
	return shape
}

var always = guard{reg: noRegister}

// alias decodes `%a_s1 = int_to_ptr.hbm [...] %b_s1`, which most often names a register anew; with two registers it is a move.
func (d *decoder) alias(c *code, in instruction) error {
	fields := strings.Fields(in.args)
	if len(fields) == 0 {
		return fmt.Errorf("missing operand")
	}
	dst, src := register(in.dst), register(fields[len(fields)-1])
	switch {
	case dst == src:
		return nil
	case dst == noRegister:
		return fmt.Errorf("%s is not a register", in.dst)
	}
	c.steps = append(c.steps, step{dst: dst, guard: always, args: []operand{{reg: src}}, eval: scalarOps["smov"], opname: in.op})
	return nil
}

// store decodes `sst [smem:[address]] value`.
func (d *decoder) store(c *code, in instruction) error {
	g, _, rest, err := d.guard(in.args)
	if err != nil {
		return err
	}
	addr, rest, err := d.address(rest)
	if err != nil {
		return err
	}
	v, err := d.operand(strings.TrimLeft(rest, ", \t"))
	if err != nil {
		return err
	}
	c.steps = append(c.steps, step{kind: stepStore, dst: noRegister, guard: g, args: append([]operand{v}, addr...), opname: in.op})
	return nil
}

// pointsTo is the memory space of the address that an operation makes, as in scalar_lea.hbm; empty for all others.
func pointsTo(op string) string {
	name, space, _ := strings.Cut(op, ".")
	if name == "int_to_ptr" || name == "scalar_lea" || name == "inlined_call_operand" && !strings.HasPrefix(space, "<") {
		return space
	}
	return ""
}

// memorySpaces are the ends of transfers; hbm is main memory.
var memorySpaces = []string{"hbm", "vmem", "smem", "cmem", "imem", "host", "host_iova", "hib"}

// dma decodes `dma.from_to_to [thread:$0] (guard), source, size in granules, destination, ...`, and dma.general, whose spaces are
// those of its addresses. Other forms leave traffic unknown.
func (d *decoder) dma(c *code, in instruction, suffix string) error {
	from, to, named := strings.Cut(suffix, "_to_")
	if named && !(slices.Contains(memorySpaces, from) && slices.Contains(memorySpaces, to)) || !named && suffix != "general" {
		c.steps = append(c.steps, step{kind: stepOddDMA, dst: noRegister, guard: always, opname: in.op})
		return nil
	}
	args := in.args
	if strings.HasPrefix(args, "[thread") {
		_, args, _ = strings.Cut(args, "]")
	}
	g, _, rest, err := d.guard(args)
	if err != nil {
		return err
	}
	operands := strings.Split(rest, ",")
	if !named && len(operands) > 2 {
		from, to = d.spaces[registerName(operands[0])], d.spaces[registerName(operands[2])]
	}
	st := step{kind: stepDMA, dst: noRegister, guard: g, from: from, to: to, opname: in.op}
	for i, a := range operands {
		if i == 4 {
			break
		}
		v, err := d.operand(a)
		if err != nil {
			return err
		}
		st.args = append(st.args, v)
	}
	if len(st.args) < 4 {
		return fmt.Errorf("want source, size, destination and sync flag: %s", in.args)
	}
	c.steps = append(c.steps, st)
	return nil
}

// registerName is the name that an operand begins with, as in "%s5_s1 [#allocation2]".
func registerName(operand string) string {
	name, _, _ := strings.Cut(strings.TrimSpace(operand), " ")
	return name
}

// wait decodes `dma.done.wait (guard), flag, size in granules`.
func (d *decoder) wait(c *code, in instruction) error {
	g, _, rest, err := d.guard(in.args)
	if err != nil {
		return err
	}
	flag, size, ok := strings.Cut(rest, ",")
	if !ok {
		return fmt.Errorf("want sync flag and size: %s", in.args)
	}
	st := step{kind: stepWait, dst: noRegister, guard: g, opname: in.op}
	for _, a := range []string{flag, size} {
		v, err := d.operand(a)
		if err != nil {
			return err
		}
		st.args = append(st.args, v)
	}
	c.steps = append(c.steps, st)
	return nil
}

// compute decodes an instruction that writes a scalar or predicate register.
func (d *decoder) compute(c *code, in instruction, name, suffix string) error {
	st := step{dst: register(in.dst), typ: suffix, opname: in.op}
	g, old, rest, err := d.guard(in.args)
	if err != nil {
		return err
	}
	st.guard, st.old = g, old
	if name == "sdivrem" {
		st.kind, st.typ = stepPush, suffix+"."+in.call
	}
	switch eval := scalarOps[name]; {
	case in.core:
		st.eval, st.args = scalarOps["smov"], []operand{{reg: noRegister, val: number(0)}}
	case name == "sld" && strings.HasPrefix(rest, "[smem:["):
		st.kind = stepLoad
		if st.args, _, err = d.address(rest); err != nil {
			return err
		}
	case in.op == "spop.drf":
		st.kind = stepPop
	case eval == nil:
		st.eval = func(string, []value) value { return value{} }
	default:
		st.eval = eval
		for a := range strings.SplitSeq(rest, ",") {
			v, err := d.operand(a)
			if err != nil {
				return err
			}
			st.args = append(st.args, v)
		}
		want, ok := arity[name]
		if !ok {
			want = 2
		}
		if len(st.args) < want {
			return fmt.Errorf("want %d operands: %s", want, in.args)
		}
	}
	if in.call == "kDivAndRem" { // both enter the queue, the quotient first
		st.typ = suffix + ".kDiv"
		c.steps = append(c.steps, st)
		st.typ = suffix + ".kRem"
	}
	c.steps = append(c.steps, st)
	return nil
}
