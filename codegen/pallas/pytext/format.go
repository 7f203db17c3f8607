// Package pytext lays Python out.
package pytext

import (
	"fmt"
	"regexp"
	"strings"
)

// Lines are laid out as the formatter black does: what is longer than a line is split at its last bracket that leaves the rest
// before it short enough; what stands in brackets goes on one line if it fits, else one element a line with a comma at the end.

// LineWidth is how long a line may be.
const LineWidth = 88

// Format lays a module out: lines that are too long are split, and blank lines stand as they should.
func Format(text string) string {
	var out []string
	doc := false // inside a docstring of several lines
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines {
		line = strings.TrimRight(line, " ")
		quotes := strings.Count(line, `"""`)
		if doc || quotes == 1 {
			out = append(out, line)
			doc = doc != (quotes == 1)
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
			out = append(out, split(body, indent)...)
		}
	}
	return strings.Join(blanks(out), "\n") + "\n"
}

// blanks puts blank lines around nested functions.
func blanks(lines []string) []string {
	var out []string
	for i, line := range lines {
		body := strings.TrimLeft(line, " ")
		indent := len(line) - len(body)
		opens := strings.HasPrefix(body, "def ") || strings.HasPrefix(body, "@")
		if opens && indent > 0 && i > 0 {
			prev := strings.TrimLeft(lines[i-1], " ")
			if prev != "" && !strings.HasPrefix(prev, "@") && !(strings.HasSuffix(prev, ":") && !strings.HasPrefix(prev, "#")) {
				out = append(out, "")
			}
		} else if body != "" && len(out) > 0 && strings.TrimSpace(out[len(out)-1]) != "" && indent > 0 {
			// After a nested function.
			if k := nested(out); k > indent {
				out = append(out, "")
			}
		}
		if body == "" && len(out) > 0 {
			if last := strings.TrimSpace(out[len(out)-1]); strings.HasSuffix(last, ":") && strings.HasPrefix(last, "def ") {
				continue
			}
		}
		out = append(out, line)
	}
	return out
}

// nested is the indentation of the body of the nested function that the lines end in; 0 for none.
func nested(lines []string) int {
	last := lines[len(lines)-1]
	depth := len(last) - len(strings.TrimLeft(last, " "))
	for i := len(lines) - 1; i >= 0; i-- {
		body := strings.TrimLeft(lines[i], " ")
		if body == "" {
			continue
		}
		indent := len(lines[i]) - len(body)
		if indent < depth {
			if strings.HasPrefix(body, "def ") || strings.HasPrefix(body, ") ->") {
				if indent > 0 {
					return indent + 1
				}
				return 0
			}
			depth = indent
		}
	}
	return 0
}

// docstring wraps one.
func docstring(body string, indent int) []string {
	pad := strings.Repeat(" ", indent)
	if indent+len(body) <= LineWidth {
		return []string{pad + body}
	}
	text := strings.TrimSuffix(strings.TrimPrefix(body, `"""`), `"""`)
	first, rest, ok := strings.Cut(text, ": ")
	if !ok || indent+len(first)+4 > LineWidth {
		first, rest = text, ""
		if i := strings.LastIndex(text[:min(len(text), LineWidth-indent-4)], " "); i > 0 {
			first, rest = text[:i], text[i+1:]
		}
		return append(append([]string{pad + `"""` + first}, wrap(rest, indent)...), pad+`"""`)
	}
	out := []string{pad + `"""` + first + ".", ""}
	return append(append(out, wrap("Results: "+rest, indent)...), pad+`"""`)
}

func wrap(text string, indent int) []string {
	pad := strings.Repeat(" ", indent)
	var out []string
	line := pad
	for _, w := range strings.Fields(text) {
		if len(line)+1+len(w) > LineWidth && line != pad {
			out = append(out, line)
			line = pad
		}
		if line != pad {
			line += " "
		}
		line += w
	}
	if line != pad {
		out = append(out, line)
	}
	return out
}

// split lays one statement out.
func split(body string, indent int) []string {
	pad := strings.Repeat(" ", indent)
	if indent+len(body) <= LineWidth {
		return []string{pad + body}
	}
	code, comment, _ := strings.Cut(body, "  # ")
	if comment != "" {
		return append([]string{pad + "# " + comment}, split(code, indent)...)
	}
	if names, value, ok := cutAssign(body); ok && strings.Trim(value, "[], ") == "" && strings.Contains(value, ", ") {
		var out []string
		targets, lists := EmptyLists(strings.Split(names, ", "), LineWidth-indent)
		for i, t := range targets {
			out = append(out, pad+t+" = "+lists[i])
		}
		return out
	}
	if out := bracketed(body, indent); out != nil {
		return out
	}
	open, end := bracket(body, indent)
	params := strings.IndexByte(body, '(')
	def := strings.HasPrefix(body, "def ") && !strings.HasPrefix(body[params:], "()") // without parameters its result is split
	if def {
		open = params
		end = matching(body, open)
	}
	if open < 0 {
		return []string{pad + body}
	}
	head, content, tail := body[:open+1], body[open+1:end], body[end:]
	parts := elements(content)
	out := []string{pad + head}
	if def && len(parts) == 1 {
		out = append(out, perLine(parts, indent+4)...)
	} else if literal(body, open) && len(parts) > 1 && len(comprehension(content)) == 1 {
		out = append(out, perLine(parts, indent+4)...)
	} else {
		out = append(out, inside(content, parts, indent+4)...)
	}
	return append(out, split(tail, indent)...)
}

