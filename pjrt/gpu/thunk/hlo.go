package thunk

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// instr is one instruction of an HLO module.
type instr struct {
	name, op string
	bytes    []int64  // of the result, or of each element of a tuple
	operands []string // a name, or name#i for element i of a tuple
	calls    string   // the computation of a fusion
	trips    int64    // of a loop; -1: unknown
	line     int      // of the program given to XLA; 0: unknown
	number   int      // of a parameter
	root     bool
	users    []use
}

// use is an instruction that takes a value as operand number at.
type use struct {
	by *instr
	at int
}

// computation is a list of instructions.
type computation struct {
	list   []*instr
	byName map[string]*instr
}

// hlo is a module: its computations, and by name the instructions outside fusions.
type hlo struct {
	computations map[string]*computation
	byName       map[string]*instr
}

var (
	computationHead = regexp.MustCompile(`^(?:ENTRY )?%(\S+) \(.*-> .*\{$`)
	instruction     = regexp.MustCompile(`^ +(ROOT )?%(\S+) = (.*)$`)
	arrayType       = regexp.MustCompile(`([a-z]+[0-9]*[a-z0-9]*)\[([0-9,]*)\]`)
	operandName     = regexp.MustCompile(`%([^\s,()]+)`)
	callsName       = regexp.MustCompile(`[ ,]calls=%([^\s,]+)`)
	sourceLine      = regexp.MustCompile(`source_line=(\d+)`)
	tripCount       = regexp.MustCompile(`"known_trip_count":\{"n":"(\d+)"\}`)
	comment         = regexp.MustCompile(`/\*[^*]*\*/`)
)

// elementBytes are the sizes of element types; pred is a byte.
var elementBytes = map[string]int64{"pred": 1, "s4": 1, "u4": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "s32": 4, "u32": 4, "s64": 8, "u64": 8,
	"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16}

// parseHLO parses the text of an HLO module.
func parseHLO(text string) (*hlo, error) {
	m := &hlo{computations: map[string]*computation{}, byName: map[string]*instr{}}
	var c *computation
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if head := computationHead.FindStringSubmatch(line); head != nil {
			c = &computation{byName: map[string]*instr{}}
			m.computations[head[1]] = c
			continue
		}
		match := instruction.FindStringSubmatch(line)
		if match == nil || c == nil {
			continue
		}
		x, err := parseInstr(match[2], comment.ReplaceAllString(match[3], ""))
		if err != nil {
			return nil, fmt.Errorf("line %d of the module: %w", n, err)
		}
		x.root = match[1] != ""
		c.list, c.byName[x.name] = append(c.list, x), x
		m.byName[x.name] = x
	}
	if len(m.byName) == 0 {
		return nil, fmt.Errorf("the module has no instructions")
	}
	for _, c := range m.computations {
		for _, x := range c.list {
			for at, name := range x.operands {
				name, _, _ = strings.Cut(name, "#")
				if from := c.byName[name]; from != nil {
					from.users = append(from.users, use{x, at})
				}
			}
		}
	}
	return m, nil
}

// parseInstr parses the text after the equals sign: a type, an operation with operands, and attributes.
func parseInstr(name, text string) (*instr, error) {
	kind, rest, err := cutType(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	x := &instr{name: name, trips: -1}
	if x.bytes, err = sizes(kind); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	op, rest, ok := strings.Cut(rest, "(")
	end := strings.IndexByte(rest, ')')
	if !ok || end < 0 {
		return nil, fmt.Errorf("%s: %q is no operation", name, rest)
	}
	x.op = op
	if op == "parameter" {
		if x.number, err = strconv.Atoi(rest[:end]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, o := range operandName.FindAllStringSubmatch(rest[:end], -1) {
		x.operands = append(x.operands, o[1])
	}
	attributes := rest[end:]
	if found := callsName.FindStringSubmatch(attributes); found != nil {
		x.calls = found[1]
	}
	if found := sourceLine.FindStringSubmatch(attributes); found != nil {
		x.line, _ = strconv.Atoi(found[1])
	}
	if found := tripCount.FindStringSubmatch(attributes); found != nil {
		x.trips, err = strconv.ParseInt(found[1], 10, 64)
	}
	return x, err
}

// cutType splits a type, which may be a tuple, from the text after it.
func cutType(text string) (kind, rest string, err error) {
	depth := 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ' ' && depth == 0:
			return text[:i], text[i+1:], nil
		}
	}
	return "", "", fmt.Errorf("%q has no operation", text)
}

// sizes returns the bytes of an array, or of each array of a tuple.
func sizes(kind string) ([]int64, error) {
	var list []int64
	for _, m := range arrayType.FindAllStringSubmatch(kind, -1) {
		n, ok := elementBytes[m[1]]
		if !ok {
			return nil, fmt.Errorf("type %s has elements of unknown size", m[0])
		}
		for d := range strings.SplitSeq(m[2], ",") {
			if d == "" {
				continue
			}
			size, err := strconv.ParseInt(d, 10, 64)
			if err != nil {
				return nil, err
			}
			n *= size
		}
		list = append(list, n)
	}
	return list, nil
}

func (x *instr) total() (sum int64) {
	for _, b := range x.bytes {
		sum += b
	}
	return sum
}

// size returns the bytes of an operand of x, in computation c.
func (x *instr) size(c *computation, operand string) int64 {
	name, element, part := strings.Cut(operand, "#")
	from := c.byName[name]
	if from == nil {
		return 0
	}
	if i, err := strconv.Atoi(element); part && err == nil && i < len(from.bytes) {
		return from.bytes[i]
	}
	return from.total()
}

// traffic returns the bytes that an instruction reads and writes, with each operand and result moved once.
func (m *hlo) traffic(x *instr, c *computation) (read, written int64) {
	body := m.computations[x.calls]
	if x.op != "fusion" || body == nil {
		for _, o := range x.operands {
			read += x.size(c, o)
		}
		return read, x.total()
	}
	for _, p := range body.list {
		if p.op == "parameter" {
			read += min(body.reads(p), p.total())
		}
	}
	for _, p := range body.list {
		if !p.root {
			continue
		}
		results := []*instr{p}
		if p.op == "tuple" {
			results = nil
			for _, o := range p.operands {
				results = append(results, body.byName[o])
			}
		}
		for i, r := range results {
			if update := body.update(r); update != nil {
				written += update.total()
			} else if r != nil {
				written += r.total()
			} else if i < len(p.bytes) {
				written += p.bytes[i]
			}
		}
	}
	return read, written
}

// views are operations that move no data.
var views = map[string]bool{"bitcast": true, "reshape": true}

// update returns the value that a result writes into an operand in place; nil if the result is written whole.
func (c *computation) update(r *instr) *instr {
	for r != nil && views[r.op] && len(r.operands) == 1 {
		r = c.byName[r.operands[0]]
	}
	if r == nil || r.op != "dynamic-update-slice" || len(r.operands) < 2 {
		return nil
	}
	return c.byName[r.operands[1]]
}

// reads returns the bytes read of a value inside a fusion: slices count their part, in-place updates nothing.
func (c *computation) reads(x *instr) (sum int64) {
	for _, u := range x.users {
		switch {
		case views[u.by.op]:
			sum += c.reads(u.by)
		case u.by.op == "slice", (u.by.op == "dynamic-slice" || u.by.op == "gather") && u.at == 0:
			sum += u.by.total()
		case u.by.op == "dynamic-update-slice" && u.at == 0:
		default:
			return x.total()
		}
	}
	return sum
}
