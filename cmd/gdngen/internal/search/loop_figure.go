package search

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ladder"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// figureCommand returns the measuring command for --search and --ladder of loop. It runs the judge's gdngen.
func figureCommand(flag, text string) string {
	return "gdngen loop figure --" + flag + " " + remote.Quote(text)
}

func (a CLI) loopFigureCmd() *cobra.Command {
	var search, file, tool string
	c := &cobra.Command{
		Use:   "figure (--search FLAGS | --ladder FILE)",
		Short: "Print the figure of the folder, as loop --search and loop --ladder measure it",
		Long: `figure --search builds the gdngen of this folder and lets it search with the flags of search run. Then this gdngen judges the text of the
program that was found, by its own gates, for the spec and target of the flags: the folder's code provides only data. The figure is the score in cycles.

figure --ladder reads a comparison as gdngen model ladder --comparison does, and gives the time of its variant on the highest rung below the guards, once its numbers are right.`,
		Example: "  gdngen loop figure --search '--spec tiny --target v6e --start naive --max-candidates 8'\n  gdngen loop figure --ladder ladder.json",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			dir, err := os.MkdirTemp("", "gdngen-figure-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			var x float64
			switch {
			case (search == "") == (file == ""):
				return app.Usage(errors.New("give one of --search and --ladder"))
			case search != "":
				x, err = a.searchFigure(dir, search, tool)
			default:
				x, err = a.ladderFigure(dir, file)
			}
			if err != nil {
				return err
			}
			return app.Emit(a.App, x, []float64{x}, func(w io.Writer) { fmt.Fprintf(w, "%g\n", x) })
		},
	}
	c.Flags().StringVar(&search, "search", "", "flags of search run")
	c.Flags().StringVar(&file, "ladder", "", "comparison in JSON")
	c.Flags().StringVar(&tool, "tool", "", "program that searches (default: built of ./cmd/gdngen in this folder)")
	return c
}

// ladderFigure returns the time of a comparison's variant.
func (a CLI) ladderFigure(dir, file string) (float64, error) {
	l := ladderFlags{file: file, lab: labFlags{memory: "6GiB"}}
	if err := a.ladderConfig(&l); err != nil {
		return 0, err
	}
	e, err := a.ladderEvaluator(dir, &l)
	if err != nil {
		return 0, err
	}
	x, mfu, err := ladder.Figure(a.Ctx, l.config, e)
	if err == nil && mfu > 0 {
		err = journal.Note{MFU: mfu}.Hand()
	}
	return x, err
}

// searchFigure returns the score, by this program, of the best variant that the folder's own program finds.
func (a CLI) searchFigure(dir, flags, tool string) (float64, error) {
	words := strings.Fields(flags)
	var c autotune.Config
	var spec, targets, by string
	f := pflag.NewFlagSet("search", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.SetOutput(io.Discard)
	f.StringVar(&spec, "spec", "bench", "")
	f.StringVar(&targets, "target", autotune.DefaultTargets[0], "")
	f.StringVar(&targets, "targets", autotune.DefaultTargets[0], "") // its former name
	f.StringVar(&by, "ruler", "", "")
	f.StringVar(&c.Precision, "precision", "", "")
	f.Uint64Var(&c.Seed, "seed", 1, "")
	if err := f.Parse(words); err != nil {
		return 0, app.Usage(fmt.Errorf("--search: %w", err))
	}
	var err error
	if c.Spec, err = app.ParseSpec(spec); err != nil {
		return 0, err
	}
	list, err := app.ParseTargets(targets)
	if err != nil {
		return 0, err
	}
	c.Targets = []string{list[0].Name}
	if c.Ruler, err = ruler.Parse(by); err != nil {
		return 0, app.Usage(err)
	}
	if tool == "" {
		tool = filepath.Join(dir, "change")
		if err := a.runContained("go", "build", "-o", tool, "./cmd/gdngen"); err != nil {
			return 0, fmt.Errorf("the gdngen of this folder can not be built: %w", err)
		}
	}
	found := filepath.Join(dir, "found")
	if err := a.runContained(append(append([]string{tool, "search", "run"}, words...), "--run", found, "--plain")...); err != nil {
		return 0, fmt.Errorf("its search: %w", err)
	}
	if c.Lab, err = a.options(&labFlags{memory: "6GiB"}); err != nil {
		return 0, err
	}
	if c.Machine, err = a.Machine(machine.Computes, false, a.Waiting); err != nil {
		return 0, err
	}
	c.Lab.Cache, c.Lab.Exams = nil, "" // the folder's program could have written false costs or results into the caches
	c.Generator, _ = app.Version()
	if c.Dir, err = os.MkdirTemp(dir, "judged-"); err != nil { // made after the folder's program ended
		return 0, err
	}
	best, err := autotune.ScoreOf(a.Ctx, found, c)
	if err != nil {
		return 0, err
	}
	return float64(best.Cost(c.Targets[0]).Score), nil
}

// runContained runs a program with its output on standard error, and ends the processes that outlive it.
func (a CLI) runContained(words ...string) error {
	return loop.RunContained(a.Ctx, func(line string) { fmt.Fprintln(a.Stderr, line) }, words...)
}
