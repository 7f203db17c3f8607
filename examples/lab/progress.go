package lab

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of a run: a bar on a terminal, elsewhere a line for each evaluation and at the end.
type progress struct {
	w           io.Writer
	bar         *progressbar.ProgressBar // nil: lines
	steps, from int
	start       time.Time
}

// newProgress begins at step done of c.Steps. The rate counts only the steps of this call.
func newProgress(c Config, done int) *progress {
	p := &progress{w: c.Progress, steps: c.Steps, from: done, start: time.Now()}
	if p.w == nil {
		p.w = io.Discard
	}
	if done > 0 {
		fmt.Fprintf(p.w, "the checkpoint has %d steps\n", done)
	}
	if f, ok := p.w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(max(c.Steps-done, 0), progressbar.OptionSetWriter(p.w), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(24), progressbar.OptionOnCompletion(func() { fmt.Fprintln(p.w) }))
	}
	return p
}

// step shows a step, counted from 1; a line is written if tell is set or at the last step.
func (p *progress) step(n int, text string, tell bool) {
	if p.bar != nil {
		p.bar.Describe(text)
		_ = p.bar.Add(1)
		return
	}
	if !tell {
		return
	}
	rate := float64(n-p.from) / time.Since(p.start).Seconds()
	fmt.Fprintf(p.w, "step %d of %d: %s, %.1f steps/s\n", n, p.steps, text, rate)
}

func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Exit()
	}
}
