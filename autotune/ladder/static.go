package ladder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
)

// Static judges without a device: correctness, kernel and guards by the gates of a search, in runs of their own below
// the folder; layer and model by the static cost of their modules.
type Static struct {
	Dir        string
	Search     autotune.Config // for the gates: paths of plugins, the machine's lock, progress
	Instrument *measure.Instrument
}

// Figures judges a rung by static costs.
func (x *Static) Figures(ctx context.Context, c *Config, r Rung) (*Figures, error) {
	switch r.Kind {
	case Layer, Model:
		return x.step(ctx, c, r)
	case Correct:
		f, err := x.gates(ctx, c, r)
		if err != nil || f.Candidate.Verdict != "" || f.Same {
			return f, err
		}
		if f.Candidate.Score >= f.Base.Score && c.Device == "" {
			return f, nil // a candidate that is not cheaper is not tested further here; a device may find it faster
		}
		return f, holdOut(ctx, c, r, f)
	}
	return x.gates(ctx, c, r)
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// gates judges base and candidate by a search with these two seeds.
func (x *Static) gates(ctx context.Context, c *Config, r Rung) (*Figures, error) {
	s, err := gdn.Parse(r.Spec)
	if err != nil {
		return nil, err
	}
	name := "kernel"
	if r.Kind == Guarded {
		name = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(r.Name()), "-"), "-")
	}
	k := x.Search
	k.Dir, k.Spec, k.Targets, k.Seed, k.Precision = filepath.Join(x.Dir, name), s, []string{r.Target}, c.Seed, c.Precision
	k.Seeds, k.Strategy, k.Candidates, k.Patience, k.Promoted = []string{c.Base, c.Variant}, "exhaustive", 2, 0, nil
	if err := judgeAll(ctx, k); err != nil {
		return nil, err
	}
	run, _, err := journal.Read(k.Dir, nil)
	if err != nil {
		return nil, err
	}
	v := run.Now()
	base, candidate := v.Candidate(1), v.Candidate(2)
	if candidate == nil { // both texts are one program, so the second was not proposed
		candidate = &journal.Candidate{Verdict: journal.Duplicate, Of: 1, Reason: "base and candidate are one variant at the sizes of " + r.Spec}
	}
	f := &Figures{Unit: "cycles", Tokens: s.Work()}
	f.Base.Variant, f.Candidate.Variant = base.Variant, candidate.Variant
	had := base.Cost(r.Target)
	if had == nil {
		if r.Kind == Guarded { // a refused base can not be made worse
			f.Same, f.Notes = true, []string{"the base does not do it either: " + firstLine(base.Reason)}
			return f, nil
		}
		return nil, &BaseError{r.Name(), c.Base, firstLine(base.Reason), base.Verdict}
	}
	f.Base.Cost, f.Unit = *had, string(had.RulerName())+" cycles"
	switch now := candidate.Cost(r.Target); {
	case candidate.Verdict == journal.Duplicate:
		f.Same, f.Candidate.Cost, f.Candidate.Reason = true, *had, cmp.Or(firstLine(candidate.Reason), "one program, or one schedule")
	case candidate.Verdict == journal.Pruned:
		f.Candidate.Cost, f.Same = *had, true
		f.Candidate.Reason = firstLine(candidate.Reason)
	case !candidate.Verdict.Ranked() || now == nil:
		f.Candidate.Target, f.Candidate.Verdict, f.Candidate.Reason = r.Target, candidate.Verdict, firstLine(candidate.Reason)
		if candidate.Verdict.Ranked() {
			f.Candidate.Verdict = journal.CostUnknown
		}
	default:
		f.Candidate.Cost = *now
	}
	return f, nil
}

