// Package hlo reads the text of a module as XLA compiled it, as far as whoever counts its cycles asks: which two ops are the same computation,
// so that one schedule serves both ([Module.Twins]), and which operands follow from constants alone ([Module.Constant]).
package hlo

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Module is what its text says of its ops.
type Module struct {
	ops          map[string]*instruction // names are unique in a module
	order        []string
	computations map[string][]string // ops by computation
	within       map[string]string   // computation of each op
	bodies       map[string]string   // hash of each computation that was asked for; empty while it is made
}

// An instruction is an op: one line `%name = type opcode(operands), attributes`. Types carry layouts and memory spaces.
type instruction struct {
	typ, opcode string
	operands    []string
	attributes  []string // name=value
	root        bool     // the result of its computation
}

// SyntaxError says why a text is no module, and in which line, counted from 1.
type SyntaxError struct {
	Line int
	What string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.What) }

// Place gives the parts of the error.
func (e *SyntaxError) Place() (line int, what string) { return e.Line, e.What }

var opLine = regexp.MustCompile(`^ +(ROOT )?%`)

// Parse reads the text of an optimised module. Lines that are no ops and open no computation are skipped; an attribute may go on
// over several lines.
func Parse(text string) (*Module, error) {
	h := &Module{ops: map[string]*instruction{}, computations: map[string][]string{}, within: map[string]string{}, bodies: map[string]string{}}
	computation := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, first := lines[i], i+1
		trimmed, root := strings.CutPrefix(strings.TrimSpace(line), "ROOT ")
		name, rest, isOp := strings.Cut(trimmed, " = ")
		switch {
		case strings.HasPrefix(line, "HloModule "):
		case strings.HasPrefix(line, "%") || strings.HasPrefix(line, "ENTRY "):
			computation = nameOf(strings.TrimPrefix(line, "ENTRY "))
		case isOp && strings.HasPrefix(name, "%"):
			op, err := parseOp(rest)
			for errors.Is(err, errOpen) && i+1 < len(lines) && lines[i+1] != "}" && !opLine.MatchString(lines[i+1]) {
				i++
				rest += "\n" + lines[i]
				op, err = parseOp(rest)
			}
			if err != nil {
				return nil, &SyntaxError{first, err.Error()}
			}
			op.root = root
			name = nameOf(name)
			h.ops[name] = op
			h.order = append(h.order, name)
			h.computations[computation] = append(h.computations[computation], name)
			h.within[name] = computation
		}
	}
	if len(h.order) == 0 {
		return nil, &SyntaxError{1, "no ops: not the text of an optimised module, or an empty one"}
	}
	return h, nil
}

// Opcode is the opcode of an op; empty where the module has none of this name.
func (h *Module) Opcode(name string) string {
	if op := h.ops[name]; op != nil {
		return op.opcode
	}
	return ""
}

// Attribute is the value of an attribute of an op; empty where it has none, or where there is no such op.
func (h *Module) Attribute(name, attribute string) string {
	if op := h.ops[name]; op != nil {
		return op.attribute(attribute)
	}
	return ""
}

// Twins are the other ops of the same computation, in the module's order.
func (h *Module) Twins(name string) ([]string, error) {
	want, err := h.identity(name)
	if err != nil {
		return nil, err
	}
	var twins []string
	for _, other := range h.order {
		if other == name || h.ops[other].opcode != h.ops[name].opcode {
			continue
		}
		if identity, err := h.identity(other); err == nil && identity == want {
			twins = append(twins, other)
		}
	}
	return twins, nil
}

// nameOf is the name that text begins with, without its percent sign.
func nameOf(text string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "%"), " ")
	return name
}

func parseOp(text string) (*instruction, error) {
	typ, rest, err := nested(text, ' ')
	if err != nil {
		return nil, err
	}
	call, rest, err := nested(strings.TrimSpace(rest), ',')
	if err != nil {
		return nil, err
	}
	opcode, operands, ok := strings.Cut(call, "(")
	if !ok {
		return nil, fmt.Errorf("op without operands in parentheses: %.60s", text)
	}
	op := &instruction{typ: typ, opcode: opcode}
	if op.operands, err = nestedList(strings.TrimSuffix(operands, ")")); err != nil {
		return nil, err
	}
	op.attributes, err = nestedList(rest)
	return op, err
}

