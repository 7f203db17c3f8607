// Package device opens PJRT plugins in child processes, so that a crash of a device or driver ends only the child.
//
// Rules:
//
//  1. [RunWorkerIfAsked] must be the first call of main and of TestMain: the child is this same program, started again.
//  2. A Device does one thing at a time; concurrent calls wait.
//  3. Every failure has a type that says whose fault it is: [OpenError], [KindError], [pjrt.CompileError], [RunError], [CrashError],
//     [TimeoutError]. After the last two the process and all its programs are gone: open another device.
//  4. The child has its parent's environment, as the device's owner set it up, with the compile options of a target added.
package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/child"
	"github.com/gdngen/gdngen/pjrt/internal/libtpu"
)

// Options says which device to open, and its time limits. Only Plugin is required.
type Options struct {
	Plugin  string           // path of the plugin's shared library
	Targets []*target.Target // a TPU must be of one of these generations; none: any known one
	Only    bool             // the device must be a TPU
	Start   time.Duration    // limit to open the plugin; default 2 min
	Compile time.Duration    // limit of one compile; default 10 min
	Limit   time.Duration    // of one run or timing; default 5 min
	Note    func(string)     // receives messages about slow operations; may be nil
	Emit    Emit             // required by Load and Run
}

// Emit writes a module as StableHLO for a device: with kernels for a TPU of the target, of plain ops if the target is nil.
// codegen/route.Text is an Emit.
type Emit func(*ir.Module, *target.Target) (string, error)

const (
	defaultStart   = 2 * time.Minute
	defaultCompile = 10 * time.Minute
	defaultLimit   = 5 * time.Minute
	slow           = 2 * time.Second // time after which an opening is reported
)

// Info describes an open device.
type Info struct {
	Platform string   `json:"platform"` // such as cpu or tpu
	Version  string   `json:"version"`  // of the plugin
	Kind     string   `json:"kind"`     // the vendor's name, such as "TPU v6 lite"
	Devices  []string `json:"devices"`  // all devices; the first is used
	// Attributes are the plugin's attributes of the first device; for a GPU, its compute capability.
	Attributes map[string]string `json:"attributes,omitempty"`
}

// TPU reports whether the device is a TPU, which can run kernels.
func (i Info) TPU() bool { return strings.Contains(strings.ToLower(i.Platform), "tpu") }

func (i Info) String() string {
	if i.Kind == i.Platform {
		return i.Kind
	}
	return fmt.Sprintf("%s (%s)", i.Kind, i.Platform)
}

// OpenError says why the plugin could not be opened.
type OpenError struct{ Plugin, Reason string }

func (e *OpenError) Error() string { return fmt.Sprintf("no device by %s: %s", e.Plugin, e.Reason) }

// RunError is an error from the runtime; the device can still be used.
type RunError struct{ Reason string }

func (e *RunError) Error() string { return "the device failed: " + e.Reason }

// CrashError says that the device's process died. Output is its output, the middle cut if long.
type CrashError struct{ Doing, Exit, Output string }

func (e *CrashError) Error() string {
	first, _, _ := strings.Cut(e.Output, "\n")
	return strings.TrimSuffix(fmt.Sprintf("the process of the device died %s (%s): %s", e.Doing, e.Exit, first), ": ")
}

// TimeoutError says that an operation exceeded its limit. The device's process was killed.
type TimeoutError struct {
	Doing string
	Limit time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the device was not done %s within %v", e.Doing, e.Limit)
}

// Timeout reports true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Device is an open device.
type Device struct {
	o       Options
	info    Info
	target  *target.Target // nil: not a TPU
	emit    Emit
	turn    chan struct{} // holds one token: the right to touch the fields below
	child   *child.Process
	noise   child.Noise
	scratch *aot.Scratch
	next    int   // number of the next program or array
	gone    error // why there is no process any more
}

// open starts a process that opens the plugin with the compile options of a target.
func open(ctx context.Context, o Options, t *target.Target) (*Device, error) {
	path, err := filepath.Abs(o.Plugin)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return nil, &OpenError{o.Plugin, err.Error()}
	}
	d := &Device{o: o, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	if d.scratch, err = aot.NewScratch(); err != nil {
		return nil, &OpenError{o.Plugin, err.Error()}
	}
	environment := append(Environment(t), workerVariable+"="+path)
	if libtpu.Is(path) {
		environment = append(environment, libtpu.Environment(ctx)...)
	}
	if d.child, err = child.Start(environment, &d.noise); err != nil {
		return nil, errors.Join(&OpenError{o.Plugin, err.Error()}, d.scratch.Close())
	}
	if o.Note != nil {
		defer time.AfterFunc(slow, func() { o.Note(fmt.Sprintf("opening %s, for %v at most", path, o.Start)) }).Stop()
	}
	var hello reply
	err = d.exchange(ctx, "while it opened "+path, o.Start, nil, &hello)
	if err == nil && hello.Fault != "" {
		err = &OpenError{o.Plugin, cmp.Or(libtpu.Busy(hello.Message), hello.Message)}
	}
	if died := (*CrashError)(nil); errors.As(err, &died) {
		if busy := libtpu.Busy(died.Output); busy != "" {
			err = &OpenError{o.Plugin, busy}
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.info = *hello.Info
	return d, nil
}

// Info returns the description of the device.
func (d *Device) Info() Info { return d.info }

// Close ends the process. Closing twice is allowed.
func (d *Device) Close() error {
	<-d.turn
	defer func() { d.turn <- struct{}{} }()
	if d.scratch == nil {
		return nil
	}
	d.child.Stop()
	err := d.scratch.Close()
	d.scratch = nil
	d.gone = cmp.Or(d.gone, errors.New("the device is closed"))
	return err
}

// exchange sends an order and waits for the reply. The caller must have the turn, or be the only user.
func (d *Device) exchange(ctx context.Context, doing string, limit time.Duration, o *order, r *reply) error {
	if d.gone != nil {
		return d.gone
	}
	var message any
	if o != nil {
		message = o
	}
	d.noise.Reset()
	err := d.child.Exchange(ctx, child.Limits{Time: limit}, message, r)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, child.ErrDied):
		err = &CrashError{Doing: doing, Exit: d.child.Obituary(), Output: d.noise.String()}
	case errors.Is(err, child.ErrLate):
		err = &TimeoutError{doing, limit}
	}
	d.gone = err
	return err
}

