package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Bar shows the progress of work: on a terminal one line that is overwritten, elsewhere a line for each piece.
type Bar struct {
	w        io.Writer
	terminal bool
	wide     int // characters of the line on the terminal
}

// NewBar returns a bar that shows nothing yet.
func NewBar(w io.Writer) *Bar {
	f, ok := w.(*os.File)
	return &Bar{w: w, terminal: ok && Is(f)}
}

const barWidth = 24

// Draw shows the progress, a text about the last piece, and the time left (0: unknown). With stay, the line is not
// overwritten on a terminal.
func (b *Bar) Draw(done, total int, text string, left time.Duration, stay bool) {
	filled := barWidth * done / max(1, total)
	line := fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), done, total)
	if left > 0 {
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	line += "  " + text
	if !b.terminal {
		fmt.Fprintln(b.w, strings.TrimRight(line, " "))
		return
	}
	if columns := Width(b.w); columns > 1 && len(line) >= columns {
		line = line[:columns-1] // a line that wraps can not be overwritten
	}
	fmt.Fprintf(b.w, "\r%-*s", b.wide, line)
	b.wide = len(line)
	if stay {
		fmt.Fprintln(b.w)
		b.wide = 0
	}
}

// End ends the line of the bar and leaves it on the screen.
func (b *Bar) End() {
	if b.terminal && b.wide > 0 {
		fmt.Fprintln(b.w)
	}
}
