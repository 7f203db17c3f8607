package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ladder"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/autotune/worker"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/spf13/cobra"
)

// searchFlags are the flags of a session of a search.
type searchFlags struct {
	config  autotune.Config
	improve bool
	plain   bool
	noWait  bool
	top     int
	lab     labFlags
	on      onFlags
	ladder  string
	forward bool
}

func (s *searchFlags) add(c *cobra.Command) {
	f := c.Flags()
	app.RunFlag(c, &s.config.Dir)
	f.DurationVar(&s.config.Budget, "budget", 0, "time of this session; candidates under way then get a quarter of it more; 0: no limit")
	f.IntVar(&s.config.Candidates, "max-candidates", 0, "candidates of the whole run; 0: no limit")
	f.IntVar(&s.config.Patience, "patience", 100, "end after so many iterations of this session without a new champion; 0: no limit")
	s.config.Failures = autotune.DefaultFailures
	f.Var((*app.Limit)(&s.config.Failures), "max-failures", "pause after so many failures in a row: of machinery, of workers that crash or hang, of a proposer; 0, -1 or never: go on")
	f.IntVar(&s.config.Workers, "workers", 0, "candidates judged in parallel, at most --lookahead; 0: one a core, as memory allows")
	s.lab.add(f)
	s.on.add(c)
	f.StringVar(&s.ladder, "climb", "", "at the end of the session let the last champions climb to a step of this model, such as layer: a preset or file as gdngen model cost has them")
	f.BoolVar(&s.forward, "climb-forward", false, "with --climb: without the backward pass")
	app.Complete(c, "climb", model.Presets())
	f.DurationVar(&s.config.Answer, "answer-timeout", 0, "limit of one answer of an exec: proposer; 0: a minute")
	f.BoolVar(&s.plain, "plain", false, "progress as lines, also on a terminal")
	f.BoolVar(&s.improve, "must-improve", false, "end with status 8 if this session finds nothing better on any target")
	app.NoWaitFlag(c, &s.noWait)
	topFlag(c, &s.top)
}

func topFlag(c *cobra.Command, at *int) {
	c.Flags().IntVar(at, "top", 20, "rows of each ranking in the text form; 0: all")
}

func (a CLI) SearchCmd() *cobra.Command {
	return app.Group(&cobra.Command{
		Use:   "search",
		Short: "Search structural variants for the cheapest correct kernel",
		Long: `search judges variants of a spec by gates, cheap ones first: legality, IR, analytic bound, the interpreter, a CPU against float64 on
ordinary and adversarial inputs, the compiler, static cost, and full numerics. Each candidate gets a verdict and a
reason in a journal of JSON lines, from which a run that was stopped or killed goes on. A candidate can not change
tolerances. Candidates are ranked by in-order cycles where the
latencies of the target are known; elsewhere, or with --ruler issue, by issue cycles. A run keeps its ruler.`,
		Example: "  gdngen search run --budget 3m --run runs/first\n  gdngen run resume runs/first --budget 3m\n  gdngen run best runs/first --target v6e",
		GroupID: "work",
	}, a.searchRunCmd())
}

