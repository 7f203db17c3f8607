package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/check"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/gpu"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/selftest"
	"github.com/gdngen/gdngen/target"
)

// frontWork is a work, a small one like it, and variants of both: what a device decides between.
type frontWork struct {
	spec, small string
	variants    []string
}

var frontWorks = []frontWork{
	{"contest-decode,b=1", "contest-decode,b=3,hk=1,hv=2", []string{"auto", "bv=8", "bv=16", "bv=8,warps=4"}},
	{"contest-decode", "contest-decode,b=3,hk=1,hv=2", []string{"auto", "bv=16", "bv=8,warps=4", "bv=32,warps=4"}},
	{"contest-prefill,seqs=57", "contest-prefill,t=300,seqs=4,hk=1,hv=2", []string{"auto", "bv=32,stages=2", "preparewarps=4", "kernels=one", "inverse=masked"}},
	{"contest-prefill,seqs=1", "contest-prefill,t=300,seqs=2,hk=1,hv=2", []string{"auto", "part=0", "part=8", "part=32", "prec=tf32"}},
}

// frontClasses are the inputs that a program is examined on before it is timed.
var frontClasses = []string{"random", "cos.99", "identical"}

// calibrationFile is where the calibration of a GPU is kept; empty where there is no configuration.
func calibrationFile(name string) string {
	champions := promoted.File()
	if champions == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(champions), "gpu-"+name+".json")
}

