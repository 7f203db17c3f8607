package explain

import (
	"os"
	"strings"
)

// sources caches the lines of source files by path. The zero value is ready.
type sources map[string][]string

// widestLine is the number of characters shown of a source line.
const widestLine = 80

// line returns line n of a file, from 1, without indentation; empty if the file is not at hand. Locations name files by
// the path at lowering time.
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
