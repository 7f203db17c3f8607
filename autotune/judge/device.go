package judge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// How a device is timed.
const (
	deviceWarmup = 3
	devicePairs  = 20
	resamples    = 2000
	confidence   = .95
	timedClass   = "random"
)

// deviceClasses are the classes of inputs tested on a device before it is timed: ordinary keys, and keys so alike that
// errors of an inverse show.
var deviceClasses = []string{timedClass, "cos.99", "identical"}

// attached is a device that times candidates, in a process of its own.
type attached struct {
	mu   sync.Mutex
	o    device.Options
	open *device.Device // nil: its process ended, and the next use starts another
	info device.Info
}

// openAttached opens a device.
func openAttached(ctx context.Context, o device.Options) (*attached, error) {
	a := &attached{o: o}
	d, err := a.get(ctx)
	if err != nil {
		return nil, err
	}
	a.info = d.Info()
	return a, nil
}

func (a *attached) get(ctx context.Context) (d *device.Device, err error) {
	if a.open == nil {
		a.open, err = device.Open(ctx, a.o)
	}
	return a.open, err
}

func (a *attached) drop() error {
	if a == nil || a.open == nil {
		return nil
	}
	err := a.open.Close()
	a.open = nil
	return err
}

// Attach binds the device to the targets of a run. A TPU of another generation is a *DeviceError.
func (l *Lab) Attach(targets []*target.Target) error {
	if l.device == nil {
		return nil
	}
	l.device.o.Targets = targets
	if _, err := l.device.info.Match(l.device.o.Plugin, targets, false); err != nil {
		return &DeviceError{err}
	}
	return nil
}

