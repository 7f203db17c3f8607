package ladder

import (
	"cmp"
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
)

// missing names the cause why a rung does not gain, with the evidence. below is the share that the rung below gained, least the
// gain required here.
//
// Example: a kernel that takes half the time (below .5) in a layer of which it is 1 % can save .5 x 1 % = .5 % there: wrong
// bottleneck. If it is 40 % it should save 20 %; if the layer's time is unchanged, another part grew: a local win.
func missing(r Rung, f *Figures, below, least float64) (journal.Cause, string) {
	now, had := &f.Candidate, &f.Base
	if now.Verdict != "" {
		return now.Verdict.Cause(), now.Reason
	}
	if f.Same {
		return journal.CauseRepeated, cmp.Or(now.Reason, "base and candidate are one program here")
	}
	if now.Kernels > had.Kernels && r.Model != nil {
		return journal.CauseUnstable, fmt.Sprintf("a step compiles %d distinct kernels instead of %d: more programs, more shapes and more that must stay in the cache", now.Kernels, had.Kernels)
	}
	if lost := now.Whole - had.Whole; lost >= 0 && now.Whole > 0 && now.Separate < had.Separate {
		return journal.CauseFusion, fmt.Sprintf("apart, the parts of the layers take %d %s less; in one module %d more: what passes between them costs the gain",
			had.Separate-now.Separate, f.Unit, lost)
	}
	cause, evidence := journal.Compare(r.Target, &now.Cost, &had.Cost)
	share := min(1, float64(had.Rule)/float64(max(had.Score, 1))) // as a separate module; within other modules it may take more
	bound := below * share
	switch {
	case cause == journal.CauseLocal:
		return cause, evidence + ": a local win, a loss of the system"
	case cause == journal.CauseBottleneck && r.Model != nil && had.Rule > 0 && bound < least:
		return cause, fmt.Sprintf("the rule is %.1f %% of the %s: a gain of %.1f %% in it can save %.2f %% at most, %.2g %% is asked; %s takes most", 100*share, r.Kind, 100*below,
			100*bound, 100*least, largest(had))
	case cause == journal.CauseBottleneck && f.Ratio < 1:
		return cause, fmt.Sprintf("%.2f %% less, and %.2g %% is asked; %s takes most", 100*f.Gain(), 100*least, largest(now))
	}
	return cause, evidence
}

// largest names the part with the largest time.
func largest(s *Side) string {
	var most journal.Stage
	for _, x := range s.Stages {
		if x.Cycles > most.Cycles {
			most = x
		}
	}
	if most.Name == "" {
		return "what has no location"
	}
	return fmt.Sprintf("%s (%.0f %%)", most.Name, 100*float64(most.Cycles)/float64(max(s.Score, 1)))
}
