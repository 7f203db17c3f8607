package report

import (
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Baseline is the figure that a run has to beat on a target: auto's choice when it began, judged before the first candidate.
type Baseline struct {
	Variant  string         `json:"variant"`
	PerToken journal.Figure `json:"per_token"` // score per token and value head
	Score    int64          `json:"score"`
	Word     string         `json:"word"` // comparison with the best candidate, and advice which to use
}

// BaselineOf compares the best candidate on a target, if any, with the baseline; nil if there is no baseline.
func BaselineOf(v journal.View, target string) *Baseline {
	base := v.Baseline(target)
	if base == nil {
		return nil
	}
	k := base.Cost(target)
	b := &Baseline{Variant: base.Variant, PerToken: k.PerToken, Score: k.Score}
	best := v.Champion(target)
	if best == nil {
		b.Word = "no candidate has a cost yet: use auto"
		return b
	}
	score, gain := best.Cost(target).Score, 100*(1-float64(best.Cost(target).Score)/float64(k.Score))
	switch {
	case score < k.Score:
		b.Word = fmt.Sprintf("candidate %d takes %.2f %% less: use it", best.ID, gain)
	case score == k.Score:
		b.Word = fmt.Sprintf("candidate %d takes the same: nothing better is known", best.ID)
	default:
		b.Word = fmt.Sprintf("candidate %d takes %.2f %% more: use auto, nothing better is known", best.ID, -gain)
	}
	return b
}

// String describes the baseline on one line.
func (b *Baseline) String() string {
	return fmt.Sprintf("auto, the baseline, takes %.2f; %s", float64(b.PerToken), b.Word)
}
