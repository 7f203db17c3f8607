// Package profile runs a kernel, or the pieces of a model's training step, on a device under the profiler of its
// plugin, and writes files for trace, XProf and TensorBoard, without JAX.
//
// A folder gets plugins/profile/TIME/HOST.xplane.pb, if the plugin has a profiler, and steps.json, with the programs
// and the time of each step on the host. For a TPU, stages.json has the static cycles of its kernels by stage.
package profile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// StepsFile and StagesFile are the names of the files next to the traces.
const StepsFile, StagesFile = "steps.json", "stages.json"

// LLOArgs are options of libtpu that show the inside of kernels, in a larger trace. They take effect when libtpu is loaded.
var LLOArgs = []string{"--xla_xprof_register_llo_debug_info=true", "--xla_xprof_enable_custom_call_tracing=true"}

// Record is the result of a profile.
type Record struct {
	Device     device.Info     `json:"device"`
	Target     string          `json:"target,omitempty"` // empty: no TPU
	Spec       string          `json:"spec"`             // of the kernel, or of the rule in the model
	Model      *model.Config   `json:"model,omitempty"`
	Variant    string          `json:"variant"`
	ModelFlops float64         `json:"model_flops"` // of a step
	Tokens     int             `json:"tokens"`      // of a step
	Batch      int             `json:"batch"`       // times that a step runs its pieces
	First      int             `json:"first"`       // index of the first profiled step
	Count      int             `json:"count"`       // number of profiled steps
	Steps      []time.Duration `json:"steps_ns"`
	Losses     []float64       `json:"losses,omitempty"` // of the training steps before the profile
	Pieces     []*Piece        `json:"pieces"`
	Notes      []string        `json:"notes,omitempty"`
	Trace      string          `json:"trace,omitempty"`    // file
	NoTrace    string          `json:"no_trace,omitempty"` // why there is no trace
}

// Piece is a program of a step.
type Piece struct {
	Name       string          `json:"name"`
	Times      int             `json:"times"`       // runs in a step of batch one
	Program    string          `json:"program"`     // hash of the module
	ModelFlops float64         `json:"model_flops"` // once
	Steps      []time.Duration `json:"steps_ns"`    // time in each step, all its runs together
}

// Run compiles the pieces of a step for a device, profiles them and writes the folder. It holds the machine's lock while steps run.
func Run(ctx context.Context, d *device.Device, lock *machine.Lock, w *Work, o pjrt.ProfileOptions, dir string) (*Record, error) {
	r := &Record{Device: d.Info(), Spec: w.Spec.String(), Model: w.Model, Variant: w.Variant.String(), Tokens: o.Batch * w.Tokens, Batch: o.Batch,
		First: o.Start, Count: o.Count, Losses: w.Losses}
	if t := d.Target(); t != nil {
		r.Target = t.Name
	}
	var pieces []device.Piece
	for _, x := range w.Modules {
		m, err := x.Build(w.Variant)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.Name, err)
		}
		args, err := w.arguments(m)
		if err != nil {
			return nil, err
		}
		p, err := w.load(ctx, d, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.Name, err)
		}
		pieces = append(pieces, device.Piece{Program: p, Times: x.Times, Args: args})
		r.Pieces = append(r.Pieces, &Piece{Name: x.Name, Times: x.Times, Program: m.Hash(), ModelFlops: x.Flops})
		r.ModelFlops += float64(o.Batch*x.Times) * x.Flops
	}
	alone, free, err := lock.Measure(ctx)
	if err != nil {
		return nil, err
	}
	watch := machine.Watch()
	x, absent := d.Profile(alone, o, pieces...)
	if others := watch(); others.Disturb() {
		r.Notes = append(r.Notes, others.String())
	}
	free()
	none := (*pjrt.NoProfilerError)(nil)
	if absent != nil && !errors.As(absent, &none) {
		return nil, absent
	}
	for _, step := range x.Steps {
		var whole time.Duration
		for i, took := range step {
			whole += took
			r.Pieces[i].Steps = append(r.Pieces[i].Steps, took)
		}
		r.Steps = append(r.Steps, whole)
	}
	if none != nil {
		r.NoTrace = none.Reason
	} else if r.Trace, err = save(dir, x.Space); err != nil {
		return nil, err
	}
	return r, writeJSON(dir, StepsFile, r)
}

