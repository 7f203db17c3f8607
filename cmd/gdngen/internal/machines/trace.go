package machines

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/profile"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/trace"
	"github.com/gdngen/gdngen/pjrt/trace/fetch"
	"github.com/spf13/cobra"
)

func (a CLI) TraceCmd() *cobra.Command {
	return app.Group(&cobra.Command{
		Use:   "trace",
		Short: "Say where the time goes in profiles of JAX and XLA programs",
		Long: `trace reads the files of JAX's and XLA's profiler: an XSpace (xplane.pb), trace events (trace.json.gz, perfetto_trace.json.gz), or a
folder, in which it takes the newest run, with all its hosts.

Self time is an event's time without the events inside it. Figures of a step are medians over the steady steps of all devices, with the tenth and
ninetieth percentile; the first quarter of the steps is warm-up. A gap is the part of a step in which no instruction runs.`,
		Example: "  gdngen device trace top runs/profile\n  gdngen device trace diff before.xplane.pb after.xplane.pb --by category",
		GroupID: "away",
	}, a.traceTopCmd(), a.traceDiffCmd(), a.traceBudgetCmd(), a.traceMFUCmd(), a.traceFetchCmd())
}

// traceFlags choose what to sum.
type traceFlags struct {
	by, groups, line, stages, kernel, target string
	top, warmup                              int
}

func (f *traceFlags) add(c *cobra.Command, by bool) {
	fs := c.Flags()
	fs.StringVar(&f.groups, "groups", trace.DefaultGroups, "NAME=REGEXP;... or a file {\"NAME\": \"REGEXP\", ...}; the first that fits scope, name, category or source counts")
	fs.StringVar(&f.line, "line", "", "line of events (default: "+trace.OpsLine+", or without it the instructions among all events)")
	fs.IntVar(&f.warmup, "warmup", 0, "steps that medians leave out (default: a quarter, and at least one of four)")
	if !by {
		return
	}
	var names, docs []string
	for _, k := range trace.Keys {
		names, docs = append(names, k[0]), append(docs, k[0]+" ("+k[1]+")")
	}
	fs.StringVar(&f.by, "by", "op", "what to sum by: "+strings.Join(docs, ", "))
	app.Complete(c, "by", names)
	fs.IntVar(&f.top, "top", 12, "rows to print; 0: all")
	fs.StringVar(&f.stages, "stages", "", "file of gdngen explain -o json, for --by stage (default: "+profile.StagesFile+" in the folder of a profile)")
	fs.StringVar(&f.kernel, "kernel", "", "regular expression that finds the kernel of --stages by name or scope, where the trace calls it otherwise")
	fs.StringVar(&f.target, "target", "", "generation whose shares of --stages count, where the file has several")
	app.Complete(c, "target", target.Names())
}

// openTrace reads the flags' query and the trace.
func (a CLI) openTrace(c *cobra.Command, f *traceFlags, name string) (*trace.Trace, trace.Query, error) {
	if beside := filepath.Join(name, profile.StagesFile); f.by == "stage" && f.stages == "" {
		if _, err := os.Stat(beside); err == nil {
			f.stages = beside
		}
	}
	q, err := a.traceQuery(c, f)
	if err != nil {
		return nil, q, err
	}
	t, err := trace.Open(a.Ctx, name)
	return t, q, err
}

func (a CLI) traceQuery(c *cobra.Command, f *traceFlags) (trace.Query, error) {
	q := trace.Query{By: f.by, Line: f.line, Warmup: -1}
	if c.Flags().Changed("warmup") {
		q.Warmup = f.warmup
	}
	var err error
	if strings.Contains(f.groups, "=") {
		q.Groups, err = trace.ParseGroups(f.groups)
	} else {
		var data []byte
		if data, err = a.ReadInput(f.groups); err == nil {
			q.Groups, err = trace.ReadGroups(data)
		}
	}
	if err != nil {
		return q, app.Usage(fmt.Errorf("--groups: %w", err))
	}
	if f.stages != "" {
		data, err := a.ReadInput(f.stages)
		if err != nil {
			return q, err
		}
		if q.Stages, err = trace.ReadStages(data, f.target); err != nil {
			return q, app.Usage(fmt.Errorf("--stages %s: %w", f.stages, err))
		}
		if f.kernel != "" {
			if q.Stages.Kernel, err = regexp.Compile(f.kernel); err != nil {
				return q, app.Usage(fmt.Errorf("--kernel: %w", err))
			}
		}
	}
	return q, app.Usage(q.Check())
}

