// Package aot compiles StableHLO modules for a TPU or GPU that is not attached. It calls PJRT_TopologyDescription_Create and
// PJRT_Compile of libtpu.so or of a CUDA plugin, through purego without cgo.
//
// A plugin ends its process on some programs instead of returning an error, so it is never loaded into the caller. A [Compiler] keeps
// one child process with the plugin, and sends it one request at a time. If the child died, was stopped, or was recycled, it starts
// another. The rules:
//
//  1. [RunWorkerIfAsked] must be the first call of main and of TestMain: the child is this same program, started again.
//  2. One Compiler runs one compile at a time; concurrent calls wait for their turn. For parallel compiles use
//     several Compilers (about 200 MB each).
//  3. The child's environment is fixed, without the caller's TPU or XLA settings, so a result depends only on the request and the plugin.
//  4. Every failure has a type that says whose fault it is: see [RejectError], [VMEMError], [CrashError], [MemoryError], [TimeoutError],
//     [RequestError] and [InfraError]. A worker killed from outside is an InfraError.
package aot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gdngen/gdngen/pjrt/child"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Options configure a Compiler. Either Libtpu is required, or CUDA and Toolkit.
type Options struct {
	Libtpu        string        // path of libtpu.so
	CUDA, Toolkit string        // for GPUs, instead of Libtpu: paths of the CUDA plugin, and of a folder with bin/ptxas and nvvm/libdevice
	Timeout       time.Duration // limit of one request, not counting a child's start; default 60 s
	RecycleAfter  int           // compiles per child before it is replaced; default 300
	MemoryLimit   int64         // resident bytes above which a child is replaced; 0: no limit
	MemoryMax     int64         // resident bytes at which a child is killed during a request; 0: no limit
	ExtraInitArgs string        // more flags for LIBTPU_INIT_ARGS, or for XLA_FLAGS, separated by spaces
	Sound         func() error  // called after a crash: an error means that the library is damaged, so the module is not to blame; may be nil
	Machine       *machine.Lock // held, shared, during a compile, unless the context holds it already; nil: none
}

const (
	defaultTimeout = 60 * time.Second
	defaultRecycle = 300
	startLimit     = 2 * time.Minute // to load libtpu, possibly from a cold and slow disk

	// killedFromOutside is the exit of a worker that neither libtpu nor its parent killed.
	killedFromOutside = "signal: killed"
)

// Request is one compile.
type Request struct {
	Topology string // such as "v6e:2x2", a target's size or larger; for a GPU its name, such as "h100"
	Module   string // StableHLO text whose entry point is @main
	// DumpDir receives the schedule dump. It is created if needed, and should be empty, since dumps of several requests can not be told
	// apart. "": no dump is kept. After an error it may hold part of a dump.
	DumpDir string
	// Flags override XLA and libtpu flags for this compile, such as xla_tpu_scoped_vmem_limit_kib: "32768".
	Flags map[string]string
	// DropUnknown omits flags that this libtpu lacks; Result.Dropped names them.
	DropUnknown bool
	// Passes is a regular expression of LLO passes to dump, besides final_bundles, final_hlo-static and vmem_report. libtpu reads it
	// once, so a request with other passes than the last one starts a new child.
	Passes  string
	WantHLO bool          // fill Result.OptimizedHLO
	Timeout time.Duration // limit of this request; 0: the compiler's
}

// MemoryStats is device memory (HBM) in bytes, as the plugin reports it for the executable.
type MemoryStats struct {
	Code, Arguments, Outputs, Alias, Temp, Peak, Total int64
}

// Result describes a compiled executable.
type Result struct {
	CodeBytes    int64              // size of the generated code
	Memory       MemoryStats        //
	Fingerprint  string             // hexadecimal; equal for equal module, flags, topology and libtpu; "" for a GPU
	Cost         map[string]float64 // XLA's cost analysis, without custom calls; empty for a CUDA plugin
	OptimizedHLO string             // HLO text after optimisation, if requested
	Dropped      []string           // flags that this libtpu lacks, omitted from the compile
	Elapsed      time.Duration      // in the child: compile, queries and dump
}

// Compiler compiles for TPUs or GPUs that are not attached. Its methods may be called concurrently.
type Compiler struct {
	opts    Options
	machine *platform
	turn    chan struct{} // holds one token: the right to touch the fields below
	child   *worker
	pid     atomic.Int64 // of the child; 0: none
	temp    *Scratch
	tmp     string          // private, in temp: the dump link, and a directory for dumps that are not kept
	closing context.Context // done when Close has begun
	close   context.CancelFunc
}

