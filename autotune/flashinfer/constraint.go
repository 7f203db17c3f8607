package flashinfer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/scanner"
)

// errUnknown marks a constraint that uses a name without a known value, or unsupported Python.
var errUnknown = errors.New("not understood")

// constraint evaluates a Python expression over integers: and, or, not, comparisons (chained too), + - * // % and unary minus,
// parentheses, integers, names, and entries of vectors as name[i] or name[i].item(). True is 1, false 0.
type constraint struct {
	tokens  []string
	at      int
	scalars map[string]int
	vectors map[string][]int64
}

// holds evaluates text. errUnknown means that the result can not be determined.
func holds(text string, scalars map[string]int, vectors map[string][]int64) (bool, error) {
	c := &constraint{scalars: scalars, vectors: vectors}
	var s scanner.Scanner
	s.Init(strings.NewReader(text))
	s.Mode = scanner.ScanIdents | scanner.ScanInts
	s.Error = func(*scanner.Scanner, string) {}
	for t := s.Scan(); t != scanner.EOF; t = s.Scan() {
		c.tokens = append(c.tokens, s.TokenText())
	}
	v, err := c.or()
	if err == nil && c.at < len(c.tokens) {
		err = fmt.Errorf("%w from %q on", errUnknown, strings.Join(c.tokens[c.at:], " "))
	}
	return v != 0, err
}

// take consumes the given tokens if they come next.
func (c *constraint) take(tokens ...string) bool {
	if len(c.tokens)-c.at < len(tokens) {
		return false
	}
	for i, t := range tokens {
		if c.tokens[c.at+i] != t {
			return false
		}
	}
	c.at += len(tokens)
	return true
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *constraint) or() (int, error) {
	x, err := c.and()
	for err == nil && c.take("or") {
		var y int
		y, err = c.and()
		x = asInt(x != 0 || y != 0)
	}
	return x, err
}

func (c *constraint) and() (int, error) {
	x, err := c.not()
	for err == nil && c.take("and") {
		var y int
		y, err = c.not()
		x = asInt(x != 0 && y != 0)
	}
	return x, err
}

func (c *constraint) not() (int, error) {
	if c.take("not") {
		x, err := c.not()
		return asInt(x == 0), err
	}
	return c.comparison()
}

// comparisons, with two-character operators first.
var comparisons = []struct {
	tokens []string
	holds  func(x, y int) bool
}{
	{[]string{"=", "="}, func(x, y int) bool { return x == y }},
	{[]string{"!", "="}, func(x, y int) bool { return x != y }},
	{[]string{"<", "="}, func(x, y int) bool { return x <= y }},
	{[]string{">", "="}, func(x, y int) bool { return x >= y }},
	{[]string{"<"}, func(x, y int) bool { return x < y }},
	{[]string{">"}, func(x, y int) bool { return x > y }},
}

func (c *constraint) comparison() (int, error) {
	x, err := c.sum()
	all, compared := true, false
next:
	for err == nil {
		for _, op := range comparisons {
			if c.take(op.tokens...) {
				var y int
				y, err = c.sum()
				all, compared = all && op.holds(x, y), true
				x = y
				continue next
			}
		}
		break
	}
	if compared {
		return asInt(all), err
	}
	return x, err
}

func (c *constraint) sum() (int, error) {
	x, err := c.product()
	for err == nil {
		var y int
		switch {
		case c.take("+"):
			y, err = c.product()
			x += y
		case c.take("-"):
			y, err = c.product()
			x -= y
		default:
			return x, nil
		}
	}
	return x, err
}

func (c *constraint) product() (int, error) {
	x, err := c.factor()
	for err == nil {
		var y int
		switch {
		case c.take("*"):
			y, err = c.factor()
			x *= y
		case c.take("/", "/"), c.take("%"):
			quotient := c.tokens[c.at-1] == "/"
			if y, err = c.factor(); err == nil && y == 0 {
				return 0, errors.New("divides by zero")
			}
			if err == nil {
				r := ((x % y) + y) % y // as in Python
				if quotient {
					x = (x - r) / y
				} else {
					x = r
				}
			}
		default:
			return x, nil
		}
	}
	return x, err
}

func (c *constraint) factor() (int, error) {
	if c.take("-") {
		x, err := c.factor()
		return -x, err
	}
	if c.take("(") {
		x, err := c.or()
		if err == nil && !c.take(")") {
			err = fmt.Errorf("%w: a parenthesis is not closed", errUnknown)
		}
		return x, err
	}
	if c.at == len(c.tokens) {
		return 0, fmt.Errorf("%w: it ends early", errUnknown)
	}
	token := c.tokens[c.at]
	c.at++
	if n, err := strconv.Atoi(token); err == nil {
		return n, nil
	}
	if n, ok := c.scalars[token]; ok {
		return n, nil
	}
	list, ok := c.vectors[token]
	if !ok || !c.take("[") {
		return 0, fmt.Errorf("%w: %q has no known value", errUnknown, token)
	}
	i, err := c.sum()
	if err != nil {
		return 0, err
	}
	if i < 0 {
		i += len(list)
	}
	if !c.take("]") || i < 0 || i >= len(list) {
		return 0, fmt.Errorf("%w: the index of %s", errUnknown, token)
	}
	c.take(".", "item", "(", ")")
	return int(list[i]), nil
}
