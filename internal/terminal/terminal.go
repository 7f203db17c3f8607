// Package terminal formats output for people: colours on terminals, sizes and shares as text.
package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// The colours, as terminals number them.
const (
	Red    = 31
	Green  = 32
	Yellow = 33
)

// Plain drops characters that move a cursor, change the direction of text or are invisible, so that foreign text is
// shown as it reads. Tabs become blanks. Only Lines keeps line ends.
func Plain(text string) string { return plain(text, false) }

// Lines is Plain for a text of several lines.
func Lines(text string) string { return plain(text, true) }

// Others returns a writer for the output of other programs, which filters it by Lines. A carriage return ends a line,
// as in progress bars; tabs are kept.
func Others(w io.Writer) io.Writer { return &others{w: w} }

type others struct {
	w    io.Writer
	part []byte // incomplete character or line end
}

func (o *others) Write(b []byte) (int, error) {
	text := append(o.part, b...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-n:]) {
				whole = len(text) - n
			}
			break
		}
	}
	if whole > 0 && text[whole-1] == '\r' {
		whole--
	}
	o.part = slices.Clone(text[whole:])
	var out strings.Builder
	for i, part := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text[:whole])), "\t") {
		if i > 0 {
			out.WriteByte('\t')
		}
		out.WriteString(Lines(part))
	}
	if _, err := io.WriteString(o.w, out.String()); err != nil {
		return 0, err
	}
	return len(b), nil
}

func plain(text string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == '\n' && lines:
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
}

// Paint colours text if w is a terminal, unless NO_COLOR is set or the terminal is dumb.
func Paint(w io.Writer, colour int, text string) string {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || !Is(f) {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, text)
}

// Is reports whether a file is a terminal, other than a dumb one.
func Is(f *os.File) bool { return os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())) }

// Clear clears the screen of a terminal; elsewhere it ends a line.
func Clear(w io.Writer) {
	if f, ok := w.(*os.File); ok && Is(f) {
		fmt.Fprint(w, "\x1b[H\x1b[2J\x1b[3J")
		return
	}
	fmt.Fprintln(w)
}

// Width returns the number of characters in a terminal's line; 0: unknown.
func Width(w io.Writer) int {
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

// Size formats a number of bytes in binary units; negative: "?".
func Size(n int64) string {
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

// ParseSize parses a size such as 512MiB or 6GiB.
func ParseSize(text string) (int64, error) {
	for _, u := range []struct {
		name string
		size float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}} {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err == nil && x > 0 {
				return int64(x * u.size), nil
			}
			break
		}
	}
	return 0, fmt.Errorf("%q is no size: want a number and B, KiB, MiB or GiB, such as 6GiB", text)
}

// Percent formats a share; "-" if whole is 0.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}
