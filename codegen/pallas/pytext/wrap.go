package pytext

import "strings"

// WrapAt breaks a line longer than LineWidth after its first mark.
func WrapAt(mark, line string) string {
	if len(line) <= LineWidth {
		return line
	}
	return strings.Replace(line, mark+" ", mark+"\n", 1)
}

// WrapList breaks a comma-separated list into lines of a docstring, the first after label.
func WrapList(label, list string) string {
	var b strings.Builder
	line := label
	for i, part := range strings.Split(list, ",") {
		if i > 0 {
			line += ","
		}
		if len(line)+len(part) > 86 {
			b.WriteString(line + "\n")
			line = "    "
		}
		line += part
	}
	b.WriteString(line + "\n")
	return b.String()
}

// Spaced puts two blank lines before each top-level definition, however many a template left.
func Spaced(text string) string {
	var out []string
	blank := 0
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" {
			blank++
			continue
		}
		if blank > 0 {
			n := min(blank, 2)
			if strings.HasPrefix(line, "def ") || strings.HasPrefix(line, "@") || strings.HasPrefix(line, "class ") {
				n = 2
			}
			out = append(out, make([]string, n)...)
		}
		blank = 0
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n"
}
