package sizes

import (
	"regexp"
	"strings"
)

var (
	// functionHead is the head of a function that takes arrays, and sizes by keyword.
	functionHead = regexp.MustCompile(`def \w+(\(\*args: jax\.Array, interpret: bool(?:, (?:rows|steps): int)*\))`)
	// byKeyword are sizes at the end of a call.
	byKeyword = regexp.MustCompile(`(?:, (?:interpret=interpret|rows=rows|steps=steps))+$`)
	static    = regexp.MustCompile(`static_argnames=\([^()]*\)|static_argnames="interpret"`)
	docstring = regexp.MustCompile(`    """[^"]*"""\n`)
)

// Together has functions that take sizes by keyword take all of them as their first argument, a tuple _Sizes.
func Together(funcs []string) []string {
	out := make([]string, len(funcs))
	for i, text := range funcs {
		head := functionHead.FindStringSubmatchIndex(text)
		if head == nil {
			out[i] = text
			continue
		}
		for _, f := range funcs {
			if functionHead.MatchString(f) && name(f) != name(text) {
				text = first(text, regexp.MustCompile(`\b`+name(f)+`\(`))
			}
		}
		text = text[:head[2]] + "(sizes: _Sizes, *args: jax.Array)" + text[head[3]:]
		text = static.ReplaceAllString(text, "static_argnums=0")
		body := docstring.FindStringIndex(text)[1]
		names := []string{"rows", "steps", "interpret"} // the order of _Sizes
		used := 0
		for j, n := range names {
			if !regexp.MustCompile(`\b` + n + `\b`).MatchString(text[body:]) {
				names[j] = "_"
				continue
			}
			used++
		}
		if used > 0 {
			text = text[:body] + "    " + strings.Join(names, ", ") + " = sizes\n" + text[body:]
		}
		out[i] = text
	}
	return out
}

// first has the calls of a function take sizes first.
func first(text string, call *regexp.Regexp) string {
	for from := 0; ; {
		m := call.FindStringIndex(text[from:])
		if m == nil {
			return text
		}
		open := from + m[1] - 1
		end := closing(text, open)
		args := byKeyword.ReplaceAllString(text[open+1:end], "")
		text = text[:open+1] + "sizes, " + args + text[end:]
		from = open
	}
}
