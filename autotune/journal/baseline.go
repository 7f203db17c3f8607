package journal

// Baseline is the cheapest of what was judged before the first candidate and is none: what a run is to beat on a target. It is nil where
// there is none, and no part of any decision.
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

// Baselines lists what was judged before the first candidate, in order.
func (s *State) Baselines() []*Candidate {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]*Candidate(nil), s.baselines...)
}

// Baseline is the run's baseline.
func (v View) Baseline(target string) *Candidate { return v.s.Baseline(target) }
