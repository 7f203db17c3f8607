package handover

import (
	"cmp"
	"fmt"

	"github.com/gdngen/gdngen/autotune/ladder"
)

// pairsMore is the factor on the number of pairs proposed if an interval does not decide.
const pairsMore = 2

// ladder adds a climb.
func (p *Page) ladder(dir string) error {
	climb, err := ladder.Load(dir)
	if err != nil {
		return err
	}
	c := climb.Config
	by := "static cost: nothing ran"
	if c.Device != "" {
		by = "times on " + c.Device
	}
	best, other := c.Base, c.Variant
	if climb.Decision == ladder.Keep {
		best, other = c.Variant, c.Base
	}
	head := []string{fmt.Sprintf("%s of `%s` against `%s` on %s, %s, by %s: %s", cmp.Or(string(climb.Decision), "not decided yet"), plain(c.Variant), plain(c.Base), c.Kernel, c.Target, by, plain(cmp.Or(climb.Reason, "the climb was stopped")))}
	var held, failed []string
	for _, r := range climb.Rungs {
		text := fmt.Sprintf("%s: %s", r.Rung, r.Outcome)
		if r.Kind != ladder.Correct {
			text = fmt.Sprintf("%s: %s, %s", r.Rung, r.Outcome, band(r.Figures))
		}
		if r.Outcome.Ends() {
			failed = append(failed, fmt.Sprintf("%s; missing piece: %s; %s", text, cmp.Or(string(r.Missing), "not told"), plain(r.Evidence)))
		} else {
			held = append(held, text)
		}
	}
	if climb.Goal != "" {
		head = append(head, "goal: "+climb.Goal)
	}
	head = append(head, fmt.Sprintf("`gdngen explain --spec '%s' --variant '%s' --target %s`", c.Kernel, best, c.Target), fmt.Sprintf("`gdngen gen --spec '%s' --variant '%s' --target %s --backend mosaic --out kernel.mlir`", c.Kernel, best, c.Target))
	p.part(dir, headBest, head, "")
	p.part(dir, headSpots, rungSpots(climb), "no rung has stages")
	p.part(dir, headAccepted, held, "nothing")
	p.part(dir, headRejected, failed, "nothing")
	again := fmt.Sprintf("gdngen model ladder --spec '%s' --base '%s' --variant '%s' --target %s --run %s", c.Kernel, c.Base, c.Variant, c.Target, dir)
	var next []string
	switch climb.Decision {
	case ladder.Inconclusive:
		next = []string{"more pairs of runs, since the interval does not tell", fmt.Sprintf("`gdngen model ladder --spec '%s' --base '%s' --variant '%s' --target %s --plugin libtpu.so --repeat %d --run %s-more`", c.Kernel, c.Base, c.Variant, c.Target, pairsMore*c.Repeat, dir)}
	case ladder.Revert:
		next = []string{fmt.Sprintf("what is missing (%s), from `%s`", climb.Missing, plain(other)), fmt.Sprintf("`%s`", climb.Last().Command)}
	case ladder.Keep:
		next = []string{"a search from what was kept", fmt.Sprintf("`gdngen search run --spec '%s' --target %s --start '%s' --run %s-next`", c.Kernel, c.Target, best, dir)}
	default:
		next = []string{"the rungs that are not climbed", "`" + again + "`"}
	}
	p.part(dir, headNext, next, "")
	p.part(dir, headVerify, []string{fmt.Sprintf("hold-out seed %d; `%s/%s` has each rung with its command", c.Seed, dir, ladder.JournalName)}, "")
	return nil
}

// band returns a rung's figures of base and candidate, with the interval if measured.
func band(f *ladder.Figures) string {
	text := fmt.Sprintf("%d to %d %s", f.Base.Score, f.Candidate.Score, f.Unit)
	if f.Ratio > 0 {
		text += fmt.Sprintf(", %.1f %% less", 100*f.Gain())
	}
	if f.Pairs > 0 {
		text += fmt.Sprintf(" [%.1f, %.1f] in %d pairs", 100*(1-f.High), 100*(1-f.Low), f.Pairs)
	}
	if f.Candidate.MFU > 0 {
		text += fmt.Sprintf(", MFU %.1f to %.1f %%", 100*f.Base.MFU, 100*f.Candidate.MFU)
	}
	return text
}

// rungSpots lists the candidate's stages with most cycles on the highest rung that has stages.
func rungSpots(climb *ladder.Climb) (l []string) {
	for i := len(climb.Rungs) - 1; i >= 0 && l == nil; i-- {
		r := climb.Rungs[i]
		if r.Figures == nil || r.Kind == ladder.Guarded {
			continue
		}
		x := r.Figures.Candidate
		for _, s := range x.Stages[:min(spots, len(x.Stages))] {
			l = append(l, fmt.Sprintf("%s, %s: %d cycles, %.0f %%", r.Rung, cmp.Or(s.Name, "(no location)"), s.Cycles, 100*float64(s.Cycles)/float64(max(1, x.Score))))
		}
	}
	return l
}
