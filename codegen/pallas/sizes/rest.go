package sizes

import (
	"regexp"
	"slices"
	"strings"
)

// reshaped is the shape that an array gets, whose dimensions may have brackets in them.
var reshaped = regexp.MustCompile(`\.reshape\(((?:[^()]|\([^()]*\))*)\)`)

// Rest has the one dimension of a shape that is a formula of steps follow from the others, in the text of functions.
//
//	q.reshape(rows, 2048 * steps, 128)    q.reshape(rows, -1, 128)
func Rest(funcs []string) []string {
	out := make([]string, len(funcs))
	for i, text := range funcs {
		out[i] = rest(text)
	}
	return out
}

func rest(text string) string {
	return reshaped.ReplaceAllStringFunc(text, func(call string) string {
		shape := strings.Split(call[len(".reshape("):len(call)-1], ", ")
		grows := func(n string) bool { return n == "-1" || strings.Contains(n, "steps") }
		at := slices.IndexFunc(shape, grows)
		cut := func(n string) bool { return strings.Count(n, "(") != strings.Count(n, ")") } // at a comma within brackets
		if at < 0 || shape[at] == "steps" || slices.ContainsFunc(shape[at+1:], grows) || slices.ContainsFunc(shape, cut) {
			return call
		}
		shape[at] = "-1"
		return ".reshape(" + strings.Join(shape, ", ") + ")"
	})
}