func (a CLI) searchRunCmd() *cobra.Command {
	var s searchFlags
	r := &runFlags{}
	names, docs := strategy.Names()
	directives, meanings := strategy.DirectiveDocs()
	c := &cobra.Command{
		Use:   "run --run DIR",
		Short: "Begin a search, and print its ranking at the end",
		Long: `run begins a search in a fresh folder. An interrupt stops compilers, drops the candidates under way, and leaves within seconds a run that run
resume goes on with. A second interrupt ends the program at once.

Candidates are judged here, or by workers elsewhere, one for each --on ENGINE, or WORKERS for --on ENGINE*WORKERS. A worker that is lost is an event of the journal, and its candidate is
judged by another. Journals are the same wherever candidates were judged, at the same --lookahead.

Engines:` + worker.EngineHelp() + `

Strategies:` + defined(names, docs) + `

Directives, and the axes that each walks:` + defined(directives, meanings),
		Example: `  gdngen search run --budget 3m --run runs/first
  gdngen search run --start naive --directive-preset triangular-inversion --focus chunk=128 --budget 10m --run runs/inverse
  gdngen search run --target all --guard v5e=2% --patience 60 --run runs/all
  gdngen search run --spec bench --shape decode=20 --shape bench=1 --run runs/serving
  gdngen search run --strategy "exec:python3 propose.py" --run runs/outside
  gdngen search run --start naive --objective cost@error=fla --target v6e --run runs/fla
  gdngen search run --on local*2 --on ssh:me@big*16 --budget 1h --run runs/wide
  gdngen search run --spec decode --target v6e --strategy exhaustive --max-candidates 40 --run runs/decode
  gdngen search run --spec contest-prefill,seqs=57 --target h100 --start naive --budget 10m --run runs/gpu`,
		Args: app.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.runOf(&s, r, cmd.Flags().Changed("strategy")); err != nil {
				return err
			}
			return a.search(&s, false)
		},
	}
	s.add(c)
	app.SpecFlag(c, &r.spec, "bench")
	f := c.Flags()
	f.StringVar(&r.targets, "target", strings.Join(autotune.DefaultTargets, ","), "TPU generations, separated by commas, or all; the first is compiled for first; or GPUs")
	f.StringVar(&s.config.Strategy, "strategy", "model:4", strings.Join(names, " or ")+"; for GPUs beam:4, or random")
	app.RulerFlag(c, (*string)(&s.config.Ruler))
	f.StringVar(&r.aim, "objective", "cost", "what is minimised: "+objective.Help)
	f.Uint64Var(&s.config.Seed, "seed", 1, "seed of inputs and order")
	f.StringArrayVar(&s.config.Seeds, "start", nil, "a variant that is tried first, once for each (default: the named variants)")
	f.StringSliceVar(&s.config.Axes, "axes", nil, "axes that are walked, separated by commas (default: all)")
	f.StringToStringVar(&s.config.Focus, "focus", nil, "axes held at a value: axis=value,...")
	f.StringVar(&s.config.Directive, "directive-preset", "", "walk the axes of one bottleneck: "+strings.Join(directives, ", "))
	f.StringVar(&r.expected, "min-expected", "", "the gain that answers of an exec: proposer are to expect at least, such as 10%; others are invalid")
	f.StringArrayVar(&r.texts, "directive-text", nil, "a demand on an exec: proposer, in words, once for each")
	f.StringArrayVar(&r.files, "directive-file", nil, "a demand on an exec: proposer, in a file, once for each")
	f.StringArrayVar(&r.shapes, "shape", nil, "another spec that is weighed: SPEC=WEIGHT, once for each; --spec has weight 1 unless it is named too")
	f.StringSliceVar(&r.guards, "guard", nil, "targets that a new champion elsewhere must not make worse: TARGET or TARGET=SHARE, such as v5e=2%")
	f.StringVar(&s.config.Precision, "precision", "", "the lowest precision that a candidate may use: f32 bf16x6 bf16x3 bf16x1 (default: that of auto for a float32 spec, else bf16x1)")
	f.BoolVar(&s.config.Baseline, "baseline", true, "judge auto before the first candidate, as the baseline to beat; not on GPUs, nor if auto is a seed")
	f.BoolVar(&s.config.Mixed, "mixed", false, "let workers of --on have different processors, whose last digits differ; the header says so")
	f.IntVar(&s.config.Lookahead, "lookahead", 0, "candidates under way at a time; runs are alike only if it is equal; 0: workers plus 1, at least 3")
	f.StringVar(&r.accuracy, "accuracy", "", "class of accuracy that candidates keep to: short for --objective cost@error=CLASS: "+strings.Join(gdn.AccuracyNames(), " or "))
	app.Complete(c, "accuracy", gdn.AccuracyNames())
	a.Formerly(c, "targets", "target")
	a.Formerly(c, "device", "plugin")
	a.Formerly(c, "ladder", "climb")
	a.Formerly(c, "ladder-forward", "climb-forward")
	app.CompleteList(c, "target", append(target.Names(), "all"))
	app.Complete(c, "objective", objective.Examples())
	app.CompleteList(c, "axes", app.AxisNames())
	app.CompleteChoices(c, "focus", func() []cobra.Completion { return nil }, app.VariantChoices)
	app.CompleteChoices(c, "start", app.VariantOffers, app.VariantChoices)
	app.Complete(c, "strategy", names)
	app.Complete(c, "directive-preset", directives)
	a.Formerly(c, "directive", "directive-preset")
	return c
}

