package journal

import (
	"fmt"
	"maps"
	"slices"
)

// Verify recomputes every decision of a journal from its records: duplicates repeat an earlier candidate, ranks follow
// from the scores, and verdicts have their evidence. has, if not nil, returns an error unless an object is stored
// completely. It returns the champions by target; faults name the candidate. If the journal's rules are of another
// version, reasons and causes are not checked.
func Verify(s *State, has func(key string) error) (champions map[string]int, faults []string) {
	champions = map[string]int{}
	for _, c := range s.Now().Candidates() {
		before := s.At(c.ID - 1)
		for _, fault := range slices.Concat(s.recordFaults(c, before), objectFaults(c, has), s.verdictFaults(c, before)) {
			faults = append(faults, fmt.Sprintf("candidate %d: %s", c.ID, fault))
		}
		if !c.Verdict.Ranked() {
			continue
		}
		for _, t := range s.Header.Targets {
			if s.Header.succeeds(c, before.Candidate(champions[t]), t) == "" {
				champions[t] = c.ID
			}
		}
	}
	for _, t := range s.Header.Targets {
		if c := s.Now().Champion(t); c != nil && c.ID != champions[t] {
			faults = append(faults, fmt.Sprintf("target %s: the champion is %d, and the records say %d", t, c.ID, champions[t]))
		}
	}
	return champions, faults
}

// sameRules reports whether the journal has the present version of the rules.
func (s *State) sameRules() bool { return s.Header.Rules == Rules }

// recordFaults lists wrong references of a record: its parent, gate, reason, cause and duplicate.
func (s *State) recordFaults(c *Candidate, before View) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if c.Parent != 0 && before.Candidate(c.Parent) == nil {
		fault("its parent %d is not an earlier candidate", c.Parent)
	}
	if !slices.Contains(s.Header.Gates, c.Gate) && c.Gate != GateProposal {
		fault("the run has no gate %q", c.Gate)
	}
	if c.Reason == "" {
		fault("verdict %s without a reason", c.Verdict)
	}
	if cause, evidence := before.CauseOf(c); s.sameRules() && (cause != c.Cause || evidence != c.Evidence) {
		fault("cause %q (%s), and its records say %q (%s)", c.Cause, c.Evidence, cause, evidence)
	}
	if c.Verdict == Duplicate {
		if why := notRepeated(c, before.Candidate(c.Of)); why != "" {
			fault("%s", why)
		}
	}
	return faults
}

// objectFaults lists the objects of a candidate that are missing or incomplete.
func objectFaults(c *Candidate, has func(key string) error) (faults []string) {
	if has == nil {
		return nil
	}
	for _, role := range slices.Sorted(maps.Keys(c.Objects)) {
		if err := has(c.Objects[role]); err != nil {
			faults = append(faults, fmt.Sprintf("object %s: %v", role, err))
		}
	}
	return faults
}

// verdictFaults lists contradictions between a verdict and its errors and scores.
func (s *State) verdictFaults(c *Candidate, before View) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	failed := slices.ContainsFunc(c.Errors, func(e ClassError) bool { return !(e.Use() <= 1) })
	if failed != (c.Verdict == Numerics) && c.Verdict != Crash && c.Verdict != Timeout && c.Verdict != Internal {
		fault("verdict %s does not follow from its errors", c.Verdict)
	}
	if !c.Verdict.Ranked() {
		return faults
	}
	switch rank, reason, err := before.Rank(c); {
	case err != nil:
		fault("%v", err)
	case rank != c.Verdict || reason != c.Reason && s.sameRules():
		fault("verdict %s (%s), and its scores say %s (%s)", c.Verdict, c.Reason, rank, reason)
	}
	return faults
}

// notRepeated returns why c is not a duplicate of an earlier candidate, or "".
func notRepeated(c, earlier *Candidate) string {
	if earlier == nil {
		return fmt.Sprintf("it repeats %d, which is not an earlier candidate", c.Of)
	}
	if c.IR == earlier.IR && c.IR != "" {
		return ""
	}
	for _, cost := range c.Costs {
		if e := earlier.Cost(cost.Target); cost.Verdict == "" && e != nil && e.Schedule == cost.Schedule {
			return ""
		}
	}
	return fmt.Sprintf("it has neither the program nor a schedule of candidate %d", c.Of)
}
