package report

import (
	"context"
	"fmt"
	"html/template"

	"github.com/gdngen/gdngen/autotune/explain"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// Schedules returns pictures of the schedules of each target's champion and of the candidate before it. release names
// the compiler. A program given as text has no picture.
func Schedules(ctx context.Context, s *journal.State, x *measure.Instrument, release string) (map[string][]Picture, error) {
	spec, err := gdn.Parse(s.Header.Spec)
	if err != nil {
		return nil, err
	}
	drawn := map[string][]Picture{}
	for _, name := range s.Header.Targets {
		t, err := target.Lookup(name)
		if err != nil {
			return nil, err
		}
		v := s.Now()
		champion := v.Champion(name)
		if champion == nil {
			continue
		}
		before, role := Before(v, champion, name)
		for _, c := range []struct {
			*journal.Candidate
			role string
		}{{champion, "the champion"}, {before, role}} {
			if c.Candidate == nil || c.Variant == "" {
				continue
			}
			svg, err := schedule(ctx, x, release, spec, c.Variant, t)
			if err != nil {
				return nil, fmt.Errorf("#%d on %s: %w", c.ID, name, err)
			}
			drawn[name] = append(drawn[name], Picture{ID: c.ID, Role: c.role, SVG: template.HTML(svg)})
		}
	}
	return drawn, nil
}

// schedule draws the hottest loop of a variant's Mosaic kernel.
func schedule(ctx context.Context, x *measure.Instrument, release string, s gdn.Spec, variant string, t *target.Target) ([]byte, error) {
	route, err := route.Lookup("mosaic")
	if err != nil {
		return nil, err
	}
	p, err := measure.Make(s, variant, route, t)
	if err != nil {
		return nil, err
	}
	e, err := explain.NewModule(p).Explain(ctx, x, release, t, 0, measure.Options{Columns: explain.PictureColumns})
	if err != nil {
		return nil, err
	}
	return e.Picture()
}
