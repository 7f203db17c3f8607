package app

import (
	"github.com/gdngen/gdngen/internal/terminal"

	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// formats are the values of --output.
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

// formOrFile is the value of --output for commands where it once named a file, and still does if the text is no format.
type formOrFile struct {
	*App
	file *string
}

func (v formOrFile) String() string {
	if v.App == nil {
		return ""
	}
	return string(v.Output)
}
func (v formOrFile) Type() string { return v.Output.Type() }
func (v formOrFile) Set(text string) error {
	if v.Output.Set(text) == nil {
		return nil
	}
	v.Note("-o names the form of the data (%s): a file is named by --out %s", strings.Join(formats, ", "), text)
	*v.file = text
	return nil
}

// OutFlag adds --out, the file to write to.
func OutFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "out", "", "write to this file; -: standard output")
}

// FileByOutput adds --output so that it may also name a file, as in former versions.
func (a *App) FileByOutput(c *cobra.Command, file *string) {
	c.Flags().VarP(formOrFile{a, file}, "output", "o", "form of the data on standard output")
	Complete(c, "output", formats)
}

// former is a flag under its former name.
type former struct {
	*App
	flags    *pflag.FlagSet
	old, now string
}

func (f *former) String() string { return "" }
func (f *former) Type() string   { return "string" }
func (f *former) Set(text string) error {
	f.Note("--%s is --%s now", f.old, f.now)
	return f.flags.Set(f.now, text)
}

// Formerly adds a hidden flag with the former name of another.
func (a *App) Formerly(c *cobra.Command, old, now string) {
	c.Flags().Var(&former{a, c.Flags(), old, now}, old, "the former name of --"+now)
	was := c.Flags().Lookup(old)
	was.Hidden, was.NoOptDefVal = true, c.Flags().Lookup(now).NoOptDefVal
}

// Emit writes data in the format of --output: text, one JSON document, or a JSON line for each row.
func Emit[R any](a *App, doc any, rows []R, text func(w io.Writer)) error {
	switch a.Output {
	case "json":
		e := json.NewEncoder(a.Stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(doc)
	case "jsonl":
		e := json.NewEncoder(a.Stdout)
		e.SetEscapeHTML(false)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	text(a.Stdout)
	return nil
}

// Note writes a line of progress to standard error.
func (a *App) Note(format string, args ...any) {
	fmt.Fprintln(a.Stderr, terminal.Lines(fmt.Sprintf(format, args...)))
}

// Warn writes a warning to standard error.
func (a *App) Warn(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "%s %s\n", terminal.Paint(a.Stderr, terminal.Yellow, "warning:"), terminal.Lines(fmt.Sprintf(format, args...)))
}
