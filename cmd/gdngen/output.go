package main

import (
	"github.com/gdngen/gdngen/internal/terminal"

	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
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
	fmt.Fprintf(a.stderr, "%s %s\n", terminal.Paint(a.stderr, terminal.Yellow, "warning:"), fmt.Sprintf(format, args...))
}
