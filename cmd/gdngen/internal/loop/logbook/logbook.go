// Package logbook reads and checks logs of experiments in Markdown: an entry is a heading of the second level and fields below it.
//
//	## 3. Fewer launches
//	- **Hypothesis**: one kernel for both halves saves a launch
//	- **Command**: `gdngen explain --spec bench --variant tpu`
//	- **Result**: 1.92 -> 1.76
//	- **Verdict**: keep
//	- **Commit**: 3f9a2c1
//	- **Next**: the same for the backward pass
//
// A field is a line NAME: TEXT, with or without a list mark and asterisks; lines below belong to it until the next field.
package logbook

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Entry is one experiment.
type Entry struct {
	Line   int    // of its heading, from 1
	Number int    // of its heading; 0: none
	Title  string // without the number
	Fields []Field
}

// Field is a line of an entry with its continuation lines.
type Field struct {
	Line int
	Name string // lower case
	Text string
}

// Field returns a field by name; nil if there is none.
func (e *Entry) Field(name string) *Field {
	i := slices.IndexFunc(e.Fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &e.Fields[i]
}

var (
	heading  = regexp.MustCompile(`^##\s+(?:(?:Iteration|Entry)\s+)?(?:(\d+)[.:)]?(?:\s+|$))?(.*)$`)
	field    = regexp.MustCompile(`^\s*(?:[-*+]\s+)?(?:\*\*)?([A-Za-z][A-Za-z ]{1,30}?)(?:\*\*)?:(?:\*\*)?(?:\s+(.*))?$`)
	isFenced = regexp.MustCompile("^\\s*(```|~~~)")
)

// Parse reads the entries of a log. Text before the first entry, and headings of other levels, are ignored.
func Parse(text string) (l []Entry) {
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \r")
		if isFenced.MatchString(line) {
			fenced = !fenced
		}
		if m := heading.FindStringSubmatch(line); m != nil && !fenced {
			n, _ := strconv.Atoi(m[1])
			l = append(l, Entry{Line: i + 1, Number: n, Title: strings.TrimSpace(m[2])})
			continue
		}
		if len(l) == 0 || strings.HasPrefix(line, "# ") && !fenced {
			continue
		}
		e := &l[len(l)-1]
		if m := field.FindStringSubmatch(line); m != nil && !fenced {
			e.Fields = append(e.Fields, Field{i + 1, strings.ToLower(m[1]), m[2]})
		} else if n := len(e.Fields); n > 0 && strings.TrimSpace(line) != "" {
			e.Fields[n-1].Text = strings.TrimSpace(e.Fields[n-1].Text + "\n" + line)
		}
	}
	return l
}