// warnAll prints warnings of a trace.
func (a CLI) warnAll(list []string) {
	for _, w := range list {
		a.Warn("%s", w)
	}
}

func (a CLI) traceTopCmd() *cobra.Command {
	var f traceFlags
	c := &cobra.Command{
		Use:   "top TRACE",
		Short: "Sum the time by instruction, category, scope, group or stage",
		Long: `top sums self time over the whole trace, most first, with the median of a step.

A trace does not show the inside of a kernel. --by stage splits the time of gdngen's kernels by the static shares of their stages, an estimate from
the compiled schedule.`,
		Example: `  gdngen device trace top runs/profile
  gdngen device trace top t.xplane.pb --by group --groups 'rule=gdn;projections=proj'
  gdngen explain --spec bench --target v6e -o json > e.json; gdngen device trace top t.xplane.pb --by stage --stages e.json`,
		Args: app.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			t, q, err := a.openTrace(c, &f, words[0])
			if err != nil {
				return err
			}
			s, err := t.Sum(q)
			if err != nil {
				return err
			}
			a.warnAll(s.Warnings)
			return app.Emit(a.App, s, s.Rows, func(w io.Writer) { s.Write(w, f.top) })
		},
	}
	f.add(c, true)
	return c
}

// two refuses anything but two arguments.
func two(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("give two traces, BEFORE and AFTER, not %d", len(args))
	}
	return nil
}

func (a CLI) traceDiffCmd() *cobra.Command {
	var f traceFlags
	var limit string
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare the steps of two traces",
		Long: `diff compares medians of steps, sorted by the size of the change, and marks rows that are new or gone. It warns if device, versions or
steps differ, and does not compare a trace with itself. With --max-regression it ends with status 5 where a step takes that much longer.`,
		Example: "  gdngen device trace diff before after\n  gdngen device trace diff before.xplane.pb after.xplane.pb --by scope --max-regression 1%",
		Args:    app.Args(two),
		RunE: func(c *cobra.Command, words []string) error {
			q, err := a.traceQuery(c, &f)
			if err != nil {
				return err
			}
			most, ok := autotune.ParseShare(cmp.Or(limit, "0"))
			if !ok {
				return app.Usage(fmt.Errorf("--max-regression %q: want a share such as 1%%", limit))
			}
			var t [2]*trace.Trace
			for i := range t {
				if t[i], err = trace.Open(a.Ctx, words[i]); err != nil {
					return err
				}
			}
			d, err := trace.Diff(t[0], t[1], q)
			if err != nil {
				return err
			}
			a.warnAll(d.Warnings)
			if err := app.Emit(a.App, d, d.Rows, func(w io.Writer) { d.Write(w, f.top) }); err != nil {
				return err
			}
			if limit != "" && !(d.Regression() <= most) {
				return app.Failed(app.ExitRegression, "a step takes %.2f %% longer, and %s is allowed", 100*d.Regression(), limit)
			}
			return nil
		},
	}
	f.add(c, true)
	c.Flags().StringVar(&limit, "max-regression", "", "part by which a step may take longer, such as 1%")
	return c
}

func (a CLI) traceBudgetCmd() *cobra.Command {
	var f traceFlags
	var control string
	c := &cobra.Command{
		Use:   "budget TRACE",
		Short: "Divide a step among groups of instructions, and gaps",
		Long: `budget divides the median step among --groups, the rest (other), and gaps. --control names a trace of the same model without the part
under study, and the difference is printed. Each part is a median: parts add up if steps are alike and the device runs one instruction at a time.`,
		Example: "  gdngen device trace budget runs/profile\n  gdngen device trace budget t.xplane.pb --groups groups.json --control without.xplane.pb",
		Args:    app.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			t, q, err := a.openTrace(c, &f, words[0])
			if err != nil {
				return err
			}
			var base *trace.Trace
			if control != "" {
				if base, err = trace.Open(a.Ctx, control); err != nil {
					return err
				}
			}
			b, err := trace.Divide(t, base, q)
			if err != nil {
				return err
			}
			a.warnAll(b.Warnings)
			return app.Emit(a.App, b, b.Rows, func(w io.Writer) { b.Write(w) })
		},
	}
	f.add(c, false)
	c.Flags().StringVar(&control, "control", "", "trace to compare with")
	return c
}

