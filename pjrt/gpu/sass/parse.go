package sass

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// instr is one instruction with its control code.
type instr struct {
	op, text string
	always   bool   // it has no predicate
	target   string // label of a branch
	stall    int    // cycles until the warp may issue the next instruction
	sets     int    // scoreboard released by its result; 7: none
	frees    int    // scoreboard released when its operands are read; 7: none
	waits    int    // mask of scoreboards to wait for
}

// Code is a kernel's machine code.
type Code struct {
	instrs    []instr
	labels    map[string]int
	Registers int // per thread
	Stack     int // bytes per thread: spills
}

// Instructions returns the number of instructions, without padding.
func (c *Code) Instructions() (n int) {
	for _, i := range c.instrs {
		if i.op != "NOP" {
			n++
		}
	}
	return n
}

var (
	labelLine    = regexp.MustCompile(`^\s*(\.L_x_\d+):`)
	instrLine    = regexp.MustCompile(`^\s*/\*[0-9a-f]{4,}\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/`)
	controlLine  = regexp.MustCompile(`^\s*/\* 0x([0-9a-f]{16}) \*/`)
	predicate    = regexp.MustCompile(`^@!?U?P\w+\s+`)
	branchTarget = regexp.MustCompile("`\\((\\.L_x_\\d+)\\)")
	resources    = regexp.MustCompile(`\b(REG|STACK):(\d+)`)
)

// Parse parses the listing of `nvdisasm -c -hex`, and the output of `cuobjdump --dump-resource-usage` for the same cubin.
func Parse(listing, usage string) (*Code, error) {
	c := &Code{labels: map[string]int{}}
	var pending []string
	for line := range strings.Lines(listing) {
		switch {
		case labelLine.MatchString(line):
			pending = append(pending, labelLine.FindStringSubmatch(line)[1])
		case instrLine.MatchString(line):
			for _, l := range pending {
				c.labels[l] = len(c.instrs)
			}
			pending = nil
			c.instrs = append(c.instrs, newInstr(instrLine.FindStringSubmatch(line)[1]))
		case controlLine.MatchString(line) && len(c.instrs) > 0:
			high, err := strconv.ParseUint(controlLine.FindStringSubmatch(line)[1], 16, 64)
			if err != nil {
				return nil, fmt.Errorf("sass: control code %q: %w", strings.TrimSpace(line), err)
			}
			c.instrs[len(c.instrs)-1].control(high)
		}
	}
	if len(c.instrs) == 0 {
		return nil, fmt.Errorf("sass: the listing holds no instruction: it wants the output of nvdisasm -c -hex")
	}
	return c, c.use(usage)
}

// Usage parses only the output of `cuobjdump --dump-resource-usage` for a cubin; the result has no instructions.
func Usage(usage string) (*Code, error) {
	c := new(Code)
	return c, c.use(usage)
}

func (c *Code) use(usage string) error {
	for _, m := range resources.FindAllStringSubmatch(usage, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return fmt.Errorf("sass: %s: %w", m[0], err)
		}
		if m[1] == "REG" {
			c.Registers = n
		} else {
			c.Stack = n
		}
	}
	if c.Registers == 0 {
		return fmt.Errorf("sass: the resource usage names no registers: it wants the output of cuobjdump --dump-resource-usage")
	}
	return nil
}

func newInstr(text string) instr {
	i := instr{text: strings.TrimSpace(text), always: true, sets: 7, frees: 7}
	body := i.text
	if p := predicate.FindString(body); p != "" {
		i.always, body = false, body[len(p):]
	}
	i.op, _, _ = strings.Cut(body, " ")
	if m := branchTarget.FindStringSubmatch(body); m != nil && strings.HasPrefix(i.op, "BRA") {
		i.target = m[1]
	}
	return i
}

// control decodes the high word of an instruction, where ptxas encodes scheduling: from bit 41 on the stall count (4 bits), a yield hint
// (1), the scoreboards of result and operands (3 each), and the mask of scoreboards to wait for (6).
func (i *instr) control(high uint64) {
	i.stall, i.sets, i.frees, i.waits = int(high>>41&15), int(high>>46&7), int(high>>49&7), int(high>>52&63)
}

// loop is a backward branch: its first and last instruction.
type loop struct{ first, last int }

// loops returns the loops of more than 8 instructions, inner and outer ones.
func (c *Code) loops() (list []loop) {
	for n, i := range c.instrs {
		at, known := c.labels[i.target]
		if known && at < n && n-at > 8 {
			list = append(list, loop{at, n})
		}
	}
	return list
}
