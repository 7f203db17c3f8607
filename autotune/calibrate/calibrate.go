// Package calibrate tests and times variants on an attached GPU: decode and prefill on contest heads. It checks them against
// float64 on small specs of the same kind, times the full ones, and stores the resulting calibrations in the user's configuration.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/selftest"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

// Work is a spec to time, a small spec of the same kind to check, and variants of both.
type Work struct {
	Spec, Small string
	Variants    []string
}

// small returns the small spec with a variant of the full spec written out: auto would choose another form there. Parts
// are cut to two chunks, so that there are several.
func (w Work) small(text string) (exam, error) {
	s, err := gdn.Parse(w.Spec)
	if err != nil {
		return exam{}, err
	}
	v, err := triton.Parse(text, s)
	v.Part = min(v.Part, 2)
	return exam{w.Small, v.Text(s)}, err
}

type exam struct{ spec, variant string }

// Works are the specs and variants that a device compares.
var Works = []Work{
	{"contest-decode,b=1", "contest-decode,b=3,hk=1,hv=2", []string{"auto", "bv=8", "bv=16", "bv=8,warps=4"}},
	{"contest-decode", "contest-decode,b=3,hk=1,hv=2", []string{"auto", "bv=16", "bv=8,warps=4", "bv=32,warps=4"}},
	{"contest-prefill,seqs=57", "contest-prefill,t=300,seqs=4,hk=1,hv=2", []string{"auto", "bv=32,stages=2", "preparewarps=4", "kernels=one", "inverse=masked"}},
	{"contest-prefill,seqs=1", "contest-prefill,t=700,seqs=2,hk=1,hv=2", []string{"auto", "part=0", "part=4", "part=32", "prec=tf32"}},
}

// Device is an attached GPU, and the toolkit that reaches it.
type Device struct {
	*gpu.Toolkit
	GPU     *target.GPU
	Info    gpu.Info
	Version string // of the generator
	Note    func(format string, args ...any)
	saying  sync.Mutex // variants are checked concurrently
}

// Attached returns the attached GPU. The error is a *gpu.NoDevice if there is none that is known, or if it does not take the kernels of GPU name.
func Attached(ctx context.Context, k *gpu.Toolkit, name string) (*Device, error) {
	info, err := k.Device(ctx)
	if err != nil {
		return nil, err
	}
	g, err := info.Target()
	if err != nil {
		return nil, &gpu.NoDevice{Reason: err.Error()}
	}
	if named, err := target.LookupGPU(name); err == nil && named.Capability != g.Capability {
		return nil, &gpu.NoDevice{Reason: fmt.Sprintf("the attached %s does not take the kernels of %s", info.Name, name)}
	}
	return &Device{Toolkit: k, GPU: g, Info: info}, nil
}

// MissError says that a variant's outputs exceed error limits on the device.
type MissError struct {
	Variant, Spec string
	Missed, Of    int
}

func (e *MissError) Error() string {
	return fmt.Sprintf("variant %s of %s misses %d of %d limits on the device: nothing is timed before numbers are right", e.Variant, e.Spec, e.Missed, e.Of)
}

// compile makes a spec's program by the text of a variant.
func (d *Device) compile(ctx context.Context, s gdn.Spec, text string) (triton.Variant, []gpu.Launch, error) {
	v, err := triton.Parse(text, s)
	if err != nil {
		return v, nil, err
	}
	source, err := triton.Source(s, v, d.Version)
	if err != nil {
		return v, nil, err
	}
	launches, err := d.Compile(ctx, source, s, d.GPU)
	if err != nil {
		return v, nil, err
	}
	return v, launches, gpu.Fit(launches, []*target.GPU{d.GPU})
}

// Examine compares a variant's outputs on the device with float64, on classes of inputs (nil: all).
func (d *Device) Examine(ctx context.Context, spec, variant string, classes []string) (*check.Result, error) {
	s, err := gdn.Parse(spec)
	if err != nil {
		return nil, err
	}
	list, err := check.Classes(s, classes)
	if err != nil {
		return nil, err
	}
	v, launches, err := d.compile(ctx, s, variant)
	if err != nil {
		return nil, err
	}
	r := &check.Result{Spec: s.String(), Variant: v.Text(s), Engine: "device", Target: d.GPU.Name, Precision: v.Precision(s), Seed: 1, Seeds: check.Seeds(1, 1)}
	compute := func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		return d.Run(ctx, launches, s, inputs)
	}
	note := func(format string, args ...any) {
		d.saying.Lock()
		defer d.saying.Unlock()
		d.Note("%s, %s: %s", r.Spec, r.Variant, fmt.Sprintf(format, args...))
	}
	note("numbers against float64")
	return r, r.Run(ctx, s, compute, list, note)
}

