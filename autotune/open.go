package autotune

import (
	"fmt"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/store"
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

// Verify recomputes the decisions of a run and checks its objects. It returns the champions by target, and the faults.
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
	return champions, faults, nil
}

// Object reads an object of a run by its key.
func Object(dir, key string) ([]byte, error) { return store.Store{Dir: objectsDir(dir)}.Get(key) }