// nestedList splits text at the commas that no bracket and no quote encloses.
func nestedList(text string) (list []string, err error) {
	for text != "" {
		var item string
		if item, text, err = nested(text, ','); err != nil {
			return nil, err
		}
		list = append(list, strings.TrimSpace(item))
	}
	return list, nil
}

var errOpen = errors.New("bracket or quote is not closed")

// nested cuts text at the first separator that no bracket and no quote encloses.
func nested(text string, separator byte) (before, after string, err error) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			if depth--; depth < 0 {
				return "", "", fmt.Errorf("unbalanced %q: %.60s", c, text)
			}
		case c == separator && depth == 0:
			return text[:i], text[i+1:], nil
		}
	}
	if depth != 0 || quoted {
		return "", "", fmt.Errorf("%w: %.60s", errOpen, text)
	}
	return text, "", nil
}

// unlikeTwins are attributes in which ops may differ that compile to the same schedule: where they come from, and what they wait for.
var unlikeTwins = []string{"metadata", "control-predecessors", "origin"}

// identity is equal for ops that are the same computation: opcode, type, types of the operands, which of them are constants or the same
// value, attributes, and the computations called, up to names.
func (h *Module) identity(name string) (string, error) {
	op := h.ops[name]
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s(", op.typ, op.opcode)
	for i, operand := range op.operands {
		typ := operand // a literal, or the number of a parameter
		if producer := h.ops[operandName(operand)]; producer != nil {
			typ = producer.typ
			if producer.opcode == "constant" && op.opcode != "custom-call" && op.opcode != "broadcast" { // whose schedules read their operands
				typ += strings.Join(producer.operands, ",")
			}
		}
		fmt.Fprintf(&b, "%d %s;", slices.Index(op.operands[:i+1], operand), typ)
	}
	b.WriteByte(')')
	for _, a := range op.attributes {
		key, value, _ := strings.Cut(a, "=")
		switch {
		case slices.Contains(unlikeTwins, key):
			continue
		case key == "backend_config":
			value = withoutOrigin(value)
		case strings.HasPrefix(value, "%"):
			body, err := h.body(nameOf(value))
			if err != nil {
				return "", err
			}
			value = body
		}
		fmt.Fprintf(&b, ", %s=%s", key, value)
	}
	return b.String(), nil
}

// body is a hash of a computation: of the identity of its ops, which name their operands by number.
func (h *Module) body(computation string) (string, error) {
	if hash, ok := h.bodies[computation]; ok && hash == "" {
		return "", fmt.Errorf("computation %s calls itself", computation)
	} else if ok {
		return hash, nil
	}
	ops, ok := h.computations[computation]
	if !ok {
		return "", fmt.Errorf("computation %s is called but missing", computation)
	}
	h.bodies[computation] = ""
	sum := sha256.New()
	number := map[string]int{}
	for i, name := range ops {
		identity, err := h.identity(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%t %q", h.ops[name].root, identity)
		for _, operand := range h.ops[name].operands {
			if n, ok := number[operandName(operand)]; ok {
				fmt.Fprintf(sum, " #%d", n)
			}
		}
		fmt.Fprintln(sum)
		number[name] = i
	}
	h.bodies[computation] = fmt.Sprintf("%x", sum.Sum(nil))
	return h.bodies[computation], nil
}

// operandName is the name of an operand, which may carry its type before it; empty for a literal.
func operandName(text string) string {
	_, name, _ := strings.Cut(text, "%")
	return name
}

// withoutOrigin drops from a backend configuration which pass made a fusion and how it counted it.
func withoutOrigin(config string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(config), &fields) != nil {
		return config
	}
	delete(fields, "fusion_formation_source")
	text, err := json.Marshal(fields) // sorted by key
	if err != nil {
		return config
	}
	return string(text)
}
