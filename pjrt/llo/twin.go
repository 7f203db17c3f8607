package llo

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An hlo is what the text of an optimised module says of its ops: enough to tell which two are the same computation.
type hlo struct {
	ops          map[string]*hloOp // names are unique in a module
	order        []string
	computations map[string][]string // ops by computation
	within       map[string]string   // computation of each op
	bodies       map[string]string   // hash of each computation that was asked for; empty while it is made
}

// An hloOp is one line `%name = type opcode(operands), attributes`. Types carry layouts and memory spaces.
type hloOp struct {
	typ, opcode string
	operands    []string
	attributes  []string // name=value
	root        bool     // the result of its computation
}

var hloOpLine = regexp.MustCompile(`^ +(ROOT )?%`)

// parseHLO reads the text of an optimised module. Lines that are no ops and open no computation are skipped; an attribute may go on
// over several lines.
func parseHLO(text string) (*hlo, error) {
	h := &hlo{ops: map[string]*hloOp{}, computations: map[string][]string{}, within: map[string]string{}, bodies: map[string]string{}}
	computation := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, first := lines[i], i+1
		trimmed, root := strings.CutPrefix(strings.TrimSpace(line), "ROOT ")
		name, rest, isOp := strings.Cut(trimmed, " = ")
		switch {
		case strings.HasPrefix(line, "HloModule "):
		case strings.HasPrefix(line, "%") || strings.HasPrefix(line, "ENTRY "):
			computation = hloName(strings.TrimPrefix(line, "ENTRY "))
		case isOp && strings.HasPrefix(name, "%"):
			op, err := parseHLOOp(rest)
			for errors.Is(err, errOpen) && i+1 < len(lines) && lines[i+1] != "}" && !hloOpLine.MatchString(lines[i+1]) {
				i++
				rest += "\n" + lines[i]
				op, err = parseHLOOp(rest)
			}
			if err != nil {
				return nil, &syntaxError{first, err.Error()}
			}
			op.root = root
			name = hloName(name)
			h.ops[name] = op
			h.order = append(h.order, name)
			h.computations[computation] = append(h.computations[computation], name)
			h.within[name] = computation
		}
	}
	if len(h.order) == 0 {
		return nil, &syntaxError{1, "no ops: not the text of an optimised module, or an empty one"}
	}
	return h, nil
}

// hloName is the name that text begins with, without its percent sign.
func hloName(text string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "%"), " ")
	return name
}

func parseHLOOp(text string) (*hloOp, error) {
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
	op := &hloOp{typ: typ, opcode: opcode}
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
func (h *hlo) identity(name string) (string, error) {
	op := h.ops[name]
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s(", op.typ, op.opcode)
	for i, operand := range op.operands {
		typ := operand // a literal, or the number of a parameter
		if producer := h.ops[hloOperand(operand)]; producer != nil {
			typ = producer.typ
			if producer.opcode == "constant" && op.opcode != "custom-call" { // whose schedule reads its operands
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
			body, err := h.body(hloName(value))
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
func (h *hlo) body(computation string) (string, error) {
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
			if n, ok := number[hloOperand(operand)]; ok {
				fmt.Fprintf(sum, " #%d", n)
			}
		}
		fmt.Fprintln(sum)
		number[name] = i
	}
	h.bodies[computation] = fmt.Sprintf("%x", sum.Sum(nil))
	return h.bodies[computation], nil
}

// hloOperand is the name of an operand, which may carry its type before it; empty for a literal.
func hloOperand(text string) string {
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

// twin finds the op whose schedule is that of name: libtpu compiles ops that are the same computation once and dumps one of them.
func (a *analysis) twin(name string) (string, error) {
	h, err := a.readHLO()
	if err != nil {
		return "", err
	}
	if h.ops[name] == nil {
		return "", fmt.Errorf("%s does not name it", a.files.hlo)
	}
	want, err := h.identity(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", a.files.hlo, err)
	}
	found, hash := "", ""
	for _, other := range h.order {
		if other == name || h.ops[other].opcode != h.ops[name].opcode || !a.files.ops[other].complete() {
			continue
		}
		if identity, err := h.identity(other); err != nil || identity != want {
			continue
		}
		bundles, err := read(a.files.dir, a.files.ops[other].bundles, parseBundles)
		if err != nil {
			return "", err
		}
		switch other, otherHash := other, canonicalHash(bundles); {
		case found == "":
			found, hash = other, otherHash
		case hash != otherHash:
			return "", fmt.Errorf("%s and %s are both like it in %s, but their schedules differ", found, other, a.files.hlo)
		}
	}
	if found == "" {
		return "", fmt.Errorf("no %s of the same type, operands and attributes in %s has both", h.ops[name].opcode, a.files.hlo)
	}
	return found, nil
}

// readHLO reads the optimised module, once.
func (a *analysis) readHLO() (*hlo, error) {
	if a.hlo != nil {
		return a.hlo, nil
	}
	if a.files.hlo == "" {
		return nil, fmt.Errorf("no *-%s-hlo.txt to find another op of the same computation in", topLevel)
	}
	var err error
	a.hlo, err = read(a.files.dir, a.files.hlo, parseHLO)
	return a.hlo, err
}