// calibrations puts what devices said into the tables of GPUs, for all that is modelled after.
func calibrations() error {
	for _, g := range target.GPUs() {
		file := calibrationFile(g.Name)
		if file == "" {
			continue
		}
		c, err := gpu.ReadCalibration(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = g.Calibrate(c.Table)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (a *app) calibrateCmd() *cobra.Command {
	var ask, quick bool
	var name, out string
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Fit the table of modelled times to an attached GPU",
		Long: `calibrate --device asks the attached GPU for the latencies and rates that modelled times follow from (docs/gpu.md). First it proves that the
kernels of the front compute what they should, against float64. Then it times microkernels, each of which tells one constant of the table, and the
front: variants of decode and prefill on contest heads, whose modelled times before and after stand beside the measured ones. The table goes into
the user's configuration, with the residuals beside it; from then on explain and search model by it. Without --device what is there is shown.

The driver of NVIDIA is all that it needs besides Triton: kernels are compiled ahead of time and launched by a child process.
The status is 3 if a kernel misses a limit, 6 where no GPU or no driver is.`,
		Example: `  gdngen calibrate --device
  gdngen calibrate --target h100                     what is in use
  gdngen calibrate --device --quick --out h100.json  the table alone, into a file`,
		GroupID: "self",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if !ask {
				return a.showCalibration(name)
			}
			return a.calibrate(name, out, quick)
		},
	}
	c.Flags().BoolVar(&ask, "device", false, "ask the attached GPU")
	c.Flags().BoolVar(&quick, "quick", false, "the table alone: the front is neither examined nor timed")
	c.Flags().StringVar(&name, "target", "", "GPU that the device must be of (default: whatever is attached)")
	c.Flags().StringVar(&out, "out", "", "write to this file, in place of the user's configuration")
	complete(c, "target", target.GPUNames())
	return c
}

// showCalibration prints what is in use of a GPU, or of all.
func (a *app) showCalibration(name string) error {
	gpus := target.GPUs()
	if name != "" {
		var err error
		if gpus, err = gpuTargets(name); err != nil {
			return err
		}
	}
	var list []*gpu.Calibration
	for _, g := range gpus {
		c, err := gpu.ReadCalibration(calibrationFile(g.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	return emit(a, list, list, func(w io.Writer) {
		for _, c := range list {
			c.Write(w)
		}
		if len(list) == 0 {
			fmt.Fprintln(w, "no GPU is calibrated: times are modelled by public microbenchmarks. `gdngen calibrate --device` asks the one that is attached")
		}
	})
}

// attached obtains Triton and says which GPU is attached.
func (a *app) attached(name string) (*gpu.Toolkit, gpu.Info, *target.GPU, error) {
	k, err := a.toolkit()
	if err != nil {
		return nil, gpu.Info{}, nil, err
	}
	info, err := k.Device(a.ctx)
	if err != nil {
		return nil, info, nil, failed(exitNoEngine, "%w", err)
	}
	g, err := info.Target()
	if err != nil {
		return nil, info, nil, failed(exitNoEngine, "%w", err)
	}
	if name != "" {
		want, err := target.LookupGPU(name)
		if err != nil {
			return nil, info, nil, usage(err)
		}
		if want != g {
			return nil, info, nil, failed(exitNoEngine, "the attached %s is no %s", info.Name, want.Name)
		}
	}
	return k, info, g, nil
}

func (a *app) calibrate(name, out string, quick bool) error {
	k, info, g, err := a.attached(name)
	if err != nil {
		return err
	}
	if out == "" {
		out = calibrationFile(g.Name)
	}
	if out == "" {
		return usage(fmt.Errorf("%s is %s, so there is no configuration to write to: name a file by --out", promoted.DirEnv, promoted.Off))
	}
	a.note("%s is a %s", info.Name, g.Name)
	var front []gpu.FrontProgram
	if !quick {
		for _, w := range frontWorks {
			list, err := a.frontOf(k, g, w)
			if err != nil {
				return err
			}
			front = append(front, list...)
		}
	}
	c, err := k.Calibrate(a.ctx, g, front, a.note)
	if err != nil {
		return err
	}
	if err := c.Save(out); err != nil {
		return err
	}
	return emit(a, c, c.Front, func(w io.Writer) {
		c.Write(w)
		fmt.Fprintf(w, "written to %s\n", out)
	})
}

// frontOf examines the variants of a work on the device, and compiles them at its size.
func (a *app) frontOf(k *gpu.Toolkit, g *target.GPU, w frontWork) (list []gpu.FrontProgram, err error) {
	s, err := parseSpec(w.spec)
	if err != nil {
		return nil, err
	}
	class, err := truth.LookupClass("random")
	if err != nil {
		return nil, err
	}
	inputs, err := class.Generate(s, 1)
	if err != nil {
		return nil, err
	}
	equalLengths(s, inputs)
	for _, text := range w.variants {
		r, err := a.examineOnGPU(k, g, w.small, text, frontClasses)
		if err != nil {
			return nil, err
		}
		if !r.Pass {
			return nil, failed(exitNumerics, "variant %s of %s misses %d of %d limits on the device: nothing is timed before numbers are right", text, w.small, r.Missed(), len(r.Rows))
		}
		p, err := a.tritonOf(s, text)
		if err != nil {
			return nil, err
		}
		launches, err := k.Compile(a.ctx, p.source, s, g)
		if err != nil {
			return nil, err
		}
		if err := gpu.Fit(launches, []*target.GPU{g}); err != nil {
			return nil, failed(exitRejected, "%w", err)
		}
		work := triton.WorkOf(s, p.variant)
		list = append(list, gpu.FrontProgram{
			Timed: gpu.Timed{Name: w.spec, Spec: s, Inputs: inputs, Launches: launches}, Variant: text,
			Work: func(kernel string) (int, int64) { return work[kernel].Trips, work[kernel].Bytes },
		})
	}
	return list, nil
}

// examineOnGPU compares a variant's outputs on the device with float64.
func (a *app) examineOnGPU(k *gpu.Toolkit, g *target.GPU, spec, variant string, names []string) (*check.Result, error) {
	s, err := parseSpec(spec)
	if err != nil {
		return nil, err
	}
	p, err := a.tritonOf(s, variant)
	if err != nil {
		return nil, err
	}
	classes, err := check.Classes(s, names)
	if err != nil {
		return nil, err
	}
	launches, err := k.Compile(a.ctx, p.source, s, g)
	if err != nil {
		return nil, err
	}
	if err := gpu.Fit(launches, []*target.GPU{g}); err != nil {
		return nil, failed(exitRejected, "%w", err)
	}
	r := &check.Result{Spec: s.String(), Variant: p.variant.Text(s), Engine: "device", Target: g.Name, Precision: p.variant.Precision(s), Seed: 1, Seeds: check.Seeds(1, 1)}
	compute := func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		return k.Run(a.ctx, launches, s, inputs)
	}
	a.note("%s, %s: numbers against float64", r.Spec, r.Variant)
	return r, r.Run(a.ctx, s, compute, classes, a.note)
}

// equalLengths cuts packed sequences at equal lengths, as modelled times have them.
func equalLengths(s gdn.Spec, inputs map[string]*array.Array) {
	x := inputs["cu_seqlens"]
	if x == nil {
		return
	}
	width := len(x.Data) / (s.Seqs + 1)
	for i := range s.Seqs + 1 {
		end := uint64(i * s.Tokens / s.Seqs)
		if width == 8 {
			binary.LittleEndian.PutUint64(x.Data[8*i:], end)
		} else {
			binary.LittleEndian.PutUint32(x.Data[4*i:], uint32(end))
		}
	}
}

// selftestGPU proves on the attached GPU that Triton kernels compute what they should: the variants of the front on small works.
func (a *app) selftestGPU(name string, quick, allowSkip bool) error {
	k, info, g, err := a.attached(name)
	if err != nil {
		return err
	}
	t := &selftest.Test{Device: device.Info{Platform: "cuda", Version: fmt.Sprint(info.Driver), Kind: info.Name, Devices: []string{info.Name}}, Target: g.Name, Quick: quick, Seed: 1}
	t.Version, _ = version()
	begun := time.Now()
	done := map[string]bool{}
	for _, w := range frontWorks {
		for i, text := range w.variants {
			if done[w.small+" "+text] || quick && i > 0 {
				continue
			}
			done[w.small+" "+text] = true
			var classes []string
			if quick {
				classes = selftest.QuickClasses
			}
			r, err := a.examineOnGPU(k, g, w.small, text, classes)
			if err != nil {
				return err
			}
			t.Rows = append(t.Rows, casesOf(r)...)
		}
	}
	t.Seconds = time.Since(begun).Seconds()
	return a.concludeSelftest(t, allowSkip, nil)
}

// casesOf are the limits of a check as cases.
func casesOf(r *check.Result) (list []selftest.Case) {
	for _, x := range r.Rows {
		c := selftest.Case{Variant: r.Variant, Spec: r.Spec, Class: x.Class, Status: selftest.Failed, Output: x.Output, Kind: x.Kind, Error: x.Error, Limit: x.Limit}
		if x.Pass {
			c.Status = selftest.Passed
		}
		list = append(list, c)
	}
	return list
}
