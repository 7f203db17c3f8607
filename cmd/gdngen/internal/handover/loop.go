package handover

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
)

// loop adds the run of an agent's loop.
func (p *Page) loop(dir string) error {
	c, err := loop.Load(dir)
	if err != nil {
		return err
	}
	s, err := loop.Status(dir)
	if err != nil {
		return err
	}
	tip, base := "", ""
	var kept, counts, ideas []string
	lost := slices.Clone(s.Iterations)
	for _, r := range s.Iterations {
		base = cmp.Or(base, r.Base)
		if r.Verdict == loop.Keep || r.Verdict == loop.Scaffold {
			tip = r.Commit
			kept = append(kept, fmt.Sprintf("%d, `%.10s`, %s: %s", r.Iteration, r.Commit, plain(r.Reason), plain(words(r))))
		}
	}
	if s.First > 0 {
		text := fmt.Sprintf("branch %s at `%.10s`: figure %.6g, %.6g at the start (`%.10s`)", c.Branch, cmp.Or(tip, base), s.Now, s.First, base)
		if f := s.Final; f != nil {
			text += fmt.Sprintf("; measured anew %.6g and %.6g", f.Before, f.After)
			if f.Pairs > 1 {
				text += fmt.Sprintf(", ratio [%.4f, %.4f] in %d pairs", f.Low, f.High, f.Pairs)
			}
		}
		p.part(dir, headBest, []string{text, fmt.Sprintf("`git -C %s diff %.10s %.10s`", c.Repo, base, cmp.Or(tip, base)), fmt.Sprintf("`%s`: the figure", plain(c.Measure))}, "")
	} else {
		p.part(dir, headBest, nil, "nothing was measured")
	}
	if n := len(s.Iterations); n > 0 && s.Iterations[n-1].HotSpots != "" {
		p.part(dir, headSpots, []string{plain(s.Iterations[n-1].HotSpots)}, "")
	}
	p.part(dir, headAccepted, kept, "nothing")
	for _, m := range loop.Meanings {
		if n := s.Verdicts[m.Verdict]; n > 0 && !m.Moves {
			counts = append(counts, fmt.Sprintf("%s: %d", m.Verdict, n))
		}
	}
	lost = slices.DeleteFunc(lost, func(r loop.Record) bool {
		return r.Verdict == loop.Keep || r.Verdict == loop.Scaffold || r.Plan == nil || r.Plan.Gain == 0
	})
	slices.SortStableFunc(lost, func(a, b loop.Record) int { return cmp.Compare(b.Plan.Gain, a.Plan.Gain) })
	for _, r := range lost[:min(failed, len(lost))] {
		counts = append(counts, fmt.Sprintf("%d, %v expected, %s: %s, %s", r.Iteration, r.Plan.Gain, plain(words(r)), r.Verdict, plain(r.Reason)))
	}
	p.part(dir, headRejected, counts, "nothing")
	for _, r := range slices.Backward(s.Iterations) {
		if r.Plan != nil && r.Plan.Next != nil && r.Plan.Next.Change != "" {
			ideas = append(ideas, fmt.Sprintf("%s: %v less expected, risk %v (by iteration %d)", plain(r.Plan.Next.Change), r.Plan.Next.Gain, r.Plan.Next.Risk, r.Iteration))
			if r.Plan.Next.Command != "" {
				ideas = append(ideas, fmt.Sprintf("`%s`", plain(r.Plan.Next.Command)))
			}
			break
		}
	}
	p.part(dir, headNext, ideas, "no agent named one")
	p.part(dir, headVerify, []string{fmt.Sprintf("`gdngen loop lint --run %s`", dir), fmt.Sprintf("`gdngen loop resume --run %s --iterations %d`: goes on", dir, c.Iterations+10)}, "")
	return nil
}

func words(r loop.Record) string {
	if r.Plan == nil || r.Plan.Hypothesis == "" {
		return "no hypothesis"
	}
	return r.Plan.Hypothesis
}
