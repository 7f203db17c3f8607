package journal

import (
	"fmt"
	"slices"
)

// Cause is why an attempt failed.
type Cause string

// The causes. Those of candidates with a cost are computed from their schedule and their parent's, on the first target that both
// have a cost on.
const (
	CauseNone       Cause = ""
	CauseBottleneck Cause = "wrong bottleneck"      // what it changed was not what limits
	CauseLocal      Cause = "local win"             // a stage got cheaper, and the whole did not
	CauseLegality   Cause = "legality"              // it can not be built, emitted or compiled
	CauseNumerics   Cause = "correctness"           // wrong numbers
	CauseUnstable   Cause = "compile instability"   // the compiler crashed or hung, or spills much more
	CauseMemory     Cause = "memory path"           // vector memory, or HBM is now what limits
	CauseFusion     Cause = "fusion boundary"       // work moved out of the kernels, or into more of them
	CauseModel      Cause = "cost model"            // it compiles, and the cost model can not read its schedule
	CauseInternal   Cause = "internal fault"        // this program failed, not the candidate
	CauseRepeated   Cause = "nothing new"           // the program or schedule of another candidate
	CauseProposal   Cause = "no proposal"           // the proposer gave nothing of use
	CauseNoParent   Cause = "not the best of seeds" // correct, and slower; it was changed from nothing
)

// Causes lists all causes except CauseNone.
var Causes = []Cause{CauseBottleneck, CauseLocal, CauseLegality, CauseNumerics, CauseUnstable, CauseMemory, CauseFusion, CauseModel, CauseInternal, CauseRepeated, CauseProposal, CauseNoParent}

const (
	localWin   = .05 // share of a stage's cycles that counts as a win there
	sameTotal  = .01 // totals closer than this are the same
	moreSpills = .02 // spills, as a share of the cycles, that explain a loss
	lossByXLA  = .5  // part of a loss that explains it
)

// GateProposal is the gate of candidates that are no programs: the driver itself gives their verdict.
const GateProposal = "proposal"

// byVerdict are the causes that follow from the verdict alone.
var byVerdict = map[Verdict]Cause{Duplicate: CauseRepeated, Pruned: CauseBottleneck, Invalid: CauseLegality, Numerics: CauseNumerics, EmitError: CauseLegality,
	CompileReject: CauseLegality, VMEM: CauseMemory, CostUnknown: CauseModel, Timeout: CauseUnstable, Crash: CauseUnstable, Internal: CauseInternal}

// Cause returns the cause that a verdict alone implies; CauseNone if the candidate was ranked.
func (v Verdict) Cause() Cause { return byVerdict[v] }

// CauseOf returns why a candidate did not become the best, with the evidence; CauseNone if it did. The view must
// contain its parent.
func (v View) CauseOf(c *Candidate) (Cause, string) {
	switch {
	case c.Verdict == Improved:
		return CauseNone, ""
	case c.Gate == GateProposal:
		return CauseProposal, c.Reason
	case !c.Verdict.Ranked():
		return c.Verdict.Cause(), c.Reason
	}
	parent := v.Candidate(c.Parent)
	if parent == nil {
		return CauseNoParent, c.Reason
	}
	for _, t := range v.s.Header.Targets {
		if now, had := c.Cost(t), parent.Cost(t); now != nil && had != nil {
			return Compare(t, now, had)
		}
	}
	return CauseLegality, fmt.Sprintf("no target costs both this and its parent, candidate %d", parent.ID)
}

// Compare returns the cause of a loss, or of an insufficient gain, from two costs on a target: now is the candidate's,
// had its parent's.
func Compare(target string, now, had *Cost) (Cause, string) {
	loss := now.Score - had.Score
	rel := float64(loss) / float64(had.Score)
	switch {
	case rel < -sameTotal:
		return CauseBottleneck, fmt.Sprintf("%.1f %% below its parent on %s, which others beat: what it changed is not what limits the best", -100*rel, target)
	case now.HBM >= now.Took() && had.HBM < had.Took():
		return CauseMemory, fmt.Sprintf("HBM is what limits on %s now", target)
	case loss > 0 && float64(now.XLA-had.XLA) > lossByXLA*float64(loss):
		return CauseFusion, fmt.Sprintf("%d cycles more outside of kernels on %s, of %d more in all", now.XLA-had.XLA, target, loss)
	case loss > 0 && now.Calls > had.Calls && now.XLA > had.XLA:
		return CauseFusion, fmt.Sprintf("%d ops instead of %d on %s", now.Calls, had.Calls, target)
	case rel > sameTotal && float64(now.Spills-had.Spills) > moreSpills*float64(had.Score):
		return CauseUnstable, fmt.Sprintf("%d register spills instead of %d on %s", now.Spills, had.Spills, target)
	}
	winner, won, loser, lost := shift(now, had)
	switch {
	case won > 0:
		return CauseLocal, fmt.Sprintf("%s takes %d cycles less on %s, but %s %d more", winner, won, target, loser, lost)
	case rel > sameTotal:
		return CauseBottleneck, fmt.Sprintf("%s takes %d cycles more on %s", loser, lost, target)
	}
	return CauseBottleneck, fmt.Sprintf("the same within %.0f %% on %s: what it changed is not what limits; %s is, %.0f %% full", 100*sameTotal, target, slot(now), 100*float64(now.Fill))
}

func slot(c *Cost) string {
	if c.Slot == "" {
		return "another stage"
	}
	return c.Slot
}

// shift is the stage that won most, 0 where none won a notable part of its cycles, and the one that lost most.
func shift(now, had *Cost) (winner string, won int64, loser string, lost int64) {
	before := map[string]int64{}
	for _, s := range had.Stages {
		before[s.Name] = s.Cycles
	}
	names := []string{}
	after := map[string]int64{}
	for _, s := range now.Stages {
		after[s.Name] = s.Cycles
	}
	for _, l := range [][]Stage{now.Stages, had.Stages} {
		for _, s := range l {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	winner, loser = "no stage", "no single stage"
	for _, name := range names {
		d := after[name] - before[name]
		if float64(-d) > localWin*float64(before[name]) && float64(-d) > sameTotal*float64(had.Score) && -d > won {
			winner, won = label(name), -d
		}
		if d > lost {
			loser, lost = label(name), d
		}
	}
	return winner, won, loser, lost
}

// label names a stage for a reader.
func label(stage string) string {
	if stage == "" {
		return "what has no location"
	}
	return stage
}