// bracketed puts brackets around what a statement returns, yields or assigns, where that is a tuple, an operation or a chain of calls without
// any; nil where it has some.
func bracketed(body string, indent int) []string {
	pad := strings.Repeat(" ", indent)
	prefix, rest := "", body
	for _, key := range []string{"return ", "yield "} {
		if r, ok := strings.CutPrefix(body, key); ok {
			prefix, rest = key, r
		}
	}
	if prefix == "" {
		left, right, ok := cutAssign(body)
		if !ok {
			return nil
		}
		if len(elements(left)) > 2 && indent+len(left)+len(" = (") > LineWidth/2 && (strings.HasSuffix(right, ")") || !strings.ContainsAny(right, " ([")) {
			// Targets on the left would stand in brackets of their own, one a line: what they name has a name instead, where they fit a line.
			if unpack := left + " = results"; strings.HasSuffix(right, ")") && indent+len(unpack) <= LineWidth {
				return append(split("results = "+right, indent), pad+unpack)
			} else if strings.HasSuffix(right, ")") {
				if right[0] == '(' && matching(right, 0) == len(right)-1 { // what it makes is taken in parts
					right = "[" + right[1:len(right)-1] + "]"
				}
				return append(split("results = "+right, indent), unpacked(elements(left), pad)...)
			}
			head := append([]string{pad + "("}, perLine(elements(left), indent+4)...)
			return append(head, split(") = "+right, indent)...)
		}
		prefix, rest = left+" = ", right
		if strings.HasSuffix(left, "]") && indent+len(prefix) < LineWidth && indent+len(prefix)+strings.IndexByte(right+"[", '[') >= LineWidth && element.MatchString(right) { // rather than those of the target
			return []string{pad + prefix + "(", pad + "    " + rest, pad + ")"}
		}
	}
	if strings.HasPrefix(rest, "(") && matching(rest, 0) == len(rest)-1 {
		return nil
	}
	out := []string{pad + prefix + "("}
	if parts := elements(rest); len(parts) > 1 {
		if prefix == "return " {
			return append(append(out, perLine(parts, indent+4)...), pad+")")
		}
		return nil
	}
	if terms := operation(rest); len(terms) > 1 && !(len(terms) == 2 && (endsInCall(terms[1]) || terms[0][0] == '(')) {
		return append(append(out, expression(rest, indent+4)...), pad+")")
	}
	if strings.HasSuffix(rest, "].T") && !strings.Contains(rest, "(") && indent+4+len(rest) <= LineWidth && indent+len(prefix) < LineWidth {
		if open, _ := bracket(body, indent); open < len(prefix) { // its own brackets come too late in the line
			return append(out, pad+"    "+rest, pad+")")
		}
	}
	calls := chain(rest)
	if len(calls) <= 2 || len(operation(rest)) > 1 {
		return nil
	}
	if indent+4+len(rest) <= LineWidth {
		return append(out, pad+"    "+rest, pad+")")
	}
	for _, c := range calls {
		out = append(out, split(c, indent+4)...)
	}
	return append(out, pad+")")
}

var element = regexp.MustCompile(`^\w+(\[[^()\[\]]*\])?$`)

