package remote

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/internal/web"
)

// SSHEnv is the environment variable with a program and arguments to use instead of ssh.
const SSHEnv = "GDNGEN_SSH"

// SSH reaches one machine by the user's own ssh, with its names, keys and jumps. It never prompts: if a password is needed it fails.
type SSH struct {
	Host string   // as ssh takes it
	Via  []string // a command to use instead of ssh and the host; the script becomes its last argument
}

// Quote returns words quoted for a shell's command line.
func Quote(words ...string) string {
	l := make([]string, len(words))
	for i, w := range words {
		l[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(l, " ")
}

// Command returns a command that runs a script there, by sh whatever the user's shell is.
func (s *SSH) Command(script string) *exec.Cmd {
	words := s.Via
	if len(words) == 0 {
		words = append(strings.Fields(cmp.Or(os.Getenv(SSHEnv), "ssh -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15")), s.Host)
	}
	return exec.Command(words[0], append(append([]string{}, words[1:]...), "sh -c "+Quote(script))...)
}

// UnreachableError says that a machine could not be reached, or that the connection was lost.
type UnreachableError struct {
	Host string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s can not be reached: %v", e.Host, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// sshFailed is the exit status of ssh's own failures.
const sshFailed = 255

// sshSilence is the longest time in which a script may neither print nor read input. Followed logs have no such limit.
var sshSilence = 2 * time.Minute

// Run runs a script with an input (or nil) and returns its output. An error other than an *UnreachableError holds the end of its error output.
func (s *SSH) Run(ctx context.Context, script string, in io.Reader) (string, error) {
	cmd := s.Command(script)
	var silent atomic.Bool
	quiet := time.AfterFunc(sshSilence, func() { silent.Store(true); cmd.Process.Kill() })
	quiet.Stop() // until the script runs
	heard := func() { quiet.Reset(sshSilence) }
	out, noise := &answer{end: func() { cmd.Process.Kill() }, heard: heard}, &last{}
	if in != nil {
		cmd.Stdin = &taken{in, heard}
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, noise, 5*time.Second
	if err := cmd.Start(); err != nil {
		return "", &UnreachableError{s.Host, err}
	}
	heard()
	defer quiet.Stop()
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	stop()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if silent.Load() {
		return "", &UnreachableError{s.Host, &web.SilentError{After: sshSilence}}
	}
	if out.large {
		return "", &UnreachableError{s.Host, fmt.Errorf("it answers with more than %d MiB", sshAnswer>>20)}
	}
	if err != nil {
		if said := strings.TrimSpace(noise.String()); said != "" {
			err = fmt.Errorf("%w: %s", err, said[strings.LastIndexByte(said, '\n')+1:])
		}
		if cmd.ProcessState.ExitCode() == sshFailed || cmd.ProcessState.ExitCode() < 0 {
			return "", &UnreachableError{s.Host, err}
		}
		return "", fmt.Errorf("on %s: %w", s.Host, err)
	}
	return out.text.String(), nil
}

// sshAnswer bounds an answer in bytes; files are read as streams.
const sshAnswer = 64 << 20

// answer stores the output of a script, up to a limit; it ends a script that prints more.
type answer struct {
	text  bytes.Buffer // not embedded: its ReadFrom would bypass the limit
	large bool
	end   func()
	heard func()
}

// taken is an input that reports each read.
type taken struct {
	io.Reader
	heard func()
}

func (t *taken) Read(b []byte) (int, error) {
	t.heard()
	return t.Reader.Read(b)
}

func (a *answer) Write(b []byte) (int, error) {
	a.heard()
	if a.text.Len()+len(b) > sshAnswer {
		a.large = true
		a.end()
		return 0, io.ErrShortWrite
	}
	return a.text.Write(b)
}

// last keeps the end of a script's error output.
type last struct{ text []byte }

func (l *last) Write(b []byte) (int, error) {
	const most = 64 << 10
	l.text = append(l.text, b...)
	l.text = l.text[max(0, len(l.text)-most):]
	return len(b), nil
}

func (l *last) String() string { return terminal.Lines(string(l.text)) }

// cacheThere is gdngen's folder on the other machine, as a shell expression.
const cacheThere = `"${XDG_CACHE_HOME:-$HOME/.cache}/gdngen"`

// pushes keeps concurrent workers from sending the program to one machine twice.
var pushes sync.Map

// Push copies this program to the machine, unless it is there, and returns its path as a shell expression.
func (s *SSH) Push(ctx context.Context) (path string, err error) {
	lock, _ := pushes.LoadOrStore(s.Host, new(sync.Mutex))
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	build, err := Build()
	if err != nil {
		return "", err
	}
	folder := cacheThere + "/bin/" + build
	path = folder + "/gdngen"
	said, err := s.Run(ctx, fmt.Sprintf("uname -s; uname -m; if test -x %s; then echo there; fi", path), nil)
	if err != nil {
		return "", err
	}
	lines := strings.Fields(said)
	if len(lines) < 2 {
		return "", &UnreachableError{s.Host, fmt.Errorf("it answers %q", said)}
	}
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[lines[1]]
	if platform := strings.ToLower(lines[0]) + "/" + cmp.Or(arch, lines[1]); platform != runtime.GOOS+"/"+runtime.GOARCH {
		return "", fmt.Errorf("%s is %s, and this gdngen is for %s/%s: start a gdngen of its own there with exec:", s.Host, platform, runtime.GOOS, runtime.GOARCH)
	}
	if len(lines) > 2 {
		return path, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(exe)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r, w := io.Pipe()
	go func() {
		z := gzip.NewWriter(w)
		_, err := io.Copy(z, f)
		w.CloseWithError(errors.Join(err, z.Close()))
	}()
	defer r.Close()
	_, err = s.Run(ctx, fmt.Sprintf("set -e; mkdir -p %s; gunzip > %s.$$; chmod +x %s.$$; mv %s.$$ %s", folder, path, path, path, path), r)
	return path, err
}

// stream returns the output of a script as it comes; the script may be silent for a time (0: no limit). Closing the
// stream, or the end of ctx, ends the connection.
func (s *SSH) stream(ctx context.Context, script string, silence time.Duration) (io.ReadCloser, error) {
	cmd := s.Command(script)
	noise := &last{}
	cmd.Stderr = noise
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, &UnreachableError{s.Host, err}
	}
	cmd.WaitDelay = 5 * time.Second
	r := &stream{ReadCloser: out, cmd: cmd, noise: noise, host: s.Host, silence: silence}
	r.stop = context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	return r, nil
}

// stream is the output of a running script. If the script fails, the stream ends with an error instead of EOF.
type stream struct {
	io.ReadCloser
	cmd   *exec.Cmd
	stop  func() bool
	noise *last
	host  string
	ended bool
	err   error

	silence time.Duration
}

func (r *stream) Read(b []byte) (int, error) {
	if r.ended {
		return 0, r.err
	}
	var silent atomic.Bool
	if r.silence > 0 {
		quiet := time.AfterFunc(r.silence, func() { silent.Store(true); r.cmd.Process.Kill(); r.ReadCloser.Close() })
		defer quiet.Stop()
	}
	n, err := r.ReadCloser.Read(b)
	if err == nil {
		return n, nil
	}
	r.stop()
	r.ended, r.err = true, io.EOF
	if bad := r.cmd.Wait(); silent.Load() {
		r.err = &UnreachableError{r.host, &web.SilentError{After: r.silence}}
	} else if bad != nil {
		r.err = &UnreachableError{r.host, fmt.Errorf("%w: %s", bad, strings.TrimSpace(r.noise.String()))}
	}
	if n > 0 {
		return n, nil
	}
	return 0, r.err
}

func (r *stream) Close() error {
	if !r.ended {
		r.stop()
		r.cmd.Process.Kill()
		r.ReadCloser.Close()
		r.cmd.Wait()
		r.ended, r.err = true, io.ErrClosedPipe
	}
	return nil
}
