package machines

import (
	"bytes"
	"fmt"
	"io"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/spf13/cobra"
)

// profileOut is the folder of a job's profile, below its results.
const profileOut = "profile"

func (a CLI) remoteProfileCmd() *cobra.Command {
	var j jobFlags
	var out string
	c := &cobra.Command{
		Use:   "profile --on PLACE [-- FLAGS...]",
		Short: "Run gdngen device profile elsewhere, and fetch what it leaves",
		Long: `profile runs gdngen device profile on a place with the flags after --, waits, and copies the folder of the profile here, for gdngen device trace and XProf. With --no-wait
gdngen remote wait ID and gdngen device trace fetch job:ID do so later.`,
		Example: `  gdngen remote profile --on "tpu:mine?zone=us-central1-b" --out traces -- --spec bench --steps 20 --first-step 2 --count 6 --executions 8
  gdngen remote profile --on ray:http://head:8265 --resource TPU=4 --no-wait --id p1 -- --model layer`,
		RunE: func(_ *cobra.Command, words []string) error {
			j.job.Command = append(append([]string{"gdngen", "device", "profile"}, words...), "--out", "@out/"+profileOut)
			var said bytes.Buffer
			if err := a.submit(&j, "profile", io.MultiWriter(terminal.Others(a.Stderr), &said)); err != nil || j.noWait || j.dryRun {
				return err
			}
			p, full, err := remote.Parse(j.job.Place)
			if err != nil {
				return err
			}
			l, err := remote.Fetch(a.Ctx, p, j.job.ID, "", out)
			if err != nil {
				return fmt.Errorf("what job %s on %s left: %w; gdngen remote fetch %[1]s tries again", j.job.ID, full, err)
			}
			return app.Emit(a.App, l, l, func(w io.Writer) {
				for _, f := range l {
					fmt.Fprintln(w, f.Path)
				}
			})
		},
	}
	j.add(c)
	c.Flags().StringVar(&out, "out", "traces", "folder for the copies")
	return c
}