func (a CLI) traceMFUCmd() *cobra.Command {
	var f traceFlags
	var work trace.Work
	var name, generation string
	var forward bool
	c := &cobra.Command{
		Use:   "mfu TRACE",
		Short: "Say the model flop utilisation of a trace",
		Long: `mfu divides the model flops of a step by the peak flops of the chips in its median time. Custom calls have no flops in a trace, so model flops come
from --model (a preset: ` + strings.Join(model.Presets(), ", ") + `, or a file, as for gdngen model cost) or --flops. The peak comes from the trace, or from --target.`,
		Example: "  gdngen device trace mfu runs/profile --model 130m\n  gdngen device trace mfu t.xplane.pb --flops 3.2e12 --tokens 8192 --chips 4",
		Args:    app.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			q, err := a.traceQuery(c, &f)
			if err != nil {
				return err
			}
			if (name == "") == (work.Flops == 0) {
				return app.Usage(errors.New("what does a step compute? give --model or --flops"))
			}
			if name != "" {
				config, err := a.ReadModelConfig(name)
				if err != nil {
					return err
				}
				work.Flops, work.Tokens = config.StepFlops(forward), float64(config.Batch*config.Tokens)
			}
			if generation != "" {
				if work.Target, err = target.Lookup(generation); err != nil {
					return app.Usage(err)
				}
			}
			t, err := trace.Open(a.Ctx, words[0])
			if err != nil {
				return err
			}
			u, err := trace.MFU(t, q, work)
			if err != nil {
				return err
			}
			a.warnAll(u.Trace.Warnings)
			if err := (journal.Note{Trace: words[0], MFU: u.MFU, Tokens: u.Tokens}).Hand(); err != nil {
				return err
			}
			return app.Emit(a.App, u, []any{u}, func(w io.Writer) { u.Write(w) })
		},
	}
	f.add(c, false)
	c.Flags().StringVar(&name, "model", "", "preset, or file in JSON; - is standard input")
	app.Complete(c, "model", model.Presets())
	c.Flags().BoolVar(&forward, "forward", false, "a step of the model is the forward pass alone")
	c.Flags().Float64Var(&work.Flops, "flops", 0, "model flops of a step, on all chips")
	c.Flags().Float64Var(&work.Tokens, "tokens", 0, "tokens of a step, with --flops")
	c.Flags().IntVar(&work.Chips, "chips", 0, "chips that share a step (default: the devices of the trace)")
	c.Flags().StringVar(&generation, "target", "", "generation whose peak counts (default: the peak in the trace)")
	app.Complete(c, "target", target.Names())
	return c
}

// mostFetched is the largest number of bytes copied without --yes.
const mostFetched = 256 << 20

func (a CLI) traceFetchCmd() *cobra.Command {
	var o fetch.Options
	var out string
	var yes bool
	var forms strings.Builder
	for _, s := range fetch.Sources {
		fmt.Fprintf(&forms, "  %-42s %s\n", s[0], s[1])
	}
	c := &cobra.Command{
		Use:   "fetch SOURCE",
		Short: "Copy traces from where jobs left them",
		Long: `fetch copies JSON traces and profile.json from a source, and XSpaces with --include-xplane or if there is nothing else. Sizes and hashes
are checked. Complete files are not copied again, so the same command goes on after an interruption. gdngen remote
fetch copies the results of a job of gdngen remote.

A source is one of
` + forms.String(),
		Example: "  gdngen device trace fetch hf-dataset:lab/runs/night --include-xplane --out traces\n  gdngen device trace fetch gs://bucket/profile --match '*.xplane.pb' --out traces",
		Args:    app.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, words []string) error {
			p, err := fetch.New(a.Ctx, words[0], o)
			if app.IsA[*fetch.SourceError](err) {
				return app.Usage(err)
			}
			if err != nil {
				return err
			}
			size, known := p.Size()
			if !known {
				size = -1
			}
			a.Note("%d files, %s", len(p.Files), terminal.Size(size))
			if size > mostFetched && !yes {
				return app.Usage(fmt.Errorf("%d files, %s: say --yes, or take fewer by --match", len(p.Files), terminal.Size(size)))
			}
			l, err := p.Run(a.Ctx, out, func(name string) { a.Note("%s", name) })
			bad := app.Emit(a.App, l, l, func(w io.Writer) {
				for _, f := range l {
					fmt.Fprintln(w, f.Path)
				}
			})
			return cmp.Or(err, bad)
		},
	}
	c.Flags().StringVar(&o.Only, "match", "", "names, or ends of them, that match a pattern such as *.pb")
	a.Formerly(c, "only", "match")
	c.Flags().BoolVar(&o.XPlane, "include-xplane", false, "XSpaces too")
	c.Flags().StringVar(&out, "out", "traces", "folder for the copies")
	c.Flags().BoolVar(&yes, "yes", false, fmt.Sprintf("also where it is more than %s", terminal.Size(mostFetched)))
	return c
}
