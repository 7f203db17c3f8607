package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// signals are the words with a colour in tables.
var signals = map[string]int{
	"pass": Green, "ok": Green, "accepted": Green, "keep": Green,
	"FAIL": Red, "error": Red, "rejected": Red, "compile-reject": Red, "internal": Red, "vmem": Red, "crash": Red, "timeout": Red, "absent": Red, "numerics": Red,
	"cost-unknown": Yellow, "unsupported": Yellow, "unsafe": Yellow, "negative": Yellow, "illegal": Yellow,
}

// Table is text in columns. A heading that starts with ">" aligns its column to the right; "?" omits the column if all
// its cells are "-" or empty; ">?" does both.
type Table struct {
	heads []string
	rows  [][]string
}

// NewTable returns a table without rows.
func NewTable(heads ...string) *Table { return &Table{heads: heads} }

// Add appends a row; values are formatted by %v, missing ones are empty.
func (t *Table) Add(values ...any) {
	row := make([]string, len(t.heads))
	for i, v := range values {
		row[i] = fmt.Sprint(v)
	}
	t.rows = append(t.rows, row)
}

// Write prints the table; the last column is not padded.
func (t *Table) Write(w io.Writer) {
	heads := make([]string, len(t.heads))
	width := make([]int, len(t.heads))
	for i, h := range t.heads {
		heads[i] = strings.TrimLeft(h, ">?")
		width[i] = utf8.RuneCountInString(heads[i])
		for _, r := range t.rows {
			width[i] = max(width[i], utf8.RuneCountInString(r[i]))
		}
	}
	line := func(row []string) {
		var b strings.Builder
		for i, cell := range row {
			if t.left(i) {
				continue
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			text := cell
			if colour, ok := signals[cell]; ok {
				text = Paint(w, colour, cell)
			}
			if strings.HasPrefix(t.heads[i], ">") {
				b.WriteString(pad + text + "  ")
			} else {
				b.WriteString(text + pad + "  ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	line(heads)
	for _, r := range t.rows {
		line(r)
	}
}

// left reports whether a column is omitted.
func (t *Table) left(i int) bool {
	return strings.Contains(t.heads[i][:min(2, len(t.heads[i]))], "?") && !slices.ContainsFunc(t.rows, func(r []string) bool { return r[i] != "-" && r[i] != "" })
}
