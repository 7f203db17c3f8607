package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// formats are the forms of the data on standard output.
var formats = []string{"text", "json", "jsonl"}

// format is the value of --output.
type format string

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return strings.Join(formats, "|") }
func (f *format) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("want %s", strings.Join(formats, ", "))
	}
	*f = format(text)
	return nil
}

// emit writes data in the format asked for: text, the document, or a line for each row.
func emit[R any](a *app, doc any, rows []R, text func(w io.Writer)) error {
	switch a.output {
	case "json":
		e := json.NewEncoder(a.stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(doc)
	case "jsonl":
		e := json.NewEncoder(a.stdout)
		e.SetEscapeHTML(false)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	text(a.stdout)
	return nil
}

// note writes a line of progress.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }

// warn writes a warning.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.stderr, "%s %s\n", a.paint(a.stderr, yellow, "warning:"), fmt.Sprintf(format, args...))
}

// The colours, as terminals number them.
const (
	red    = 31
	green  = 32
	yellow = 33
)

// paint colours text for a terminal; NO_COLOR and a dumb terminal turn colours off.
func (a *app) paint(w io.Writer, colour int, text string) string {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || !isTerminal(f) {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, text)
}

// isTerminal tells whether a file is a terminal that understands more than lines.
func isTerminal(f *os.File) bool { return os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())) }

// terminalWidth is the number of characters of a terminal's line; 0 where it is not known.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// signals are the words that a table colours.
var signals = map[string]int{
	"pass": green, "ok": green, "accepted": green, "keep": green,
	"FAIL": red, "error": red, "rejected": red, "compile-reject": red, "internal": red, "vmem": red, "crash": red, "timeout": red, "absent": red, "numerics": red,
	"cost-unknown": yellow, "unsupported": yellow, "unsafe": yellow, "negative": yellow, "illegal": yellow,
}

// table is text in columns. A heading that starts with ">" aligns its column to the right.
type table struct {
	heads []string
	rows  [][]string
}

func newTable(heads ...string) *table { return &table{heads: heads} }

// add appends a row; values are printed as %v prints them, missing ones are empty.
func (t *table) add(values ...any) {
	row := make([]string, len(t.heads))
	for i, v := range values {
		row[i] = fmt.Sprint(v)
	}
	t.rows = append(t.rows, row)
}

// write prints the table; the last column is as wide as it is.
func (t *table) write(a *app, w io.Writer) {
	heads := make([]string, len(t.heads))
	width := make([]int, len(t.heads))
	for i, h := range t.heads {
		heads[i] = strings.TrimPrefix(h, ">")
		width[i] = utf8.RuneCountInString(heads[i])
		for _, r := range t.rows {
			width[i] = max(width[i], utf8.RuneCountInString(r[i]))
		}
	}
	line := func(row []string) {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			text := cell
			if colour, ok := signals[cell]; ok {
				text = a.paint(w, colour, cell)
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

// sizeText prints a size in binary units.
func sizeText(n int64) string {
	switch {
	case n < 0:
		return "?"
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}

// percent prints a share.
func percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}
