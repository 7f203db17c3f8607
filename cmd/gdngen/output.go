package main

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

// formOrFile is the value of --output where it once named a file, and does so still where the text is no form.
type formOrFile struct {
	*app
	file *string
}

func (v formOrFile) String() string {
	if v.app == nil {
		return ""
	}
	return string(v.output)
}
func (v formOrFile) Type() string { return v.output.Type() }
func (v formOrFile) Set(text string) error {
	if v.output.Set(text) == nil {
		return nil
	}
	v.note("-o names the form of the data (%s): a file is named by --out %s", strings.Join(formats, ", "), text)
	*v.file = text
	return nil
}

// outFlag adds --out, where what a command writes goes.
func outFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "out", "", "write to this file; -: standard output")
}

// fileByOutput lets --output name a file still, as it did.
func (a *app) fileByOutput(c *cobra.Command, file *string) {
	c.Flags().VarP(formOrFile{a, file}, "output", "o", "form of the data on standard output")
	complete(c, "output", formats)
}

// former is the value of a flag by its former name.
type former struct {
	*app
	flags    *pflag.FlagSet
	old, now string
}

func (f *former) String() string { return "" }
func (f *former) Type() string   { return "string" }
func (f *former) Set(text string) error {
	f.note("--%s is --%s now", f.old, f.now)
	return f.flags.Set(f.now, text)
}

// formerly lets a flag be given by its former name.
func (a *app) formerly(c *cobra.Command, old, now string) {
	c.Flags().Var(&former{a, c.Flags(), old, now}, old, "the former name of --"+now)
	c.Flags().Lookup(old).Hidden = true
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
