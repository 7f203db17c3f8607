package search

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/handover"
	"github.com/spf13/cobra"
)

func (a CLI) HandoverCmd() *cobra.Command {
	var runs []string
	var format, file string
	c := &cobra.Command{
		Use:   "handover --run DIR",
		Short: "Write one page from the records of runs: what is best, what limits it, what failed, what is next",
		Long: `handover writes, for each run of a search, a loop or a ladder: the best with the commands that give it, static and measured; the three hottest stages and the bound they are
at; accepted candidates, and why; rejected ones by cause, with the most promising among them; the best change of the last shortlist that was not
tried, with a command that tries it; versions, and how to verify. All of it comes from the records.`,
		Example: "  gdngen run handover runs/first\n  gdngen run handover runs/first runs/loop --format html --out handover.html",
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if len(runs) == 0 {
				return app.Usage(errors.New("hand over what? give --run DIR"))
			}
			if !slices.Contains(handover.Formats, format) {
				return app.Usage(fmt.Errorf("--format %s: want %s", format, strings.Join(handover.Formats, " or ")))
			}
			p, err := handover.New(runs)
			if err != nil {
				return err
			}
			write := func(w io.Writer) error { return p.Write(w, format) }
			if file != "" {
				return a.writeTo(file, write)
			}
			bad := app.Emit(a.App, p, p.Parts, func(w io.Writer) { err = write(w) })
			return errors.Join(bad, err)
		},
	}
	c.Flags().StringArrayVar(&runs, "run", nil, "folder of a run, once for each")
	c.Flags().StringVar(&format, "format", "md", strings.Join(handover.Formats, " or "))
	app.OutFlag(c, &file)
	a.Formerly(c, "file", "out")
	app.Complete(c, "format", handover.Formats)
	return c
}
