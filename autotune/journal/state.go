package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune/ruler"
)

// State is the fold over a journal. It is safe for concurrent use.
type State struct {
	Header *Header // nil before the first record

	mu         sync.RWMutex
	candidates []*Candidate
	times      []Times
	baselines  []*Candidate
	events     []Record
	last       time.Time
	busy       time.Duration
	variants   map[string]int         // first candidate by fitted variant
	modules    map[string]int         // by hash of the module
	schedules  map[string]int         // by target and hash of the schedule
	champions  map[string][]int       // by target, in order of succession
	rulers     map[string]ruler.Ruler // by target
}

// NewState returns the state before the first record.
func NewState() *State {
	return &State{variants: map[string]int{}, modules: map[string]int{}, schedules: map[string]int{}, champions: map[string][]int{}, rulers: map[string]ruler.Ruler{}}
}

// check returns why a record can not come next, or nil.
func (s *State) check(r Record) error {
	_, _, err := s.parse(r)
	return err
}

func (s *State) parse(r Record) (*Header, *Candidate, error) {
	switch {
	case r.Kind == KindHeader && s.Header != nil:
		return nil, nil, errors.New("a second header")
	case r.Kind == KindHeader:
		h := new(Header)
		if err := json.Unmarshal(r.Body, h); err != nil {
			return nil, nil, err
		}
		if h.Format != Format {
			return nil, nil, fmt.Errorf("format %d, this program reads %d", h.Format, Format)
		}
		if len(h.Targets) == 0 || h.Lookahead < 1 {
			return nil, nil, errors.New("the header has no targets or no lookahead")
		}
		return h, nil, nil
	case s.Header == nil:
		return nil, nil, fmt.Errorf("a record of kind %q before the header", r.Kind)
	case r.Kind == KindCandidate || r.Kind == KindBaseline:
		c := new(Candidate)
		if err := json.Unmarshal(r.Body, c); err != nil {
			return nil, nil, err
		}
		want := 0
		if r.Kind == KindCandidate {
			want = len(s.candidates) + 1
		}
		if c.ID != want {
			return nil, nil, fmt.Errorf("candidate %d, and %d was expected", c.ID, want)
		}
		if !c.Verdict.Known() {
			return nil, nil, fmt.Errorf("candidate %d: unknown verdict %q", c.ID, c.Verdict)
		}
		for i := range c.Costs {
			if err := s.sameRuler(&c.Costs[i]); err != nil {
				return nil, nil, fmt.Errorf("candidate %d: %w", c.ID, err)
			}
		}
		return nil, c, nil
	case slices.Contains([]Kind{KindSession, KindError, KindPause, KindEnd}, r.Kind):
		return nil, nil, json.Unmarshal(r.Body, new(Event))
	case r.Kind == KindNote:
		return nil, nil, json.Unmarshal(r.Body, new(Note))
	}
	return nil, nil, fmt.Errorf("unknown kind %q", r.Kind)
}

// sameRuler errs if a cost has another ruler than the others of the run.
func (s *State) sameRuler(c *Cost) error {
	is, others := c.RulerName(), s.rulers[c.Target]
	switch {
	case c.Verdict != "":
	case others != "" && is != others:
		return fmt.Errorf("its cost on %s is in %s cycles, and those before are in %s cycles: figures of two rulers do not compare", c.Target, is, others)
	case is == ruler.InOrder && s.Header.RulerName() != ruler.InOrder:
		return fmt.Errorf("its cost on %s is in %s cycles, and the run ranks by %s cycles", c.Target, is, s.Header.RulerName())
	}
	return nil
}

// Add folds one record. It errs on a record that can not come next.
func (s *State) Add(r Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, c, err := s.parse(r)
	if err != nil {
		return err
	}
	if r.Kind != KindNote { // notes are not part of a driver's time
		if r.Kind != KindSession && !s.last.IsZero() {
			s.busy += max(0, r.Times.At.Sub(s.last)) // a clock can be set back
		}
		s.last = r.Times.At
	}
	switch {
	case h != nil:
		s.Header = h
	case r.Kind == KindBaseline:
		s.baselines = append(s.baselines, c)
	case c != nil:
		s.addCandidate(c, r.Times)
	default:
		s.events = append(s.events, r)
	}
	return nil
}

