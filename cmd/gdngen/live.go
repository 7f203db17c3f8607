package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/report"
)

// watcher shows the progress of a search: one screen that is drawn anew on a terminal, plain lines elsewhere.
type watcher struct {
	a    *app
	fd   int // of the terminal; -1: none
	mu   sync.Mutex
	live report.Live
	from time.Time
	stop chan struct{}
	done chan struct{}
}

// drawEvery is how often the screen is drawn without news: the clock runs.
const drawEvery = time.Second

// watch begins to show a search in a folder. A dumb terminal gets plain lines.
func (a *app) watch(dir string, budget time.Duration, plain bool) *watcher {
	w := &watcher{a: a, fd: -1, live: report.Live{Dir: dir, Budget: budget}, from: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	if f, ok := a.stderr.(*os.File); ok && !plain && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" && term.IsTerminal(int(f.Fd())) {
		w.fd = int(f.Fd())
	}
	if w.fd < 0 {
		close(w.done)
		return w
	}
	fmt.Fprint(a.stderr, "\x1b[?1049h\x1b[?25l") // a screen of its own, no cursor
	go func() {
		defer close(w.done)
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		for {
			w.draw()
			select {
			case <-tick.C:
			case <-w.stop:
				fmt.Fprint(a.stderr, "\x1b[?25h\x1b[?1049l")
				return
			}
		}
	}()
	return w
}

// progress tells of a candidate.
func (w *watcher) progress(p autotune.Progress) {
	if w.fd < 0 {
		w.a.note("%s", progressLine(p))
		return
	}
	w.mu.Lock()
	if w.live.View.Len() == 0 {
		w.live.Begun = p.View.Len() - 1
	}
	w.live.View, w.live.Flight, w.live.CPU = p.View, p.Flight, p.Times.CPU
	w.mu.Unlock()
	w.draw()
}

// begun tells how many candidates are judged at a time.
func (w *watcher) begun(flight string) {
	if w.fd < 0 {
		w.a.note("judging %s", flight)
		return
	}
	w.mu.Lock()
	w.live.Limit = flight
	w.mu.Unlock()
}

// warn shows a warning; on a terminal it stays on the screen and is repeated at the end.
func (w *watcher) warn(text string) {
	if w.fd < 0 {
		w.a.warn("%s", text)
		return
	}
	w.mu.Lock()
	w.live.Warning = text
	w.mu.Unlock()
}

// close gives the terminal back.
func (w *watcher) close() {
	if w.fd >= 0 {
		close(w.stop)
	}
	<-w.done
	if w.fd >= 0 && w.live.Warning != "" {
		w.a.warn("%s", w.live.Warning)
	}
}

func (w *watcher) draw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	width, height, err := term.GetSize(w.fd)
	if err != nil || width < 20 || height < 5 {
		width, height = 80, 24
	}
	w.live.Elapsed = time.Since(w.from)
	screen := w.live.Screen(width, height)
	fmt.Fprint(w.a.stderr, "\x1b[H"+strings.ReplaceAll(screen, "\n", "\x1b[K\r\n")+"\x1b[K\x1b[J")
}
