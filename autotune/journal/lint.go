package journal

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// placeholder matches words that stand for something that was to be written later.
var placeholder = regexp.MustCompile(`(?i)\b(todo|fixme|tbd|xxx|placeholder|lorem ipsum|foo ?bar|n/?a|to be (done|determined|filled)|fill (me )?in)\b|\?\?\?|<[a-z ]+>`)

// noReason stands for the hypothesis that a proposer did not give in journals of older versions.
const noReason = "given by the proposer without a reason"

// Lint lists faults that would make a journal useless to a later reader: placeholders, a missing hypothesis, verdicts
// without reason, gate or evidence, candidates that no command can judge again, events without a message. It does not
// check decisions; Verify does.
func Lint(s *State) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, c := range s.Now().Candidates() {
		fault := func(format string, args ...any) {
			add("candidate %d: %s", c.ID, fmt.Sprintf(format, args...))
		}
		if m := placeholder.FindString(c.Hypothesis); m != "" {
			fault("its hypothesis holds the placeholder %q", m)
		}
		if len(strings.Fields(c.Hypothesis)) < 2 || c.Hypothesis == noReason {
			fault("no hypothesis: %q", c.Hypothesis)
		}
		if strings.TrimSpace(c.Reason) == "" {
			fault("verdict %s without a reason", c.Verdict)
		}
		if c.Gate == "" {
			fault("verdict %s of no gate", c.Verdict)
		}
		if why := noCommand(c); why != "" {
			fault("no command judges it again: %s", why)
		}
		if why := noEvidence(c); why != "" {
			fault("verdict %s without evidence: %s", c.Verdict, why)
		}
		if c.Verdict != Improved && c.Cause == CauseNone {
			fault("verdict %s without a cause", c.Verdict)
		}
		if c.Cause != CauseNone && (!slices.Contains(Causes, c.Cause) || c.Evidence == "") {
			fault("cause %q without evidence", c.Cause)
		}
		if c.Parent > 0 && len(c.Change) == 0 && c.Variant != "" && c.Verdict != Duplicate {
			fault("a change of candidate %d that is not told", c.Parent)
		}
	}
	for _, r := range s.Events() {
		e, err := r.Event()
		switch {
		case err != nil:
			add("record %d: %v", r.Seq, err)
		case strings.TrimSpace(e.Message) == "":
			add("record %d: %s without a message", r.Seq, r.Kind)
		}
	}
	return faults
}

// noCommand says why a candidate can not be judged again from its record.
func noCommand(c *Candidate) string {
	switch {
	case c.Gate == GateProposal || c.Variant != "":
		return ""
	case c.Objects["proposal"] == "":
		return "it is no variant, and its text is not kept"
	}
	return ""
}

// noEvidence says what a verdict needs and lacks.
func noEvidence(c *Candidate) string {
	lacks := func(missing bool, what string) string {
		if missing {
			return what
		}
		return ""
	}
	noCost := !slices.ContainsFunc(c.Costs, func(k Cost) bool { return k.Verdict == "" && k.Schedule != "" })
	switch c.Verdict {
	case Improved, Close, Worse:
		if noCost {
			return "no cost with a schedule"
		}
		return lacks(len(c.Errors) == 0, "no errors against the reference")
	case Numerics:
		return lacks(!slices.ContainsFunc(c.Errors, func(e ClassError) bool { return !(e.Use() <= 1) }), "no error beyond its limit")
	case Duplicate:
		return lacks(c.Of == 0, "of which candidate?")
	case CompileReject, VMEM, CostUnknown:
		return lacks(c.IR == "", "no program")
	case Internal:
		return lacks(c.Objects["stack"] == "", "no stack")
	}
	return ""
}
