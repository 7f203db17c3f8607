package sizes

import (
	"regexp"
	"slices"
	"strings"
)

var defined = regexp.MustCompile(`(?m)^def (\w+)\(`)

// Unpacked is the line with which a function that takes all sizes as one tuple names them.
const Unpacked = "rows, steps, interpret = sizes"

// Unpack removes from that line the sizes that a function does not read.
func Unpack(text string) string {
	before, body, ok := strings.Cut(text, "    "+Unpacked+"\n")
	if !ok {
		return text
	}
	names, read := []string{"rows", "steps", "interpret"}, false
	for i, n := range names {
		if regexp.MustCompile(`\b` + n + `\b`).MatchString(body) {
			read = true
		} else {
			names[i] = "_"
		}
	}
	if !read {
		return before + body
	}
	return before + "    " + strings.Join(names, ", ") + " = sizes\n" + body
}

// name returns the name of a function; "" for other texts.
func name(text string) string {
	if m := defined.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// thread adds the sizes that functions and their callees use as parameters, and passes them in calls.
func thread(texts []string, uses []map[string]bool) []string {
	call := make([]*regexp.Regexp, len(texts))
	for i, t := range texts {
		if n := name(t); n != "" && !strings.Contains(t, Unpacked) {
			call[i] = regexp.MustCompile(`\b` + n + `\b`)
		}
	}
	spread(texts, uses, call)
	out := slices.Clone(texts)
	for j, c := range call {
		var hints, values []string
		for _, p := range Params {
			if c != nil && uses[j][p] {
				hints, values = append(hints, p+": int"), append(values, p+"="+p)
			}
		}
		if len(hints) == 0 {
			continue
		}
		for i := range out {
			if i == j {
				out[i] = insert(out[i], defined.FindStringIndex(out[i])[1]-1, hints)
			} else {
				out[i] = hand(out[i], c, values)
			}
		}
	}
	return out
}

// spread adds to each function's sizes the sizes of the functions that it calls.
func spread(texts []string, uses []map[string]bool, call []*regexp.Regexp) {
	for changed := true; changed; {
		changed = false
		for i, t := range texts {
			for j, c := range call {
				if i == j || c == nil || call[i] == nil || !c.MatchString(t) {
					continue
				}
				for _, p := range Params {
					if uses[j][p] && !uses[i][p] {
						uses[i][p], changed = true, true
					}
				}
			}
		}
	}
}

// hand adds arguments to every call of a function.
func hand(text string, call *regexp.Regexp, values []string) string {
	for from := 0; ; {
		m := call.FindStringIndex(text[from:])
		if m == nil {
			return text
		}
		begin, end := from+m[0], from+m[1]
		switch {
		case strings.HasPrefix(text[end:], "("):
			text = insert(text, end, values)
		case strings.HasSuffix(text[:begin], "partial("):
			text = insert(text, begin-1, values)
		default: // a function passed as a value
			bound := "functools.partial(" + text[begin:end] + ", " + strings.Join(values, ", ") + ")"
			text = text[:begin] + bound + text[end:]
			end = begin + len(bound)
		}
		from = end
	}
}

// insert adds items to the list in the brackets that open at an index.
func insert(text string, open int, items []string) string {
	end, comma := closing(text, open), ", "
	if end == open+1 {
		comma = ""
	}
	return text[:end] + comma + strings.Join(items, ", ") + text[end:]
}

// closing returns the index at which the brackets that open at an index close.
func closing(text string, open int) int {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	panic("sizes: brackets of " + text[open:] + " are open")
}
