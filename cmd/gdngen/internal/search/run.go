package search

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RunCmd returns the commands on the folder of a run. cases is the command that had this name before; its flag selects it.
func (a CLI) RunCmd(cases *cobra.Command) *cobra.Command {
	c := app.Group(&cobra.Command{
		Use:   "run",
		Short: "Look at a run, check it, go on with it: the folder of a search",
		Long: `A run is the folder of a search: a journal of JSON lines, each with the checksum of the line before, and objects that the journal names by
key. Records are never changed, so every decision of a search can be read, and recomputed, later. The folder is the first argument, or --run DIR.`,
		Example: "  gdngen run show runs/first\n  gdngen run best runs/first --target v6e\n  gdngen run verify runs/first\n  gdngen run resume runs/first --budget 10m",
	}, onRun(a.runShowCmd()), onRun(a.BestCmd()), onRun(a.ResumeCmd()), onRun(a.journalVerifyCmd()), onRun(a.journalLintCmd()), onRun(a.journalNoteCmd()), onRun(a.journalAblateCmd()), onRun(a.journalExportCmd()),
		onRun(a.SimulateCmd()), onRun(a.HandoverCmd()))
	alone := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("cases") {
			return alone(cmd, args)
		}
		a.Note("note: gdngen run with --cases is now gdngen check --cases; the old name goes with the next version")
		return cases.RunE(cmd, args)
	}
	cases.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true; c.Flags().AddFlag(f) })
	return c
}

// onRun lets a command take the folder of --run as its first argument; a command for several folders takes all arguments so.
func onRun(c *cobra.Command) *cobra.Command {
	c.Use = strings.Replace(c.Use, "--run DIR", "DIR", 1)
	check, run, many := c.Args, c.RunE, c.Flags().Lookup("run").Value.Type() == "stringArray"
	rest := func(cmd *cobra.Command, args []string) []string {
		if cmd.Flags().Changed("run") || len(args) == 0 || cmd.Flags().Changed("log") {
			return args
		}
		if many {
			return nil
		}
		return args[1:]
	}
	c.Args = func(cmd *cobra.Command, args []string) error { return check(cmd, rest(cmd, args)) }
	c.RunE = func(cmd *cobra.Command, args []string) error {
		left := rest(cmd, args)
		for _, dir := range args[:len(args)-len(left)] {
			if err := cmd.Flags().Set("run", dir); err != nil {
				return app.Usage(err)
			}
		}
		return run(cmd, left)
	}
	return c
}

// shown holds the arguments and flags of run show.
type shown struct {
	dir, object, html, md string
	top                   int
	watch, all, pictures  bool
}

func (a CLI) runShowCmd() *cobra.Command {
	var s shown
	c := &cobra.Command{
		Use:   "show DIR [CANDIDATE]",
		Short: "Show a run: its ranking, one candidate, or the whole as a page",
		Long: `show prints the ranking of a run, which may be in progress, or all that is recorded of one candidate. --html writes one page that needs nothing
else: the best so far, cycles against error, the champion against the first by stage, a heat map of the structures, and
what was rejected and why. --pictures compiles the champions and their parents, unless the cache has them,
and draws their schedules side by side. --md writes, for
each candidate, hypothesis, change, exact command, result, hot spots, verdict, cause and next.`,
		Example: `  gdngen run show runs/first
  gdngen run show runs/first --watch
  gdngen run show runs/first 12
  gdngen run show runs/first 12 --object module/v6e
  gdngen run show runs/first --html first.html --pictures
  gdngen run show runs/first --md log.md`,
		Args: app.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error { return a.show(s, args) },
	}
	app.RunFlag(c, &s.dir)
	topFlag(c, &s.top)
	f := c.Flags()
	f.BoolVarP(&s.watch, "watch", "w", false, "print it anew after each candidate, until the session ends")
	f.BoolVar(&s.all, "all", false, "list every candidate in its order, in place of the ranking")
	f.StringVar(&s.object, "object", "", "print an object: by its role in the candidate, such as ir, module/v6e, schedule/v6e, or by its key")
	f.StringVar(&s.html, "html", "", "write the report to this file, - for standard output")
	f.BoolVar(&s.pictures, "pictures", false, "with --html: draw the schedules of the champions and of their parents, which may compile")
	f.StringVar(&s.md, "md", "", "write the log in Markdown to this file, - for standard output")
	return c
}

func (a CLI) show(s shown, args []string) error {
	if s.dir == "" {
		return app.Usage(errors.New("show which run? give its folder: gdngen run show DIR"))
	}
	pages := slices.DeleteFunc([]string{s.html, s.md}, func(file string) bool { return file == "" })
	switch {
	case len(pages) > 0 && (len(args) > 0 || s.watch || s.all || s.object != ""):
		return app.Usage(errors.New("--html and --md are of the whole run: give them without a candidate, --watch, --all and --object"))
	case s.pictures && s.html == "":
		return app.Usage(errors.New("--pictures is for --html FILE"))
	case s.watch && (len(args) > 0 || s.all || s.object != ""):
		return app.Usage(errors.New("--watch is of the ranking: give it without a candidate, --all and --object"))
	case len(args) > 0 || s.all || s.object != "":
		return a.showCandidate(s.dir, s.object, args)
	case len(pages) == 0:
		return a.status(s.dir, s.top, s.watch)
	}
	if s.html != "" {
		if err := a.report(s.dir, s.html, s.pictures); err != nil {
			return err
		}
	}
	if s.md == "" {
		return nil
	}
	run, err := a.readRun(s.dir, "show")
	if err != nil {
		return err
	}
	return a.writeTo(s.md, func(w io.Writer) error { return report.Markdown(w, s.dir, run) })
}
