package main

import (
	"strings"
	"unicode/utf8"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/spf13/cobra"
)

// leastHelp and mostHelp bound the width of help texts, in characters.
const leastHelp, mostHelp = 60, 120

// wrapHelp wraps the help of all commands at the width of the terminal, or at mostHelp if there is none.
func wrapHelp(root *cobra.Command) {
	width := func(c *cobra.Command) int {
		w := terminal.Width(c.OutOrStdout())
		if w <= 0 {
			w = mostHelp
		}
		return min(max(w, leastHelp), mostHelp)
	}
	cobra.AddTemplateFunc("wrap", func(c *cobra.Command, text string) string { return wrap(text, width(c)) })
	cobra.AddTemplateFunc("flags", func(c *cobra.Command, of string) string {
		set := c.LocalFlags()
		if of == "global" {
			set = c.InheritedFlags()
		}
		return strings.TrimRight(set.FlagUsagesWrapped(width(c)), " \n")
	})
	root.SetHelpTemplate(`{{with (or .Long .Short)}}{{wrap $ . | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`)
	usage := root.UsageTemplate()
	usage = strings.Replace(usage, "{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", `{{flags . "local"}}`, 1)
	root.SetUsageTemplate(strings.Replace(usage, "{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}", `{{flags . "global"}}`, 1))
}

// wrap breaks the lines of a text at a width. Lines of a paragraph are joined first; indented lines and list items stay
// separate, and continue under their text.
func wrap(text string, width int) string {
	var out []string
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(block, "\n")
		joined := lines[:1:1]
		for i, line := range lines[1:] {
			if strings.HasPrefix(line, " ") || strings.HasPrefix(lines[i], " ") || strings.HasSuffix(lines[i], ":") {
				joined = append(joined, line)
			} else {
				joined[len(joined)-1] += " " + line
			}
		}
		for i, line := range joined {
			joined[i] = wrapLine(line, width)
		}
		out = append(out, strings.Join(joined, "\n"))
	}
	return strings.Join(out, "\n\n")
}

// wrapLine breaks one line. In an indented line, such as a list item, continuation lines start under the text after the first word.
func wrapLine(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if word, rest, ok := strings.Cut(line[indent:], "  "); indent > 0 && ok {
		indent += len(word) + 2 + len(rest) - len(strings.TrimLeft(rest, " "))
	}
	if indent > width/2 {
		indent = 4
	}
	var b strings.Builder
	at := 0
	for i, word := range strings.Split(line, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width && strings.TrimSpace(b.String()) != "":
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
			if word == "" {
				continue
			}
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