// defined lists names with their meanings, one a line.
func defined(names, docs []string) string {
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "\n  %-20s %s", name, docs[i])
	}
	return b.String()
}

// runFlags are flags of a new run as they are given, before they are read into its configuration.
type runFlags struct {
	spec, targets, aim, expected string
	accuracy                     string
	shapes, guards, texts, files []string
}

// runOf reads the flags of a new run into its configuration; named says whether a strategy is.
func (a CLI) runOf(s *searchFlags, r *runFlags, named bool) (err error) {
	c := &s.config
	if c.Spec, err = app.ParseSpec(r.spec); err != nil {
		return err
	}
	var table strategy.Table
	if c.Targets, table, err = autotune.ParseTargets(r.targets, c.Spec); err != nil {
		return app.Usage(app.NearTarget(err))
	}
	if table != nil && !named {
		c.Strategy = "" // that of GPUs
	}
	if table != nil && len(s.on.on) > 0 {
		return app.Usage(errors.New("--on is for TPU targets: candidates for GPUs are judged here"))
	}
	if c.Ruler, err = ruler.Parse(c.Ruler); err != nil {
		return app.Usage(err)
	}
	if err := r.aims(c); err != nil {
		return err
	}
	if c.Words, err = a.words(r.texts, r.files); err != nil {
		return err
	}
	space := strategy.Space{Spec: c.Spec, Table: table, Axes: c.Axes, Focus: c.Focus}
	if _, err := strategy.Parse(cmp.Or(c.Strategy, "random"), space); err != nil {
		return app.Usage(err)
	}
	if err := proposerOf(c.Strategy); err != nil {
		return err
	}
	if err := a.startOf(c.Seeds, table); err != nil {
		return err
	}
	c.Promoted, err = promoted.Read()
	return err
}

// proposerOf checks that the program of a proposer is there, before seeds take the budget. The shell tells, which has words of its own.
func proposerOf(text string) error {
	command, outside := strings.CutPrefix(text, "exec:")
	words := strings.Fields(command)
	if !outside || len(words) == 0 || strings.ContainsAny(words[0], "=$`\"'(){}<>|&;*?[]~\\") {
		return nil
	}
	if exec.Command("sh", "-c", `command -v -- "$1"`, "sh", words[0]).Run() != nil {
		return app.Usage(fmt.Errorf("--strategy %q: there is no program %s: name its file, or put its folder on PATH", text, words[0]))
	}
	return nil
}

// aims reads what the run is to reach: its objective, the specs and targets that count, and what is asked of proposers.
func (r *runFlags) aims(c *autotune.Config) (err error) {
	if r.accuracy != "" {
		if r.aim != "cost" {
			return app.Usage(fmt.Errorf("--accuracy %s stands for --objective cost@error=%[1]s: give it or --objective %s", r.accuracy, r.aim))
		}
		r.aim = "cost@error=" + r.accuracy
	}
	if c.Objective, err = objective.Parse(r.aim); err == nil {
		err = c.Objective.Supports(c.Spec)
	}
	if err != nil {
		return app.Usage(fmt.Errorf("--objective: %w", err))
	}
	if c.Shapes, err = autotune.ParseShapes(r.shapes); err != nil {
		return app.Usage(fmt.Errorf("--shape: %w", err))
	}
	if c.Guards, err = autotune.ParseGuards(r.guards); err != nil {
		return app.Usage(app.NearTarget(err))
	}
	if c.Directive != "" {
		if _, err := strategy.LookupDirective(c.Directive); err != nil {
			return app.Usage(err)
		}
	}
	if r.expected != "" {
		var ok bool
		if c.Expected, ok = autotune.ParseShare(r.expected); !ok {
			return app.Usage(fmt.Errorf("--min-expected %q: want a share, such as 10%%", r.expected))
		}
	}
	return nil
}

// startOf reads the variants that a run begins with, in place.
func (a CLI) startOf(seeds []string, table strategy.Table) (err error) {
	for i, text := range seeds {
		if table == nil {
			a.TellRenamed(text)
		}
		if seeds[i], err = autotune.VariantOf(text); err != nil {
			return app.Usage(err)
		}
		if table != nil {
			_, err = table.Canon(seeds[i])
		} else {
			err = app.CheckText(seeds[i])
		}
		if err != nil {
			return app.Usage(err)
		}
	}
	return nil
}

