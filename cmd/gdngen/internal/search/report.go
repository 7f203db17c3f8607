package search

import (
	"errors"
	"fmt"
	"html/template"
	"io"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/explain"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/measure"
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
--pictures compiles the champions and what they are a change of, unless the cache has them, and draws their schedules side by side.`,
		Example: "  gdngen report --run runs/first --out first.html\n  gdngen report --run runs/first --pictures --out first.html",
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := a.readRun(dir, "report")
			if err != nil {
				return err
			}
			if file == "" {
				return app.Usage(errors.New("where to? give --out FILE, or --out - for standard output"))
			}
			var drawn map[string][]report.Picture
			if pictures {
				if drawn, err = a.schedulesOf(s); err != nil {
					return err
				}
			}
			if err := a.writeTo(file, func(w io.Writer) error { return report.HTML(w, dir, s, drawn) }); err != nil || file == "-" {
				return err
			}
			a.Note("wrote %s, which a browser opens", file)
			return nil
		},
	}
	app.RunFlag(c, &dir)
	app.OutFlag(c, &file)
	c.Flags().BoolVar(&pictures, "pictures", false, "draw the schedules of the champions and of their parents, which may compile")
	a.Formerly(c, "file", "out")
	return c
}

// schedulesOf draws the champion of each target, and what it is a change of. A text of a program, which is no variant, has no picture.
func (a CLI) schedulesOf(s *journal.State) (map[string][]report.Picture, error) {
	if len(s.Header.Shapes) > 1 {
		return nil, app.Usage(errors.New("--pictures: the run weighs several specs, so a candidate has several schedules; draw one by gdngen explain --picture"))
	}
	spec, err := gdn.Parse(s.Header.Spec)
	if err != nil {
		return nil, err
	}
	x, err := a.Instrument(false)
	if err != nil {
		return nil, err
	}
	drawn := map[string][]report.Picture{}
	for _, name := range s.Header.Targets {
		t, err := codegen.LookupTarget(name)
		if err != nil {
			return nil, err
		}
		v := s.Now()
		champion := v.Champion(name)
		if champion == nil {
			continue
		}
		before, role := report.Before(v, champion, name)
		for _, c := range []struct {
			*journal.Candidate
			role string
		}{{champion, "the champion"}, {before, role}} {
			if c.Candidate == nil || c.Variant == "" {
				continue
			}
			svg, err := a.schedule(x, spec, c.Variant, t)
			if err != nil {
				return nil, fmt.Errorf("#%d on %s: %w", c.ID, name, err)
			}
			drawn[name] = append(drawn[name], report.Picture{ID: c.ID, Role: c.role, SVG: template.HTML(svg)})
		}
	}
	return drawn, nil
}

// schedule draws the hottest loop of a variant's Mosaic kernel.
func (a CLI) schedule(x *measure.Instrument, s gdn.Spec, variant string, t *codegen.Target) ([]byte, error) {
	route, err := lower.Lookup("mosaic")
	if err != nil {
		return nil, err
	}
	p, err := measure.Make(s, variant, route, t)
	if err != nil {
		return nil, err
	}
	e, err := explain.NewModule(p).Explain(a.Ctx, x, a.TPU.Release(), t, 0, measure.Options{Columns: explain.PictureColumns})
	if err != nil {
		return nil, err
	}
	return e.Picture()
}
