package search

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop/logbook"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/spf13/cobra"
)

func (a CLI) JournalCmd() *cobra.Command {
	return app.Group(&cobra.Command{
		Use:   "journal",
		Short: "Read, check and export the journal of a search",
		Long: `A journal is JSON lines, each with the checksum of the one before; what it names by key is stored beside it. It is never changed, so
whatever a search decided can be read, and recomputed, later.`,
		Example: "  gdngen run show runs/first 12\n  gdngen run verify runs/first\n  gdngen run export runs/first --format t4 > results.json",
		GroupID: "work",
	}, a.journalShowCmd(), a.journalLintCmd(), a.journalVerifyCmd(), a.journalExportCmd(), a.journalRenderCmd(), a.journalAblateCmd(), a.journalNoteCmd())
}

// readRun reads the journal of --run and repeats its warnings.
func (a CLI) readRun(dir, verb string) (*journal.State, error) {
	if dir == "" {
		return nil, app.Usage(fmt.Errorf("%s which run? give --run DIR", verb))
	}
	s, warnings, err := journal.Read(dir, nil)
	for _, w := range warnings {
		a.Warn("%s", w)
	}
	return s, err
}

func (a CLI) journalShowCmd() *cobra.Command {
	var dir, object string
	c := &cobra.Command{
		Use:   "show --run DIR [CANDIDATE]",
		Short: "List the candidates, or show one with all that is recorded of it",
		Example: `  gdngen run show runs/first --all
  gdngen run show runs/first 12
  gdngen run show runs/first 12 --object module/v6e
  gdngen run show runs/first --object 3f9a...`,
		Args: app.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error { return a.showCandidate(dir, object, args) },
	}
	app.RunFlag(c, &dir)
	c.Flags().StringVar(&object, "object", "", "print an object: by its role in the candidate, such as ir, module/v6e, schedule/v6e, or by its key")
	return c
}

// showCandidate lists the candidates of a run, or shows one, or prints an object.
func (a CLI) showCandidate(dir, object string, args []string) error {
	s, err := a.readRun(dir, "show")
	if err != nil {
		return err
	}
	if len(args) == 0 && object != "" {
		return a.printObject(dir, object)
	}
	if len(args) == 0 {
		all := s.Now().Candidates()
		return app.Emit(a.App, all, all, func(w io.Writer) { report.WriteCandidates(w, s) })
	}
	id, err := strconv.Atoi(strings.TrimPrefix(args[0], "#"))
	found := s.Now().Candidate(id)
	if err != nil || found == nil {
		return app.Usage(fmt.Errorf("run %s has no candidate %q: it has 1 to %d", dir, args[0], s.Len()))
	}
	if object != "" {
		key, ok := found.Objects[object]
		if !ok {
			return app.Usage(fmt.Errorf("candidate %d has no object %q (it has: %s)", id, object, strings.Join(slices.Sorted(maps.Keys(found.Objects)), " ")))
		}
		return a.printObject(dir, key)
	}
	return app.Emit(a.App, found, []any{found}, func(w io.Writer) { report.WriteCandidate(w, s, found) })
}

func (a CLI) printObject(dir, key string) error {
	text, err := autotune.Object(dir, key)
	if err == nil {
		_, err = a.Stdout.Write(text)
	}
	return err
}

func (a CLI) journalLintCmd() *cobra.Command {
	var dir, log, repo string
	var fields []string
	var last bool
	c := &cobra.Command{
		Use:   "lint --run DIR | --log FILE.md",
		Short: "Refuse placeholders, missing commands and verdicts without evidence",
		Long: `lint ends with status 5 if a record of a run could not be understood or judged again later. With --log it reads a log in Markdown, whose entries are
headings ## N. TITLE with lines NAME: TEXT below: fields that are missing, empty or pending, numbers that do not rise, commits that are not in the
repository, and commands whose program does not exist. A commit is a hash, "this commit", or "` + logbook.NoCommit + `".`,
		Example: "  gdngen run lint runs/first\n  gdngen run lint --log docs/log.md --last",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if log != "" && dir != "" {
				return app.Usage(errors.New("--run or --log, not both"))
			}
			if log != "" {
				return a.lintLog(log, cmp.Or(repo, filepath.Dir(log)), fields, last)
			}
			s, err := a.readRun(dir, "lint")
			if err != nil {
				return err
			}
			return a.faults(journal.Lint(s), nil, "lint", s)
		},
	}
	app.RunFlag(c, &dir)
	c.Flags().StringVar(&log, "log", "", "log in Markdown")
	c.Flags().StringSliceVar(&fields, "fields", logbook.Required, "fields that each entry of --log has")
	c.Flags().StringVar(&repo, "repo", "", "repository of the commits that --log names (default: the one around it)")
	c.Flags().BoolVar(&last, "last", false, "judge the last entry of --log alone")
	return c
}