// Programs checks the variants of all works on the device, then compiles them at full size, with inputs. Several run at
// once: nothing is timed here.
func (d *Device) Programs(ctx context.Context) ([]gpu.FrontProgram, error) {
	exams, err := examsOf(func(int) bool { return true })
	if err != nil {
		return nil, err
	}
	err = d.each(ctx, len(exams), func(ctx context.Context, i int) error {
		r, err := d.Examine(ctx, exams[i].spec, exams[i].variant, selftest.QuickClasses)
		if err == nil && !r.Pass {
			err = &MissError{exams[i].variant, exams[i].spec, r.Missed(), len(r.Rows)}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var list []gpu.FrontProgram
	for _, w := range Works {
		s, err := gdn.Parse(w.Spec)
		if err != nil {
			return nil, err
		}
		inputs, err := workload(s)
		if err != nil {
			return nil, err
		}
		for _, text := range w.Variants {
			list = append(list, gpu.FrontProgram{Timed: gpu.Timed{Name: w.Spec, Spec: s, Inputs: inputs}, Variant: text})
		}
	}
	return list, d.each(ctx, len(list), func(ctx context.Context, i int) error {
		p := &list[i]
		v, launches, err := d.compile(ctx, p.Spec, p.Variant)
		p.Launches, p.Work = launches, triton.WorkOf(p.Spec, v).Of
		return err
	})
}

// examsOf lists the distinct pairs of small spec and variant of all works. chosen selects variants by their number in a work.
func examsOf(chosen func(variant int) bool) (list []exam, err error) {
	for _, w := range Works {
		for i, text := range w.Variants {
			x, err := w.small(text)
			if err != nil {
				return nil, err
			}
			if chosen(i) && !slices.Contains(list, x) {
				list = append(list, x)
			}
		}
	}
	return list, nil
}

// workload makes the inputs that a spec is timed with: random values, and sequences of the lengths that the cost model assumes.
func workload(s gdn.Spec) (map[string]*array.Array, error) {
	random, err := truth.LookupClass("random")
	if err != nil {
		return nil, err
	}
	inputs, err := random.Generate(s, 1)
	if err != nil {
		return nil, err
	}
	if x := inputs["cu_seqlens"]; x != nil {
		inputs["cu_seqlens"] = array.FromInt64s(x.Type, x.Shape, measure.CuSeqlens(s))
	}
	return inputs, nil
}

// each does n tasks, one per processor at a time; the first error ends all.
func (d *Device) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// Selftest checks every variant of the small specs on all classes of inputs; with quick only the first variant of each,
// on a few classes. If one can not be checked, the rows of the others are returned with an error.
func (d *Device) Selftest(ctx context.Context, quick bool) (rows []selftest.Case, err error) {
	var classes []string
	if quick {
		classes = selftest.QuickClasses
	}
	exams, err := examsOf(func(variant int) bool { return !quick || variant == 0 })
	if err != nil {
		return nil, err
	}
	results, faults := make([]*check.Result, len(exams)), make([]error, len(exams))
	err = d.each(ctx, len(exams), func(ctx context.Context, i int) error {
		results[i], faults[i] = d.Examine(ctx, exams[i].spec, exams[i].variant, classes)
		return ctx.Err()
	})
	for i, r := range results {
		if faults[i] != nil {
			continue
		}
		for _, row := range r.Rows {
			c := selftest.Case{Variant: r.Variant, Spec: r.Spec, Class: row.Class, Status: selftest.Failed, Output: row.Output, Kind: row.Kind, Error: row.Error, Limit: row.Limit}
			if row.Pass {
				c.Status = selftest.Passed
			}
			rows = append(rows, c)
		}
	}
	if err == nil {
		rows = append(rows, d.probes(ctx)...)
	}
	return rows, errors.Join(append(faults, err)...)
}

// probes runs kernels of forms that some Triton compiled wrongly, each in a process of its own: after an illegal address nothing else runs there.
func (d *Device) probes(ctx context.Context) (rows []selftest.Case) {
	for _, p := range gpu.Probes {
		off, err := d.Toolkit.Probe(ctx, p, d.GPU)
		c := selftest.Case{Variant: "probe " + p.Name, Spec: p.Fault, Status: selftest.Passed, Kind: "rms", Error: journal.Figure(off), Limit: gpu.ProbeLimit}
		if err != nil {
			c.Status, c.Reason = selftest.Failed, err.Error()
		} else if !(off <= gpu.ProbeLimit) {
			c.Status, c.Reason = selftest.Failed, "this Triton compiles it wrongly: take another, or programs compiled by another"
		}
		rows = append(rows, c)
	}
	return rows
}

// File returns the path of a GPU's stored calibration; empty if there is no configuration folder.
func File(name string) string {
	champions := promoted.File()
	if champions == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(champions), "gpu-"+name+".json")
}

// Kept returns the stored calibrations of the GPUs that have one.
func Kept(gpus []*target.GPU) (list []*gpu.Calibration, err error) {
	for _, g := range gpus {
		file := File(g.Name)
		if file == "" {
			continue
		}
		c, err := gpu.ReadCalibration(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// Apply replaces facts of the GPU tables by stored measurements, for all costs modelled afterwards.
func Apply() error {
	for _, g := range target.GPUs() {
		list, err := Kept([]*target.GPU{g})
		if err != nil {
			return err
		}
		for _, c := range list {
			if err := g.Calibrate(c.Table); err != nil {
				return fmt.Errorf("%s: %w", File(g.Name), err)
			}
		}
	}
	return nil
}
