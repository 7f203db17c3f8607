package loop

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/internal/ratio"
)

// judge gives a commit its verdict: build, checks and figures in a clone that the agent never saw, beside one of the base.
func (l *Loop) judge(ctx context.Context, r *Record) error {
	r.Seed = strconv.FormatUint(seed(), 10) // nobody knew it before the agent had ended
	after, before := l.path("judge", "change"), l.path("judge", "base")
	l.Step("checks")
	if err := l.store.clone(ctx, after, l.Branch, r.Commit); err != nil {
		return err
	}
	run := l.judgeRun(r.Iteration, r.Seed)
	if l.Build != "" {
		if o, err := run(ctx, "build", l.Build, after); err != nil || o.fault != "" {
			*r = l.verdict(*r, BuildFailed, l.Build, "%s: %s", o.fault, o.last)
			return err
		}
	}
	for i, check := range l.Checks {
		for attempt := range l.CheckRetries + 1 {
			o, err := run(ctx, fmt.Sprintf("check-%d", i+1), check, after)
			if err != nil {
				return err
			}
			if o.fault == "" {
				break
			}
			if attempt == l.CheckRetries {
				*r = l.verdict(*r, CheckFailed, check, "%s: %s; %s", check, o.fault, o.last)
				return nil
			}
		}
	}
	if err := l.store.clone(ctx, before, l.Branch, r.Base); err != nil {
		return err
	}
	if l.Build != "" {
		if o, err := run(ctx, "build-base", l.Build, before); err != nil || o.fault != "" {
			return cmp.Or(err, fmt.Errorf("the base can not be built: %s: %s", o.fault, o.last))
		}
	}
	if same, err := l.sameEffect(ctx, r, before, after); same || err != nil {
		return err
	}
	l.Step("figures")
	f, bad, err := l.compare(ctx, run, "measure", l.Measure, before, after)
	if err != nil {
		return err
	}
	if bad != "" {
		*r = l.verdict(*r, NoFigure, l.Measure, "%s", bad)
		return nil
	}
	r.Figures = f
	return l.rank(ctx, run, r, before, after)
}

// rank decides by the figures.
func (l *Loop) rank(ctx context.Context, run judgeRun, r *Record, before, after string) error {
	for i, g := range l.Guards {
		f, bad, err := l.compare(ctx, run, fmt.Sprintf("guard-%d", i+1), g.Command, before, after)
		if err != nil {
			return err
		}
		if bad != "" {
			*r = l.verdict(*r, Regression, g.Command, "%s: %s", g.Command, bad)
			return nil
		}
		r.Guards = append(r.Guards, *f)
		if f.Ratio > 1+g.Share {
			*r = l.verdict(*r, Regression, g.Command, "%s rose by %v, from %.6g to %.6g; %v is allowed", g.Command, Share(f.Ratio-1), f.Before, f.After, Share(g.Share))
			return nil
		}
	}
	f := r.Figures
	text := fmt.Sprintf("from %.6g to %.6g, %s", f.Before, f.After, fall(f.Gain()))
	if f.Pairs > 1 {
		text += fmt.Sprintf(" [%v, %v] in %d pairs", Share(1-f.High), Share(1-f.Low), f.Pairs)
	}
	worst := max(f.Ratio, f.High)
	switch {
	case worst <= 1-l.MinGain && f.Ratio < 1:
		*r = l.verdict(*r, Keep, "", "%s", text)
	case r.Plan != nil && r.Plan.Scaffold != "" && f.Ratio <= 1+l.MaxRegression && l.scaffolds() < l.AllowScaffold:
		*r = l.verdict(*r, Scaffold, "", "%s; it prepares: %s", text, r.Plan.Scaffold)
	default:
		*r = l.verdict(*r, NotBetter, "", "%s; %v is asked", text, Share(l.MinGain))
	}
	return nil
}

// scaffolds is how many there were since the last keep.
func (l *Loop) scaffolds() (n int) {
	for _, r := range slices.Backward(ends(l.records())) {
		switch r.Verdict {
		case Keep:
			return n
		case Scaffold:
			n++
		}
	}
	return n
}

// judgeRun runs a command of the judge in a clone.
type judgeRun func(ctx context.Context, name, text, dir string) (outcome, error)

func (l *Loop) judgeRun(n int, seed string) judgeRun {
	env := l.environment(l.path("judge", "home"), l.path("judge", "tmp"), append(slices.Clone(l.JudgeEnv), "GDNGEN_HOLDOUT_SEED="+seed)...)
	b := l.box
	if l.Holdout != "" {
		env = append(env, "GDNGEN_HOLDOUT="+l.Holdout)
		open := *b
		open.hidden = ""
		b = &open
	}
	return func(ctx context.Context, name, text, dir string) (outcome, error) {
		if err := os.MkdirAll(l.path("judge", "tmp"), 0o755); err != nil {
			return outcome{}, err
		}
		c := command{text: text, dir: dir, log: filepath.Join(l.folder(n), name+".log"), env: env, box: b, limit: l.CheckTimeout}
		return c.run(ctx)
	}
}

