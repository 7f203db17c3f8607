package plugins

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// report writes a line; w may be nil.
func report(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}

// watch reports the growth of the files below dir toward total bytes, until done is called. A terminal gets one line, redrawn in place;
// other writers get a line at the start, at each quarter and at the end.
func watch(w io.Writer, what, dir string, total int64) (done func(ok bool)) {
	if w == nil {
		return func(bool) {}
	}
	f, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	if !terminal {
		report(w, "%s (%s)", what, mib(total))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		quarter := int64(1)
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			have := min(treeSize(dir), total)
			if terminal {
				fmt.Fprintf(w, "\r%s: %s of %s (%d%%)\x1b[K", what, mib(have), mib(total), 100*have/total)
			} else if have >= quarter*total/4 && quarter < 4 {
				report(w, "%s: %s of %s", what, mib(have), mib(total))
				quarter = 4*have/total + 1
			}
		}
	}()
	start := time.Now()
	return func(ok bool) {
		close(stop)
		<-stopped
		if terminal {
			fmt.Fprint(w, "\r\x1b[K")
		}
		if ok {
			report(w, "%s: done in %.1f s", what, time.Since(start).Seconds())
		}
	}
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