// New returns a Compiler. The child starts with the first request.
func New(o Options) *Compiler {
	o.Timeout = cmp.Or(max(o.Timeout, 0), defaultTimeout)
	o.RecycleAfter = cmp.Or(max(o.RecycleAfter, 0), defaultRecycle)
	c := &Compiler{opts: o, machine: platformOf(o), turn: make(chan struct{}, 1)}
	c.closing, c.close = context.WithCancel(context.Background())
	c.turn <- struct{}{}
	return c
}

// Compile compiles one module. If ctx ends, it stops the child and returns an error that wraps ctx.Err(); all other errors have a type
// of this package.
func (c *Compiler) Compile(ctx context.Context, r Request) (*Result, error) {
	if err := r.validate(c.machine); err != nil {
		return nil, err
	}
	return c.compile(ctx, r)
}

// compile is Compile without validation.
func (c *Compiler) compile(ctx context.Context, r Request) (*Result, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	defer func() { c.turn <- struct{}{} }()
	ctx, free, err := c.opts.Machine.Compute(ctx)
	if ctx.Err() != nil {
		err = stopped(ctx)
	} else if err != nil {
		err = &InfraError{Op: "share the machine", Err: err}
	}
	if err != nil {
		return nil, err
	}
	defer free()
	var dropped []string
	for {
		if err := c.ready(ctx, r.Passes); err != nil {
			return nil, err
		}
		first := c.child.served == 0
		res, err := c.ask(ctx, r)
		if name := unknownFlag(err); r.DropUnknown && r.Flags[name] != "" {
			r.Flags = maps.Clone(r.Flags)
			delete(r.Flags, name)
			dropped = append(dropped, name)
			continue
		}
		if res != nil {
			res.Dropped = dropped
		}
		// Earlier requests may have caused a used child's crash: only a fresh child's crash is blamed on this request.
		if crash := (*CrashError)(nil); errors.As(err, &crash) && !first {
			continue
		}
		if crash := (*CrashError)(nil); errors.As(err, &crash) {
			err = cmp.Or(c.damaged(), err)
		}
		return res, err
	}
}

// damaged returns an error if, after a crash, the library turns out to be damaged, so that the module is not to blame.
func (c *Compiler) damaged() error {
	if c.opts.Sound == nil {
		return nil
	}
	if err := c.opts.Sound(); err != nil {
		return &InfraError{Op: "compile", Err: err}
	}
	return nil
}

// take waits for the turn.
func (c *Compiler) take(ctx context.Context) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return stopped(ctx)
	}
	select {
	case <-c.closing.Done():
		c.turn <- struct{}{}
		return errClosed()
	default:
		return nil
	}
}

// ready makes c.child a live child that dumps the given extra passes.
func (c *Compiler) ready(ctx context.Context, passes string) error {
	if err := c.makeTemp(); err != nil {
		return err
	}
	if c.child != nil && c.child.Alive() && c.child.passes == passes && c.child.served < c.opts.RecycleAfter &&
		(c.opts.MemoryLimit <= 0 || c.child.rss <= c.opts.MemoryLimit) {
		return nil
	}
	c.drop()
	lib, err := filepath.Abs(c.machine.path)
	if err == nil {
		_, err = os.Stat(lib)
	}
	if c.machine.path == "" || err != nil {
		return &InfraError{Op: "find " + c.machine.plugin, Err: fmt.Errorf("%q is not a readable %s: %w", c.machine.path, c.machine.library,
			cmp.Or(err, os.ErrNotExist))}
	}
	ch, err := startWorker(lib, c.machine.environment(c.link(), passes, c.opts.ExtraInitArgs))
	if err != nil {
		return &InfraError{Op: "start the compile worker", Err: err}
	}
	ch.passes = passes
	c.child = ch
	c.pid.Store(int64(ch.Pid()))
	var hello reply
	switch err := c.exchange(ctx, ch, child.Limits{Time: startLimit}, nil, &hello); {
	case err == child.ErrDied:
		exit, noise := ch.Obituary(), ch.words()
		c.drop()
		if damaged := c.damaged(); damaged != nil {
			return damaged
		}
		return &InfraError{Op: "start the compile worker", Err: fmt.Errorf(
			"it ended (%s) while loading %s: is that file whole, and does main call aot.RunWorkerIfAsked first? stderr: %s", exit, lib, noise)}
	case err == child.ErrLate:
		c.drop()
		return &InfraError{Op: "start the compile worker", Err: fmt.Errorf("not ready after %v", startLimit)}
	case err != nil:
		c.drop()
		return err
	case hello.Stage != "":
		c.drop()
		return &InfraError{Op: "load " + c.machine.plugin, Err: &LoadError{hello.Msg + "; name another " + c.machine.library}}
	}
	return nil
}

