package autotune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/gdn"
)

// Ablation is the result of Ablate: each move of a change judged alone, and the moves added one by one, by descending expected gain.
type Ablation struct {
	Run       string         `json:"run"`       // folder of the ablation's run
	Candidate int            `json:"candidate"` // whose change is split
	From      int            `json:"from"`      // the candidate before the change
	Target    string         `json:"target"`
	Ruler     ruler.Ruler    `json:"ruler"`
	Base      Ablated        `json:"base"`
	Moves     []Ablated      `json:"moves"`
	Whole     Ablated        `json:"whole"`
	Separate  journal.Figure `json:"apart"` // 1 - the product of the cost ratios of the moves alone
}

// Ablated is one move: judged alone, and together with the moves before it. For the base and the whole change, After is nil.
type Ablated struct {
	Move     string         `json:"move,omitempty"`
	Expected journal.Figure `json:"expected,omitempty"` // share of the cost saved by the move alone, as estimated
	Alone    Judged         `json:"alone"`
	After    *Judged        `json:"after,omitempty"` // with the moves before it
	Pays     journal.Figure `json:"pays"`            // share of the cost saved by adding it to the moves before it
}

// Judged is the verdict of a variant and its cost on Ablation.Target.
type Judged struct {
	Variant  string          `json:"variant,omitempty"`
	ID       int             `json:"id,omitempty"` // candidate in the run of the ablation
	Verdict  journal.Verdict `json:"verdict,omitempty"`
	Reason   string          `json:"reason,omitempty"` // why there is no cost
	PerToken journal.Figure  `json:"per_token,omitempty"`
}

type ablation struct {
	Ablation
	header   *journal.Header
	spec     gdn.Spec
	base     gdn.Variant
	whole    gdn.Variant
	moves    []strategy.Move
	expected []float64
}

// Ablate judges each move from candidate from (0: the parent of id) to candidate id, by the gates of the search. The ablation is a run of its
// own in c.Dir (empty: ablate-N in the folder of the run) and resumes: variants judged there already are not judged again.
func Ablate(ctx context.Context, dir string, id, from int, c Config) (*Ablation, error) {
	a, err := newAblation(dir, id, from)
	if err != nil {
		return nil, &ConfigError{err}
	}
	a.Run = cmp.Or(c.Dir, filepath.Join(dir, fmt.Sprintf("ablate-%d", id)))
	seeds := a.variants()
	if err := a.judge(ctx, c, seeds); err != nil {
		return nil, err
	}
	s, _, err := journal.Read(a.Run, nil)
	if err != nil {
		return nil, err
	}
	return a.report(s.Now()), nil
}

func newAblation(dir string, id, from int) (*ablation, error) {
	s, _, err := journal.Read(dir, nil)
	if err != nil {
		return nil, err
	}
	c := s.Now().Candidate(id)
	if c == nil {
		return nil, fmt.Errorf("run %s has no candidate %d: it has 1 to %d", dir, id, s.Len())
	}
	parent := s.Now().Candidate(cmp.Or(from, c.Parent))
	switch {
	case parent == nil && from == 0:
		return nil, fmt.Errorf("candidate %d was changed from none: name the candidate to compare it with by --from", id)
	case parent == nil || parent.ID == id:
		return nil, fmt.Errorf("--from %d: want another candidate of the run", from)
	case c.Variant == "" || parent.Variant == "":
		return nil, fmt.Errorf("candidate %d or %d is the text of a program: only changes of axes can be taken apart", id, parent.ID)
	}
	p, err := newGround(s.Header)
	if err != nil {
		return nil, err
	}
	a := &ablation{Ablation: Ablation{Candidate: id, From: parent.ID, Target: s.Header.Targets[0]}, header: s.Header, spec: p.spec}
	if a.base, err = gdn.ParseVariant(parent.Variant); err != nil {
		return nil, err
	}
	if a.whole, err = gdn.ParseVariant(c.Variant); err != nil {
		return nil, err
	}
	if a.told(c, parent) {
		a.order(newEstimator(p.spec, p.targets))
		return a, nil
	}
	for _, x := range gdn.Axes {
		if was, is := x.Get(&a.base), x.Get(&a.whole); was != is && x.Sets == nil {
			a.moves = append(a.moves, strategy.Move{Axis: x.Name, Value: is})
		}
	}
	if len(a.moves) < 2 {
		return nil, fmt.Errorf("candidates %d and %d differ in %d axes: there is nothing to take apart", parent.ID, id, len(a.moves))
	}
	a.order(newEstimator(p.spec, p.targets))
	return a, nil
}

// told takes the moves from the candidate's recorded change, if they lead from the parent to the candidate. Axes implied by others are no moves.
func (a *ablation) told(c, parent *journal.Candidate) bool {
	if c.Parent != parent.ID || len(c.Change) < 2 {
		return false
	}
	for _, text := range c.Change {
		axis, value, _ := strings.Cut(text, "=")
		a.moves = append(a.moves, strategy.Move{Axis: axis, Value: value})
	}
	if a.after(len(a.moves)-1).Fit(a.spec) == a.whole.Fit(a.spec) {
		return true
	}
	a.moves = nil
	return false
}

