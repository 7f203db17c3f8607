// Package profile runs a kernel on a device under the profiler of its plugin, and writes what trace, XProf and TensorBoard read. No JAX is needed.
//
// A folder gets plugins/profile/TIME/HOST.xplane.pb, where the plugin has a profiler, and steps.json, which says what ran and what each step took on the host.
package profile

import (
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

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// StepsFile is the name of the record beside the traces.
const StepsFile = "steps.json"

// LLOArgs are options of libtpu that show what runs inside kernels, at the price of a larger trace. They are read when libtpu is loaded.
var LLOArgs = []string{"--xla_xprof_register_llo_debug_info=true", "--xla_xprof_enable_custom_call_tracing=true"}

// Record says what ran.
type Record struct {
	Device     device.Info     `json:"device"`
	Target     string          `json:"target,omitempty"` // empty: no TPU
	Spec       string          `json:"spec"`
	Variant    string          `json:"variant"`
	Program    string          `json:"program"` // hash of the module
	ModelFlops float64         `json:"model_flops"`
	Tokens     int             `json:"tokens"` // of a step
	Batch      int             `json:"batch"`  // executions in a step
	First      int             `json:"first"`  // profiled step
	Count      int             `json:"count"`  // of profiled steps
	Steps      []time.Duration `json:"steps_ns"`
	Trace      string          `json:"trace,omitempty"`    // file
	NoTrace    string          `json:"no_trace,omitempty"` // why there is none
}

// class is that of the inputs: what they are does not change what a kernel does.
const class = "random"

// Run compiles a variant for a device, profiles it and writes the folder. The machine is held while steps run.
func Run(ctx context.Context, d *device.Device, lock *machine.Lock, s gdn.Spec, v gdn.Variant, o pjrt.ProfileOptions, dir string) (*Record, error) {
	m, err := gdn.Build(s, v)
	if err != nil {
		return nil, err
	}
	c, err := gdn.LookupClass(class)
	if err != nil {
		return nil, err
	}
	inputs, err := c.Generate(s, 1)
	if err != nil {
		return nil, err
	}
	var args []*array.Array
	for _, p := range m.Params() {
		args = append(args, inputs[p.Name])
	}
	p, err := d.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	alone, free, err := lock.Measure(ctx)
	if err != nil {
		return nil, err
	}
	x, absent := p.Profile(alone, o, args...)
	free()
	none := (*pjrt.NoProfilerError)(nil)
	if absent != nil && !errors.As(absent, &none) {
		return nil, absent
	}
	r := &Record{Device: d.Info(), Spec: s.String(), Variant: v.String(), Program: m.Hash(), ModelFlops: float64(o.Batch) * s.Flops(model.RuleChunk),
		Tokens: o.Batch * s.Batch * s.Tokens, Batch: o.Batch, First: o.Start, Count: o.Count, Steps: x.Steps}
	if t := d.Target(); t != nil {
		r.Target = t.Name
	}
	if none != nil {
		r.NoTrace = none.Reason
	} else if r.Trace, err = save(dir, x.Space); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	return r, os.WriteFile(filepath.Join(dir, StepsFile), append(text, '\n'), 0o644)
}

// save writes an XSpace where XProf looks for it.
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

// Median is the median time of the profiled steps.
func (r *Record) Median() time.Duration {
	l := slices.Sorted(slices.Values(r.Steps[r.First : r.First+r.Count]))
	return (l[(len(l)-1)/2] + l[len(l)/2]) / 2
}

// Write prints the record.
func (r *Record) Write(w io.Writer, dir string) {
	fmt.Fprintf(w, "device  %s\nwork    %s, %d in a step, %.4g model flops\n", r.Device, r.Spec, r.Batch, r.ModelFlops)
	fmt.Fprintf(w, "steps   %d to %d of %d: median %v on the host\n", r.First, r.First+r.Count-1, len(r.Steps), r.Median().Round(time.Microsecond))
	if t, err := codegen.LookupTarget(r.Target); err == nil {
		fmt.Fprintf(w, "MFU     %.2f%% by the host's clock\n", 100*r.ModelFlops/(r.Median().Seconds()*t.PeakFlops()*t.Clock))
	}
	if r.Trace == "" {
		fmt.Fprintf(w, "trace   none: %s\n", r.NoTrace)
	} else {
		fmt.Fprintf(w, "trace   %s; see gdngen trace top %s\n", r.Trace, dir)
	}
	fmt.Fprintf(w, "record  %s\n", filepath.Join(dir, StepsFile))
}

// AddArgs appends options to a value of LIBTPU_INIT_ARGS.
func AddArgs(value string, args []string) string {
	return strings.TrimSpace(value + " " + strings.Join(args, " "))
}
