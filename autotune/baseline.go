package autotune

import (
	"context"
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/strategy"
)

// baseline judges the variant that auto chooses on each target before the first candidate, and records it as the figure to beat. A
// variant that is also a seed is skipped: it becomes a candidate anyway. The time counts against the session's budget. A stopped
// session records no baseline. A failure of the machinery is a warning: the run goes on without a baseline.
func (d *driver) baseline(ctx context.Context) error {
	if !d.Baseline || d.plan.gpus != nil || d.state.Len() > 0 || len(d.state.Baselines()) > 0 {
		return nil
	}
	if d.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.start.Add(d.Budget))
		defer cancel()
	}
	best, err := champions(d.plan.spec, promoted.ClassOf(d.plan.objective, d.plan.Precision).Text(), d.plan.Header.Targets)
	if err != nil {
		return err
	}
	for _, v := range best {
		if slices.Contains(d.plan.Seeds, v.String()) || ctx.Err() != nil {
			continue
		}
		if d.Told != nil {
			d.Told("judging auto, the baseline to beat: " + v.Short())
		}
		t := d.task(0, &strategy.Proposal{Variant: v, Text: strategy.TextOf(v, d.plan.spec), Hypothesis: "the baseline: what auto stands for"}, d.state.Now())
		if t.reject, t.err = d.through(ctx, t.work); ctx.Err() != nil {
			return nil
		}
		if t.err != nil {
			d.Warn(fmt.Sprintf("auto has no verdict, and the run no baseline: %v", t.err))
			continue
		}
		if t.reject != nil {
			d.Warn(fmt.Sprintf("auto is no baseline of this run: %s: %s", t.reject.Verdict, t.reject.Reason))
		} else {
			t.work.Record.Gate, t.reject = verdictGate, &judge.Refusal{Verdict: journal.Improved, Reason: "the baseline"}
		}
		t.work.Conclude(t.reject)
		if err := d.keep(t.work); err != nil {
			return err
		}
		if err := d.journal.AppendTimed(journal.KindBaseline, t.work.Record, journal.Times{Wall: t.work.Wall, Node: t.work.Node}); err != nil {
			return err
		}
		d.tellBaseline(t.work.Record)
	}
	return nil
}

// through runs w through the gates in order, up to the first refusal or error.
func (d *driver) through(ctx context.Context, w *judge.Work) (*judge.Refusal, error) {
	for _, g := range d.gates {
		if r, err := d.attempt(ctx, g, w); r != nil || err != nil || ctx.Err() != nil {
			return r, err
		}
	}
	return nil, nil
}

func (d *driver) tellBaseline(c *journal.Candidate) {
	for _, t := range d.plan.Header.Targets {
		if k := c.Cost(t); k != nil && d.Told != nil {
			d.Told(fmt.Sprintf("to beat on %s: %.2f, auto", t, float64(k.PerToken)))
		}
	}
}