// words joins demands, in the order of texts and then of files.
func (a CLI) words(texts, files []string) (string, error) {
	l := slices.Clone(texts)
	for _, f := range files {
		text, err := a.ReadInput(f)
		if err != nil {
			return "", app.Usage(fmt.Errorf("--directive-file: %w", err))
		}
		l = append(l, strings.TrimSpace(string(text)))
	}
	return strings.Join(l, "\n\n"), nil
}

func (a CLI) ResumeCmd() *cobra.Command {
	var s searchFlags
	c := &cobra.Command{
		Use:     "resume --run DIR",
		Short:   "Go on with a search that was stopped or killed",
		Example: "  gdngen run resume runs/first --budget 10m",
		Args:    app.Args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.search(&s, true) },
	}
	s.add(c)
	a.Formerly(c, "ladder", "climb")
	return c
}

// search drives a session and prints the summary of the run.
func (a CLI) search(s *searchFlags, resume bool) error {
	c := &s.config
	if c.Dir == "" {
		return app.Usage(errors.New("a search needs --run DIR"))
	}
	var rung model.Config
	if s.ladder != "" {
		var err error
		if rung, err = a.ReadModelConfig(s.ladder); err != nil {
			return err
		}
	}
	c.Generator, _ = app.Version()
	var err error
	if c.Lab, err = a.options(&s.lab); err != nil {
		return err
	}
	if resume {
		run, _, err := journal.Read(c.Dir, nil)
		if err != nil {
			return err
		}
		c.Mixed, c.Baseline = run.Header.Mixed, true
	}
	use := machine.Computes
	if c.Lab.Device != "" {
		use = machine.Measures
	}
	var w *watcher
	if c.Machine, err = a.Machine(use, s.noWait, func(h []machine.Holder) { w.warn(machine.Waiting(h)) }); err != nil {
		return err
	}
	pool, err := a.workers(&s.on, s, c.Mixed, func(text string) {
		if w == nil {
			a.Warn("%s", text)
		} else {
			w.warn(text)
		}
	})
	if err != nil {
		return err
	}
	if pool != nil {
		defer pool.Close()
		c.Evaluator = pool
	}
	w = a.watch(c.Dir, c.Budget, s.plain)
	said := context.AfterFunc(a.Ctx, func() {
		w.warn("stopping: compilers end, and what is under way is dropped; another interrupt ends at once")
	})
	defer said()
	c.Warn, c.Told, c.Begun = w.warn, w.told, w.begun
	improved := false
	c.Progress = func(p autotune.Progress) {
		improved = improved || p.Candidate.Verdict == journal.Improved
		w.progress(p)
	}
	drive := autotune.Search
	if resume {
		drive = autotune.Resume
	}
	sum, err := drive(a.Ctx, *c)
	w.close()
	if errors.Is(err, autotune.ErrExists) {
		return app.Usage(fmt.Errorf("%w: gdngen run resume %s", err, c.Dir))
	}
	if sum != nil && err == nil && s.ladder != "" && a.Ctx.Err() == nil {
		if sum, err = a.climbers(s, rung); err != nil {
			return err
		}
	}
	if sum != nil {
		if out := a.emitSummary(sum, s.top); err == nil {
			err = out
		}
	}
	switch {
	case err != nil:
		return err
	case a.Ctx.Err() != nil:
		a.Note("the run can be resumed: gdngen run resume %s", c.Dir)
		return a.Ctx.Err()
	case s.improve && !improved:
		return app.Failed(app.ExitNoImprovement, "this session found nothing better")
	}
	return nil
}

// climbers lets the champions of a session climb, and sums the run up again.
func (a CLI) climbers(s *searchFlags, m model.Config) (*report.Summary, error) {
	x, err := a.Instrument(false)
	if err != nil {
		return nil, err
	}
	e := &ladder.Static{Dir: s.config.Dir, Instrument: x}
	if err := ladder.Champions(a.Ctx, s.config.Dir, m, s.forward, e, a.Note); err != nil {
		return nil, err
	}
	return autotune.Status(s.config.Dir)
}

// emitSummary prints a run; its rows are those of the rankings, then the rejected ones.
func (a CLI) emitSummary(sum *report.Summary, top int) error {
	var err error
	bad := app.Emit(a.App, sum, sum.Listed(), func(w io.Writer) { err = sum.Text(w, top) })
	return errors.Join(bad, err)
}

