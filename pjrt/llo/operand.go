package llo

import (
	"fmt"
	"strconv"
	"strings"
)

// guard takes `(%p)`, `(!%p)` or `(!%p, %old)` and the comma after it out of args, wherever it stands. The compiler leaves a wait under the
// number 0 where it has found that its condition never holds.
func (d *decoder) guard(args string) (g guard, old *operand, rest string, err error) {
	open := strings.Index(args, "(")
	if open < 0 {
		return always, nil, args, nil
	}
	inner, after, ok := strings.Cut(args[open+1:], ")")
	if !ok {
		return g, nil, "", fmt.Errorf("predicate is not closed: %s", args)
	}
	p, other, hasOld := strings.Cut(inner, ",")
	p = strings.TrimSpace(p)
	g.negate = strings.HasPrefix(p, "!")
	if n, err := strconv.Atoi(strings.TrimPrefix(p, "!")); err == nil {
		g = guard{reg: noRegister, negate: g.negate == (n != 0)}
	} else if g.reg = register(strings.TrimPrefix(p, "!")); g.reg < firstPredicate {
		return g, nil, "", fmt.Errorf("predicate %q is not a predicate register", inner)
	}
	if hasOld {
		v, err := d.operand(other)
		if err != nil {
			return g, nil, "", err
		}
		old = &v
	}
	after = strings.TrimPrefix(strings.TrimSpace(after), ",")
	return g, old, strings.TrimSpace(args[:open] + after), nil
}

// address decodes `[smem:[#allocation4 + $0x1]]` into the operands to add, and returns what follows.
func (d *decoder) address(text string) (sum []operand, rest string, err error) {
	inner, ok := strings.CutPrefix(text, "[smem:[")
	if !ok {
		return nil, "", fmt.Errorf("want an address in scalar memory: %s", text)
	}
	inner, rest, ok = strings.Cut(inner, "]]")
	if !ok {
		return nil, "", fmt.Errorf("address is not closed: %s", text)
	}
	for term := range strings.SplitSeq(inner, "+") {
		v, err := d.operand(strings.TrimPrefix(strings.TrimSpace(term), "$"))
		if err != nil {
			return nil, "", err
		}
		sum = append(sum, v)
	}
	return sum, strings.TrimSpace(rest), nil
}

// operand decodes a register, an integer, or the address `[#name]`, with or without an offset. After an operand the dump may name the
// allocation that it points into, which is left out. What has none of these forms is a constant unknown.
func (d *decoder) operand(text string) (operand, error) {
	text = strings.TrimSpace(text)
	unknown := operand{reg: noRegister}
	switch {
	case text == "":
		return unknown, fmt.Errorf("missing operand")
	case text[0] == '%', strings.HasPrefix(text, "!%"):
		name, _, _ := strings.Cut(text, " ")
		name, negate := strings.CutPrefix(name, "!")
		if r := register(name); r != noRegister {
			return operand{reg: r, negate: negate}, nil
		}
		return unknown, nil
	case text[0] == '[' || text[0] == '#':
		inner := strings.Trim(text, "[]")
		base, offset, _ := strings.Cut(inner, "+")
		base = strings.TrimSpace(base)
		if base == "" || base[0] != '#' {
			return unknown, nil
		}
		sym, err := d.symbolOf(base)
		if err != nil {
			return unknown, err
		}
		v := value{sym: sym, known: true}
		if offset = strings.TrimPrefix(strings.TrimSpace(offset), "$"); offset != "" {
			n, ok := integer(offset)
			if !ok {
				return unknown, nil
			}
			v.num = n
		}
		return operand{reg: noRegister, val: v}, nil
	}
	word, _, _ := strings.Cut(text, " ")
	if n, ok := integer(word); ok {
		return operand{reg: noRegister, val: number(n)}, nil
	}
	return unknown, nil
}

func (d *decoder) symbolOf(name string) (int16, error) {
	if s, ok := d.symbol[name]; ok {
		return s, nil
	}
	if len(d.symbols) >= 1<<15 {
		return 0, fmt.Errorf("more than %d allocations", 1<<15-1)
	}
	s := int16(len(d.symbols))
	d.symbols = append(d.symbols, name)
	d.symbol[name] = s
	return s, nil
}

// integer reads a 32-bit constant, signed or unsigned.
func integer(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < -1<<31 || n >= 1<<32 {
		return 0, false
	}
	return int32(n), true
}

// register returns the index of a physical register named `%<virtual>_s7` or `%<virtual>_p3`, noRegister for all others.
func register(name string) int {
	if name == "" || name[0] != '%' {
		return noRegister
	}
	phys := name[strings.LastIndexByte(name, '_')+1:]
	if len(phys) < 2 || phys[0] != 's' && phys[0] != 'p' {
		return noRegister
	}
	n, err := strconv.Atoi(phys[1:])
	if err != nil || n < 0 || n >= firstPredicate {
		return noRegister
	}
	if phys[0] == 'p' {
		n += firstPredicate
	}
	return n
}
