package autotune

import (
	"context"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/autotune/strategy"
)

// Status sums up a run that may be in progress.
func Status(dir string) (*report.Summary, error) {
	s, warnings, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	sum := report.New(dir, s)
	sum.Warnings = warnings
	return sum, nil
}

// Best is the champion of a run on a target; an empty target is the run's first.
func Best(dir, target string) (*journal.Candidate, error) {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	if target == "" {
		target = s.Header.Targets[0]
	}
	c := s.Now().Champion(target)
	if c == nil {
		return nil, fmt.Errorf("run %s has no candidate with a cost on %s (targets: %v, candidates: %d)", dir, target, s.Header.Targets, s.Len())
	}
	return c, nil
}

// Verify recomputes the decisions of a run: what was proposed, duplicates, ranks, causes and champions, and checks its objects. It
// returns the champions by target, and the faults.
func Verify(dir string) (champions map[string]int, faults []string, err error) {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	objects := store.Store{Dir: objectsDir(dir)}
	champions, faults = journal.Verify(s, func(key string) error {
		_, err := objects.Get(key)
		return err
	})
	proposed, err := verifyProposals(s)
	return champions, append(faults, proposed...), err
}

// verifyProposals asks the strategy again for every candidate. An outside proposer can not be asked again.
func verifyProposals(s *journal.State) (faults []string, err error) {
	if strings.HasPrefix(s.Header.Strategy, "exec:") {
		return nil, nil
	}
	p, err := newPlan(s.Header, 0)
	if err != nil {
		return nil, fmt.Errorf("the header of the run: %w", err)
	}
	defer p.strategy.Close()
	all := s.Now().Candidates()
	for _, c := range all {
		var x *strategy.Proposal
		var view journal.View
		for known := max(0, c.ID-p.Lookahead); known < c.ID && x == nil; known++ {
			view = s.At(known)
			x = p.strategy.Next(context.Background(), view, variants(all[known:c.ID-1]))
		}
		if x == nil {
			faults = append(faults, fmt.Sprintf("candidate %d: the strategy has nothing to propose there", c.ID))
			continue
		}
		want := p.proposed(c.ID, x, view)
		for _, d := range []struct {
			what    string
			was, is any
		}{{"variant", c.Variant, want.Variant}, {"parent", c.Parent, want.Parent}, {"scalar", c.Scalar, want.Scalar}, {"hypothesis", c.Hypothesis, want.Hypothesis}} {
			if d.was != d.is {
				faults = append(faults, fmt.Sprintf("candidate %d: %s %v, and the strategy proposes %v", c.ID, d.what, d.was, d.is))
			}
		}
	}
	return faults, nil
}

// Object reads an object of a run by its key.
func Object(dir, key string) ([]byte, error) { return store.Store{Dir: objectsDir(dir)}.Get(key) }
