package hlo

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A schedule branches on values in scalar memory. Where the optimised module makes them of constants alone, they are computed here: XLA leaves
// broadcasts, iotas and small fusions as they are, and hands constants into loops.
//
//	%c = s32[] constant(3)    %b = s32[4] broadcast(%c), dimensions={}    %k = f32[8,128] custom-call(%b, %x)
//
// The first operand of k is 3, 3, 3, 3. What depends on a parameter of the module, or on the turn of a loop, has no value.

// table is an array of integers, in row-major order.
type table struct {
	shape []int
	data  []int64
}

// mostIntegers is the largest array that is followed.
const mostIntegers = 1 << 20

// Constant is the value of an operand of an op, in row-major order, where it follows from constants: integers of at most 32 bits.
func (h *Module) Constant(name string, index int) ([]int64, bool) {
	o := h.ops[name]
	if o == nil || index < 0 || index >= len(o.operands) {
		return nil, false
	}
	v := h.evaluate(operandName(o.operands[index]), nil, 0)
	if v == nil {
		return nil, false
	}
	return v.data, len(v.data) > 0
}

// deepest is how many ops a value is followed through, against modules that name themselves.
const deepest = 64

// evaluate computes an op; params are those of its computation, where a fusion calls it. It is nil where the value is not known.
func (h *Module) evaluate(name string, params []*table, depth int) *table {
	op := h.ops[name]
	if op == nil || depth > deepest {
		return nil
	}
	arg := func(i int) *table {
		if i >= len(op.operands) {
			return nil
		}
		return h.evaluate(operandName(op.operands[i]), params, depth+1)
	}
	switch op.opcode {
	case "parameter":
		i, err := strconv.Atoi(strings.Join(op.operands, ""))
		if err != nil || i < 0 || i >= len(params) {
			return nil
		}
		return params[i]
	case "get-tuple-element":
		return h.element(op, params, depth)
	case "copy-done", "copy-start": // what is copied, whatever is beside it
		return arg(0)
	}
	shape, ok := integerShape(op.typ)
	if !ok {
		return nil
	}
	out := &table{shape, make([]int64, product(shape))}
	switch op.opcode {
	case "constant":
		return literal(op, out)
	case "copy", "bitcast", "reshape", "convert":
		x := arg(0)
		if x == nil || len(x.data) != len(out.data) || op.opcode == "convert" && !strings.HasPrefix(op.typ, "s32") {
			return nil
		}
		copy(out.data, x.data)
		return out
	case "iota":
		axis, err := strconv.Atoi(op.attribute("iota_dimension"))
		if err != nil || axis >= len(shape) {
			return nil
		}
		after := product(shape[axis+1:])
		for i := range out.data {
			out.data[i] = int64(i / after % shape[axis])
		}
		return out
	case "broadcast":
		return broadcastTo(out, arg(0), numbersOf(op.attribute("dimensions")))
	case "fusion":
		var args []*table
		for i := range op.operands {
			args = append(args, arg(i))
		}
		for _, inner := range h.computations[nameOf(op.attribute("calls"))] {
			if h.ops[inner].root {
				return h.evaluate(inner, args, depth+1)
			}
		}
		return nil
	}
	if bits := op.opcode == "and" || op.opcode == "or"; !strings.HasPrefix(op.typ, "s32") && !bits {
		return nil
	}
	return elementwise(op.opcode, out, arg)
}

// elementwise computes an op of two operands in 32 bits with a sign.
func elementwise(opcode string, out *table, arg func(int) *table) *table {
	apply := map[string]func(x, y int32) int32{
		"add": func(x, y int32) int32 { return x + y }, "subtract": func(x, y int32) int32 { return x - y }, "multiply": func(x, y int32) int32 { return x * y },
		"maximum": func(x, y int32) int32 { return max(x, y) }, "minimum": func(x, y int32) int32 { return min(x, y) },
		"and": func(x, y int32) int32 { return x & y }, "or": func(x, y int32) int32 { return x | y },
	}[opcode]
	if apply == nil {
		return nil
	}
	x, y := arg(0), arg(1)
	if x == nil || y == nil || len(x.data) != len(out.data) || len(y.data) != len(out.data) {
		return nil
	}
	for i := range out.data {
		out.data[i] = int64(apply(int32(x.data[i]), int32(y.data[i])))
	}
	return out
}

