package ladder

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/internal/store"
)

// mostChampions is the number of champions that climb at the end of a session: the latest ones.
const mostChampions = 3

// Champions judges the last champions of a search in a training step of a model, on the search's first target, and
// stores the results (standings) in the folder of the run. It skips champions that have one.
func Champions(ctx context.Context, dir string, m model.Config, forward bool, e Evaluator, note func(format string, args ...any)) error {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return err
	}
	had, err := report.ReadStandings(dir)
	if err != nil {
		return err
	}
	h := s.Header
	line := slices.DeleteFunc(slices.Clone(s.Now().Champions(h.Targets[0])), func(c *journal.Candidate) bool { return c.Variant == "" })
	for _, c := range line[max(0, len(line)-mostChampions):] {
		if slices.ContainsFunc(had, func(x report.Standing) bool {
			return x.Candidate == c.ID && x.Target == h.Targets[0] && x.Model == m.Name && x.Forward == forward
		}) {
			continue
		}
		note("candidate %d: a step of %s", c.ID, m.Name)
		k := &Config{Kernel: h.Spec, Base: c.Variant, Variant: c.Variant, Target: h.Targets[0], Forward: forward}
		f, err := e.Figures(ctx, k, Rung{Kind: Layer, Model: &m, Target: h.Targets[0]})
		x := report.Standing{Candidate: c.ID, Variant: c.Variant, Target: h.Targets[0], Model: m.Name, Forward: forward}
		if bad := (*BaseError)(nil); errors.As(err, &bad) {
			x.Verdict, x.Reason = bad.Verdict, bad.Reason
		} else if err != nil {
			return err
		} else {
			is := f.Base
			x.Variant, x.Ruler, x.Score, x.Rule, x.MFU = is.Variant, is.Ruler, is.Score, is.Rule, is.MFU
		}
		if err := store.AppendLine(filepath.Join(dir, report.StandingsName), x); err != nil {
			return err
		}
	}
	return nil
}