// ask sends one request to the ready child, and returns the judged reply.
func (c *Compiler) ask(ctx context.Context, r Request) (*Result, error) {
	dir := c.scratch()
	if r.DumpDir != "" {
		abs, err := filepath.Abs(r.DumpDir)
		if err == nil {
			err = os.MkdirAll(abs, 0o755)
		}
		if err != nil {
			return nil, &InfraError{Op: "create the dump directory", Err: err}
		}
		dir = abs
	} else {
		defer clearDir(dir)
	}
	if err := pointLink(c.link(), dir); err != nil {
		return nil, &InfraError{Op: "point the dump link at " + dir, Err: err}
	}
	var a reply
	limit := cmp.Or(max(r.Timeout, 0), c.opts.Timeout)
	err := c.exchange(ctx, c.child, child.Limits{Time: limit, Memory: c.opts.MemoryMax},
		c.machine.order(r, dir), &a)
	switch {
	case err == child.ErrDied:
		exit, noise := c.child.Obituary(), c.child.words()
		c.drop()
		if why := diskTrouble(noise); why != "" {
			return nil, &InfraError{Op: "write the dump to " + dir, Err: errors.New(why)}
		}
		if exit == killedFromOutside {
			return nil, &InfraError{Op: "compile", Err: errors.New("the worker was killed from outside: is the machine out of memory?")}
		}
		return nil, &CrashError{Exit: exit, Stderr: noise}
	case err == child.ErrLarge:
		c.drop()
		return nil, &MemoryError{Limit: c.opts.MemoryMax}
	case err == child.ErrLate:
		c.drop()
		return nil, &TimeoutError{Limit: limit}
	case err != nil:
		c.drop()
		return nil, err
	}
	c.child.served++
	c.child.rss = a.RSS
	if a.Result != nil && c.machine.vague {
		a.Result.Fingerprint = ""
	}
	return a.judge()
}

// drop stops and reaps the child, if there is one.
func (c *Compiler) drop() {
	if c.child != nil {
		c.pid.Store(0)
		c.child.Stop()
		c.child = nil
	}
}

// Close stops a running compile, reaps the child and removes temporary files. Later compiles return an error.
func (c *Compiler) Close() error {
	c.close()
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	c.drop()
	if c.tmp == "" {
		return nil
	}
	err := c.temp.Close()
	c.tmp = ""
	if err != nil {
		return &InfraError{Op: "remove temporary files", Err: err}
	}
	return nil
}

func (c *Compiler) link() string    { return filepath.Join(c.tmp, "dump") }
func (c *Compiler) scratch() string { return filepath.Join(c.tmp, "scratch") }

func (c *Compiler) makeTemp() error {
	if c.tmp != "" {
		return nil
	}
	temp, err := NewScratch()
	dir := ""
	if err == nil {
		c.temp, c.tmp, dir = temp, temp.Dir, temp.Dir
		err = os.Mkdir(c.scratch(), 0o755)
	}
	if err != nil {
		return &InfraError{Op: "create a temporary directory", Err: err}
	}
	if strings.ContainsAny(dir, " \t\n") {
		return &InfraError{Op: "create a temporary directory",
			Err: fmt.Errorf("%s can not take a path with spaces: %q; set TMPDIR to one without", c.machine.plugin, dir)}
	}
	return nil
}

func stopped(ctx context.Context) error { return fmt.Errorf("aot: compile stopped: %w", ctx.Err()) }
func errClosed() error                  { return &InfraError{Op: "compile", Err: errors.New("the compiler is closed")} }

// CPU returns the processor time of the current child so far. The caller's own accounts include earlier children, which it has reaped.
func (c *Compiler) CPU() time.Duration {
	if pid := c.pid.Load(); pid > 0 {
		return cpuOf(pid)
	}
	return 0
}
