package hlo

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Conditional is an op that runs one of its branches.
type Conditional struct {
	Name     string `json:"name"`
	Op       string `json:"op,omitempty"` // what it was in the program, such as jit(step)/cond
	Branches int    `json:"branches"`
}

var opName = regexp.MustCompile(`op_name="((?:[^"\\]|\\.)*)"`)

// Conditionals are those of a module, in its order.
func (h *Module) Conditionals() (list []Conditional) {
	for _, name := range h.order {
		op := h.ops[name]
		if op.opcode != "conditional" {
			continue
		}
		c := Conditional{Name: name, Branches: 2} // true_computation and false_computation
		if l := op.attribute("branch_computations"); l != "" {
			c.Branches = strings.Count(l, "%")
		}
		if m := opName.FindStringSubmatch(op.attribute("metadata")); m != nil {
			c.Op = m[1]
		}
		list = append(list, c)
	}
	return list
}

// A table that a kernel reads is in memory as its type says: in tiles of rows and columns, and several narrow elements to a word.
//
//	s8[1,8,8]{2,1,0:T(8,128)(4,1)}    word 128 (row / 4) + column has rows 4 (row / 4) to that + 3, the first in its lowest byte
//	s32[8,16]{1,0:T(8,128)}           word 128 row + column

var tiled = regexp.MustCompile(`^([su])(8|16|32)\[([\d,]+)\]\{([\d,]+):T\((\d+),(\d+)\)(?:\((\d+),1\))?`)

// Words gives the 32-bit words of an operand of an op whose elements have these values, in row-major order. It is false where the type of the
// operand has another layout than is known here.
func (h *Module) Words(name string, index int, values []int64) ([]int64, bool) {
	op := h.ops[name]
	if op == nil || index < 0 || index >= len(op.operands) {
		return values, true
	}
	from := h.ops[operandName(op.operands[index])]
	if from == nil {
		return values, true
	}
	typ := strings.TrimPrefix(from.typ, "(") // the first of a tuple
	shape, integers := integerShape(typ)
	narrow := integers && !strings.HasPrefix(typ, "s32") && !strings.HasPrefix(typ, "u32")
	if !integers || len(values) != product(shape) {
		return values, !narrow // a few words of a list may be given, but not of what shares words
	}
	m := tiled.FindStringSubmatch(typ)
	if m == nil || len(shape) < 2 {
		return values, !narrow || len(values) == 1
	}
	bits, _ := strconv.Atoi(m[2])
	order, rows, columns := numbersOf(m[4]), number(m[5]), number(m[6])
	packed := 32 / bits // elements in a word, of as many rows
	if !slices.IsSortedFunc(order, func(a, b int) int { return b - a }) || m[7] != "" && number(m[7]) != packed || m[7] == "" && packed > 1 || rows%packed != 0 {
		return values, false
	}
	r, c := shape[len(shape)-2], shape[len(shape)-1]
	down, across := (r+rows-1)/rows, (c+columns-1)/columns
	size := rows * columns / packed
	words := make([]int64, len(values)/max(r*c, 1)*down*across*size)
	for i, v := range values {
		matrix, row, column := i/(r*c), i/c%r, i%c
		tile := (matrix*down+row/rows)*across + column/columns
		at := tile*size + row%rows/packed*columns + column%columns
		words[at] |= v & (1<<bits - 1) << (row % packed * bits)
	}
	for i, w := range words {
		words[i] = int64(int32(uint32(w)))
	}
	return words, true
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // digits, by the expression
	return n
}