// element is an element of a tuple: of one that is there, of the parameter of a loop's body that each turn hands on, or of what such a loop gives.
func (h *Module) element(op *instruction, params []*table, depth int) *table {
	index, err := strconv.Atoi(op.attribute("index"))
	if err != nil || len(op.operands) != 1 {
		return nil
	}
	name := operandName(op.operands[0])
	from := h.ops[name]
	switch {
	case from == nil:
		return nil
	case from.opcode == "parameter":
		loop := h.loopOf(h.within[name])
		if loop == nil {
			return nil
		}
		name, from = operandName(loop.operands[0]), h.ops[operandName(loop.operands[0])]
		if !h.handsOn(nameOf(loop.attribute("body")), index) {
			return nil
		}
	case from.opcode == "while":
		if !h.handsOn(nameOf(from.attribute("body")), index) {
			return nil
		}
		name, from = operandName(from.operands[0]), h.ops[operandName(from.operands[0])]
	}
	switch {
	case from == nil:
		return nil
	case from.opcode == "tuple" && index < len(from.operands):
		return h.evaluate(operandName(from.operands[index]), params, depth+1)
	case from.opcode == "copy-start":
		return h.evaluate(name, params, depth+1)
	case from.opcode == "parameter": // of a loop around that loop
		return h.element(&instruction{opcode: op.opcode, operands: []string{"%" + name}, attributes: op.attributes}, params, depth+1)
	}
	return nil
}

// loopOf is the only loop that a computation is the body or the condition of; nil: there is none.
func (h *Module) loopOf(computation string) (loop *instruction) {
	for _, name := range h.order {
		op := h.ops[name]
		if op.opcode != "while" || len(op.operands) != 1 || nameOf(op.attribute("body")) != computation && nameOf(op.attribute("condition")) != computation {
			continue
		}
		if loop != nil {
			return nil
		}
		loop = op
	}
	return loop
}

// handsOn says whether the body of a loop gives an element of its tuple as it got it.
func (h *Module) handsOn(body string, index int) bool {
	for _, name := range h.computations[body] {
		op := h.ops[name]
		if !op.root {
			continue
		}
		if op.opcode != "tuple" || index >= len(op.operands) {
			return false
		}
		same := h.ops[operandName(op.operands[index])]
		for same != nil && same.opcode == "copy" && len(same.operands) == 1 {
			same = h.ops[operandName(same.operands[0])]
		}
		return same != nil && same.opcode == "get-tuple-element" && same.attribute("index") == strconv.Itoa(index) &&
			h.ops[operandName(same.operands[0])] != nil && h.ops[operandName(same.operands[0])].opcode == "parameter"
	}
	return false
}

// attribute is the value of an attribute, empty where there is none.
func (o *instruction) attribute(name string) string {
	for _, a := range o.attributes {
		if key, value, _ := strings.Cut(a, "="); key == name {
			return value
		}
	}
	return ""
}

// integerShape reads a type such as s32[4,2]{1,0}: its sizes, and whether its elements are integers or truth values that fit an int32.
func integerShape(typ string) ([]int, bool) {
	element, rest, ok := strings.Cut(typ, "[")
	if !ok || !slices.Contains([]string{"pred", "s8", "u8", "s16", "u16", "s32", "u32"}, element) {
		return nil, false
	}
	sizes, _, ok := strings.Cut(rest, "]")
	shape := numbersOf(sizes)
	return shape, ok && product(shape) <= mostIntegers
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		if n *= d; n > mostIntegers {
			return n
		}
	}
	return n
}

// numbersOf are the whole numbers in a list such as {0,1}.
func numbersOf(text string) (l []int) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(word) // digits alone
		l = append(l, n)
	}
	return l
}

// literal reads the elements of a constant.
func literal(op *instruction, out *table) *table {
	out.data = out.data[:0]
	for _, text := range strings.FieldsFunc(strings.Join(op.operands, ","), func(r rune) bool { return strings.ContainsRune("{}, \n\t", r) }) {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case text == "true":
			n = 1
		case text == "false":
		case err != nil: // elements left out
			return nil
		}
		out.data = append(out.data, n)
	}
	if len(out.data) != product(out.shape) {
		return nil
	}
	return out
}

// broadcastTo spreads an array over a shape, its dimension i being dimension dims[i] there.
func broadcastTo(out, x *table, dims []int) *table {
	if x == nil || len(dims) != len(x.shape) || len(dims) > 0 && slices.Max(dims) >= len(out.shape) {
		return nil
	}
	for i := range out.data {
		at := 0
		for j, d := range dims {
			at = at*x.shape[j] + i/product(out.shape[d+1:])%cmp.Or(out.shape[d], 1)
		}
		if at >= len(x.data) {
			return nil
		}
		out.data[i] = x.data[at]
	}
	return out
}
