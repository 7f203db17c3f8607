package bench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/flashinfer"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Item is a definition to sweep: a variant on workloads.
type Item struct {
	Definition *flashinfer.Definition
	Workloads  []*flashinfer.Workload
	Root       string // folder that paths of the workloads are relative to
	Variant    gdn.Variant
	Name       string               // text of a variant, such as auto, that is resolved for each shape on a TPU; empty: Variant itself
	Solution   *flashinfer.Solution // names the variant in traces
}

// Choose resolves text, such as "auto", to a variant for target (nil: a CPU), and names the solution after it. It
// ignores the user's own champions, so that the figures can be reproduced by others.
func (it *Item) Choose(text string, target *target.Target) error {
	d := it.Definition
	p, err := flashinfer.NewProblem(d)
	if err != nil {
		return err
	}
	s, err := p.Spec(it.Workloads[0])
	if err != nil {
		return fmt.Errorf("%s, workload %s: %w", d.Name, it.Workloads[0].UUID, err)
	}
	f, err := route.Resolve(s, text, target, nil)
	if err != nil {
		return err
	}
	it.Variant = f.Variant
	if target != nil { // auto is chosen for each shape
		it.Name = text
	}
	full := cmp.Or(it.Name, it.Variant.String())
	sum := sha256.Sum256([]byte(full))
	it.Solution, err = p.ProgramSolution(fmt.Sprintf("%s_gdngen_%x", d.Name, sum[:4]), Author, s, full, target)
	return err
}

// Config has the definitions to measure on a device, and how.
type Config struct {
	Plugin   string // path of the PJRT plugin
	Items    []Item
	Protocol Protocol
	Limit    time.Duration // of one workload; 0: none
	Retry    bool          // repeat workloads whose last trace did not pass
	Progress func(Progress)
	Machine  *machine.Lock // held exclusively for each workload; nil: none
}

// Progress is the state of a sweep, after each workload.
type Progress struct {
	Done, Total int               // workloads
	Left        time.Duration     // estimate, from the workloads done in this session; 0 before the first
	Trace       *flashinfer.Trace // nil before the first workload of the session
}

// FaultError says that a workload could not be evaluated, for a reason outside the variant.
type FaultError struct{ Definition, Workload, Reason string }

func (e *FaultError) Error() string {
	return fmt.Sprintf("%s, workload %s: %s", e.Definition, e.Workload, e.Reason)
}

// DeviceError says that the plugin offers no device.
type DeviceError struct{ Reason string }

func (e *DeviceError) Error() string { return "the device can not be used: " + e.Reason }

// Check looks for faults in all items before any work.
func (c *Config) Check() error {
	if err := c.Protocol.Check(); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, it := range c.Items {
		if names[it.Definition.Name] {
			return fmt.Errorf("definition %s is given twice", it.Definition.Name)
		}
		names[it.Definition.Name] = true
		p, err := flashinfer.NewProblem(it.Definition)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for i, w := range it.Workloads {
			s, err := p.Spec(w)
			if err == nil {
				err = it.Variant.Check(s)
			}
			if err == nil && seen[w.UUID] {
				err = errors.New("workload.uuid: another workload has it")
			}
			if err != nil {
				return fmt.Errorf("%s, workload %d (%s): %w", it.Definition.Name, i+1, w.UUID, err)
			}
			seen[w.UUID] = true
		}
	}
	return nil
}

// pending is a workload still to do.
type pending struct {
	*Item
	workload *flashinfer.Workload
	spec     string
}

// Sweep evaluates all workloads without a trace in the store. Workloads of equal shapes follow each other, so that each
// program is compiled once. If ctx ends, only the workload under way is lost.
func Sweep(ctx context.Context, c Config, store *Store) error {
	if err := c.Check(); err != nil {
		return err
	}
	var todo []pending
	total := 0
	for i := range c.Items {
		it := &c.Items[i]
		if err := store.Describe(it.Definition, it.Workloads, it.Solution); err != nil {
			return err
		}
		p, err := flashinfer.NewProblem(it.Definition)
		if err != nil {
			return err
		}
		total += len(it.Workloads)
		var list []pending
		first := map[string]int{}
		for n, w := range it.Workloads {
			t := store.Done(it.Definition.Name, it.Solution.Name, w.UUID)
			if t != nil && (t.Evaluation.Status == flashinfer.Passed || !c.Retry) {
				continue
			}
			s, err := p.Spec(w)
			if err != nil {
				return err
			}
			text := s.String()
			if _, ok := first[text]; !ok {
				first[text] = n
			}
			list = append(list, pending{it, w, text})
		}
		slices.SortStableFunc(list, func(x, y pending) int { return first[x.spec] - first[y.spec] })
		todo = append(todo, list...)
	}
	progress := Progress{Done: total - len(todo), Total: total}
	report := func() {
		if c.Progress != nil {
			c.Progress(progress)
		}
	}
	report()
	if len(todo) == 0 {
		return nil
	}
	var w Worker
	defer w.Close()
	probe, err := w.Evaluate(ctx, &Job{Plugin: c.Plugin}, 0)
	if err != nil {
		return err
	}
	if probe.Fault != "" {
		return &DeviceError{probe.Fault}
	}
	if probe.Target != "" {
		if w.target, err = target.Lookup(probe.Target); err != nil {
			return err
		}
		if len(w.target.Flags) > 0 {
			w.Close() // the next one has them in its environment
		}
	}
	begin := time.Now()
	for i, x := range todo {
		t, err := c.one(ctx, &w, x, probe.Environment)
		if err != nil {
			return err
		}
		if err := store.Append(x.Definition, t); err != nil {
			return err
		}
		progress.Done++
		progress.Trace = t
		progress.Left = time.Since(begin) / time.Duration(i+1) * time.Duration(len(todo)-i-1)
		report()
	}
	return nil
}

// one evaluates a workload.
func (c *Config) one(ctx context.Context, w *Worker, x pending, where flashinfer.Environment) (*flashinfer.Trace, error) {
	take := c.Machine.Measure
	if !c.Protocol.Timed() { // judging alone tolerates other work on the machine
		take = c.Machine.Compute
	}
	ctx, free, err := take(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	watch := machine.Watch()
	o, err := w.Evaluate(ctx, &Job{Plugin: c.Plugin, Definition: x.Definition, Workload: x.workload, Root: x.Root, Variant: cmp.Or(x.Name, x.Variant.String()), Protocol: c.Protocol}, c.Limit)
	late, crash := (*TimeoutError)(nil), (*CrashError)(nil)
	switch {
	case errors.As(err, &late):
		o = &Outcome{Status: flashinfer.Timeout, Log: err.Error(), Environment: where}
	case errors.As(err, &crash):
		o = &Outcome{Status: flashinfer.RuntimeError, Log: err.Error(), Environment: where}
	case err != nil:
		return nil, err
	}
	if others := watch(); o.Latency > 0 && others.Disturb() {
		o.Log = strings.TrimPrefix(o.Log+"\n"+others.String(), "\n")
	}
	if o.Fault != "" {
		return nil, &FaultError{x.Definition.Name, x.workload.UUID, o.Fault}
	}
	return o.Trace(x.Definition.Name, x.Solution.Name, x.workload, time.Now())
}
