package loop

import (
	"fmt"
	"strings"
)

// screen passes an agent's lines on, without the file changes that it prints.
type screen struct {
	show   bool
	out    func(string)
	inside bool
	hidden int
}

// Beginnings of hidden blocks, and of the lines that belong to one.
var (
	blockStarts = []string{"file update:", "diff --git "}
	blockLines  = []string{"+", "-", "@@", " ", "index ", "new file", "deleted file", "old mode", "new mode", "similarity ", "rename ", "Binary ", `\ No newline`}
)

func (s *screen) line(text string) {
	switch {
	case s.show:
	case hasPrefix(text, blockStarts):
		s.inside = true
		s.hidden++
		return
	case s.inside && hasPrefix(text, blockLines):
		s.hidden++
		return
	}
	s.end()
	s.out("  | " + text)
}

// end writes how much was hidden.
func (s *screen) end() {
	if s.hidden > 0 {
		s.out(fmt.Sprintf("  | (%d lines of changed files; --show-file-updates shows them)", s.hidden))
	}
	s.inside, s.hidden = false, 0
}

func hasPrefix(text string, list []string) bool {
	for _, p := range list {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}
