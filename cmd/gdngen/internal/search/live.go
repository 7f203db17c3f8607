package search

import (
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/terminal"
)

// watcher shows the progress of a search: on a screen of the terminal, or as plain lines if there is none.
type watcher struct {
	a      *app.App
	screen *terminal.Screen // nil: lines
	mu     sync.Mutex
	live   report.Live
	from   time.Time
}

// watch begins to show a search in a folder.
func (a CLI) watch(dir string, budget time.Duration, plain bool) *watcher {
	w := &watcher{a: a.App, live: report.Live{Dir: dir, Budget: budget}, from: time.Now()}
	if !plain {
		w.screen = terminal.NewScreen(a.Stderr, w.text)
	}
	return w
}

// text returns the screen's content.
func (w *watcher) text(width, height int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live.Elapsed = time.Since(w.from)
	return w.live.Screen(width, height)
}

// tell changes the screen's content, or calls line if there is no screen.
func (w *watcher) tell(change func(*report.Live), line func()) {
	if w.screen == nil {
		line()
		return
	}
	w.mu.Lock()
	change(&w.live)
	w.mu.Unlock()
}

// progress shows a recorded candidate.
func (w *watcher) progress(p autotune.Progress) {
	w.tell(func(l *report.Live) {
		if l.View.Len() == 0 {
			l.Begun = p.View.Len() - 1
		}
		l.View, l.Flight, l.CPU = p.View, p.Flight, p.Times.CPU
	}, func() { w.a.Note("%s", p) })
	if w.screen != nil {
		w.screen.Draw()
	}
}

// told shows a step before the first candidate.
func (w *watcher) told(text string) {
	w.tell(func(l *report.Live) { l.Doing = text }, func() { w.a.Note("%s", text) })
}

// begun shows how many candidates are judged at a time.
func (w *watcher) begun(flight string) {
	w.tell(func(l *report.Live) { l.Limit = flight }, func() { w.a.Note("judging %s", flight) })
}

// warn shows a warning; a screen repeats it at the end.
func (w *watcher) warn(text string) {
	w.tell(func(l *report.Live) { l.Warning = text }, func() { w.a.Warn("%s", text) })
}

// close restores the terminal.
func (w *watcher) close() {
	if w.screen == nil {
		return
	}
	w.screen.Close()
	if w.live.Warning != "" {
		w.a.Warn("%s", w.live.Warning)
	}
}
