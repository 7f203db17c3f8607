package judge

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// LabOptions configure a Lab. The zero value is the default.
type LabOptions struct {
	Workers  int             // compile workers, about 200 MB each; 0: one per core, at most 2
	Timeout  time.Duration   // of one compile; 0: adapts to measured compile times, at most compileMost
	Memory   int64           // limit of a compile worker in bytes; 0: compileMemory
	CPU, TPU plugins.Options // where to find the plugins
	Cache    *measure.Cache  // of static costs; nil: none
	Exams    string          // folder that caches references of accuracy tests; empty: none
	Build    string          // identity of the generator: references by another are not used
	Device   string          // a PJRT plugin whose device times the best candidates, or "cpu"; empty: none
}

// Lab is the evaluator of real candidates: the interpreter, a CPU through PJRT if there is one, and compile workers.
type Lab struct {
	cases     exam.Cache
	closeCPU  func() error
	cpu       *pjrt.Engine
	noCPU     string // why there is none
	compilers chan *aot.Compiler
	all       []*aot.Compiler
	plugins   map[string]string
	scratch   *aot.Scratch // for dumps
	limits    timeLimits
	cache     *measure.Cache

	device *attached // nil: none
}

// NewLab obtains the plugins. Without libtpu there is no cost, so a missing libtpu is an error; without a plugin for
// the CPU only the interpreter tests numbers. The process must begin with aot.RunWorkerIfAsked, and with
// device.RunWorkerIfAsked if a device is attached.
func NewLab(ctx context.Context, o LabOptions) (*Lab, error) {
	tpu, err := plugins.TPU(ctx, o.TPU)
	if err != nil {
		return nil, err
	}
	l := &Lab{plugins: map[string]string{}, cache: o.Cache}
	l.cases.Dir, l.cases.Build = o.Exams, o.Build
	if l.plugins["libtpu"], err = tpu.Identity(); err != nil {
		return nil, err
	}
	if err := l.openCPU(ctx, o.CPU); err != nil {
		return nil, err
	}
	if err := l.openDevice(ctx, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if l.scratch, err = aot.NewScratch(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.limits.fixed = o.Timeout
	workers := cmp.Or(max(o.Workers, 0), min(2, runtime.NumCPU()))
	l.compilers = make(chan *aot.Compiler, workers)
	for range workers {
		c := aot.New(aot.Options{Libtpu: tpu.Path, Timeout: compileMost, Sound: tpu.Damaged, MemoryMax: cmp.Or(max(o.Memory, 0), compileMemory)})
		l.all = append(l.all, c)
		l.compilers <- c
	}
	return l, nil
}

// openCPU opens the CPU engine, or says in noCPU why there is none.
func (l *Lab) openCPU(ctx context.Context, o plugins.Options) error {
	p, err := plugins.CPU(ctx, o)
	if err == nil {
		if l.plugins["cpu"], err = p.Identity(); err == nil {
			l.cpu, l.closeCPU, err = p.Open(ctx)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		l.noCPU = err.Error()
		l.plugins["cpu"] = "none"
	}
	return nil
}

// DeviceError says why the device for timing candidates can not be used.
type DeviceError struct{ Err error }

func (e *DeviceError) Error() string { return "the device can not be opened: " + e.Err.Error() }
func (e *DeviceError) Unwrap() error { return e.Err }

// openDevice opens the device that times candidates, in a process of its own.
func (l *Lab) openDevice(ctx context.Context, o LabOptions) error {
	plugin := o.Device
	switch plugin {
	case "":
		return nil
	case "cpu":
		p, err := plugins.CPU(ctx, o.CPU)
		if err != nil {
			return &DeviceError{err}
		}
		plugin = p.Path
	}
	var err error
	if l.device, err = openAttached(ctx, device.Options{Plugin: plugin, Emit: route.Text}); err != nil {
		return &DeviceError{err}
	}
	return nil
}

// Plugins returns the versions of the plugins by name.
func (l *Lab) Plugins() map[string]string { return l.plugins }

// Close stops the workers and frees the engine.
func (l *Lab) Close() error {
	var errs []error
	for _, c := range l.all {
		errs = append(errs, c.Close())
	}
	if l.scratch != nil {
		errs = append(errs, l.scratch.Close())
	}
	errs = append(errs, l.device.drop())
	if l.cpu != nil {
		errs = append(errs, l.closeCPU())
	}
	return errors.Join(errs...)
}

// CPU returns the processor time of this process, of the children that it reaped, and of the compile workers.
func (l *Lab) CPU() time.Duration {
	sum := ownCPU()
	for _, c := range l.all {
		sum += c.CPU()
	}
	return sum
}

// Estimates reports that costs come from real schedules, which an instruction count can predict.
func (l *Lab) Estimates() bool { return true }