// judgeAll judges the seeds of a run, new or resumed.
func judgeAll(ctx context.Context, k autotune.Config) error {
	drive := autotune.Search
	s, _, err := journal.Read(k.Dir, nil)
	switch {
	case err == nil && s.Len() >= len(k.Seeds):
		return nil
	case err == nil:
		drive = autotune.Resume
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	sum, err := drive(ctx, k)
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && sum.Candidates == 0 {
		return fmt.Errorf("%s: nothing was judged (%s): the same command goes on", k.Dir, sum.Stopped)
	}
	return err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// step costs the modules of a training step with base and candidate. Modules equal in both are costed once.
func (x *Static) step(ctx context.Context, c *Config, r Rung) (*Figures, error) {
	t, err := target.Lookup(r.Target)
	if err != nil {
		return nil, err
	}
	f := &Figures{Unit: string(ruler.InOrder.On(t.Name)) + " cycles"}
	for i, text := range []string{c.Base, c.Variant} {
		side := []*Side{&f.Base, &f.Candidate}[i]
		v, err := mfu.Variant(*r.Model, carried(c, text, *r.Model, t), t)
		var rows []*mfu.Row
		if err == nil {
			side.Variant = v.String()
			rows, err = mfu.Rows(ctx, x.Instrument, *r.Model, v, t, c.Forward)
		} else {
			err = &measure.Refusal{Verdict: measure.Invalid, Err: err}
		}
		refusal := (*measure.Refusal)(nil)
		switch {
		case errors.As(err, &refusal) && f.Base.Verdict != "":
			return nil, &BaseError{r.Name(), c.Base, f.Base.Reason, f.Base.Verdict}
		case errors.As(err, &refusal):
			side.Target, side.Verdict, side.Reason = t.Name, journal.Verdict(refusal.Verdict), firstLine(refusal.Error())
		case err != nil:
			return nil, err
		default:
			side.sum(rows)
		}
	}
	f.Same = f.Base.Variant == f.Candidate.Variant
	if f.Base.Verdict != "" {
		f.Notes = append(f.Notes, "the base has no program here, and the candidate has: "+f.Base.Reason)
	}
	return f, nil
}

// carried returns a variant for a model with as many heads in a program as on the kernel's rung, unless its text sets the number: the same
// program is to be judged. Example: a variant with all heads in a program has 8 of them for bench, and 8 in a layer of 32.
func carried(c *Config, text string, m model.Config, t *target.Target) string {
	s, err := gdn.Parse(c.Kernel)
	if err != nil || strings.Contains(text, "heads=") {
		return text
	}
	if _, auto := gdn.ParseAuto(text); auto { // resolved for each spec
		return text
	}
	f, err := route.Resolve(s, text, t, nil)
	if err != nil {
		return text
	}
	heads := f.Variant.Fit(s).Mapping.Heads
	if heads <= 0 || heads >= m.Rule.HeadsV || m.Rule.HeadsV%heads != 0 {
		return text
	}
	return fmt.Sprintf("%s,heads=%d", text, heads)
}

// sum fills the figures of a step from its rows.
func (s *Side) sum(rows []*mfu.Row) {
	for _, r := range rows {
		times := int64(r.Times)
		name := strings.TrimSpace(r.Kind + ", " + r.Part + " " + r.Pass)
		switch {
		case r.Kind == "step":
			s.Target, s.Ruler, s.Score, s.HBM, s.MFU = r.Target, r.Ruler, int64(r.Time), int64(r.Traffic), r.MFU
			s.Cycles, s.XLA, s.Calls, s.Spills, s.Kernels = r.Cycles, r.XLA, r.Calls, r.Spills, r.Kernels
			if r.Ruler == ruler.InOrder {
				s.Wall = s.Score
			}
		case r.Kind == "rule" && r.Part == "rule":
			s.Rule += times * int64(r.Time)
		case r.Kind == "rule" && r.Part == "apart":
			s.Separate += times * int64(r.Time)
		}
		if r.InStep {
			s.Stages = append(s.Stages, journal.Stage{Name: name, Cycles: times * int64(r.Time)})
			if r.Kind == "rule" {
				s.Whole += times * int64(r.Time)
			}
		}
	}
	slices.SortStableFunc(s.Stages, func(a, b journal.Stage) int { return cmp.Compare(b.Cycles, a.Cycles) })
}
