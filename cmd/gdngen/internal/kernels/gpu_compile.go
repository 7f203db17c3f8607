package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/explain"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/gpu/thunk"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/spf13/cobra"
)

// plainBackend is the backend whose programs XLA compiles for GPUs.
const plainBackend = "stablehlo"

// cudaInstrument returns the instrument that compiles StableHLO for GPUs, and its name.
func (a CLI) cudaInstrument(fresh bool) (*measure.Instrument, error) {
	tools, err := plugins.CUDA(a.Ctx, plugins.Options{Progress: a.Stderr, Offline: a.Offline})
	if err != nil {
		return nil, err
	}
	build, err := tools.Identity()
	if err != nil {
		return nil, err
	}
	lock, err := plugins.Machine(a.Waiting)
	if err != nil {
		return nil, err
	}
	cache, err := measure.OpenCache()
	if err != nil {
		return nil, err
	}
	cache.Fresh = fresh
	a.Compiler = aot.New(aot.Options{CUDA: tools.Path, Toolkit: tools.Toolkit, Timeout: app.CompileLimit, Machine: lock, Sound: tools.Damaged})
	return &measure.Instrument{Compiler: a.Compiler, Libtpu: tools.Name + " " + build, PTXAS: tools.PTXAS(), Cache: cache, Note: a.Note}, nil
}

// plainModule returns the module of a file, or of a spec as StableHLO: of plain ops, or with PTX inside for a GPU.
func (o *origin) plainModule(a *app.App, cmd *cobra.Command, args []string, x *measure.Instrument, g *target.GPU) (*explain.Module, error) {
	if cmd.Flags().Changed("backend") && o.backend != plainBackend && o.backend != route.PTX {
		return nil, app.Usage(fmt.Errorf("--backend %s: for a GPU XLA compiles a file, --backend %s or --backend %s", o.backend, plainBackend, route.PTX))
	}
	switch {
	case len(args) == 1 && (o.spec != "" || cmd.Flags().Changed("variant") || cmd.Flags().Changed("backend")):
		return nil, app.Usage(errors.New("give a file, or --spec with --variant and --backend"))
	case len(args) == 1:
		list, err := CLI{a}.fileModules(args[0], []*target.Target{nil})
		if err != nil {
			return nil, err
		}
		if list[0].Program.IsStored() {
			return nil, app.Usage(fmt.Errorf("%s is a folder of schedules for a TPU", args[0]))
		}
		return list[0], nil
	case o.spec == "":
		return nil, app.Usage(errors.New("what to compile? give a file of StableHLO, or --spec"))
	}
	s, err := app.ParseSpec(o.spec)
	if err != nil {
		return nil, err
	}
	if o.backend == route.PTX {
		p, err := CLI{a}.ptxOf(s, o.variant, x, g)
		if err != nil {
			return nil, err
		}
		return explain.NewModule(measure.Foreign(fmt.Sprintf("%s by %s through %s", s, p.variant, p.backend), p.text)), nil
	}
	r, err := route.Lookup(plainBackend)
	if err != nil {
		return nil, err
	}
	f, err := app.Resolve(s, o.variant, nil)
	if err != nil {
		return nil, err
	}
	program, err := measure.Of(f, r)
	if err != nil {
		return nil, err
	}
	m := explain.NewModule(program)
	m.Auto = f.Why()
	a.TellPromoted(f)
	return m, nil
}

// onGPU is a program on one GPU: the verdict, and the work that it would run.
type onGPU struct {
	explain.Verdict
	*gpuCounts
}

// plainCost is a program of StableHLO on GPUs.
type plainCost struct {
	Module   *explain.Module `json:"module"`
	Compiler string          `json:"compiler"`
	Rows     []onGPU         `json:"targets"`
	Note     string          `json:"note,omitempty"`
}

// plainNote explains the limits of the figures.
const plainNote = "launches and traffic are counted in what XLA would run; a modelled time counts no arithmetic, and has not been compared with a device (see docs/gpu.md)"

// compilePlain compiles a program for each GPU. refused is the first refusal.
func (a CLI) compilePlain(f *origin, cmd *cobra.Command, args []string, targets string, fresh bool, o measure.Options) (r *plainCost, refused, err error) {
	gpus, err := gpuTargets(targets)
	if err != nil {
		return nil, nil, err
	}
	x, err := a.cudaInstrument(fresh)
	if err != nil {
		return nil, nil, err
	}
	r = &plainCost{Compiler: x.Libtpu, Note: plainNote}
	for _, g := range gpus {
		m, err := f.plainModule(a.App, cmd, args, x, g)
		if err != nil {
			return nil, nil, err
		}
		if r.Module == nil {
			r.Module = m
		}
		row := onGPU{Verdict: explain.Verdict{Target: g.Name, Verdict: "accepted"}}
		c, err := x.CompileGPU(a.Ctx, m.Program, g, o)
		refusal := (*measure.Refusal)(nil)
		switch {
		case errors.As(err, &refusal):
			row.Verdict.Verdict, row.Reason = string(refusal.Verdict), refusal.Error()
			refused = cmp.Or(refused, app.Failed(app.ExitCode(err), "%s: %w", g.Name, err))
		case err != nil:
			return nil, nil, err
		default:
			row.Memory, row.Seconds, row.Dump = &c.Result.Memory, c.Result.Elapsed.Seconds(), c.Dump
			row.gpuCounts = &gpuCounts{Report: c.Report, Fault: c.Unknown}
		}
		r.Rows = append(r.Rows, row)
	}
	return r, refused, nil
}

