package journal

// Baseline returns the cheapest candidate judged as a baseline on a target: the figure that a run has to beat. It is
// nil if there is none. No decision depends on it.
func (s *State) Baseline(target string) (best *Candidate) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range s.baselines {
		cost := c.Cost(target)
		if cost != nil && c.Verdict.Ranked() && (best == nil || cost.Score < best.Cost(target).Score) {
			best = c
		}
	}
	return best
}

// Baselines lists the candidates judged as baselines before the first candidate, in order.
func (s *State) Baselines() []*Candidate {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]*Candidate(nil), s.baselines...)
}

// Baseline returns State.Baseline.
func (v View) Baseline(target string) *Candidate { return v.s.Baseline(target) }
