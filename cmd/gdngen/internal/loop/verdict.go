package loop

import (
	"fmt"
	"slices"
)

// Verdict is the result of an iteration.
type Verdict string

// The verdicts.
const (
	Keep        Verdict = "keep"
	Scaffold    Verdict = "scaffold"
	NoChange    Verdict = "no-change"
	NoEffect    Verdict = "no-effect"
	OutOfBounds Verdict = "out-of-bounds"
	BuildFailed Verdict = "build-failed"
	CheckFailed Verdict = "check-failed"
	NoFigure    Verdict = "no-figure"
	NotBetter   Verdict = "not-better"
	Regression  Verdict = "regression"
	AgentFailed Verdict = "agent-failed"
	Blocked     Verdict = "blocked"
	Interrupted Verdict = "interrupted"
)

// Meaning describes a verdict.
type Meaning struct {
	Verdict Verdict
	Doc     string
	Moves   bool // the branch moves to the commit
	Fails   bool // it counts towards the limit of failures
}

// Meanings lists the verdicts, best first.
var Meanings = []Meaning{
	{Keep, "the figure fell by enough: the branch has the commit", true, false},
	{Scaffold, "no gain, but the agent says what it prepares, and --allow-scaffold has room: the branch has the commit", true, false},
	{NoChange, "the agent left the tree as it was", false, true},
	{NoEffect, "--effect prints the same as before: the change changes no program", false, true},
	{OutOfBounds, "it changed a protected file, the loop's files or the user's tree, or left a link, a repository or a huge file", false, true},
	{BuildFailed, "--build failed", false, true},
	{CheckFailed, "a --check failed", false, true},
	{NoFigure, "--measure printed no positive number for the change", false, true},
	{NotBetter, "the figure did not fall by --min-gain, or by less than its spread", false, true},
	{Regression, "a --guard-command rose by more than its share", false, true},
	{AgentFailed, "the agent ended with an error, was late, or was silent too long", false, true},
	{Blocked, "something outside stopped the iteration: the machinery, a branch that moved, or a reason that the agent gives in iteration.json", false, false},
	{Interrupted, "the loop was stopped or killed", false, false},
}

// place returns the index of a verdict in Meanings, or -1. ReadRecords refuses unknown verdicts.
func place(v Verdict) int {
	return slices.IndexFunc(Meanings, func(m Meaning) bool { return m.Verdict == v })
}

func meaning(v Verdict) Meaning {
	i := place(v)
	if i < 0 {
		panic(fmt.Sprintf("loop: verdict %q is not in the table", v))
	}
	return Meanings[i]
}
