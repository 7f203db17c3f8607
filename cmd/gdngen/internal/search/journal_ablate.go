package search

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/spf13/cobra"
)

func (a CLI) journalAblateCmd() *cobra.Command {
	var dir string
	var from int
	var lab labFlags
	var config autotune.Config
	c := &cobra.Command{
		Use:   "ablate --run DIR CANDIDATE",
		Short: "Judge the moves of a joint change: what each saves, alone and after the others",
		Long: `ablate takes the changes between a candidate and its parent apart: it judges each alone, and all of them one after another, those with the
largest estimated gain first. It uses the gates of the search. The judgements are a run of their own (--out, ablate-N in the folder of the run),
which the same command continues.`,
		Example: "  gdngen run ablate runs/first 12\n  gdngen run ablate runs/first 12 --from 1 --out runs/parts",
		Args:    app.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, words []string) error {
			id, err := strconv.Atoi(strings.TrimPrefix(words[0], "#"))
			if err != nil {
				return app.Usage(fmt.Errorf("%q is no candidate", words[0]))
			}
			if dir == "" {
				return app.Usage(errors.New("ablate which run? give --run DIR"))
			}
			if config.Lab, err = a.options(&lab); err != nil {
				return err
			}
			if config.Machine, err = a.Machine(machine.Computes, false, a.Waiting); err != nil {
				return err
			}
			config.Generator, _ = app.Version()
			config.Warn = func(text string) { a.Warn("%s", text) }
			config.Progress = func(p autotune.Progress) { a.Note("%s", p) }
			b, err := autotune.Ablate(a.Ctx, dir, id, from, config)
			if err != nil {
				return err
			}
			return app.Emit(a.App, b, b.Moves, func(w io.Writer) { writeAblation(w, b) })
		},
	}
	app.RunFlag(c, &dir)
	f := c.Flags()
	f.IntVar(&from, "from", 0, "the candidate to begin with; 0: the parent")
	f.StringVar(&config.Dir, "out", "", "folder of the judgements")
	f.IntVar(&config.Workers, "workers", 0, "candidates judged in parallel; 0: one a core, as memory allows")
	lab.add(f)
	return c
}

func writeAblation(w io.Writer, b *autotune.Ablation) {
	fmt.Fprintf(w, "candidate %d, from candidate %d: %s cycles per token and value head on %s (static), %.3f -> %.3f\n", b.Candidate, b.From, b.Ruler, b.Target,
		float64(b.Base.Alone.PerToken), float64(b.Whole.Alone.PerToken))
	t := terminal.NewTable("MOVE", ">EXPECTED", ">ALONE", "", ">WITH THOSE ABOVE", "", "PAYS")
	for _, m := range b.Moves {
		t.Add(m.Move, fmt.Sprintf("%.1f %%", 100*float64(m.Expected)), cyclesOf(&m.Alone), report.Clip(m.Alone.Reason, 60), cyclesOf(m.After), report.Clip(m.After.Reason, 60), saved(m.Pays))
	}
	t.Write(w)
	fmt.Fprintf(w, "together %s; each alone, multiplied: %s\n", saved(b.Whole.Pays), saved(b.Separate))
	fmt.Fprintf(w, "judged in %s: gdngen run show %[1]s\n", b.Run)
}

// saved describes a share of saved cycles.
func saved(share journal.Figure) string {
	switch {
	case share > 0:
		return fmt.Sprintf("%.1f %% less", 100*float64(share))
	case share < 0:
		return fmt.Sprintf("%.1f %% more", -100*float64(share))
	}
	return "nothing"
}

func cyclesOf(j *autotune.Judged) string {
	if j.PerToken == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(j.PerToken))
}