func (a CLI) journalVerifyCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "verify --run DIR",
		Short: "Recompute every decision of a run from its records",
		Long: `verify checks the chain of records and every stored object, and recomputes proposals, duplicates, ranks, causes and champions. It asks
the strategy for each proposal again, which takes as long as it took in the search: a minute for some hundred candidates, told as it goes on. It
ends with status 5 if one differs. Proposals of an outside proposer, or of another version of the strategy, can not be recomputed: a note says so, and
everything else is checked.`,
		Example: "  gdngen run verify runs/first",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := a.readRun(dir, "verify")
			if err != nil {
				return err
			}
			said := time.Now()
			v, err := autotune.Verify(dir, func(done, total int) {
				if time.Since(said) > 5*time.Second {
					said = time.Now()
					a.Note("proposals recomputed: %d of %d", done, total)
				}
			})
			if err != nil {
				return err
			}
			for _, n := range v.Notes {
				a.Note("%s", n)
			}
			return a.faults(v.Faults, v.Notes, "verify", s)
		},
	}
	app.RunFlag(c, &dir)
	return c
}

// faults prints the faults of a journal, and returns an error if there are any.
func (a CLI) faults(faults, notes []string, verb string, s *journal.State) error {
	if faults == nil {
		faults = []string{}
	}
	rows := make([]map[string]string, len(faults))
	for i, f := range faults {
		rows[i] = map[string]string{"fault": f}
	}
	whole := map[string]any{"candidates": s.Len(), "faults": faults}
	if len(notes) > 0 {
		whole["notes"] = notes
	}
	err := app.Emit(a.App, whole, rows, func(w io.Writer) {
		for _, f := range faults {
			fmt.Fprintln(w, f)
		}
		if len(faults) == 0 {
			fmt.Fprintf(w, "%d candidates: nothing to complain of\n", s.Len())
		}
	})
	if err == nil && len(faults) > 0 {
		err = app.Failed(app.ExitRegression, "%s: %d faults in %d candidates", verb, len(faults), s.Len())
	}
	return err
}

func (a CLI) journalExportCmd() *cobra.Command {
	var dir, format, file string
	var names, docs []string
	for _, e := range report.Exports {
		names = append(names, e.Name)
		docs = append(docs, e.Doc)
	}
	c := &cobra.Command{
		Use:     "export --run DIR --format FORMAT",
		Short:   "Write a journal in the form of another tool",
		Long:    "export writes a journal for other tools. Formats:" + defined(names, docs),
		Example: "  gdngen run export runs/first --format csv > first.csv\n  gdngen run export runs/first --format t4 --out results.json",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			e, err := report.LookupExport(format)
			if err != nil {
				return app.Usage(err)
			}
			s, err := a.readRun(dir, "export")
			if err != nil {
				return err
			}
			return a.writeTo(file, func(w io.Writer) error { return e.Write(w, dir, s) })
		},
	}
	app.RunFlag(c, &dir)
	c.Flags().StringVar(&format, "format", "csv", strings.Join(names, ", "))
	app.OutFlag(c, &file)
	a.Formerly(c, "file", "out")
	app.Complete(c, "format", names)
	return c
}

func (a CLI) journalRenderCmd() *cobra.Command {
	var dir, file string
	c := &cobra.Command{
		Use:     "render --run DIR",
		Short:   "Write the log of a run for a reader, in Markdown",
		Long:    "render writes, for each candidate: hypothesis, change, exact command, result, hot spots before and after, verdict, cause, next.",
		Example: "  gdngen run show runs/first --md log.md",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := a.readRun(dir, "render")
			if err != nil {
				return err
			}
			return a.writeTo(file, func(w io.Writer) error { return report.Markdown(w, dir, s) })
		},
	}
	app.RunFlag(c, &dir)
	app.OutFlag(c, &file)
	a.Formerly(c, "file", "out")
	return c
}

// writeTo writes a file atomically, or standard output if none is named.
func (a CLI) writeTo(file string, write func(io.Writer) error) error {
	if file == "" || file == "-" {
		return write(a.Stdout)
	}
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	return store.WriteFile(file, []byte(b.String()))
}
