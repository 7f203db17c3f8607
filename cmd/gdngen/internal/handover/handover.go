// Package handover writes one page with which another person can continue: the best variants and their commands, the limits,
// accepted changes and their reasons, rejected ones, and the next step. It contains only facts from the records of the runs.
package handover

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ladder"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/gdn"
)

// Page is the content of a run summary.
type Page struct {
	Title string `json:"title"`
	Parts []Part `json:"parts"`
}

// Part is one section. Backquotes mark commands and names.
type Part struct {
	Run     string   `json:"run"`
	Heading string   `json:"heading"`
	Lines   []string `json:"lines"`
}

// The headings of a run.
const (
	headBest     = "Best"
	headSpots    = "Hot spots"
	headAccepted = "Accepted, and why"
	headRejected = "Rejected, by missing piece"
	headNext     = "Next hypothesis"
	headVerify   = "Versions, and how to verify"
)

// Limits on the length of a page.
const (
	spots    = 3
	accepted = 8
	failed   = 3
)

// New returns the page of runs: of searches, of loops and of ladders.
func New(dirs []string) (*Page, error) {
	p := &Page{Title: "Handover"}
	for _, dir := range dirs {
		add := p.search
		if _, err := os.Stat(filepath.Join(dir, journal.FileName)); err != nil {
			if _, err := loop.Load(dir); err == nil {
				add = p.loop
			} else if _, err := os.Stat(filepath.Join(dir, ladder.JournalName)); err == nil {
				add = p.ladder
			}
		}
		if err := add(dir); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Page) part(run, heading string, lines []string, none string) {
	if len(lines) == 0 {
		lines = []string{none}
	}
	p.Parts = append(p.Parts, Part{run, heading, lines})
}

// search adds a run of a search.
func (p *Page) search(dir string) error {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return err
	}
	h, v := s.Header, s.Now()
	p.part(dir, headBest, best(dir, s), "no candidate has a cost")
	p.part(dir, headSpots, hotSpots(v), "no schedule has stages")
	p.part(dir, headAccepted, line(v), "nothing")
	p.part(dir, headRejected, rejected(v), "nothing")
	p.part(dir, headNext, next(dir, v), "the records hold no change that was weighed and not tried")
	versions := fmt.Sprintf("gdngen %s", h.Generator)
	names := make([]string, 0, len(h.Plugins))
	for name := range h.Plugins {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		versions += fmt.Sprintf(", %s %s", name, h.Plugins[name])
	}
	p.part(dir, headVerify, []string{versions + fmt.Sprintf("; strategy %s, seed %d, %d candidates", h.Strategy, h.Seed, v.Len()),
		fmt.Sprintf("`gdngen run verify %s`", dir), fmt.Sprintf("`gdngen run show %s --md -`: every candidate", dir)}, "")
	return nil
}

// best lists the champion of each target, its margin, and the commands that produce it.
func best(dir string, s *journal.State) (l []string) {
	h, v, times := s.Header, s.Now(), s.Times()
	for _, t := range h.Targets {
		c := v.Champion(t)
		if c == nil {
			l = append(l, t+": no candidate has a cost")
			continue
		}
		k := c.Cost(t)
		text := fmt.Sprintf("%s: #%d, %.3f %s cycles per token and value head, static (%d in all", t, c.ID, float64(k.PerToken), k.RulerName(), k.Score)
		if k.Wall > 0 {
			text += fmt.Sprintf("; %d issue cycles, %d in order", k.Cycles, k.Wall)
		}
		text += ")"
		if e := c.Worst(); e != nil {
			text += fmt.Sprintf("; largest error %.2g of %.2g allowed, on %s inputs", float64(e.Error), float64(e.Limit), e.Class)
		}
		l = append(l, text)
		if r := times[c.ID-1].Runs; r != nil {
			l = append(l, fmt.Sprintf("%s, measured on %s: median %.3g ms; %.3f [%.3f, %.3f] of #%d in %d pairs", t, r.Device, 1e3*r.Seconds, r.Ratio, r.Low, r.High, r.Against, r.Pairs))
		} else {
			l = append(l, t+": not measured on a device")
		}
		for _, n := range s.NotesOf(c.ID) {
			l = append(l, fmt.Sprintf("%s, elsewhere: %s", t, plain(n.String())))
		}
		if c.Variant == "" {
			l = append(l, fmt.Sprintf("`gdngen run show %s %d --object proposal`", dir, c.ID))
			continue
		}
		at := fmt.Sprintf("--spec '%s' --variant '%s'", h.Spec, c.Variant)
		l = append(l, fmt.Sprintf("`gdngen explain %s --target %s`", at, t), fmt.Sprintf("`gdngen check %s`", at), fmt.Sprintf("`gdngen gen %s --target %s --backend mosaic --out kernel.mlir`", at, t))
	}
	return l
}

// hotSpots lists the stages with most cycles of the champion on the first target, and its bound.
func hotSpots(v journal.View) (l []string) {
	t := v.Header().Targets[0]
	c := v.Champion(t)
	if c == nil {
		return nil
	}
	k := c.Cost(t)
	for _, s := range k.Stages[:min(spots, len(k.Stages))] {
		l = append(l, fmt.Sprintf("%s: %d cycles, %.0f %% (static, %s)", cmp.Or(s.Name, "(no location)"), s.Cycles, 100*float64(s.Cycles)/float64(max(1, k.Took())), t))
	}
	if len(l) == 0 {
		return nil
	}
	return append(l, bound(k, t))
}

