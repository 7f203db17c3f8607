package measure

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Compiler compiles for a TPU that is absent; *aot.Compiler is one.
type Compiler interface {
	Compile(context.Context, aot.Request) (*aot.Result, error)
}

// Instrument measures programs.
type Instrument struct {
	Compiler Compiler
	Libtpu   string // identity of the compiler's build
	PTXAS    string // path of ptxas, for programs with PTX inside; empty: such programs are refused
	Cache    *Cache // nil: no cache
	Scratch  string // folder for schedules; empty: the system's
	// Note receives messages about progress; may be nil.
	Note func(format string, args ...any)
}

// Options configure a measurement. The zero value is the default.
type Options struct {
	Scalars map[string][]int64 // values of tables, instead of the program's
	Columns int                // most columns in the picture of a schedule; 0: no pictures
	Dump    string             // keep the schedule in a fresh folder below this one
	Plain   bool               // compile without the options of the target (Target.Flags), like a plain jit
}

// Compiled is the compiler's result for a program, with the cost of its schedule.
type Compiled struct {
	Result aot.Result  `json:"result"`
	Report *llo.Report `json:"report,omitempty"` // nil if the cost model can not read the schedule
	Dump   string      `json:"-"`                // folder of the schedule, if Options.Dump asks for one
	Kept   bool        `json:"-"`                // from the cache: nothing was compiled

	Unknown string   `json:"unknown,omitempty"` // why there is no report
	Unread  []string `json:"unread,omitempty"`  // keys of Options.Scalars that no kernel reads
}

// kept is an entry of the cache: a compile's result, or a refusal that the compiler would repeat.
type kept struct {
	*Compiled
	Reject *aot.RejectError `json:"reject,omitempty"`
	VMEM   *aot.VMEMError   `json:"vmem,omitempty"`
}

// Static returns the static cost of a program on a target. A program without one is a *Refusal.
func (x *Instrument) Static(ctx context.Context, p *Program, t *target.Target, o Options) (*Compiled, error) {
	c, err := x.Compile(ctx, p, t, o)
	if err == nil && c.Report == nil {
		err = &Refusal{Verdict: CostUnknown, Err: errors.New(c.Unknown)}
	}
	return c, err
}

// Compile compiles a program for a target and reads its schedule. If the cost model does not understand the schedule,
// Report is nil and there is no error. Stored schedules are read from their folder.
func (x *Instrument) Compile(ctx context.Context, p *Program, t *target.Target, o Options) (*Compiled, error) {
	if p.IsStored() {
		return p.readStored(t, o)
	}
	text, err := p.Text(t)
	if err != nil {
		return nil, err
	}
	var tables error
	if o.Scalars == nil {
		o.Scalars, tables = p.Scalars, p.tables
	}
	from := []string{"static", x.Libtpu, llo.Version(), t.CostFacts(), fmt.Sprint(o.Scalars), fmt.Sprint(o.Columns), text}
	if o.Plain && len(t.Flags) > 0 {
		from = append(from, "plain")
	}
	var k kept
	if o.Dump == "" && x.Cache.get(&k, from...) {
		switch {
		case k.Reject != nil:
			return nil, ofCompiler(k.Reject)
		case k.VMEM != nil:
			return nil, ofCompiler(k.VMEM)
		case k.Compiled != nil:
			x.note("%s: measured before, taken from the cache", t.Name)
			k.Kept = true
			k.restore()
			return k.Compiled, nil
		}
	}
	c, err := x.compile(ctx, text, t, o)
	if err == nil && o.Dump != "" {
		err = x.writeOrigin(p, t, o, text, c.Dump)
	}
	if err == nil && c.Report == nil && tables != nil {
		c.Unknown += "; " + tables.Error()
	}
	k = kept{Compiled: c}
	if errors.As(err, &k.Reject) || errors.As(err, &k.VMEM) || err == nil {
		if err := x.Cache.put(k, from...); err != nil {
			return nil, err
		}
	}
	return c, ofCompiler(err)
}

// Facts returns a hash of the target's facts in the cost model.
func Facts(t *target.Target) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(t.CostFacts())))[:8]
}

// compile runs the compiler.
func (x *Instrument) compile(ctx context.Context, text string, t *target.Target, o Options) (*Compiled, error) {
	dir, done, err := x.dumpFolder(o.Dump, t.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	flags := t.Flags
	if o.Plain {
		flags = nil
	}
	stop := x.waiting(t.Name, len(text))
	r, err := x.Compiler.Compile(ctx, aot.Request{Topology: t.Topology, Module: text, DumpDir: dir, Flags: flags, DropUnknown: true})
	stop(err == nil)
	if err != nil {
		return nil, err
	}
	c := &Compiled{Result: *r}
	if o.Dump != "" {
		c.Dump = dir
	}
	var cost *llo.Report
	err = guard("reading the schedule", func() (err error) {
		cost, err = llo.Options{Scalars: o.Scalars, Kernels: kernelNames(text), Columns: o.Columns}.Analyze(dir, t)
		return err
	})
	switch {
	case errors.Is(err, llo.ErrNoSchedule):
		return nil, &aot.InfraError{Op: "dump the schedule", Err: err}
	case is[*Refusal](err):
		return nil, err
	case err != nil:
		c.Unknown = err.Error()
	default:
		c.Report, c.Unread = cost, cost.Unread
	}
	return c, nil
}

// restore recomputes the fields that the JSON of a report leaves out.
func (c *Compiled) restore() {
	if c.Report != nil {
		c.Report.Unread = c.Unread
	}
}

// dumpFolder makes a fresh folder for a schedule. done removes it, unless it is below a folder that the user chose.
func (x *Instrument) dumpFolder(below, target string) (dir string, done func(), err error) {
	if below == "" {
		dir, err = os.MkdirTemp(x.Scratch, "gdngen-dump-")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	if err := os.MkdirAll(below, 0o755); err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp(below, target+"-")
	return dir, func() {}, err
}

// often is the time between two notes during a long compile.
const often = 15 * time.Second

// waiting sends notes while a program of so many bytes is compiled. stop ends them, and records how long it took if it was compiled.
func (x *Instrument) waiting(target string, size int) (stop func(compiled bool)) {
	if x.Note == nil {
		return func(bool) {}
	}
	times := x.Cache.times(target)
	x.note("%s: compiling with schedules, by %s; %s", target, x.Libtpu, expected(times, size))
	begin, tick, done := time.Now(), time.NewTicker(often), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-tick.C:
				x.note("%s: still compiling (%.0f s)", target, time.Since(begin).Seconds())
			case <-done:
				return
			}
		}
	}()
	return func(compiled bool) {
		tick.Stop()
		close(done)
		<-ended
		if !compiled {
			return
		}
		x.Cache.tookSo(target, append(times, took{size, time.Since(begin).Seconds()}))
	}
}

func (x *Instrument) note(format string, args ...any) {
	if x.Note != nil {
		x.Note(format, args...)
	}
}