// sameEffect refuses a change that what --effect prints does not show.
func (l *Loop) sameEffect(ctx context.Context, r *Record, before, after string) (bool, error) {
	if l.Effect == "" {
		return false, nil
	}
	run := l.judgeRun(r.Iteration, r.Seed)
	var texts [2]string
	for i, dir := range []string{before, after} {
		name := []string{"effect-base", "effect"}[i]
		o, err := run(ctx, name, l.Effect, dir)
		if err != nil {
			return false, err
		}
		if o.fault != "" && i == 0 {
			return false, fmt.Errorf("%s fails on the base: %s", l.Effect, o.fault)
		}
		if o.fault != "" {
			*r = l.verdict(*r, CheckFailed, l.Effect, "%s: %s; %s", l.Effect, o.fault, o.last)
			return true, nil
		}
		text, err := os.ReadFile(filepath.Join(l.folder(r.Iteration), name+".log"))
		if err != nil {
			return false, err
		}
		texts[i] = strings.ReplaceAll(string(text), dir, "")
	}
	if texts[0] == texts[1] {
		*r = l.verdict(*r, NoEffect, l.Effect, "%s prints the same as before", l.Effect)
		return true, nil
	}
	return false, nil
}

// compare measures base and change in turn. bad says why the change has no figure; one that the base lacks is a fault of the machinery.
func (l *Loop) compare(ctx context.Context, run judgeRun, name, text, before, after string) (f *Figures, bad string, err error) {
	var was, is, ratios []float64
	for range l.Repeat {
		x, bad, err := figure(ctx, run, name+"-base", text, before)
		if err != nil {
			return nil, "", err
		}
		if bad != "" {
			return nil, "", fmt.Errorf("the base has no figure: %s", bad)
		}
		y, bad, err := figure(ctx, run, name, text, after)
		if err != nil || bad != "" {
			return nil, bad, err
		}
		was, is, ratios = append(was, x), append(is, y), append(ratios, y/x)
	}
	f = &Figures{Command: text, Before: ratio.Median(was), After: ratio.Median(is), Ratio: ratio.Median(ratios), Pairs: len(ratios)}
	if f.Pairs > 1 {
		f.Low, f.High = ratio.Interval(ratios)
	}
	return f, "", nil
}

func figure(ctx context.Context, run judgeRun, name, text, dir string) (x float64, bad string, err error) {
	o, err := run(ctx, name, text, dir)
	if err != nil || o.fault != "" {
		return 0, strings.TrimSuffix(fmt.Sprintf("%s: %s; %s", text, o.fault, o.last), "; "), err
	}
	x, fault := strconv.ParseFloat(o.last, 64)
	if fault != nil || !(x > 0) || math.IsInf(x, 0) {
		return 0, fmt.Sprintf("%s: its last line is %q, and a positive number was expected", text, clip(o.last, 80)), nil
	}
	return x, "", nil
}

// output is what a command prints in a clone of a commit.
func (l *Loop) output(ctx context.Context, n int, name, text, commit string) (string, error) {
	dir := l.path("judge", "base")
	if err := l.store.clone(ctx, dir, l.Branch, commit); err != nil {
		return "", err
	}
	o, err := l.judgeRun(n, "1")(ctx, name, text, dir)
	if err != nil {
		return "", err
	}
	if o.fault != "" {
		return "", fmt.Errorf("%s: %s; %s", text, o.fault, o.last)
	}
	all, err := os.ReadFile(filepath.Join(l.folder(n), name+".log"))
	return plainLines(string(all), 20), err
}

// plainLines keeps the first lines of a text, for a prompt.
func plainLines(text string, most int) string {
	var l []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(plain(line), " "); line != "" && len(l) < most {
			l = append(l, clip(line, 200))
		}
	}
	return strings.Join(l, "\n")
}

// final measures the first and the last commit once more, with a seed that decided nothing.
func (l *Loop) final(ctx context.Context) error {
	done := ends(l.records())
	kept := slices.IndexFunc(done, func(r Record) bool { return meaning(r.Verdict).Moves })
	if kept < 0 {
		return nil
	}
	if last := l.records()[len(l.records())-1]; last.Kind == KindSession { // this session added nothing to a run that was whole
		return nil
	}
	r := Record{Kind: KindFinal, Base: done[0].Base, Seed: strconv.FormatUint(seed(), 10)}
	for _, d := range done {
		if meaning(d.Verdict).Moves {
			r.Commit, r.Iteration = d.Commit, d.Iteration
		}
	}
	before, after := l.path("judge", "base"), l.path("judge", "change")
	run := l.judgeRun(r.Iteration, r.Seed)
	for dir, commit := range map[string]string{before: r.Base, after: r.Commit} {
		if err := l.store.clone(ctx, dir, l.Branch, commit); err != nil {
			return err
		}
		if l.Build != "" {
			if o, err := run(ctx, "build-final", l.Build, dir); err != nil || o.fault != "" {
				return cmp.Or(err, fmt.Errorf("%s: %s", l.Build, o.fault))
			}
		}
	}
	f, bad, err := l.compare(ctx, run, "final", l.Measure, before, after)
	if err != nil {
		return err
	}
	r.Figures, r.Reason = f, bad
	return l.book.add(r)
}

// seed draws one of 53 bits, which any language reads exactly.
func seed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	var x uint64
	for _, v := range b {
		x = x<<8 | uint64(v)
	}
	return x>>11 | 1
}