// writeJSON writes a file of the folder.
func writeJSON(dir, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644)
}

// save writes an XSpace to the path that XProf expects.
func save(dir string, space []byte) (string, error) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	path := filepath.Join(dir, "plugins", "profile", time.Now().Format("2006_01_02_15_04_05"), host+".xplane.pb")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, space, 0o644)
}

// Median returns the median time of the profiled steps.
func (r *Record) Median() time.Duration { return r.median(r.Steps) }

// median returns the median over the profiled steps.
func (r *Record) median(steps []time.Duration) time.Duration {
	l := slices.Sorted(slices.Values(steps[r.First : r.First+r.Count]))
	return (l[(len(l)-1)/2] + l[len(l)/2]) / 2
}

// mfu returns the model flop utilisation by the host's clock.
func (r *Record) mfu(t *target.Target) float64 {
	return r.ModelFlops / (r.Median().Seconds() * t.PeakFlops() * t.Clock)
}

// Note returns the record's figures of a step as a note.
func (r *Record) Note(dir string) journal.Note {
	n := journal.Note{StepMS: 1e3 * r.Median().Seconds(), Tokens: float64(r.Tokens) / r.Median().Seconds(), Text: "profiled on " + r.Device.String()}
	if r.Trace != "" {
		n.Trace = dir
	}
	if t, err := target.Lookup(r.Target); err == nil {
		n.MFU = r.mfu(t)
	}
	return n
}

// Write prints the record.
func (r *Record) Write(w io.Writer, dir string) {
	fmt.Fprintf(w, "device  %s\nwork    %s, %d in a step, %.4g model flops\n", r.Device, r.work(), r.Batch, r.ModelFlops)
	if n := len(r.Losses); n > 0 {
		fmt.Fprintf(w, "loss    %.4f to %.4f nats in %d steps of training\n", r.Losses[0], r.Losses[n-1], n)
	}
	fmt.Fprintf(w, "steps   %d to %d of %d: median %v on the host, %.4g tokens a second\n", r.First, r.First+r.Count-1, len(r.Steps),
		r.Median().Round(time.Microsecond), float64(r.Tokens)/r.Median().Seconds())
	if t, err := target.Lookup(r.Target); err == nil {
		fmt.Fprintf(w, "MFU     %.2f%% by the host's clock\n", 100*r.mfu(t))
	}
	if r.Trace == "" {
		fmt.Fprintf(w, "trace   none: %s\n", r.NoTrace)
	} else {
		fmt.Fprintf(w, "trace   %s; see gdngen device trace top %s\n", r.Trace, dir)
	}
	fmt.Fprintf(w, "record  %s\n", filepath.Join(dir, StepsFile))
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note    %s\n", n)
	}
	if len(r.Pieces) < 2 {
		return
	}
	fmt.Fprintln(w)
	t := terminal.NewTable("PIECE", ">TIMES", ">MEDIAN ms", ">SHARE", ">MODEL GFLOP")
	for _, p := range r.Pieces {
		took := r.median(p.Steps)
		t.Add(p.Name, r.Batch*p.Times, fmt.Sprintf("%.3f", float64(took)/1e6), fmt.Sprintf("%.1f%%", 100*took.Seconds()/r.Median().Seconds()),
			fmt.Sprintf("%.3g", float64(r.Batch*p.Times)*p.ModelFlops/1e9))
	}
	t.Write(w)
}

// work names the kernel or model.
func (r *Record) work() string {
	if r.Model == nil {
		return r.Spec
	}
	return fmt.Sprintf("model %s (%d layers of width %d, %d x %d tokens)", cmp.Or(r.Model.Name, "-"), r.Model.Layers, r.Model.Hidden, r.Model.Batch, r.Model.Tokens)
}

// AddArgs appends options to a value of LIBTPU_INIT_ARGS.
func AddArgs(value string, args []string) string {
	return strings.TrimSpace(value + " " + strings.Join(args, " "))
}
