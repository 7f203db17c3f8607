package loop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/terminal"
)

// command is a shell command by the user or an agent.
type command struct {
	text    string
	dir     string
	stdin   string
	log     string // file for all output
	env     []string
	box     *box
	limit   time.Duration
	silence time.Duration // longest time without output; 0: no limit
	show    func(line string)
	over    <-chan string // receives which limit of the run is exceeded; may be nil
}

// outcome is the result of a command.
type outcome struct {
	last  string // last non-blank line of output
	fault string // why it failed; empty: success
	late  bool   // stopped at its time or silence limit
	left  int    // processes that outlived it

	secret bool // it could read the hold-out: its output could tell the next agent
}

// words returns the last line, if agents may read it.
func (o *outcome) words() string {
	if o.secret && o.last != "" {
		return "its words are in the log alone, since it saw the hold-out"
	}
	return o.last
}

const (
	maxLog  = 64 << 20 // bytes of a log; further output is dropped
	maxLine = 64 << 10
)

// run runs the command under a keeper. An error is the machinery's, or ctx's; in any case the command's processes have ended.
func (c *command) run(ctx context.Context) (o outcome, err error) {
	if info, err := os.Lstat(c.log); err == nil && info.Mode()&(os.ModeSymlink|os.ModeNamedPipe) != 0 { // an agent could have put it there
		if err := os.Remove(c.log); err != nil {
			return o, err
		}
	}
	log, err := os.Create(c.log)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	words, more, err := c.box.wrap(c.dir, c.text)
	if err != nil {
		return o, err
	}
	keeper := exec.Command("/proc/self/exe", words...)
	keeper.Dir, keeper.Env = c.dir, append(append(slices.Clone(c.env), more...), keeperVariable+"=1")
	keeper.Stdin = strings.NewReader(c.stdin)
	keeper.SysProcAttr = keeperAttributes()
	out, outW, err := os.Pipe()
	if err != nil {
		return o, err
	}
	defer out.Close()
	life, lifeW, err := os.Pipe()
	if err != nil {
		return o, errors.Join(err, outW.Close())
	}
	said, saidW, err := os.Pipe()
	if err != nil {
		return o, errors.Join(err, outW.Close(), life.Close(), lifeW.Close())
	}
	defer said.Close()
	keeper.Stdout, keeper.Stderr = outW, outW
	keeper.ExtraFiles = []*os.File{life, saidW} // become lifeFD and statusFD
	err = keeper.Start()
	for _, f := range []*os.File{outW, life, saidW} {
		f.Close()
	}
	if err != nil {
		return o, errors.Join(err, lifeW.Close())
	}
	o, ended := c.follow(ctx, out, log, func() { lifeW.Close() })
	lifeW.Close()
	var s status
	unsaid := json.NewDecoder(said).Decode(&s)
	keeper.Wait() // it exits with 0; the status came by the pipe
	o.left = s.Left
	switch {
	case ended != nil:
		return o, ended
	case o.fault != "":
	case unsaid != nil:
		return o, fmt.Errorf("the keeper of %q was killed", c.text)
	case s.Fault != "":
		o.fault = s.Fault
	case s.Exit != 0:
		o.fault = fmt.Sprintf("ended with status %d", s.Exit)
	}
	return o, nil
}

// follow copies the command's output until all of its processes have ended, and ends them if a limit is exceeded.
func (c *command) follow(ctx context.Context, out io.Reader, log io.Writer, end func()) (o outcome, err error) {
	chunks := make(chan []byte)
	go func() {
		defer close(chunks)
		for {
			b := make([]byte, 32<<10)
			n, err := out.Read(b)
			if n > 0 {
				chunks <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	total := time.NewTimer(c.limit)
	quiet := time.NewTimer(max(c.silence, 1))
	if c.silence == 0 {
		quiet.Stop()
	}
	defer total.Stop()
	defer quiet.Stop()
	lines := &splitter{each: func(line string) {
		if strings.TrimSpace(line) != "" {
			o.last = strings.TrimSpace(line)
		}
		if c.show != nil {
			c.show(line)
		}
	}}
	room := maxLog
	done := ctx.Done()
	for {
		select {
		case b, ok := <-chunks:
			if !ok {
				lines.flush()
				return o, err
			}
			if c.silence > 0 && o.fault == "" {
				quiet.Reset(c.silence)
			}
			lines.write(b)
			if n := min(room, len(b)); n > 0 {
				log.Write(b[:n])
				if room -= n; room == 0 {
					fmt.Fprintf(log, "\n[the log ends here: %d MiB]\n", maxLog>>20)
				}
			}
		case <-total.C:
			o.fault, o.late = cmp.Or(o.fault, fmt.Sprintf("not done within %v", c.limit)), true
			end()
		case <-quiet.C:
			o.fault, o.late = cmp.Or(o.fault, fmt.Sprintf("silent for %v", c.silence)), true
			end()
		case why := <-c.over:
			o.fault, o.late = cmp.Or(o.fault, why), true
			end()
		case <-done:
			err, done = ctx.Err(), nil
			end()
		}
	}
}

// splitter cuts bytes into lines for display: at most maxLine long, without control characters.
type splitter struct {
	each func(string)
	part []byte
}

func (s *splitter) write(b []byte) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			s.part = append(s.part, b[:min(len(b), max(0, maxLine-len(s.part)))]...)
			return
		}
		s.part = append(s.part, b[:min(i, max(0, maxLine-len(s.part)))]...)
		s.each(plain(string(s.part)))
		s.part, b = s.part[:0], b[i+1:]
	}
}

func (s *splitter) flush() {
	if len(s.part) > 0 {
		s.each(plain(string(s.part)))
	}
}

// plain drops characters that could move a terminal's cursor, change the direction of text, or end a line of a commit message.
func plain(text string) string { return terminal.Plain(text) }

// clip shortens a text to one plain line.
func clip(text string, n int) string {
	r := []rune(strings.Join(strings.Fields(plain(strings.ReplaceAll(text, "\n", " "))), " "))
	if len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return string(r)
}