// bound names the resource that limits a cost.
func bound(k *journal.Cost, t string) string {
	switch took := k.Took(); {
	case k.HBM >= took:
		return fmt.Sprintf("bound on %s: HBM, whose traffic takes %d cycles at least", t, k.HBM)
	case k.Slot != "" && k.Fill > 0:
		text := fmt.Sprintf("bound on %s: %s is the fullest slot, %.0f %%", t, k.Slot, 100*float64(k.Fill))
		if k.Stall > 0 {
			text += fmt.Sprintf("; %d cycles wait for an MXU", k.Stall)
		}
		if k.XLA > 0 {
			text += fmt.Sprintf("; %d cycles (%.0f %%) lie outside of kernels", k.XLA, 100*float64(k.XLA)/float64(max(1, took)))
		}
		return text + fmt.Sprintf("; HBM needs %d of %d cycles", k.HBM, took)
	}
	return fmt.Sprintf("bound on %s: not told by the schedule; HBM needs %d of %d cycles", t, k.HBM, k.Took())
}

// line lists the latest champions on the first target, in order of succession.
func line(v journal.View) (l []string) {
	t := v.Header().Targets[0]
	all := v.Champions(t)
	from := max(0, len(all)-accepted)
	if from > 0 {
		l = append(l, fmt.Sprintf("%d champions before these, from %.3f", from, float64(all[0].Cost(t).PerToken)))
	}
	for i := from; i < len(all); i++ {
		c := all[i]
		what := changed(c)
		if i == 0 {
			l = append(l, fmt.Sprintf("#%d, %.3f on %s, the first: `%s`", c.ID, float64(c.Cost(t).PerToken), t, cmp.Or(c.Variant, what)))
			continue
		}
		gain := 1 - float64(c.Cost(t).Score)/float64(all[i-1].Cost(t).Score)
		text := fmt.Sprintf("#%d, %.3f, %.1f %% less than #%d: `%s`; %s", c.ID, float64(c.Cost(t).PerToken), 100*gain, all[i-1].ID, what, plain(c.Hypothesis))
		if bets, _ := v.BetsOf(c); len(bets) > 0 {
			text += "; bet: " + plain(strings.Join(bets, ", "))
		}
		l = append(l, text)
	}
	return l
}

// changed returns a candidate's change of its parent or, without a parent, its variant.
func changed(c *journal.Candidate) string {
	return cmp.Or(strings.Join(c.Change, ","), c.Variant, "the text of a program")
}

// rejected counts the failures by cause, and lists those with the largest expected gains.
func rejected(v journal.View) (l []string) {
	count := map[journal.Cause]int{}
	var lost []*journal.Candidate
	for _, c := range v.Candidates() {
		if c.Cause == journal.CauseNone {
			continue
		}
		count[c.Cause]++
		if c.Gain > 0 {
			lost = append(lost, c)
		}
	}
	for _, cause := range journal.Causes {
		if n := count[cause]; n > 0 {
			l = append(l, fmt.Sprintf("%s: %d", cause, n))
		}
	}
	slices.SortStableFunc(lost, func(a, b *journal.Candidate) int { return cmp.Compare(b.Gain, a.Gain) })
	for _, c := range lost[:min(failed, len(lost))] {
		l = append(l, fmt.Sprintf("#%d, %.1f %% expected, `%s`: %s, %s; %s", c.ID, 100*float64(c.Gain), changed(c), c.Verdict, c.Cause, plain(cmp.Or(c.Evidence, c.Reason))))
	}
	return l
}

// next returns the best untried change of the latest shortlist that has one.
func next(dir string, v journal.View) []string {
	all := v.Candidates()
	h := v.Header()
	spec, err := gdn.Parse(h.Spec)
	if err != nil {
		return nil
	}
	weighed := false
	for _, c := range slices.Backward(all) {
		for _, o := range c.Shortlist {
			parent := v.Candidate(o.Parent)
			if parent == nil || parent.Variant == "" {
				continue
			}
			w, err := with(parent.Variant, o.Change)
			if err != nil {
				continue
			}
			if _, tried := v.Fitted(w.Fit(spec).String()); tried {
				continue
			}
			if o.Gain <= 0 {
				weighed = true
				continue
			}
			return []string{fmt.Sprintf("`%s` in #%d: %.1f %% less expected, risk %.0f %% (weighed with #%d)", o.Change, o.Parent, 100*float64(o.Gain), 100*float64(o.Risk), c.ID),
				fmt.Sprintf("`gdngen search run --spec '%s' --target %s --ruler %s --start '%s' --max-candidates 1 --run %s`", h.Spec, strings.Join(h.Targets, ","), h.RulerName(), w, filepath.Clean(dir)+"-next")}
		}
	}
	if weighed {
		return []string{"no change that was weighed and not tried promises a gain"}
	}
	return nil
}

// with applies a change axis=value,axis=value to a variant. A value may make an earlier one applicable, hence two passes.
func with(variant, change string) (gdn.Variant, error) {
	v, err := gdn.ParseVariant(variant)
	if err != nil {
		return v, err
	}
	for range 2 {
		err = nil
		for move := range strings.SplitSeq(change, ",") {
			axis, value, _ := strings.Cut(move, "=")
			w, bad := v.With(axis, value)
			if bad != nil {
				err = bad
				continue
			}
			v = w
		}
	}
	return v, err
}

func plain(text string) string {
	return report.Clip(strings.ReplaceAll(text, "`", "'"), 300)
}
