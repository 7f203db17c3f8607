package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/gdngen/gdngen/autotune"
	"io"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// tritonProgram is a spec with a variant of the triton backend, and its Python file.
type tritonProgram struct {
	spec    gdn.Spec
	variant triton.Variant
	source  string
}

// tritonOf generates the Python of a spec by a variant's text.
func (a CLI) tritonOf(s gdn.Spec, text string) (*tritonProgram, error) {
	if err := triton.Supports(s); err != nil {
		return nil, app.Failed(app.ExitRejected, "%w", err)
	}
	text, err := autotune.VariantOf(text)
	if err != nil {
		return nil, app.Usage(err)
	}
	v, err := triton.Parse(text, s)
	if err != nil {
		return nil, app.Usage(fmt.Errorf("%w; variants of the other backends have no meaning for triton", err))
	}
	release, _ := app.Version()
	source, err := triton.Source(s, v, release)
	if err != nil {
		return nil, err
	}
	return &tritonProgram{s, v, source}, nil
}

// gpuTargets parses names of GPUs, separated by commas; all GPUs for "all".
func gpuTargets(text string) ([]*target.GPU, error) {
	list, err := target.ParseGPUs(text)
	return list, app.Usage(err)
}

// tritonFile writes the Python of a spec for GPUs. The text is the same for all GPUs; check finds the ones that refuse it.
func (a CLI) tritonFile(s gdn.Spec, g *genFlags) error {
	if _, err := gpuTargets(g.target); g.target != "" && err != nil {
		return err
	}
	p, err := a.tritonOf(s, g.variant)
	if err != nil {
		return err
	}
	return a.emitText(generated{Spec: s.String(), Variant: p.variant.Text(s), Backend: g.backend, Target: g.target}, g.file, p.source)
}

// toolkit obtains Triton.
func (a CLI) toolkit() (*gpu.Toolkit, error) {
	return gpu.Open(a.Ctx, plugins.Options{Progress: a.Stderr, Offline: a.Offline})
}

// tritonCheck is the result of a check by Triton's interpreter, and the launches as compiled.
type tritonCheck struct {
	*check.Result
	Compiled []gpu.Launch `json:"compiled,omitempty"`
}

// checkTriton compares Triton kernels with float64 in Triton's interpreter, and compiles them for the targets, if named.
func (a CLI) checkTriton(s gdn.Spec, variant, targets string, r *check.Result, classes []truth.Class) error {
	p, err := a.tritonOf(s, variant)
	if err != nil {
		return err
	}
	var gpus []*target.GPU
	if targets != "" {
		if gpus, err = gpuTargets(targets); err != nil {
			return err
		}
	}
	k, err := a.toolkit()
	if err != nil {
		return err
	}
	result := tritonCheck{Result: r}
	r.Variant, r.Target, r.Precision = p.variant.Text(s), targets, p.variant.Precision(s)
	if len(gpus) > 0 {
		if result.Compiled, err = k.Compile(a.Ctx, p.source, s, gpus...); err != nil {
			return err
		}
	}
	compute := func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		return k.Compute(a.Ctx, p.source, s, inputs)
	}
	if err := r.Run(a.Ctx, s, compute, classes, a.Note); err != nil {
		return err
	}
	if err := app.Emit(a.App, result, r.Rows, func(w io.Writer) {
		r.Write(w)
		for _, l := range result.Compiled {
			fmt.Fprintf(w, "\n%s for sm_%d: %d programs of %d warps, %d bytes of shared memory, sha256 %.16s", l.Kernel, l.Capability, l.Programs(), l.Warps, l.Shared, l.SHA256)
		}
		if len(result.Compiled) > 0 {
			fmt.Fprintln(w)
		}
	}); err != nil {
		return err
	}
	if err := gpu.Fit(result.Compiled, gpus); err != nil {
		return app.Failed(app.ExitRejected, "%w", err)
	}
	if !r.Pass {
		return app.Failed(app.ExitNumerics, "%d of %d limits are missed", r.Missed(), len(r.Rows))
	}
	return nil
}

// noTritonFlags refuses flags that Triton's interpreter does not use.
func noTritonFlags(level, plugin string) error {
	if given := cmp.Or(level, plugin); given != "" {
		return app.Usage(errors.New("--level and --plugin do not go with --engine triton"))
	}
	return nil
}

// tritonCost is the modelled cost of a spec on GPUs.
type tritonCost struct {
	Spec    string `json:"spec"`
	Variant string `json:"variant"`
	gpu.Report
}

// explainTriton compiles a spec's kernels for GPUs that are not attached, and models their times.
func (a CLI) explainTriton(f *explainFlags, args []string) error {
	if f.spec == "" {
		return app.Usage(errors.New("for a GPU explain takes --spec, with --variant of the triton backend or with --backend stablehlo, a file of StableHLO or a Python script"))
	}
	if err := f.noTPUFlags(); err != nil {
		return err
	}
	if f.dump != "" {
		return app.Usage(errors.New("--dump keeps the files of a compile by XLA: it goes with a file or a script, or with --backend stablehlo"))
	}
	gpus, err := gpuTargets(f.target)
	if err != nil {
		return err
	}
	s, err := app.ParseSpec(f.spec)
	if err != nil {
		return err
	}
	p, err := a.tritonOf(s, f.variant)
	if err != nil {
		return err
	}
	k, err := a.toolkit()
	if err != nil {
		return err
	}
	launches, err := k.Compile(a.Ctx, p.source, s, gpus...)
	if err != nil {
		return err
	}
	work := triton.WorkOf(s, p.variant)
	r := tritonCost{Spec: s.String(), Variant: p.variant.Text(s)}
	for _, g := range gpus {
		list, err := gpu.Model(launches, g, work.Of)
		if err != nil {
			return app.Failed(app.ExitRejected, "%w", err)
		}
		r.Add(g, list)
	}
	return app.Emit(a.App, r, r.Launches, func(w io.Writer) {
		fmt.Fprintf(w, "spec %s\nvariant %s\n\n", r.Spec, r.Variant)
		r.Write(w)
	})
}
