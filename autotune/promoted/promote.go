package promoted

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// UseError says why a run, a candidate or the configuration can not be used for promoting.
type UseError struct{ Reason string }

func (e *UseError) Error() string { return e.Reason }

// Promote records that auto is the best candidate of a run, on a target (empty: the run's first), and returns a
// sentence about the change. The old and new figures come from the same run, so that they compare.
func Promote(dir, generation string, best *journal.Candidate) (said string, err error) {
	state, _, err := journal.Read(dir, nil)
	if err != nil {
		return "", err
	}
	h := state.Header
	generation = cmp.Or(generation, h.Targets[0])
	switch {
	case File() == "":
		return "", &UseError{fmt.Sprintf("there is no configuration to promote into: let %s name its folder", DirEnv)}
	case len(h.Shapes) > 1:
		return "", &UseError{fmt.Sprintf("run %s weighs %d specs together, and auto is for one: promote from a run of one spec", dir, len(h.Shapes))}
	case best.Variant == "":
		return "", &UseError{fmt.Sprintf("candidate %d is the text of a program, and auto stands for variants", best.ID)}
	}
	if want := ruler.InOrder.On(generation); want == ruler.InOrder && h.RulerName() != want {
		return "", fmt.Errorf("run %s ranks by %s cycles, and what auto stands for on %s is chosen by %s cycles: figures of two rulers do not compare, so search again with --ruler %s", dir, h.RulerName(), generation, want, want)
	}
	s, err := gdn.Parse(h.Spec)
	if err != nil {
		return "", err
	}
	t, err := target.Lookup(generation)
	if err != nil {
		return "", err
	}
	o, err := objective.Parse(h.Objective)
	if err != nil {
		return "", err
	}
	if o.Most > 0 {
		return "", &UseError{fmt.Sprintf("the run makes errors small (%s), and auto is the cheapest of a class of accuracy: search with --objective cost@error=CLASS and promote from that", o)}
	}
	class := ClassOf(o, h.Precision)
	now, err := route.Resolve(s, class.Text(), t, Champion)
	if err != nil {
		return "", err
	}
	was, is, err := compared(state, dir, generation, best, now)
	if err != nil {
		return "", err
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	path, err := Write(Row{Spec: h.Spec, Target: generation, Accuracy: class.String(), Variant: best.Variant, Cycles: is.Score, Ruler: is.RulerName(), Libtpu: cmp.Or(h.Plugins["libtpu"], "unknown"),
		Run: filepath.Base(absolute), Candidate: best.ID, Date: time.Now().UTC().Format(time.DateOnly)})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s of %s on %s is candidate %d from now on, %d %s cycles; it was %s, %d cycles", path, class.Text(), h.Spec, generation, best.ID, is.Score, is.RulerName(), now.Variant.Short(), was.Score), nil
}

// compared returns the run's costs of auto's present variant and of the candidate, which must be better.
func compared(state *journal.State, dir, target string, best *journal.Candidate, now *route.Form) (was, is *journal.Cost, err error) {
	h, fitted := state.Header, now.Variant.Fit(now.Spec).String()
	if best.Fitted == fitted {
		return nil, nil, fmt.Errorf("the best of run %s on %s is what auto stands for already: %s", dir, target, now.Variant.Short())
	}
	if id, ok := state.Now().Fitted(fitted); ok {
		was = state.Now().Candidate(id).Cost(target)
	}
	is = best.Cost(target)
	switch {
	case was == nil:
		least := h.Precision
		if p := now.Variant.Precision().String(); !strategy.Reaches(p, least) {
			least = p // a higher one, or the run would refuse auto's variant
		}
		return nil, nil, fmt.Errorf("run %s has no cost on %s of what auto stands for, so nothing says which is better; compare them in one run, and promote from that:\n"+
			"  gdngen search run --spec %s --target %s --precision %s --start auto --start %s --max-candidates 3 --run %s", dir, target, h.Spec, target, least, best.Variant, filepath.Clean(dir)+"-auto")
	case is == nil:
		return nil, nil, errors.New("the best candidate has no cost on " + target)
	case is.Score >= was.Score:
		return nil, nil, fmt.Errorf("the best of run %s on %s takes %d %s cycles, no less than what auto stands for: %s", dir, target, is.Score, is.RulerName(), now.Variant.Short())
	}
	return was, is, nil
}
