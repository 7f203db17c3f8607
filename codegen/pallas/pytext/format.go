// Package pytext formats Python.
package pytext

import (
	"regexp"
	"slices"
	"strings"
)

// LineWidth is the greatest length of a line.
const LineWidth = 88

// Format formats a module. A long line is split at its last bracket that leaves the text before it short enough, and the text in
// brackets at its commas, clauses or operators. As many elements as fit share a line, except named arguments.
func Format(text string) string {
	var out []string
	doc := false // inside a docstring of several lines
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimRight(line, " \n")
		quotes := strings.Count(line, `"""`)
		if doc || quotes == 1 {
			out, doc = append(out, line), doc != (quotes == 1)
			continue
		}
		body := strings.TrimLeft(line, " ")
		indent := len(line) - len(body)
		switch {
		case quotes == 2:
			out = append(out, docstring(body, indent)...)
		case strings.HasPrefix(body, "#"):
			out = append(out, line)
		default:
			out = append(out, split(body, indent, 0)...)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// docstring wraps a docstring.
func docstring(body string, indent int) []string {
	pad := strings.Repeat(" ", indent)
	if indent+len(body) <= LineWidth {
		return []string{pad + body}
	}
	text := strings.Trim(body, `"`)
	first, rest, ok := strings.Cut(text, ": ")
	if !ok || indent+len(first)+4 > LineWidth {
		return append(fill(strings.Fields(`"""`+text), indent, " "), pad+`"""`)
	}
	return slices.Concat([]string{pad + `"""` + first + ".", ""}, fill(strings.Fields("Results: "+rest), indent, " "), []string{pad + `"""`})
}

// fill puts as many words in a line as fit.
func fill(words []string, indent int, between string) (out []string) {
	pad := strings.Repeat(" ", indent)
	for i, w := range words {
		last := len(out) - 1
		if i > 0 {
			out[last] += strings.TrimRight(between, " ")
		}
		if i > 0 && len(out[last])+1+len(w) < LineWidth {
			out[last] += " " + w
		} else {
			out = append(out, pad+w)
		}
	}
	return out
}

// split formats one statement; more is the number of characters that follow on its last line.
func split(body string, indent, more int) []string {
	pad := strings.Repeat(" ", indent)
	if indent+len(body)+more <= LineWidth {
		return []string{pad + body}
	}
	if code, comment, ok := strings.Cut(body, "  # "); ok {
		return append([]string{pad + "# " + comment}, split(code, indent, more)...)
	}
	open, end := bracket(body, indent)
	left, right := cutAssign(body)
	prefix := value.FindString(body)
	switch {
	case open < 0 && right != "" && strings.Contains(left, ", ") && indent+len(left) > LineWidth/2:
		return slices.Concat([]string{pad + "("}, inside(left, indent+4, 0), split(") = "+right, indent, more))
	case open < 0 && prefix != "":
		return slices.Concat([]string{pad + prefix + "("}, inside(body[len(prefix):], indent+4, 0), []string{pad + ")"})
	case open < 0:
		return []string{pad + body}
	}
	return slices.Concat([]string{pad + body[:open+1]}, inside(body[open+1:end], indent+4, 0), split(body[end:], indent, more))
}

// value matches the text before an assigned or returned value.
var value = regexp.MustCompile(`^(return|\S+(, \S+)* =) `)

// operators are where an expression may be split, loosest first.
var operators = [][]string{{" for ", " if "}, {" == ", " != ", " < ", " <= ", " > ", " >= "}, {" | "}, {" ^ "}, {" & "}, {" << ", " >> "}, {" + ", " - "}, {" * ", " / ", " // "}}

// inside formats the text in brackets.
func inside(content string, indent, more int) (out []string) {
	if indent+len(content)+more <= LineWidth {
		return []string{strings.Repeat(" ", indent) + content}
	}
	if parts := elements(content); len(parts) > 1 || strings.HasSuffix(content, ",") {
		long := func(s string) bool { return indent+len(s) >= LineWidth || named.MatchString(s) }
		if !slices.ContainsFunc(parts, long) {
			return fill(parts, indent, ", ")
		}
		for _, p := range parts {
			l := inside(p, indent, 1)
			l[len(l)-1] += ","
			out = append(out, l...)
		}
		return out
	}
	for _, marks := range operators {
		if parts := cut(content, marks, true); len(parts) > 1 && !strings.HasPrefix(content, "lambda") && !named.MatchString(content) {
			for i, p := range parts {
				out = append(out, inside(p, indent, max(0, i+2-len(parts))*more)...)
			}
			return out
		}
	}
	return split(content, indent, more)
}

// named matches a named argument, or a dict item with a key.
var named = regexp.MustCompile(`^(\w+=|"\w+": )`)

// EmptyLists splits an assignment of empty lists to names into lines of a width. It returns the left and right side of each line.
func EmptyLists(names []string, width int) (targets, lists []string) {
	for len(names) > 0 {
		n, long := 1, len(names[0])
		for n < len(names) && long+len(names[n])+6*(n+1)-1 <= width { // a name has a list and two commas, except the last, and " = "
			long += len(names[n])
			n++
		}
		targets, lists = append(targets, strings.Join(names[:n], ", ")), append(lists, "[]"+strings.Repeat(", []", n-1))
		names = names[n:]
	}
	return targets, lists
}

// cutAssign splits a statement at its assignment; without one, all is left.
func cutAssign(s string) (left, right string) {
	i := scan(s, func(i int) bool { return strings.HasPrefix(s[i:], " = ") })
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+3:]
}

// scan returns the first index outside brackets and strings at which f holds; -1 for none.
func scan(s string, f func(int) bool) int {
	depth := 0
	if s != "" && strings.IndexByte(")]}", s[0]) >= 0 { // the text after brackets
		depth = 1
	}
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
			continue
		case c == '"' || c == '\'':
			quote = c
			continue
		case c == ')' || c == ']' || c == '}':
			depth--
		}
		if depth == 0 && f(i) {
			return i
		}
		if c == '(' || c == '[' || c == '{' {
			depth++
		}
	}
	return -1
}

// cut splits a text at separators outside brackets; with keep, a separator starts the next part.
func cut(s string, seps []string, keep bool) []string {
	var out []string
	last := 0
	scan(s, func(i int) bool {
		for _, sep := range seps {
			if i > last && strings.HasPrefix(s[i:], sep) {
				out = append(out, s[last:i])
				last = i + len(sep)
				if keep {
					last = i + 1
				}
				break
			}
		}
		return false
	})
	return append(out, s[last:])
}

// elements splits a list at its commas. The parameters of a lambda stay together.
func elements(s string) (out []string) {
	parts := cut(strings.TrimSuffix(strings.TrimSpace(s), ","), []string{", "}, false)
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		for (strings.HasPrefix(p, "lambda ") || strings.Contains(p, "=lambda ")) && !strings.Contains(p, ":") && i+1 < len(parts) {
			i++
			p += ", " + parts[i]
		}
		out = append(out, p)
	}
	return out
}

// bracket returns the brackets at which to split a statement: the last that leave the text before them short enough; of a function, its
// parameters; -1 for none. Empty brackets are not split.
func bracket(s string, indent int) (open, end int) {
	open, end = -1, -1
	start := 0
	scan(s, func(i int) bool {
		switch {
		case strings.IndexByte("([{", s[i]) >= 0:
			start = i
		case strings.IndexByte(")]}", s[i]) >= 0 && i > start+1 && indent+start < LineWidth:
			open, end = start, i
			return strings.HasPrefix(s, "def ")
		}
		return false
	})
	return open, end
}
