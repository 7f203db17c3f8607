package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

func (a CLI) GenCmd() *cobra.Command {
	var g genFlags
	c := &cobra.Command{
		Use:   "gen (--spec SPEC | --case FILE)",
		Short: "Write the program of a spec or a stored case",
		Long: `gen writes a module for a spec, or for a stored case (a safetensors file in a folder with its manifest.json). Its @main takes q, k, v, then g and
beta (or A_log, a, dt_bias, b where gates are fused), then initial_state and cu_seqlens where the spec has them, and
returns o and final_state, in the layouts of the spec.

Backends: stablehlo for a CPU or GPU, mosaic for a TPU, pallas for a Python file that JAX runs, triton for a Python file of kernels for GPUs, ptx
for StableHLO with those kernels inside, which a CUDA plugin runs, ir for the text of the intermediate representation. With ir, --after PASS prints the program after a pass: in order ` + strings.Join(route.Steps(), " ") + ` for
the kernels of a TPU, and ` + strings.Join(route.PlainSteps(), " ") + ` for a CPU or GPU.

A file of pallas holds the kernels, a differentiable function and a self-check (python FILE); its header names the
static cost of the kernels on the targets, by default v5e, v6e and tpu7x, or none. --package writes a folder that pip
installs, with tests; with several targets it has kernels tuned for each.

--backend triton --package writes a folder that pip installs: functions of torch with the arguments of
flash-linear-attention, forward and backward, for all sizes, whatever those of --spec. Where --spec is a workload of a
definition of FlashInfer-Bench, or there is none, it writes a data
set of that: solutions in Triton of the definition, or of the contest's two, with their kernels, tests, and a benchmark for a GPU.`,
		Example: `  gdngen gen --spec bench --target v5e --out kernel.mlir                 the best known for v5e
  gdngen gen --spec bench --backend pallas --out gated_delta_rule.py
  gdngen gen --spec bench --backend pallas --target v6e,v5e --package gdr
  gdngen gen --spec contest-prefill,seqs=57 --backend triton --target h100 --out kernels.py
  gdngen gen --spec bench --backend triton --package gdr                 functions of torch with gradients
  gdngen gen --backend triton --package contest                          solutions of the contest's definitions, tests, a benchmark
  gdngen gen --spec contest-decode --backend ptx --target h100 --out decode.mlir
  gdngen gen --case tests/fixtures/s03_gva_4to8.safetensors --backend stablehlo
  gdngen gen --spec tiny --variant token --backend ir --level kernel
  gdngen gen --spec tiny --variant token --backend ir --after tile       the kernel before its steps overlap`,
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g.levelGiven = cmd.Flags().Changed("level")
			return a.gen(&g)
		},
	}
	app.SpecFlag(c, &g.spec, "")
	c.Flags().StringVar(&g.stored, "case", "", "take the spec of this stored case")
	a.VariantFlag(c, &g.variant)
	c.Flags().StringVar(&g.backend, "backend", "", strings.Join(app.BackendNames(), ", ")+" or ir (default: mosaic where --target is given, else stablehlo)")
	c.Flags().StringVar(&g.target, "target", "", "what kernels are for (see gdngen list targets). mosaic: a TPU generation, "+app.DefaultTarget+" by default. triton, ptx: a GPU. pallas: the generations that costs are reported for, tuned for the first, or none, which compiles nothing; with --package one tuned set of kernels for each")
	c.Flags().StringVar(&g.level, "level", "tensor", "for ir: tensor, or kernel after the lowering of grids")
	c.Flags().StringVar(&g.after, "after", "", "for ir: print the program after this pass, one of "+strings.Join(afterSteps(), " "))
	app.OutFlag(c, &g.file)
	a.FileByOutput(c, &g.file)
	c.Flags().StringVar(&g.pack, "package", "", "for pallas: write a package of this folder's name, which pip installs; for triton: the same, or a data set of FlashInfer-Bench with solutions")
	app.Complete(c, "backend", append(app.BackendNames(), "ir"))
	app.CompleteList(c, "target", append(target.Names(), target.GPUNames()...))
	app.Complete(c, "level", []string{"tensor", "kernel"})
	app.Complete(c, "after", afterSteps())
	return c
}

