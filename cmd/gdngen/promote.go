package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
)

// promote lets auto stand for the best candidate of a run. Both figures are the run's own, so that they compare.
func (a *app) promote(dir, target string, best *journal.Candidate) error {
	state, _, err := journal.Read(dir, nil)
	if err != nil {
		return err
	}
	h := state.Header
	target = cmp.Or(target, h.Targets[0])
	switch {
	case promoted.File() == "":
		return usage(fmt.Errorf("there is no configuration to promote into: let %s name its folder", promoted.DirEnv))
	case len(h.Shapes) > 1:
		return usage(fmt.Errorf("run %s weighs %d specs together, and auto is for one: promote from a run of one spec", dir, len(h.Shapes)))
	case best.Variant == "":
		return usage(fmt.Errorf("candidate %d is the text of a program, and auto stands for variants", best.ID))
	}
	s, err := gdn.Parse(h.Spec)
	if err != nil {
		return err
	}
	t, err := oneTarget(target)
	if err != nil {
		return err
	}
	class := promoted.Class(h.Precision)
	now, err := suit(s, class.Text(), lower.Route{Kernels: true}, t)
	if err != nil {
		return err
	}
	fitted := now.Variant.Fit(s).String()
	if best.Fitted == fitted {
		return fmt.Errorf("the best of run %s on %s is what auto stands for already: %s", dir, target, now.Variant.Short())
	}
	var was *journal.Cost
	if id, ok := state.Now().Fitted(fitted); ok {
		was = state.Now().Candidate(id).Cost(target)
	}
	is := best.Cost(target)
	switch {
	case was == nil:
		return fmt.Errorf("run %s has no cost on %s of what auto stands for, so nothing says which is better; compare them in one run, and promote from that:\n"+
			"  gdngen search run --spec %s --targets %s --precision %s --start auto --start %s --max-candidates 3 --run %s", dir, target, h.Spec, target, h.Precision, best.Variant, filepath.Clean(dir)+"-auto")
	case is.Score >= was.Score:
		return fmt.Errorf("the best of run %s on %s takes %d cycles, no less than what auto stands for: %s", dir, target, is.Score, now.Variant.Short())
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	path, err := promoted.Write(promoted.Row{Spec: h.Spec, Target: target, Accuracy: class.String(), Variant: best.Variant, Cycles: is.Score, Libtpu: cmp.Or(h.Plugins["libtpu"], "unknown"),
		Run: filepath.Base(absolute), Candidate: best.ID, Date: time.Now().UTC().Format(time.DateOnly)})
	if err != nil {
		return err
	}
	a.note("%s: %s of %s on %s is candidate %d from now on, %d cycles; it was %s, %d cycles", path, class.Text(), h.Spec, target, best.ID, is.Score, now.Variant.Short(), was.Score)
	return nil
}
