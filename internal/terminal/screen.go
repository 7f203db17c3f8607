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

// drawEvery is how often a screen is drawn without news: clocks run.
const drawEvery = time.Second

// Screen is a whole terminal that is drawn anew with each piece of news.
type Screen struct {
	file *os.File
	text func(width, height int) string
	mu   sync.Mutex
	stop chan struct{}
	done chan struct{}
}

// NewScreen takes the terminal behind w for text, which gives at most so many lines of so many characters. It is nil where w is no
// terminal, or a dumb one.
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

// Close gives the terminal back.
func (s *Screen) Close() {
	close(s.stop)
	<-s.done
}
