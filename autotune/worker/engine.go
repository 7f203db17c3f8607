package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/pjrt/child"
)

// Engine is a way to start workers.
type Engine struct {
	Text  string // as the user wrote it, without the number
	Slots int    // workers
	kind  kind
	rest  string // text after the colon
}

// kind is a row of the table of engines.
type kind struct {
	name, form, doc string
	start           func(context.Context, *Engine, []string) (*exec.Cmd, error) // starts a worker; the context is for preparations
}

// kinds is the table of engines.
func kinds() []kind {
	return []kind{
		{"local", "local", "this machine", startLocal},
		{"ssh", "ssh:[USER@]HOST", "a machine that ssh reaches without a password; it gets this program where it has none", startSSH},
		{"ray", "ray:ADDRESS", "a node of a Ray cluster that has room, seen from inside of it: ray:auto, or ray:HEAD:6379", startRay},
		{"exec", "exec:COMMAND", "any command that ends in gdngen worker, such as kubectl exec -i POD -- gdngen worker", startExec},
	}
}

// EngineForms returns the syntax of each engine.
func EngineForms() (forms []string) {
	for _, k := range kinds() {
		forms = append(forms, k.form)
	}
	return forms
}

// EngineHelp describes the engines: each syntax, and its meaning.
func EngineHelp() string {
	var b strings.Builder
	for _, k := range kinds() {
		fmt.Fprintf(&b, "\n  %-18s %s", k.form, k.doc)
	}
	return b.String()
}

// maxSlots bounds the workers of one engine.
const maxSlots = 256

// ParseEngine reads ENGINE or ENGINE*SLOTS.
func ParseEngine(text string) (*Engine, error) {
	e := &Engine{Text: text, Slots: 1}
	if at := strings.LastIndexByte(text, '*'); at >= 0 {
		if n, err := strconv.Atoi(text[at+1:]); err == nil {
			if n < 1 || n > maxSlots {
				return nil, fmt.Errorf("engine %q: %d is not from 1 to %d workers", text, n, maxSlots)
			}
			e.Text, e.Slots = text[:at], n
		}
	}
	name, rest, has := strings.Cut(e.Text, ":")
	e.rest = strings.TrimSpace(rest)
	for _, k := range kinds() {
		if k.name != name {
			continue
		}
		if wants := strings.Contains(k.form, ":"); wants != has || wants && e.rest == "" {
			return nil, fmt.Errorf("engine %q: want %s or %s*SLOTS", text, k.form, k.form)
		}
		if name != "exec" && (strings.HasPrefix(e.rest, "-") || strings.ContainsAny(e.rest, " \t")) { // ssh would read it as an option
			return nil, fmt.Errorf("engine %q: want %s", text, k.form)
		}
		e.kind = k
		return e, nil
	}
	return nil, fmt.Errorf("unknown engine %q (known: %s, each with *SLOTS)", text, strings.Join(EngineForms(), " "))
}

// ParseEngines reads a list of engines. here is the number of workers on this machine; away reports whether there are others.
func ParseEngines(texts []string) (engines []*Engine, here int, away bool, err error) {
	for _, text := range texts {
		e, err := ParseEngine(text)
		if err != nil {
			return nil, 0, false, err
		}
		engines = append(engines, e)
		if e.IsLocal() {
			here += e.Slots
		} else {
			away = true
		}
	}
	return engines, here, away, nil
}

// IsLocal reports whether the engine's workers run on this machine.
func (e *Engine) IsLocal() bool { return e.kind.name == "local" }

func startLocal(_ context.Context, _ *Engine, flags []string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(path, append([]string{"worker"}, flags...)...), nil
}

func startExec(_ context.Context, e *Engine, _ []string) (*exec.Cmd, error) {
	return exec.Command("sh", "-c", e.rest), nil
}

// pipes are the pipes of a started worker.
type pipes struct {
	*child.Command
	in    *os.File
	out   *os.File
	noise child.Noise
}

// open starts a worker. It ends when close is called, or with this process.
func (e *Engine) open(ctx context.Context, flags []string) (*pipes, error) {
	cmd, err := e.kind.start(ctx, e, flags)
	if err != nil {
		return nil, err
	}
	p := &pipes{}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, &p.noise
	p.Command, err = child.StartCommand(cmd)
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	p.in, p.out = in, out
	return p, nil
}

// close ends the worker and frees its pipes.
func (p *pipes) close() {
	p.Kill()
	p.in.Close()
	p.out.Close()
	<-p.Reaped()
}

// ended says how a worker ended whose output did, with its last output.
func (p *pipes) ended(err error) error {
	if errors.Is(err, io.EOF) {
		select {
		case <-p.Reaped():
			if err = p.Exit(); err == nil {
				err = errors.New("it ended by itself")
			}
		case <-time.After(time.Second):
			err = errors.New("it closed its output")
		}
	}
	if said := strings.TrimSpace(p.noise.String()); said != "" {
		return fmt.Errorf("%w: %s", err, said[strings.LastIndexByte(said, '\n')+1:])
	}
	return err
}

// startSSH first copies this program to the machine, unless it is there.
func startSSH(ctx context.Context, e *Engine, flags []string) (*exec.Cmd, error) {
	s := &remote.SSH{Host: e.rest}
	path, err := s.Push(ctx)
	if err != nil {
		return nil, err
	}
	return s.Command("exec " + path + " worker " + remote.Quote(flags...)), nil
}