func (s *State) addCandidate(c *Candidate, times Times) {
	s.candidates = append(s.candidates, c)
	s.times = append(s.times, times)
	if c.Fitted != "" {
		first(s.variants, c.Fitted, c.ID)
	}
	if c.IR != "" {
		first(s.modules, c.IR, c.ID)
	}
	for _, cost := range c.Costs {
		if cost.Verdict == "" {
			first(s.schedules, cost.Target+" "+cost.Schedule, c.ID)
			s.rulers[cost.Target] = cost.RulerName()
		}
	}
	if !c.Verdict.Ranked() {
		return
	}
	for _, t := range s.Header.Targets {
		var best *Candidate
		if line := s.champions[t]; len(line) > 0 {
			best = s.candidates[line[len(line)-1]-1]
		}
		if s.Header.succeeds(c, best, t) == "" {
			s.champions[t] = append(s.champions[t], c.ID)
		}
	}
}

func first(m map[string]int, key string, id int) {
	if m[key] == 0 {
		m[key] = id
	}
}

// Len is the number of candidates.
func (s *State) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.candidates)
}

// Events returns the records of other kinds than candidates.
func (s *State) Events() []Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.events)
}

// Busy returns the time that drivers have worked on the run.
func (s *State) Busy() time.Duration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.busy
}

// Times returns the times of every candidate, by id.
func (s *State) Times() []Times {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.times)
}

// Now returns the view of all candidates so far.
func (s *State) Now() View { return s.At(s.Len()) }

// At returns the view of the first n candidates. Adding more does not change it.
func (s *State) At(n int) View { return View{s, n} }

// View is the state of a run after its first n candidates were judged. It is immutable.
type View struct {
	s *State
	n int
}

// Header returns the run's header.
func (v View) Header() *Header { return v.s.Header }

// Len returns the number of candidates in view.
func (v View) Len() int { return v.n }

// Candidates returns them in the order of their ids. They must not be changed.
func (v View) Candidates() []*Candidate {
	v.s.mu.RLock()
	defer v.s.mu.RUnlock()
	return slices.Clip(v.s.candidates[:v.n])
}

// Candidate returns a candidate by id; nil if it is not in view.
func (v View) Candidate(id int) *Candidate {
	v.s.mu.RLock()
	defer v.s.mu.RUnlock()
	if id < 1 || id > v.n {
		return nil
	}
	return v.s.candidates[id-1]
}

func (v View) lookup(m map[string]int, key string) (id int, ok bool) {
	v.s.mu.RLock()
	defer v.s.mu.RUnlock()
	id = m[key]
	return id, id != 0 && id <= v.n
}

// Fitted returns the first candidate with a fitted variant.
func (v View) Fitted(text string) (id int, ok bool) { return v.lookup(v.s.variants, text) }

// Module returns the first candidate with a module.
func (v View) Module(hash string) (id int, ok bool) { return v.lookup(v.s.modules, hash) }

// Schedule returns the first candidate with a schedule on a target.
func (v View) Schedule(target, hash string) (id int, ok bool) {
	return v.lookup(v.s.schedules, target+" "+hash)
}

// Champion returns the best candidate on a target, the first of equals; nil if there is none.
func (v View) Champion(target string) *Candidate {
	v.s.mu.RLock()
	defer v.s.mu.RUnlock()
	line := v.s.champions[target]
	for i := len(line) - 1; i >= 0; i-- {
		if line[i] <= v.n {
			return v.s.candidates[line[i]-1]
		}
	}
	return nil
}

// Champions returns the champions of a target in order of succession; the last is the present one.
func (v View) Champions(target string) []*Candidate {
	v.s.mu.RLock()
	defer v.s.mu.RUnlock()
	var l []*Candidate
	for _, id := range v.s.champions[target] {
		if id <= v.n {
			l = append(l, v.s.candidates[id-1])
		}
	}
	return l
}
