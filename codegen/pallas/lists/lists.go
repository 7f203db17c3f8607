// Package lists writes lists of Python expressions as short as they can be read.
package lists

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// element is what stands at a place of a list of a name.
var element = regexp.MustCompile(`^([\w.]+(?:\[[^\[\]]*\])*)\[(\d+)\]$`)

// writer knows of the lists that have names.
type writer struct {
	length func(string) int
	weave  func()
}

// Text is a list of expressions: elements of a list at equal distances are a slice of it, those of several lists in turn are woven, and
// equal ones are repeated. Length says how long the list of a name is, 0 where that is not known; weave is called where lists are woven.
func Text(l []string, length func(name string) int, weave func()) string {
	w := writer{length, weave}
	var parts, plain []string // what is added; elements of the list that comes next
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

// woven writes elements of several lists in turn, as many as there are, and says how many; none where they are too few. Two of each are
// enough where they are all that their lists have.
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

// slice is the text of elements of a list at equal distances.
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

// progression tells how many of the first expressions are elements of one list at equal distances.
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

// Pair is an item of a Python dict, both as written.
type Pair struct{ Key, Value string }

// Dict are statements that name a dict: as many items in each as a line holds.
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

// FromKeys are statements that name a dict in which items with the same value stand together.
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

// assign begins a statement of a dict, of which there are some before.
func assign(name string, before []string) string {
	if len(before) == 0 {
		return name + " = "
	}
	return name + " |= "
}

// Tuple is a Python tuple.
func Tuple(s []string) string {
	if len(s) == 1 {
		return "(" + s[0] + ",)"
	}
	return "(" + strings.Join(s, ", ") + ")"
}

// Targets are the names that a tuple is unpacked to: a tuple without its brackets.
func Targets(names []string) string {
	t := Tuple(names)
	return t[1 : len(t)-1]
}

// Arrays is the type of n arrays.
func Arrays(n int) string {
	switch {
	case n == 1:
		return "jax.Array"
	case n > 3:
		return "tuple[jax.Array, ...]"
	}
	return "tuple[" + strings.TrimSuffix(strings.Repeat("jax.Array, ", n), ", ") + "]"
}
