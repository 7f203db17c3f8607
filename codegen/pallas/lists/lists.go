// Package lists writes lists of Python expressions in a short form.
package lists

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// element matches an element of a named list.
var element = regexp.MustCompile(`^([\w.]+(?:\[[^\[\]]*\])*)\[(\d+)\]$`)

// writer knows the lengths of named lists.
type writer struct {
	length func(string) int
	weave  func()
}

// Text returns Python text for a list of expressions. Elements of a list at equal distances become a slice, elements of several lists in
// turn a woven list, and equal ones are repeated. length returns the length of a named list, 0 if unknown; weave is called if lists are
// woven.
func Text(l []string, length func(name string) int, weave func()) string {
	w := writer{length, weave}
	var parts, plain []string // the terms of the sum; elements of the next list
	flush := func() {
		if len(plain) > 0 {
			parts = append(parts, "["+strings.Join(plain, ", ")+"]")
			plain = nil
		}
	}
	for i := 0; i < len(l); {
		same := 1
		for i+same < len(l) && l[i+same] == l[i] {
			same++
		}
		part, run := w.woven(l[i:])
		if name, lo, step, n := progression(l[i:]); n > 2 || n == 2 && len(l) == 2 && step == 1 {
			part, run = w.slice(name, lo, step, n), n
		}
		switch {
		case same > 2:
			flush()
			parts = append(parts, fmt.Sprintf("[%s] * %d", l[i], same))
			i += same
		case run > 0:
			if run == len(l) {
				return part
			}
			plain = append(plain, "*"+part)
			i += run
		default:
			plain = append(plain, l[i])
			i++
		}
	}
	flush()
	return strings.Join(parts, " + ")
}

// woven writes elements of several lists in turn, and returns how many expressions it covers; 0 if too few. Two elements per list are
// enough if the lists have no more.
func (w writer) woven(l []string) (text string, n int) {
	for of := 2; of <= len(l)/2; of++ {
		rounds := len(l) / of
		var names []string
		var lows, steps []int
		for j := range of {
			var own []string
			for i := j; i < len(l); i += of {
				own = append(own, l[i])
			}
			name, lo, step, run := progression(own)
			rounds = min(rounds, run)
			names, lows, steps = append(names, name), append(lows, lo), append(steps, step)
		}
		distinct := map[string]bool{}
		var parts []string
		whole := true
		for j, name := range names {
			if rounds < 2 {
				break
			}
			part := w.slice(name, lows[j], steps[j], rounds)
			parts, distinct[name] = append(parts, part), true
			whole = whole && part == name
		}
		if len(parts) == of && len(distinct) == of && (rounds > 2 || whole) {
			w.weave()
			return "_woven(" + strings.Join(parts, ", ") + ")", of * rounds
		}
	}
	return "", 0
}

// slice returns the text of n elements of a list at equal distances.
func (w writer) slice(name string, lo, step, n int) string {
	first, last, by := "", strconv.Itoa(lo+step*(n-1)+1), ""
	if lo > 0 {
		first = strconv.Itoa(lo)
	}
	if length := w.length(name); length > 0 && lo+step*n >= length {
		if last = ""; first == "" && step == 1 {
			return name
		}
	}
	if step > 1 {
		by = ":" + strconv.Itoa(step)
	}
	return name + "[" + first + ":" + last + by + "]"
}

// progression returns how many of the first expressions are elements of one list at equal distances.
func progression(l []string) (name string, lo, step, n int) {
	for i, e := range l {
		m := element.FindStringSubmatch(e)
		if m == nil {
			break
		}
		k, err := strconv.Atoi(m[2])
		if err != nil {
			break
		}
		switch {
		case i == 0:
			name, lo = m[1], k
		case m[1] != name || i > 1 && k != lo+i*step || k <= lo:
			return name, lo, step, i
		case i == 1:
			step = k - lo
		}
		n = i + 1
	}
	return name, lo, step, n
}

// Pair is an item of a Python dict; both fields are Python text.
type Pair struct{ Key, Value string }

// Dict returns statements that build a dict, with as many items per line as fit:
//
//	AXES = {"q": "BTQK", "k": "BTQK"}
//	AXES |= {"v": "BTHV"}
func Dict(name string, items []Pair) string {
	var lines []string
	line := ""
	for _, x := range items {
		item := x.Key + ": " + x.Value
		if line != "" && len(line)+len(", }")+len(item) <= pytext.LineWidth {
			line += ", " + item
			continue
		}
		if line != "" {
			lines = append(lines, line+"}")
		}
		line = assign(name, lines) + "{" + item
	}
	return strings.Join(append(lines, line+"}"), "\n")
}

// FromKeys returns statements that build a dict, with neighbouring items of equal value joined:
//
//	DTYPES = dict.fromkeys(("q", "k", "v"), jnp.bfloat16)
//	DTYPES |= dict.fromkeys(("g",), jnp.float32)
func FromKeys(name string, items []Pair) string {
	var lines []string
	for i := 0; i < len(items); {
		var keys []string
		value := items[i].Value
		for ; i < len(items) && items[i].Value == value; i++ {
			keys = append(keys, items[i].Key)
		}
		lines = append(lines, assign(name, lines)+"dict.fromkeys("+Tuple(keys)+", "+value+")")
	}
	return strings.Join(lines, "\n")
}

// assign returns the start of a dict statement; before has the earlier ones.
func assign(name string, before []string) string {
	if len(before) == 0 {
		return name + " = "
	}
	return name + " |= "
}

// Tuple returns a Python tuple.
func Tuple(s []string) string {
	if len(s) == 1 {
		return "(" + s[0] + ",)"
	}
	return "(" + strings.Join(s, ", ") + ")"
}

// Targets returns the names that a tuple is unpacked to: a tuple without brackets.
func Targets(names []string) string {
	t := Tuple(names)
	return t[1 : len(t)-1]
}

// Arrays returns the Python type of n arrays.
func Arrays(n int) string {
	switch {
	case n == 1:
		return "jax.Array"
	case n > 3:
		return "tuple[jax.Array, ...]"
	}
	return "tuple[" + strings.TrimSuffix(strings.Repeat("jax.Array, ", n), ", ") + "]"
}
