// Package lists writes lists of Python expressions as short as they can be read.
package lists

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	if s := w.woven(l); s != "" {
		return s
	}
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
		name, lo, step, run := progression(l[i:])
		switch {
		case same > 2:
			flush()
			parts = append(parts, fmt.Sprintf("[%s] * %d", l[i], same))
			i += same
		case run > 2 || run == 2 && len(l) == 2 && step == 1:
			part := w.slice(name, lo, step, run)
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

// woven writes elements of several lists in turn; empty where they are none.
func (w writer) woven(l []string) string {
	for n := 2; n <= len(l)/2; n++ {
		var lists []string
		for j := range n {
			var own []string
			for i := j; i < len(l); i += n {
				own = append(own, l[i])
			}
			name, lo, step, run := progression(own)
			if len(l)%n != 0 || run != len(own) || len(l) < 6 {
				break
			}
			lists = append(lists, w.slice(name, lo, step, run))
		}
		if len(lists) == n && n < len(l) && !slices.Contains(lists[1:], lists[0]) {
			if _, _, _, run := progression(l); run == len(l) {
				return ""
			}
			w.weave()
			return "_woven(" + strings.Join(lists, ", ") + ")"
		}
	}
	return ""
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