// explainPlain shows the work that XLA would run for a program on GPUs.
func (a CLI) explainPlain(f *explainFlags, cmd *cobra.Command, args []string) error {
	if err := f.noTPUFlags(); err != nil {
		return err
	}
	scalars, err := measure.ParseScalars(f.scalars)
	if err != nil {
		return app.Usage(fmt.Errorf("--scalars %w", err))
	}
	o := measure.Options{Scalars: scalars, Dump: f.dump}
	for name := range o.Scalars {
		if _, err := strconv.Atoi(name); err != nil {
			return app.Usage(fmt.Errorf("--scalars %s: of a program for a GPU an operand is named by its number among those of @main", name))
		}
	}
	r, refused, err := a.compilePlain(&f.origin, cmd, args, f.target, f.fresh, o)
	if err != nil {
		return err
	}
	if spec := r.Module.Program.Spec; spec != nil && spec.Seqs > 0 && len(f.scalars) == 0 {
		a.Note("%s", measure.EqualLengths)
	}
	for _, row := range r.Rows {
		if row.gpuCounts != nil && row.unknown() != "" && refused == nil {
			refused = app.Failed(app.ExitCostUnknown, "%s: compiled, but its cost is unknown: %s", row.Target, row.unknown())
		}
	}
	if err := app.Emit(a.App, r, r.Rows, func(w io.Writer) { r.write(w, f.top) }); err != nil {
		return err
	}
	return refused
}

// write prints the counts for each GPU.
func (r *plainCost) write(w io.Writer, top int) {
	fmt.Fprintf(w, "module    %s\ncompiler  %s\n", r.Module, r.Compiler)
	for _, row := range r.Rows {
		fmt.Fprintf(w, "\ntarget    %s: %s\n", row.Target, row.Verdict.Verdict)
		if row.Reason != "" {
			fmt.Fprintln(w, row.Reason)
		}
		if row.gpuCounts != nil && row.Report != nil {
			row.Report.Write(w, top)
		}
	}
	fmt.Fprintf(w, "\n%s\n", r.Note)
}

// writeVerdicts prints a row for each GPU.
func (r *plainCost) writeVerdicts(w io.Writer) {
	fmt.Fprintf(w, "module    %s\ncompiler  %s\n\n", r.Module, r.Compiler)
	t := terminal.NewTable("TARGET", "VERDICT", ">ARGUMENTS", ">OUTPUTS", ">TEMP", ">KERNELS", ">LAUNCHES", ">SECONDS", "REASON")
	for _, row := range r.Rows {
		reason, _, _ := strings.Cut(row.Reason, "\n")
		if row.Memory == nil {
			t.Add(row.Target, row.Verdict.Verdict, "-", "-", "-", "-", "-", "-", reason)
			continue
		}
		kernels, launches := "?", "?"
		if row.Report != nil {
			kernels = fmt.Sprint(len(row.Report.Names()))
			if row.Report.Unknown == "" {
				launches = fmt.Sprint(row.Report.Launches)
			}
		}
		t.Add(row.Target, row.Verdict.Verdict, terminal.Size(row.Memory.Arguments), terminal.Size(row.Memory.Outputs), terminal.Size(row.Memory.Temp), kernels, launches,
			fmt.Sprintf("%.2f", row.Seconds), reason)
	}
	t.Write(w)
}

// noTPUFlags refuses flags without meaning for a GPU.
func (f *explainFlags) noTPUFlags() error {
	var given []string
	for flag, value := range map[string]string{"--diff": f.diff, "--html": f.html, "--picture": f.picture} {
		if value != "" {
			given = append(given, flag)
		}
	}
	if f.tokens > 0 || f.heads > 0 {
		given = append(given, "--tokens and --heads")
	}
	slices.Sort(given)
	if len(given) > 0 {
		return app.Usage(fmt.Errorf("%s is for TPUs: a GPU has the table of its launches, and -o json", given[0]))
	}
	return nil
}

// gpuCounts is the work that XLA would run, or the reason why it is unknown.
type gpuCounts struct {
	Report *thunk.Report `json:"report,omitempty"`
	Fault  string        `json:"unknown,omitempty"`
}

// unknown returns why there is no cost; "" if there is one.
func (c *gpuCounts) unknown() string {
	if c.Report == nil {
		return c.Fault
	}
	return c.Report.Unknown
}
