package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/store"
)

// Hold reserves a TPU machine of a cloud for a while, by gcloud's queued resources.
type Hold struct {
	Name     string
	Type     string   // such as v6e-8
	Version  string   // of the machine's software; empty: the usual one for the type
	Zones    []string // tried in turn
	Project  string
	Spot     bool
	Reserved bool          // from the project's reservation
	Attempts int           // in each zone
	Ready    time.Duration // time limit of one attempt
	Sleep    time.Duration // pause between attempts
	Every    time.Duration // interval between checks; 0: holdEvery
	Max      time.Duration // time after which the machine is released; 0: no limit
	Leases   string        // folder of leases
	Note     func(string)
}

const holdEvery = 10 * time.Second

// Lease records a machine that costs money.
type Lease struct {
	Name    string    `json:"name"`
	Zone    string    `json:"zone"`
	Project string    `json:"project,omitempty"`
	Type    string    `json:"type"`
	PID     int       `json:"pid"` // of the holder
	Start   time.Time `json:"start"`
	Until   time.Time `json:"until,omitzero"`
}

// Place returns the text of the place for other commands.
func (l *Lease) Place() string {
	text := "tpu:" + l.Name + "?zone=" + l.Zone
	if l.Project != "" {
		text += "&project=" + l.Project
	}
	return text
}

// NoMachineError says why no attempt gave a machine.
type NoMachineError struct{ Why []string }

func (e *NoMachineError) Error() string {
	return "no machine could be had: " + strings.Join(e.Why, "; ")
}

// LeasesDir is the folder of leases, in the user's configuration.
func LeasesDir() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "gdngen", "holds"), err
}

// Leases returns the leases of held machines, by name.
func Leases(dir string) (l []*Lease, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		x := new(Lease)
		if err == nil {
			err = json.Unmarshal(text, x)
		}
		if err != nil {
			return l, fmt.Errorf("lease %s: %w", name, err)
		}
		l = append(l, x)
	}
	return l, err
}

// leaseOf returns the lease of a machine by its name.
func leaseOf(name string) (*Lease, error) {
	dir, err := LeasesDir()
	if err != nil {
		return nil, err
	}
	l, err := Leases(dir)
	if err != nil {
		return nil, err
	}
	for _, x := range l {
		if x.Name == name {
			return x, nil
		}
	}
	return nil, badPlace("place tpu:%s: no machine of this name is held here: want tpu:NAME?zone=Z[&project=P], or gdngen remote hold %[1]s", name)
}

func leaseFile(dir, name string) string { return filepath.Join(dir, name+".json") }

// Check returns what is wrong with a hold, or nil, and fills in the software's version.
func (h *Hold) Check() error {
	generation, _, _ := strings.Cut(h.Type, "-")
	h.Version = cmp.Or(h.Version, runtimes[generation])
	if !cloudName.MatchString(h.Name) {
		return badPlace("name %q: want lower-case letters, digits and dashes", h.Name)
	}
	if h.Type == "" || len(h.Zones) == 0 {
		return badPlace("a hold needs --type and --zone")
	}
	if h.Version == "" {
		return badPlace("type %q: which software its machines want is not known: give it by --runtime, as gcloud names it (known: %s)",
			h.Type, strings.Join(slices.Sorted(maps.Keys(runtimes)), ", "))
	}
	if h.Spot && h.Reserved {
		return badPlace("a machine is either --spot or --reserved")
	}
	for _, z := range h.Zones {
		if !cloudName.MatchString(z) {
			return badPlace("%q is no zone", z)
		}
	}
	return nil
}

// runtimes lists the software version by TPU generation (https://cloud.google.com/tpu/docs/runtimes).
var runtimes = map[string]string{
	"v2": "tpu-ubuntu2204-base", "v3": "tpu-ubuntu2204-base", "v4": "tpu-ubuntu2204-base",
	"v5litepod": "v2-alpha-tpuv5-lite", "v5p": "v2-alpha-tpuv5", "v6e": "v2-alpha-tpuv6e",
}

// Commands returns the gcloud calls that request the machine in a zone, show its state, and delete it.
func (h *Hold) Commands(zone string) (create, describe, remove []string) {
	call := func(verb string, words ...string) []string {
		l := append([]string{gcloud(), "compute", "tpus", "queued-resources", verb, h.Name + "-gdngen", "--zone", zone}, words...)
		if h.Project != "" {
			l = append(l, "--project", h.Project)
		}
		return l
	}
	words := []string{"--node-id", h.Name, "--accelerator-type", h.Type, "--runtime-version", h.Version, "--valid-until-duration", fmt.Sprintf("%ds", int(h.Ready.Seconds())), "--quiet"}
	if h.Spot {
		words = append(words, "--spot")
	}
	if h.Reserved {
		words = append(words, "--reserved")
	}
	return call("create", words...), call("describe", "--format=json"), call("delete", "--force", "--quiet")
}

// Calls returns all gcloud calls for the zones, in the order in which they are tried.
func (h *Hold) Calls() (calls []string) {
	for _, zone := range h.Zones {
		create, describe, remove := h.Commands(zone)
		for _, words := range [][]string{create, describe, remove} {
			calls = append(calls, strings.Join(words, " "))
		}
	}
	return calls
}

// run runs one call.
func run(ctx context.Context, words []string) ([]byte, error) {
	var noise bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stderr = &noise
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(words[3:6], " "), err, strings.TrimSpace(noise.String()))
	}
	return out, err
}