// genFlags are the flags of gen.
type genFlags struct {
	spec, stored, variant, backend, target, level, after, file, pack string
	levelGiven                                                       bool
	byDefault                                                        bool // no flag named a backend
}

// writers write the program of a backend, and for some also a folder: the rows of route.Routes, and the text of the IR.
var writers = map[string]struct {
	program func(CLI, gdn.Spec, *genFlags) error
	folder  func(CLI, *genFlags) error
}{
	"stablehlo":  {program: CLI.moduleText},
	"mosaic":     {program: CLI.moduleText},
	"ir":         {program: CLI.moduleText},
	"pallas":     {CLI.pallasFile, CLI.pallasFolder},
	route.Triton: {CLI.tritonFile, CLI.tritonFolder},
	route.PTX:    {program: CLI.ptxText},
}

// gen writes the output that the flags choose.
func (a CLI) gen(g *genFlags) error {
	if g.backend == "" {
		g.backend, g.byDefault = "stablehlo", true
		if g.target != "" {
			g.backend = "mosaic"
		}
	}
	w, ok := writers[g.backend]
	switch known := append(app.BackendNames(), "ir"); {
	case !ok:
		return app.Usage(fmt.Errorf("unknown backend %q%s (known: %s)", g.backend, app.Near(g.backend, known, ""), strings.Join(known, " ")))
	case g.pack != "" && w.folder == nil:
		return app.Usage(errors.New("--package goes with --backend pallas or triton"))
	case g.pack != "" && g.file != "":
		return app.Usage(errors.New("give --out for a file or --package for a folder, not both"))
	case g.pack != "":
		return w.folder(a, g)
	case g.after != "" && g.backend != "ir":
		return app.Usage(errors.New("--after goes with --backend ir"))
	case g.levelGiven && g.backend != "ir":
		return app.Usage(errors.New("--level goes with --backend ir"))
	case g.levelGiven && g.after != "":
		return app.Usage(errors.New("give --level or --after, not both"))
	}
	s, err := genSpec(g.spec, g.stored)
	if err != nil {
		return err
	}
	return w.program(a, s, g)
}

// moduleText writes a module as rendered by a backend, or as the text of the IR.
func (a CLI) moduleText(s gdn.Spec, g *genFlags) error {
	if g.backend == "stablehlo" && g.target != "" {
		return app.Usage(fmt.Errorf("--backend stablehlo is for a CPU or GPU: leave --target %s out, or take --backend mosaic, or for a GPU --backend ptx", g.target))
	}
	f, text, err := render(s, g)
	if err != nil {
		return err
	}
	a.Say(f)
	if g.byDefault && g.target == "" {
		a.Note("no --target: this is StableHLO for a CPU or GPU; --target %s gives the kernel of a TPU", app.DefaultTarget)
	}
	return a.emit(f, g.backend, g.target, g.file, text)
}

// newFolder errs if a folder exists.
func newFolder(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: name a new folder", dir)
	}
	return nil
}

