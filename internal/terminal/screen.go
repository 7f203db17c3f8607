package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// drawEvery is the interval of redraws without news, for clocks.
const drawEvery = time.Second

// Screen is a whole terminal, redrawn at each Draw.
type Screen struct {
	file *os.File
	text func(width, height int) string
	mu   sync.Mutex
	stop chan struct{}
	done chan struct{}
}

// NewScreen takes over the terminal behind w. text returns at most height lines of at most width characters. The result
// is nil if w is no terminal, or a dumb one.
func NewScreen(w io.Writer, text func(width, height int) string) *Screen {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "" || !Is(f) {
		return nil
	}
	s := &Screen{file: f, text: text, stop: make(chan struct{}), done: make(chan struct{})}
	fmt.Fprint(f, "\x1b[?1049h\x1b[?25l") // a screen of its own, no cursor
	go func() {
		defer close(s.done)
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		for {
			s.Draw()
			select {
			case <-tick.C:
			case <-s.stop:
				fmt.Fprint(f, "\x1b[?25h\x1b[?1049l")
				return
			}
		}
	}()
	return s
}

// Draw draws the screen.
func (s *Screen) Draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width < 20 || height < 5 {
		width, height = 80, 24
	}
	fmt.Fprint(s.file, "\x1b[H"+strings.ReplaceAll(s.text(width, height), "\n", "\x1b[K\r\n")+"\x1b[K\x1b[J")
}

// Close restores the terminal.
func (s *Screen) Close() {
	close(s.stop)
	<-s.done
}
