package autotune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
)

// Status summarizes a run, which may be in progress.
func Status(dir string) (*report.Summary, error) {
	s, warnings, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	sum := report.New(dir, s)
	sum.Warnings = warnings
	return sum, nil
}

// Best returns the champion of a run on a target; an empty target is the run's first.
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
		return nil, fmt.Errorf("run %s has no candidate with a cost on %s (targets: %s, candidates: %d)", dir, target, strings.Join(s.Header.Targets, " "), s.Len())
	}
	return c, nil
}

// Candidate returns a candidate of a run by its id; an empty id is the champion on the first target.
func Candidate(dir, id string) (*journal.Candidate, error) {
	if id == "" {
		return Best(dir, "")
	}
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(id); err == nil && n >= 1 && n <= s.Len() {
		return s.Now().Candidate(n), nil
	}
	return nil, fmt.Errorf("run %s has no candidate %q (it has 1 to %d)", dir, id, s.Len())
}

// VariantOf returns the text of the variant for "@DIR#ID", a candidate of a search, or "@DIR", its champion on the
// first target. Axes may follow, after a comma. Other text is returned as it is.
func VariantOf(text string) (string, error) {
	at, more, _ := strings.Cut(text, ",")
	place, isRun := strings.CutPrefix(at, "@")
	if !isRun {
		return text, nil
	}
	dir, id := place, ""
	if i := strings.LastIndexByte(place, '#'); i >= 0 {
		dir, id = place[:i], place[i+1:]
	}
	c, err := Candidate(dir, id)
	if err != nil {
		return "", fmt.Errorf("%s: %w", at, err)
	}
	if c.Variant == "" {
		return "", fmt.Errorf("%s: candidate %d is the text of a program, not a variant: gdngen run best --module FILE writes it", at, c.ID)
	}
	if more == "" {
		return c.Variant, nil
	}
	v, err := gdn.ParseVariant(c.Variant)
	if err != nil {
		return c.Variant + "," + more, nil // of GPUs, whose backend reads it
	}
	for change := range strings.SplitSeq(more, ",") {
		axis, value, _ := strings.Cut(change, "=")
		if err == nil {
			v, err = v.With(axis, value)
		}
	}
	return v.String(), err
}

// Verification is the result of Verify.
type Verification struct {
	Champions map[string]int // by target
	Faults    []string       // decisions that contradict the records
	Notes     []string       // what could not be recomputed, and why
}

// Verify recomputes the decisions of a run (proposals, duplicates, ranks, causes and champions) and checks its objects. Decisions
// by another version of the strategy, of the table of choices or of the rules are not recomputed: a note says so. told, if not nil, is called with the
// number of candidates whose proposals were recomputed, which takes as long as the strategy took, and with their total.
func Verify(dir string, told func(done, total int)) (*Verification, error) {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	objects := store.Store{Dir: objectsDir(dir)}
	v := &Verification{}
	has := func(key string) error {
		_, err := objects.Get(key)
		return err
	}
	var absent string
	if _, err := os.Stat(objects.Dir); errors.Is(err, fs.ErrNotExist) {
		has, absent = nil, fmt.Sprintf("the folder %s is missing: copy it with the journal, whose candidates name its objects", objects.Dir)
	}
	v.Champions, v.Faults = journal.Verify(s, has)
	if absent != "" && slices.ContainsFunc(s.Now().Candidates(), func(c *journal.Candidate) bool { return len(c.Objects) > 0 }) {
		v.Faults = append(v.Faults, absent)
	}
	if s.Header.Rules != journal.Rules {
		v.Notes = append(v.Notes, fmt.Sprintf("made by rules %d, and this program has %d: reasons and causes are not recomputed; verdicts, duplicates and champions are", s.Header.Rules, journal.Rules))
	}
	p, err := newPlan(s.Header, 0)
	if err != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("the header is not one for this program (%v): proposals are not recomputed", err))
		return v, nil
	}
	defer p.strategy.Close()
	v.Faults = append(v.Faults, p.verifyCosts(s, &objects)...)
	switch now := p.proposer(); {
	case strategy.IsOutside(s.Header.Strategy):
		v.Notes = append(v.Notes, "an outside proposer can not be asked again: proposals are not recomputed")
	case now != s.Header.Proposer:
		v.Notes = append(v.Notes, fmt.Sprintf("proposed by %s, and this program has %s: proposals are not recomputed; checksums, chain, objects and all other decisions are", cmp.Or(s.Header.Proposer, "a version that does not say"), now))
	default:
		v.Faults = append(v.Faults, p.verifyProposals(s, told)...)
	}
	return v, nil
}

// verifyCosts recomputes the costs of every candidate, as far as stored objects allow.
func (p *plan) verifyCosts(s *journal.State, objects *store.Store) (faults []string) {
	grounds := judge.Grounds{Shapes: p.shapes, Targets: p.targets, Objective: p.objective}
	for _, c := range slices.Concat(s.Baselines(), s.Now().Candidates()) {
		for _, fault := range grounds.Faults(c, func(role string) []byte {
			text, err := objects.Get(c.Objects[role])
			if err != nil {
				return nil // a fault of its own
			}
			return text
		}) {
			faults = append(faults, fmt.Sprintf("candidate %d: %s", c.ID, fault)) // 0: the baseline
		}
	}
	return faults
}

// verifyProposals asks the strategy again for every candidate. told is as for Verify.
func (p *plan) verifyProposals(s *journal.State, told func(done, total int)) (faults []string) {
	all := s.Now().Candidates()
	for i, c := range all {
		if told != nil {
			told(i, len(all))
		}
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
		}{{"variant", c.Variant, want.Variant}, {"parent", c.Parent, want.Parent}, {"escalated", c.Escalated, want.Escalated}, {"scalar", c.Scalar, want.Scalar}, {"hypothesis", c.Hypothesis, want.Hypothesis}} {
			if d.was != d.is {
				faults = append(faults, fmt.Sprintf("candidate %d: %s %v, and the strategy proposes %v", c.ID, d.what, d.was, d.is))
			}
		}
	}
	return faults
}

// Object reads an object of a run by its key.
func Object(dir, key string) ([]byte, error) { return store.Store{Dir: objectsDir(dir)}.Get(key) }

// ModuleOf returns a candidate's module as compiled for a target (empty: the run's first), or an error if it has none.
func ModuleOf(dir, target string, c *journal.Candidate) ([]byte, error) {
	if target == "" {
		sum, err := Status(dir)
		if err != nil {
			return nil, err
		}
		target = sum.Targets[0]
	}
	key, ok := c.Objects["module/"+target]
	if !ok {
		return nil, fmt.Errorf("run %s keeps no module of candidate %d for %s", filepath.Clean(dir), c.ID, target)
	}
	return Object(dir, key)
}