// state asks gcloud for the state of the resource.
func (h *Hold) state(ctx context.Context, zone string) (string, error) {
	_, describe, _ := h.Commands(zone)
	out, err := run(ctx, describe)
	if err != nil {
		return "", err
	}
	var answer struct {
		State struct {
			State string `json:"state"`
		} `json:"state"`
	}
	if err := json.Unmarshal(out, &answer); err != nil || answer.State.State == "" {
		return "", fmt.Errorf("gcloud describes the resource as %.100q, which has no state", out)
	}
	return answer.State.State, nil
}

// Acquire takes a machine in the first zone that gives one, waits until it answers, and writes its lease. The error is a *NoMachineError if none does.
func (h *Hold) Acquire(ctx context.Context) (*Lease, error) {
	var why []string
	for _, zone := range h.Zones {
		for attempt := 1; attempt <= max(h.Attempts, 1); attempt++ {
			l, err := h.attempt(ctx, zone)
			if err == nil {
				return l, nil
			}
			bad := h.remove(zone)
			if ctx.Err() != nil {
				return nil, errors.Join(context.Cause(ctx), bad)
			}
			err = errors.Join(err, bad)
			why = append(why, fmt.Sprintf("%s, attempt %d: %v", zone, attempt, err))
			h.note(why[len(why)-1])
			select {
			case <-time.After(h.Sleep):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	return nil, &NoMachineError{why}
}

func (h *Hold) note(text string) {
	if h.Note != nil {
		h.Note(text)
	}
}

// attempt tries one zone. It writes the lease first, so that a machine that may cost money is always recorded.
func (h *Hold) attempt(ctx context.Context, zone string) (*Lease, error) {
	l := &Lease{Name: h.Name, Zone: zone, Project: h.Project, Type: h.Type, PID: os.Getpid(), Start: time.Now().UTC()}
	if h.Max > 0 {
		l.Until = l.Start.Add(h.Max)
	}
	text, err := json.MarshalIndent(l, "", " ")
	if err == nil {
		err = os.MkdirAll(h.Leases, 0o700)
	}
	if err == nil {
		err = store.WriteFile(leaseFile(h.Leases, h.Name), append(text, '\n'))
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.Ready, fmt.Errorf("not ready within %v", h.Ready))
	defer cancel()
	create, _, _ := h.Commands(zone)
	if _, err := run(ctx, create); ctx.Err() != nil { // the command was killed, so its error is not gcloud's
		return nil, context.Cause(ctx)
	} else if err != nil {
		return nil, err
	}
	machine, _, err := Parse(l.Place())
	if err != nil {
		return nil, err
	}
	for {
		state, err := h.state(ctx, zone)
		switch {
		case err == nil && slices.Contains([]string{"FAILED", "SUSPENDING", "SUSPENDED"}, state):
			return nil, fmt.Errorf("the resource is %s", state)
		case err == nil && state == "ACTIVE":
			if _, err := machine.(*machinePlace).ssh.Run(ctx, "true", nil); err == nil {
				return l, nil
			}
		}
		select {
		case <-time.After(h.every()):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (h *Hold) every() time.Duration {
	if h.Every > 0 {
		return h.Every
	}
	return holdEvery
}

// removeWithin is the time limit of a deletion, which also runs after an interrupt.
const removeWithin = 5 * time.Minute

// remove deletes the machine and its lease. If the deletion fails the lease stays.
func (h *Hold) remove(zone string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeWithin)
	defer cancel()
	_, _, remove := h.Commands(zone)
	if _, err := run(ctx, remove); err != nil && !strings.Contains(err.Error(), "NOT_FOUND") {
		return err
	}
	err := os.Remove(leaseFile(h.Leases, h.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Keep holds a machine until ctx ends or its time is over, replaces it if it is lost, and releases it at the end.
// tell is called at each change. The error is a *NoMachineError where none was
// available in that time.
func (h *Hold) Keep(ctx context.Context, tell func(*Lease)) error {
	if h.Max > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.Max, &NoMachineError{[]string{fmt.Sprintf("none was ready within the %v of the hold", h.Max)}})
		defer cancel()
	}
	for {
		l, err := h.Acquire(ctx)
		if err != nil {
			return err
		}
		tell(l)
		for lost := false; !lost; {
			select {
			case <-time.After(h.every()):
			case <-ctx.Done():
				return h.remove(l.Zone)
			}
			if _, err := os.Stat(leaseFile(h.Leases, h.Name)); errors.Is(err, fs.ErrNotExist) {
				return nil // another command released it
			}
			state, err := h.state(ctx, l.Zone)
			lost = err == nil && state != "ACTIVE"
			if lost {
				h.note(fmt.Sprintf("%s in %s was lost: it is %s", h.Name, l.Zone, state))
			}
		}
		if err := h.remove(l.Zone); err != nil {
			return err
		}
	}
}

// Run holds a machine while a command runs there or here. start makes the command for the first lease; if it returns
// nil, Run holds until ctx ends. The error is the command's.
func (h *Hold) Run(ctx context.Context, start func(context.Context, *Lease) *exec.Cmd) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ended chan error
	err := h.Keep(ctx, func(l *Lease) {
		cmd := start(ctx, l)
		if cmd == nil || ended != nil {
			return
		}
		ended = make(chan error, 1)
		go func() {
			ended <- cmd.Run()
			cancel()
		}()
	})
	if err != nil || ended == nil {
		return err
	}
	return <-ended
}

// Release releases the machine of a lease.
func Release(dir string, l *Lease) error {
	h := &Hold{Name: l.Name, Project: l.Project, Leases: dir}
	return h.remove(l.Zone)
}