// onDevice tests and times candidates that would be kept or held, if a device is attached. Wrong numbers there refuse a candidate,
// and so does a crash or hang that a fresh process repeats. Times are recorded next to the static cycles, and decide nothing.
func (l *Lab) onDevice(ctx context.Context, w *Work) (*Refusal, error) {
	if l.device == nil {
		return nil, nil
	}
	if v, _, err := w.Known.Rank(w.Record); err != nil || v == journal.Worse {
		return nil, err
	}
	l.device.mu.Lock() // before the machine's lock: while one waits for the device, another may time on the machine
	defer l.device.mu.Unlock()
	ctx, free, err := machine.Of(ctx).Compute(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	before := w.Mark()
	for attempt := 1; ; attempt++ {
		r, err := l.examineOnDevice(ctx, w)
		if !is[*device.CrashError](err) && !is[*device.TimeoutError](err) {
			return r, err
		}
		if bad := l.device.drop(); bad != nil {
			return nil, bad
		}
		if attempt == 1 { // earlier programs may be the cause
			w.Back(before)
			continue
		}
		verdict := journal.Crash
		if is[*device.TimeoutError](err) {
			verdict = journal.Timeout
		}
		return Refuse(verdict, "%s: %v", l.device.info, err), nil
	}
}

// examineOnDevice compares the outputs of a candidate with the reference, then times it.
func (l *Lab) examineOnDevice(ctx context.Context, w *Work) (*Refusal, error) {
	d, err := l.device.get(ctx)
	if err != nil {
		return nil, err
	}
	mine, r, err := loadOn(ctx, d, w, w.Modules[0])
	if mine == nil {
		return r, err
	}
	defer mine.Close()
	few, err := lookup(w.Spec, deviceClasses)
	if err != nil {
		return nil, err
	}
	r, err = l.examine(w, accuracyTest{spec: w.Spec, size: w.Spec, classes: few, seeds: firstSeed, engine: "device",
		program: func(in map[string]*array.Array) (map[string]*array.Array, error) {
			results, err := mine.Run(ctx, arguments(w.Modules[0], in)...)
			if err != nil {
				return nil, err
			}
			return byName(w.Modules[0], results)
		}})
	if is[*device.RunError](err) {
		return Refuse(journal.Crash, "%s: %v", l.device.info, err), nil
	}
	if r != nil || err != nil {
		return r, err
	}
	return nil, l.timeOnDevice(ctx, w, d, mine)
}

// loadOn compiles a module for a device. If it returns no program, there is a refusal, an error, or a note that the device's generation has none.
func loadOn(ctx context.Context, d *device.Device, w *Work, m *ir.Module) (*device.Program, *Refusal, error) {
	p, err := d.Load(ctx, m)
	switch {
	case is[*pjrt.CompileError](err):
		return nil, Refuse(journal.CompileReject, "%s: %v", d.Info(), err), nil
	case is[*codegen.Error](err):
		w.Record.Notes = append(w.Record.Notes, fmt.Sprintf("not run on %s: %v", d.Info(), err))
		return nil, nil, nil
	}
	return p, nil, err
}

// timeOnDevice times a candidate in interleaved pairs against the champion of the device's target, alone on the machine; the first
// against itself. A device that dies meanwhile leaves a note: the numbers were right, and times decide nothing.
func (l *Lab) timeOnDevice(ctx context.Context, w *Work, d *device.Device, mine *device.Program) error {
	other, against := mine, w.Record.ID
	target := w.Targets[0].Name
	if t := d.Target(); t != nil {
		target = t.Name
	}
	if best := w.Known.Champion(target); best != nil && best.Variant != "" {
		v, err := gdn.ParseVariant(best.Variant)
		if err != nil {
			return err
		}
		m, err := build.Module(w.Spec, v)
		if err != nil {
			return err
		}
		p, r, err := loadOn(ctx, d, w, m)
		if err != nil {
			return err
		}
		if p != nil && r == nil {
			defer p.Close()
			other, against = p, best.ID
		}
	}
	c, err := truth.LookupClass(timedClass)
	if err != nil {
		return err
	}
	inputs, err := c.Generate(w.Spec, w.Seed)
	if err != nil {
		return err
	}
	alone, free, err := machine.Of(ctx).Measure(ctx)
	if err != nil {
		return err
	}
	defer free()
	watch := machine.Watch()
	pairs, err := d.Pairs(alone, pjrt.TimeOptions{Warmup: deviceWarmup, Trials: devicePairs}, mine, other, arguments(w.Modules[0], inputs)...)
	if is[*device.CrashError](err) || is[*device.TimeoutError](err) || is[*device.RunError](err) {
		w.Record.Notes = append(w.Record.Notes, fmt.Sprintf("not timed on %s: %v", d.Info(), err))
		return l.device.drop()
	}
	if err != nil {
		return err
	}
	w.Runs = compareRuns(pairs, rand.New(rand.NewPCG(w.Seed, uint64(w.Record.ID))))
	w.Runs.Device, w.Runs.Against = d.Info().String(), against
	if o := watch(); o.Disturb() {
		w.Runs.Others = o.String()
	}
	return nil
}

// compareRuns summarizes pairs of runs: the median ratio of the first of each to the second, and its interval by paired bootstrap.
func compareRuns(pairs [][2]time.Duration, rng *rand.Rand) *journal.Timing {
	ratios := make([]float64, len(pairs))
	seconds := make([]float64, len(pairs))
	for i, p := range pairs {
		ratios[i], seconds[i] = float64(p[0])/float64(max(p[1], 1)), p[0].Seconds()
	}
	medians := make([]float64, resamples)
	drawn := make([]float64, len(ratios))
	for i := range medians {
		for j := range drawn {
			drawn[j] = ratios[rng.IntN(len(ratios))]
		}
		medians[i] = median(drawn)
	}
	slices.Sort(medians)
	return &journal.Timing{Pairs: len(pairs), Seconds: median(seconds), Ratio: median(ratios),
		Low:  stat.Quantile((1-confidence)/2, stat.Empirical, medians, nil),
		High: stat.Quantile((1+confidence)/2, stat.Empirical, medians, nil)}
}

func median(l []float64) float64 {
	return stat.Quantile(.5, stat.LinInterp, slices.Sorted(slices.Values(l)), nil)
}