// literal tells the brackets of a list, tuple or dictionary from those of a call or an index.
func literal(s string, open int) bool {
	if open == 0 {
		return true
	}
	c := s[open-1]
	return !(c == '_' || c == ')' || c == ']' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
}

// endsInCall says whether an operand ends in a call with arguments.
func endsInCall(s string) bool {
	open, end := bracket(s, 0)
	return open > 0 && end == len(s)-1 && s[end] == ')'
}

// chain cuts a chain of calls before the dots that follow a bracket.
func chain(s string) []string {
	var out []string
	last := 0
	scan(s, func(i int) bool {
		if i > 0 && s[i] == '.' && (s[i-1] == ')' || s[i-1] == ']') {
			out = append(out, s[last:i])
			last = i
		}
		return false
	})
	return append(out, s[last:])
}

// inside lays out what stands in brackets.
func inside(content string, parts []string, indent int) []string {
	pad := strings.Repeat(" ", indent)
	if indent+len(content) <= LineWidth && !strings.HasSuffix(content, ",") {
		return []string{pad + content}
	}
	if len(parts) == 1 {
		if clauses := comprehension(content); len(clauses) > 1 {
			var out []string
			for _, c := range clauses {
				out = append(out, expression(c, indent)...)
			}
			return out
		}
		return expression(content, indent)
	}
	return perLine(parts, indent)
}

// expression lays out what already stands in brackets: at its operators, or else as a statement.
func expression(s string, indent int) []string {
	if indent+len(s) > LineWidth && !strings.HasPrefix(s, "lambda") && !strings.Contains(strings.SplitN(s, "(", 2)[0], "=") {
		if terms := operation(s); len(terms) > 1 {
			var out []string
			for _, t := range terms {
				out = append(out, split(t, indent)...)
			}
			return out
		}
	}
	return split(s, indent)
}

func perLine(parts []string, indent int) []string {
	var out []string
	for _, p := range parts {
		l := expression(p, indent)
		if len(l) == 1 && len(l[0]) == LineWidth { // no room for the comma
			switch open, end := bracket(p, indent); {
			case open >= 0 && p[open] == '(' && literal(p, open) && len(elements(p[open+1:end])) == 1: // around an operand: a comma in them would make a tuple
				l = nil
				for _, t := range operation(p) {
					l = append(l, strings.Repeat(" ", indent)+t)
				}
			case open >= 0:
				l = append([]string{strings.Repeat(" ", indent) + p[:open+1]}, perLine(elements(p[open+1:end]), indent+4)...)
				l = append(l, strings.Repeat(" ", indent)+p[end:])
			}
		}
		l[len(l)-1] += ","
		out = append(out, l...)
	}
	return out
}

// EmptyLists sets names to lists of nothing, as many in a line as its width fits: what each line assigns to, and what.
func EmptyLists(names []string, width int) (targets, lists []string) {
	for len(names) > 0 {
		n, long := 1, len(names[0])
		for n < len(names) && long+len(names[n])+6*(n+1)-1 <= width { // a name has a list and two commas, but the last, and " = "
			long += len(names[n])
			n++
		}
		targets, lists = append(targets, strings.Join(names[:n], ", ")), append(lists, "[]"+strings.Repeat(", []", n-1))
		names = names[n:]
	}
	return targets, lists
}

// unpacked names results in as few lines as fit them, of as many names each but for one.
func unpacked(names []string, pad string) []string {
	for lines := 2; ; lines++ {
		var out []string
		fits := true
		for i := range lines {
			from, to := i*len(names)/lines, (i+1)*len(names)/lines
			span := fmt.Sprintf("%d:%d", from, to)
			if span = strings.TrimSuffix(strings.TrimPrefix(span, "0"), fmt.Sprint(len(names))); to == from+1 {
				span = fmt.Sprint(from)
			}
			line := pad + strings.Join(names[from:to], ", ") + " = results[" + span + "]"
			out, fits = append(out, line), fits && len(line) <= LineWidth
		}
		if fits || lines == len(names) {
			return out
		}
	}
}

// cutAssign cuts a statement at its assignment.
func cutAssign(s string) (left, right string, ok bool) {
	i := scan(s, func(i int) bool {
		return strings.HasPrefix(s[i:], " = ")
	})
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+3:], true
}

// scan finds the first place outside of brackets and strings where f holds; -1 for none.
func scan(s string, f func(int) bool) int {
	depth := closes(s)
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

// closes is 1 for a text that begins with the end of brackets.
func closes(s string) int {
	if s != "" && strings.IndexByte(")]}", s[0]) >= 0 {
		return 1
	}
	return 0
}

// cut divides a text at separators outside of brackets; those kept stand at the beginning of the part that follows.
func cut(s string, seps []string, keep bool) []string {
	var out []string
	last := 0
	scan(s, func(i int) bool {
		if i < last {
			return false
		}
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

func elements(s string) []string {
	s = strings.TrimSuffix(strings.TrimSpace(s), ",")
	if strings.HasPrefix(s, "lambda ") {
		return []string{s}
	}
	parts := cut(s, []string{", "}, false)
	// The parameters of a lambda belong together.
	var out []string
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

func comprehension(s string) []string { return cut(s, []string{" for ", " if "}, true) }

// operation cuts an expression at the operators that bind least.
func operation(s string) []string {
	for _, ops := range [][]string{{" == ", " != ", " < ", " <= ", " > ", " >= "}, {" | "}, {" ^ "}, {" & "}, {" << ", " >> "}, {" + ", " - "}, {" * ", " / ", " // "}} {
		if parts := cut(s, ops, true); len(parts) > 1 {
			return parts
		}
	}
	return []string{s}
}

// matching is the place of the bracket that closes the one at open.
func matching(s string, open int) int {
	depth := 0
	for i := open; i < len(s); i++ {
		switch s[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// bracket finds the brackets to split a statement at: the last that leave what stands before them short enough.
func bracket(s string, indent int) (open, end int) {
	type pair struct{ open, end int }
	var pairs []pair
	depth, start := closes(s), 0
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '(' || c == '[' || c == '{':
			if depth == 0 {
				start = i
			}
			depth++
		case c == ')' || c == ']' || c == '}':
			if depth--; depth == 0 && i > start+1 && i > 0 {
				pairs = append(pairs, pair{start, i})
			}
		}
	}
	for i := len(pairs) - 1; i >= 0; i-- {
		if indent+pairs[i].open+1 <= LineWidth {
			return pairs[i].open, pairs[i].end
		}
	}
	return -1, -1
}
