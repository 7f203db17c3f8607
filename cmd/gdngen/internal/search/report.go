package search

import (
	"errors"
	"io"

	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/spf13/cobra"
)

func (a CLI) ReportCmd() *cobra.Command {
	var dir, file string
	var pictures bool
	c := &cobra.Command{
		Use:   "report --run DIR --out FILE",
		Short: "Write the report of a search: one HTML page",
		Long: `report writes one page that needs nothing else: the best so far, cycles against error, the champion against the first by stage, a heat map
of the structures, what was rejected and why, and axes that never changed a schedule. The run may be in progress.
--pictures compiles the champions and their parents, unless the cache has them, and draws their schedules side by side.`,
		Example: "  gdngen run show runs/first --html first.html\n  gdngen run show runs/first --html first.html --pictures",
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.report(dir, file, pictures) },
	}
	app.RunFlag(c, &dir)
	app.OutFlag(c, &file)
	c.Flags().BoolVar(&pictures, "pictures", false, "draw the schedules of the champions and of their parents, which may compile")
	a.Formerly(c, "file", "out")
	return c
}

// report writes the HTML page of a run.
func (a CLI) report(dir, file string, pictures bool) error {
	s, err := a.readRun(dir, "report")
	if err != nil {
		return err
	}
	if file == "" {
		return app.Usage(errors.New("where to? give --out FILE, or --out - for standard output"))
	}
	var drawn map[string][]report.Picture
	if pictures {
		if len(s.Header.Shapes) > 1 {
			return app.Usage(errors.New("--pictures: the run weighs several specs, so a candidate has several schedules; draw one by gdngen explain --picture"))
		}
		x, err := a.Instrument(false)
		if err != nil {
			return err
		}
		if drawn, err = report.Schedules(a.Ctx, s, x, a.TPU.Release()); err != nil {
			return err
		}
	}
	if err := a.writeTo(file, func(w io.Writer) error { return report.HTML(w, dir, s, drawn) }); err != nil || file == "-" {
		return err
	}
	a.Note("wrote %s, which a browser opens", file)
	return nil
}