func (a CLI) StatusCmd() *cobra.Command {
	var dir string
	var top int
	var watch bool
	c := &cobra.Command{
		Use:     "status --run DIR",
		Short:   "Print the ranking of a run, which may be in progress",
		Example: "  gdngen run show runs/first\n  gdngen run show runs/first --watch\n  gdngen run show runs/first -o json",
		Args:    app.Args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.status(dir, top, watch) },
	}
	app.RunFlag(c, &dir)
	topFlag(c, &top)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "print it anew after each candidate, until the session ends")
	return c
}

// status prints the ranking of a run; watched, anew after each candidate.
func (a CLI) status(dir string, top int, watch bool) error {
	if dir == "" {
		return app.Usage(errors.New("status of what? give --run DIR"))
	}
	last := -1
	for {
		sum, err := autotune.Status(dir)
		if err != nil {
			return err
		}
		for _, w := range sum.Warnings {
			a.Warn("%s", w)
		}
		if again := watch && sum.Driven; !again || sum.Candidates != last {
			if last >= 0 && a.Output == "text" {
				terminal.Clear(a.Stdout)
			}
			if err := a.emitSummary(sum, top); err != nil || !again {
				return err
			}
		}
		last = sum.Candidates
		select {
		case <-a.Ctx.Done():
			return nil // it was watched, and that is over
		case <-time.After(watchEvery):
		}
	}
}

// watchEvery is the time between two looks at a run.
const watchEvery = 2 * time.Second

func (a CLI) BestCmd() *cobra.Command {
	var dir, name, module string
	var promote bool
	c := &cobra.Command{
		Use:   "best --run DIR",
		Short: "Print the best variant of a run on a target",
		Long: `best prints the variant with the least cycles on a target, by the ruler of the run. --promote makes it this user's auto: a row of ` + promoted.FileName + ` in
the folder gdngen of the user's configuration, or in the folder that ` + promoted.DirEnv + ` names; ` + promoted.DirEnv + `=` + promoted.Off + ` ignores such rows. The row holds for exactly the spec, the target and the class
of accuracy of the run, which must have ranked the former auto and found something better. list results, contest bench
and model cost never use it.`,
		Example: `  gdngen run best runs/first --target v6e
  gdngen explain --spec bench --variant @runs/first
  gdngen run best runs/first --module best.mlir
  gdngen run best runs/first --target v6e --promote`,
		Args: app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return app.Usage(errors.New("the best of what? give --run DIR"))
			}
			if name != "" {
				if _, gpu := target.LookupGPU(name); gpu != nil {
					if _, err := app.ParseTargets(name); err != nil {
						return err
					}
				}
			}
			best, err := autotune.Best(dir, name)
			if err != nil {
				return err
			}
			if module != "" {
				text, err := autotune.ModuleOf(dir, name, best)
				if err == nil {
					err = store.WriteFile(module, text)
				}
				if err != nil {
					return err
				}
			}
			if promote {
				said, err := promoted.Promote(dir, name, best)
				if app.IsA[*promoted.UseError](err) {
					return app.Usage(err)
				}
				if err != nil {
					return err
				}
				a.Note("%s", said)
			}
			s, _, err := journal.Read(dir, nil)
			if err != nil {
				return err
			}
			at := cmp.Or(name, s.Header.Targets[0])
			if base := report.BaselineOf(s.Now(), at); base != nil {
				a.Note("%s", base)
			}
			if best.Variant != "" {
				a.Note("other commands take it as --variant @%s#%d", dir, best.ID)
				if len(s.Header.Shapes) < 2 {
					a.Note("next: gdngen explain --spec %s --variant @%s#%d --target %s", s.Header.Spec, dir, best.ID, at)
				}
			}
			return app.Emit(a.App, best, []any{best}, func(w io.Writer) { fmt.Fprintln(w, best.Variant) })
		},
	}
	app.RunFlag(c, &dir)
	c.Flags().StringVar(&name, "target", "", "TPU generation or GPU (default: the first of the run)")
	c.Flags().BoolVar(&promote, "promote", false, "make it this user's auto, by a row in the configuration")
	c.Flags().StringVar(&module, "module", "", "write the compiled StableHLO module to this file, for a GPU its Python")
	app.Complete(c, "target", target.Names())
	return c
}