// afterSteps lists the passes that --after accepts.
func afterSteps() []string {
	list := route.Steps()
	for _, p := range route.PlainSteps() {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// generated is a program in JSON.
type generated struct {
	Spec    string `json:"spec"`
	Variant string `json:"variant"`
	Why     string `json:"why,omitempty"` // reason of auto's choice
	Unsafe  string `json:"unsafe,omitempty"`
	Backend string `json:"backend"`
	Target  string `json:"target,omitempty"`
	File    string `json:"file,omitempty"` // file with the text; empty: Text has it
	Text    string `json:"text,omitempty"`
}

// emit writes the text of a program to a file, or to standard output, or as data.
func (a CLI) emit(f *route.Form, backend, target, file, text string) error {
	return a.emitText(generated{Spec: f.Spec.String(), Variant: f.Variant.String(), Why: f.Why(), Unsafe: f.Variant.Unsafe(f.Spec), Backend: backend, Target: target}, file, text)
}

// emitText is emit for any program; g is all but its text.
func (a CLI) emitText(g generated, file, text string) error {
	if a.Output == "text" {
		return a.writeText(file, text)
	}
	if file == "" || file == "-" {
		g.Text = text
	} else {
		g.File = file
		if err := a.writeText(file, text); err != nil {
			return err
		}
	}
	return app.Emit(a.App, g, []generated{g}, nil)
}

// writeText writes to a file, atomically, or to standard output.
func (a CLI) writeText(file, text string) error {
	if file == "" || file == "-" {
		_, err := fmt.Fprint(a.Stdout, text)
		return err
	}
	return store.WriteFile(file, []byte(text))
}

func genSpec(text, stored string) (gdn.Spec, error) {
	switch {
	case text == "" && stored == "":
		return gdn.Spec{}, app.Usage(errors.New("what to generate? give --spec or --case; of a candidate @RUN, gdngen run best RUN prints the spec"))
	case text != "" && stored != "":
		return gdn.Spec{}, app.Usage(errors.New("give --spec or --case, not both"))
	case stored == "":
		return app.ParseSpec(text)
	}
	c, err := truth.FindCase(stored)
	if no := (*truth.NoCaseError)(nil); errors.As(err, &no) {
		return gdn.Spec{}, app.Usage(fmt.Errorf("%w%s", err, app.Near(no.Name, no.Known, "")))
	}
	if err != nil {
		return gdn.Spec{}, err
	}
	if !c.Supported {
		return gdn.Spec{}, fmt.Errorf("case %s is not supported: %s", c.Name, c.Reason)
	}
	return c.Spec, nil
}

// render returns the text of a spec with a variant, and its form.
func render(s gdn.Spec, g *genFlags) (*route.Form, string, error) {
	if g.backend == "ir" {
		return renderIR(s, g)
	}
	r, err := app.ParseBackend(g.backend)
	if err != nil {
		return nil, "", err
	}
	t, err := app.OneTarget(cmp.Or(g.target, app.DefaultTarget))
	if err != nil {
		return nil, "", err
	}
	f, err := app.Resolve(s, g.variant, r.For(t))
	if err != nil {
		return nil, "", err
	}
	p, err := measure.Of(f, r)
	if err != nil {
		return nil, "", err
	}
	text, err := p.Text(t)
	return f, text, err
}

// renderIR returns the text of the IR. With a target, or with --kernels, auto is for a TPU.
func renderIR(s gdn.Spec, g *genFlags) (*route.Form, string, error) {
	on := g.target
	if on == "" && (g.level == engine.Kernel || slices.Contains(route.Steps(), g.after)) {
		on = app.DefaultTarget
	}
	f, err := resolveFor(s, g.variant, on)
	if err != nil {
		return nil, "", err
	}
	var m *ir.Module
	switch {
	case g.after != "":
		if m, err = f.Build(); err == nil {
			m, err = route.After(m, g.after)
		}
		if !slices.Contains(afterSteps(), g.after) {
			err = app.Usage(err)
		}
	case g.level == engine.Tensor:
		m, err = f.Build()
	case g.level == engine.Kernel:
		m, err = f.Kernels()
	default:
		err = app.Usage(fmt.Errorf("unknown level %q (known: tensor kernel)", g.level))
	}
	if err != nil {
		return nil, "", err
	}
	return f, m.String(), nil
}

// resolveFor resolves a variant and checks it against the spec; auto is the best known for the target, or without one for a CPU.
func resolveFor(s gdn.Spec, variant, target string) (*route.Form, error) {
	if target == "" {
		return app.Resolve(s, variant, nil)
	}
	t, err := app.OneTarget(target)
	if err != nil {
		return nil, err
	}
	return app.Resolve(s, variant, t)
}
