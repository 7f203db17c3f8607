package search

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/spf13/cobra"
)

func (a CLI) journalNoteCmd() *cobra.Command {
	var dir, mfu string
	var n journal.Note
	c := &cobra.Command{
		Use:   "note --run DIR CANDIDATE",
		Short: "Record what a candidate did elsewhere: a job, its trace and its figures",
		Long: `note adds a record to the journal that changes no decision: verify and resume ignore it. run show, run show --md and handover
show it. A run that a driver is writing is locked.`,
		Example: "  gdngen run note runs/first 12 --job test-0102-150405-abc --trace traces/run --step-ms 31.7 --tokens-per-second 412000 --mfu 38.2%",
		Args:    app.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, words []string) error {
			if dir == "" {
				return app.Usage(errors.New("a note on which run? give --run DIR"))
			}
			var err error
			if n.Candidate, err = strconv.Atoi(strings.TrimPrefix(words[0], "#")); err != nil {
				return app.Usage(fmt.Errorf("%q is no candidate", words[0]))
			}
			if mfu != "" {
				var ok bool
				if n.MFU, ok = autotune.ParseShare(mfu); !ok {
					return app.Usage(fmt.Errorf("--mfu %q: want a share, such as 38%%", mfu))
				}
			}
			if err := journal.AddNote(dir, n); app.IsA[*journal.NoteError](err) {
				return app.Usage(err)
			} else if err != nil {
				return err
			}
			return app.Emit(a.App, n, []any{n}, func(w io.Writer) { fmt.Fprintf(w, "candidate %d: %s\n", n.Candidate, n.String()) })
		},
	}
	app.RunFlag(c, &dir)
	f := c.Flags()
	f.StringVar(&n.Job, "job", "", "id of the job, such as of gdngen remote")
	f.StringVar(&n.Trace, "trace", "", "file, folder or address of its trace")
	f.Float64Var(&n.StepMS, "step-ms", 0, "time of a training step in milliseconds")
	f.Float64Var(&n.Tokens, "tokens-per-second", 0, "tokens of the step over its time")
	f.StringVar(&mfu, "mfu", "", "model flop utilisation, such as 38%")
	f.StringVar(&n.Text, "text", "", "whatever else there is to say")
	return c
}
