package explain

import (
	"os"
	"strings"
)

// sources are source files that locations name, by path, as lines. The zero value is ready.
type sources map[string][]string

// widestLine is how much of a source line is shown.
const widestLine = 80

// line is a line of a file, from 1, without its margin; empty where the file is not at hand. Locations name files by the path that the
// program was lowered at.
func (s *sources) line(file string, n int) string {
	if *s == nil {
		*s = sources{}
	}
	lines, read := (*s)[file]
	if !read {
		if data, err := os.ReadFile(file); err == nil {
			lines = strings.Split(string(data), "\n")
		}
		(*s)[file] = lines
	}
	if n < 1 || n > len(lines) {
		return ""
	}
	text := []rune(strings.TrimSpace(lines[n-1]))
	if len(text) > widestLine {
		return string(text[:widestLine-3]) + "..."
	}
	return string(text)
}