// ask takes the turn for one order.
func (d *Device) ask(ctx context.Context, doing string, o *order) (*reply, error) {
	var r reply
	limit := d.o.Limit
	if o.Compile != nil {
		limit = d.o.Compile
	}
	if err := d.exchange(ctx, doing, limit, o, &r); err != nil {
		return nil, err
	}
	switch r.Fault {
	case "":
		return &r, nil
	case faultCompile:
		return nil, &pjrt.CompileError{Code: r.Code, Message: r.Message}
	case faultArrays:
		return nil, fmt.Errorf("arrays between this process and the device's: %s", r.Message)
	}
	return nil, &RunError{r.Message}
}

// take waits for the turn.
func (d *Device) take(ctx context.Context) (free func(), err error) {
	select {
	case <-d.turn:
		return func() { d.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Program is a compiled program on a device.
type Program struct {
	device *Device
	id     int
}

// Compile compiles a StableHLO module in text form. A refusal by the compiler is a *pjrt.CompileError.
func (d *Device) Compile(ctx context.Context, text string) (*Program, error) {
	free, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	d.next++
	p := &Program{d, d.next}
	if _, err := d.ask(ctx, "in a compile", &order{Compile: &compileOrder{p.id, text}}); err != nil {
		return nil, err
	}
	return p, nil
}

// Close frees the program.
func (p *Program) Close() error {
	<-p.device.turn
	defer func() { p.device.turn <- struct{}{} }()
	if p.device.gone != nil {
		return nil
	}
	_, err := p.device.ask(context.Background(), "freeing a program", &order{Free: p.id})
	return err
}

// Run executes the program once, and returns its results.
func (p *Program) Run(ctx context.Context, args ...*array.Array) (results []*array.Array, err error) {
	err = p.device.with(ctx, args, func(sent []saved) error {
		r, err := p.device.ask(ctx, "in a run", &order{Run: &runOrder{p.id, sent, p.device.file()}})
		if err != nil {
			return err
		}
		defer remove(r.Results)
		results, err = read(r.Results)
		return err
	})
	return results, err
}

// with takes the turn and calls do with the arguments saved where the worker reads them.
func (d *Device) with(ctx context.Context, args []*array.Array, do func(sent []saved) error) error {
	free, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer free()
	if d.gone != nil {
		return d.gone
	}
	sent, err := save(d.file(), args)
	if err != nil {
		return err
	}
	defer remove(sent)
	return do(sent)
}

// file returns the prefix of new file names.
func (d *Device) file() string {
	d.next++
	return filepath.Join(d.scratch.Dir, fmt.Sprintf("%d-", d.next))
}

// Pairs times two programs on the same arguments alternately, so that disturbances affect both; see [pjrt.Interleave].
func (d *Device) Pairs(ctx context.Context, o pjrt.TimeOptions, a, b *Program, args ...*array.Array) (pairs [][2]time.Duration, err error) {
	err = d.with(ctx, args, func(sent []saved) error {
		r, err := d.ask(ctx, "while it was timed", &order{Pairs: &pairsOrder{[2]int{a.id, b.id}, sent, o.Warmup, o.Trials}})
		if err != nil {
			return err
		}
		for _, p := range r.Pairs {
			pairs = append(pairs, [2]time.Duration{time.Duration(p[0]), time.Duration(p[1])})
		}
		return nil
	})
	return pairs, err
}

// Piece is a program of a step, with its arguments.
type Piece struct {
	Program *Program
	Times   int // executions in a step
	Args    []*array.Array
}

// Profile runs steps of pieces, one piece after another, and profiles some of the steps. If the plugin has no profiler, the times are
// returned with a *pjrt.NoProfilerError.
func (d *Device) Profile(ctx context.Context, o pjrt.ProfileOptions, pieces ...Piece) (x *pjrt.Profile, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var args []*array.Array
	for _, p := range pieces {
		args = append(args, p.Args...)
	}
	err = d.with(ctx, args, func(sent []saved) error {
		p := &profileOrder{Options: o, Space: d.file() + "space"}
		defer os.Remove(p.Space)
		for _, piece := range pieces {
			n := len(piece.Args)
			p.Pieces = append(p.Pieces, pieceOrder{piece.Program.id, piece.Times, sent[:n]})
			sent = sent[n:]
		}
		r, err := d.ask(ctx, "while it was profiled", &order{Profile: p})
		if err != nil {
			return err
		}
		x = &pjrt.Profile{}
		for _, step := range r.Steps {
			took := make([]time.Duration, len(step))
			for i, t := range step {
				took[i] = time.Duration(t)
			}
			x.Steps = append(x.Steps, took)
		}
		if r.Absent != "" {
			return &pjrt.NoProfilerError{Reason: r.Absent}
		}
		x.Space, err = os.ReadFile(p.Space)
		return err
	})
	return x, err
}
