package pjrt

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// The StableHLO names of the element types that a program may take and return.
var elementTypes = map[string]ir.DType{
	"f64": ir.F64, "f32": ir.F32, "f16": ir.F16, "bf16": ir.BF16,
	"i64": ir.I64, "i32": ir.I32, "ui32": ir.U32, "ui16": ir.U16, "i1": ir.Bool,
}

// signature lists the arguments of @main. An argument type without a host array is ir.Invalid.
type signature []ir.Type

var (
	prettyMain  = regexp.MustCompile(`func\.func\s+(?:public\s+)?@main\s*\(`)
	genericFunc = regexp.MustCompile(`function_type\s*=\s*\(`)
	genericMain = regexp.MustCompile(`sym_name\s*=\s*"main"`)
	tensorType  = regexp.MustCompile(`(?:%[\w$.-]+\s*:\s*)?tensor<([^<>]*)>`)
)

// parseSignature returns the arguments of @main in the text of a module, in pretty or generic form. If ok is false, they are unknown,
// and the runtime checks them.
func parseSignature(text string) (s signature, ok bool) {
	var args string
	if at := prettyMain.FindStringIndex(text); at != nil {
		args, ok = untilParen(text[at[1]:])
	} else if all := genericFunc.FindAllStringIndex(text, -1); len(all) == 1 && genericMain.MatchString(text) {
		args, ok = untilParen(text[all[0][1]:])
	}
	if !ok || strings.Trim(tensorType.ReplaceAllString(args, ""), ", \t\r\n") != "" {
		return nil, false
	}
	for _, m := range tensorType.FindAllStringSubmatch(args, -1) {
		t, ok := parseTensorType(m[1])
		if !ok {
			return nil, false
		}
		s = append(s, t)
	}
	return s, true
}

// reuse says that a result reuses the memory of an argument.
type reuse struct{ argument, result int }

var aliasingOutput = regexp.MustCompile(`%[\w$.-]+\s*:\s*tensor<[^<>]*>(?:\s*\{tf\.aliasing_output = (\d+) : i32\})?`)

// parseReuse returns the arguments of @main whose memory results reuse, from the pretty form that package stablehlo writes.
func parseReuse(text string) []reuse {
	at := prettyMain.FindStringIndex(text)
	if at == nil {
		return nil
	}
	head, _, _ := strings.Cut(text[at[1]:], "->")
	var list []reuse
	for i, m := range aliasingOutput.FindAllStringSubmatch(head, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			list = append(list, reuse{argument: i, result: n})
		}
	}
	return list
}

// untilParen returns the text before the closing parenthesis, without attribute dictionaries and strings.
func untilParen(text string) (string, bool) {
	var b strings.Builder
	parens, braces, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			braces++
		case c == '}':
			braces--
		case braces > 0:
		case c == ')' && parens == 0:
			return b.String(), true
		default:
			if c == '(' {
				parens++
			}
			if c == ')' {
				parens--
			}
			b.WriteByte(c)
		}
	}
	return "", false
}

// parseTensorType reads 4x8xf32 or f32.
func parseTensorType(text string) (ir.Type, bool) {
	text, _, _ = strings.Cut(text, ",") // an encoding may follow
	dims := strings.Split(strings.TrimSpace(text), "x")
	shape := []int{}
	for _, dim := range dims[:len(dims)-1] {
		n, err := strconv.Atoi(dim)
		if err != nil || n < 0 {
			return ir.Type{}, false
		}
		shape = append(shape, n)
	}
	return ir.T(elementTypes[dims[len(dims)-1]], shape...), true
}

// check compares the arguments of a call with the signature.
func (s signature) check(args []ir.Type) error {
	if len(args) != len(s) {
		return fmt.Errorf("the program takes %d arguments, given %d", len(s), len(args))
	}
	for i, a := range args {
		if !a.Equal(s[i]) {
			return fmt.Errorf("argument %d must be %s, given %s", i, s[i], a)
		}
	}
	return nil
}