// order sorts the moves by the estimated saving of each alone. Moves without an estimate come last.
func (a *ablation) order(e *estimator) {
	score := func(v gdn.Variant) float64 {
		if x := e.estimate(v); x != nil && len(x.Targets) > 0 {
			return x.Targets[0].Kernel + x.Targets[0].XLA
		}
		return 0
	}
	base := score(a.base)
	saves := map[strategy.Move]float64{}
	for _, m := range a.moves {
		saves[m] = -1
		if v, err := a.base.With(m.Axis, m.Value); err == nil && base > 0 {
			if now := score(v); now > 0 {
				saves[m] = 1 - now/base
			}
		}
	}
	slices.SortStableFunc(a.moves, func(x, y strategy.Move) int { return cmp.Compare(saves[y], saves[x]) })
	for _, m := range a.moves {
		a.expected = append(a.expected, max(saves[m], 0))
	}
}

// alone returns the base with move i only.
func (a *ablation) alone(i int) (gdn.Variant, error) {
	return a.base.With(a.moves[i].Axis, a.moves[i].Value)
}

// after returns the base with moves 0 to i. It applies them repeatedly: a move may apply only once a later one is in.
func (a *ablation) after(i int) gdn.Variant {
	v := a.base
	for range a.moves {
		for _, m := range a.moves[:i+1] {
			if w, err := v.With(m.Axis, m.Value); err == nil {
				v = w
			}
		}
	}
	return v
}

// variants lists the variants to judge, each program once: the base first, the whole change last.
func (a *ablation) variants() []string {
	var l []string
	seen := map[gdn.Variant]bool{a.whole.Fit(a.spec): true}
	add := func(v gdn.Variant) {
		if fitted := v.Fit(a.spec); !seen[fitted] {
			seen[fitted], l = true, append(l, v.String())
		}
	}
	add(a.base)
	for i := range a.moves {
		if v, err := a.alone(i); err == nil {
			add(v)
		}
	}
	for i := range a.moves {
		add(a.after(i))
	}
	return append(l, a.whole.String())
}

func (a *ablation) judge(ctx context.Context, c Config, seeds []string) error {
	h := a.header
	drive := Search
	if s, _, err := journal.Read(a.Run, nil); err == nil {
		if s.Header.Spec != h.Spec || !slices.Equal(s.Header.Seeds, seeds) {
			return &ConfigError{fmt.Errorf("%s holds another run: choose another --out", a.Run)}
		}
		if s.Len() >= len(seeds) {
			return nil
		}
		drive = Resume
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	c.Dir, c.Spec, c.Targets, c.Seed, c.Precision, c.Mixed = a.Run, a.spec, h.Targets, h.Seed, h.Precision, h.Mixed
	c.Seeds, c.Strategy, c.Candidates, c.Patience, c.Promoted = seeds, "exhaustive", len(seeds), 0, nil
	c.Ruler = h.RulerName()
	c.Guards = nil // an ablation names no champion to guard
	var err error
	if c.Shapes, err = ParseShapes(shapeTexts(h)); err != nil {
		return err
	}
	sum, err := drive(ctx, c)
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && sum.Candidates < len(seeds) {
		return fmt.Errorf("%d of %d variants were judged (%s): the same command goes on", sum.Candidates, len(seeds), sum.Stopped)
	}
	return err
}

func shapeTexts(h *journal.Header) (l []string) {
	for _, x := range h.Shapes {
		l = append(l, fmt.Sprintf("%s=%g", x.Spec, float64(x.Weight)))
	}
	return l
}

// report reads the verdicts and costs from the ablation's run.
func (a *ablation) report(v journal.View) *Ablation {
	judged := func(w gdn.Variant) Judged {
		j := Judged{Variant: w.String()}
		id, ok := v.Fitted(w.Fit(a.spec).String())
		if !ok {
			j.Reason = "not judged"
			return j
		}
		c := v.Candidate(id)
		if c.Of > 0 { // same program or schedule as another candidate: same cost
			j.Reason = fmt.Sprintf("as #%d", c.Of)
			c = v.Candidate(c.Of)
		}
		j.ID, j.Verdict = id, c.Verdict
		if k := c.Cost(a.Target); k != nil {
			j.PerToken, a.Ruler = k.PerToken, k.RulerName()
		} else {
			j.Reason = strings.TrimSpace(strings.Join(strings.Fields(c.Reason), " "))
		}
		return j
	}
	a.Base, a.Whole = Ablated{Alone: judged(a.base)}, Ablated{Alone: judged(a.whole)}
	before, apart := a.Base.Alone.PerToken, 1.
	for i, m := range a.moves {
		x := Ablated{Move: m.String(), Expected: journal.Figure(a.expected[i])}
		if w, err := a.alone(i); err != nil {
			x.Alone.Reason = "does not apply alone"
		} else {
			x.Alone = judged(w)
		}
		after := judged(a.after(i))
		x.After = &after
		if after.PerToken > 0 && before > 0 {
			x.Pays = 1 - after.PerToken/before
		}
		if after.PerToken > 0 {
			before = after.PerToken
		}
		if x.Alone.PerToken > 0 && a.Base.Alone.PerToken > 0 {
			apart *= float64(x.Alone.PerToken / a.Base.Alone.PerToken)
		}
		a.Moves = append(a.Moves, x)
	}
	a.Separate = journal.Figure(1 - apart)
	if a.Base.Alone.PerToken > 0 && a.Whole.Alone.PerToken > 0 {
		a.Whole.Pays = 1 - a.Whole.Alone.PerToken/a.Base.Alone.PerToken
	}
	return &a.Ablation
}
