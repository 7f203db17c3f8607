package loop

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/ratio"
)

// judge decides on a commit: build, checks and figures, in clones that the agent never saw, compared with a clone of the base.
func (l *Loop) judge(ctx context.Context, r *Record) error {
	r.Seed = strconv.FormatUint(seed(), 10) // it did not exist while the agent ran
	l.noted = nil
	defer func() { r.Evidence = l.noted }()
	run := l.judgeRun(r.Iteration, r.Seed)
	l.Step("checks")
	checked, bad, err := l.built(ctx, run, checksRoom, r.Commit)
	if err != nil {
		return err
	}
	if bad != "" {
		*r = l.verdict(*r, BuildFailed, l.Build, "%s", bad)
		return nil
	}
	for i, check := range l.Checks {
		begun := time.Now()
		for attempt := range l.CheckRetries + 1 {
			o, err := run(ctx, fmt.Sprintf("check-%d", i+1), check, checked)
			if err != nil {
				return err
			}
			r.Checks = append(r.Checks[:i:i], Checked{check, o.fault == "", attempt + 1, time.Since(begun).Round(time.Millisecond).Seconds()})
			if o.fault == "" {
				break
			}
			if attempt == l.CheckRetries {
				*r = l.verdict(*r, CheckFailed, check, "%s: %s; %s", check, o.fault, o.words())
				return nil
			}
		}
	}
	after, bad, err := l.built(ctx, run, figuresRoom, r.Commit)
	if err != nil {
		return err
	}
	if bad != "" {
		*r = l.verdict(*r, BuildFailed, l.Build, "%s", bad)
		return nil
	}
	before, bad, err := l.built(ctx, run, baseRoom, r.Base) // after all commands on the change
	if err == nil && bad != "" {
		err = fmt.Errorf("the base can not be built: %s", bad)
	}
	if err != nil {
		return err
	}
	if same, err := l.sameEffect(ctx, r, before, checked); same || err != nil {
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
	if err := l.rank(ctx, run, r, before, after); err != nil {
		return err
	}
	return l.spotsAfter(ctx, run, r, after)
}

// spotsAfter records the hot spots of the change. They decide nothing, so a failure is only a note.
func (l *Loop) spotsAfter(ctx context.Context, run judgeRun, r *Record, after room) error {
	if l.HotSpots == "" {
		return nil
	}
	o, err := run(ctx, "hotspots-after", l.HotSpots, after)
	if err != nil {
		return err
	}
	if o.fault != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("hot spots after: %s; %s", o.fault, clip(o.words(), 200)))
		return nil
	}
	all, err := os.ReadFile(filepath.Join(l.folder(r.Iteration), "hotspots-after.log"))
	if !o.secret {
		r.HotAfter = plainLines(string(all), 20)
	}
	return err
}

// rank decides by the guards and the figures.
func (l *Loop) rank(ctx context.Context, run judgeRun, r *Record, before, after room) error {
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

// scaffolds counts the scaffolds since the last keep.
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

// sameEffect refuses a change that leaves the output of --effect unchanged.
func (l *Loop) sameEffect(ctx context.Context, r *Record, before, after room) (bool, error) {
	if l.Effect == "" {
		return false, nil
	}
	run := l.judgeRun(r.Iteration, r.Seed)
	var texts [2]string
	for i, in := range []room{before, after} { // the change's effect runs in the folder of its checks
		name := []string{"effect-base", "effect"}[i]
		o, err := run(ctx, name, l.Effect, in)
		if err != nil {
			return false, err
		}
		if o.fault != "" && i == 0 {
			return false, fmt.Errorf("%s fails on the base: %s", l.Effect, o.fault)
		}
		if o.fault != "" {
			*r = l.verdict(*r, CheckFailed, l.Effect, "%s: %s; %s", l.Effect, o.fault, o.words())
			return true, nil
		}
		text, err := os.ReadFile(filepath.Join(l.folder(r.Iteration), name+".log"))
		if err != nil {
			return false, err
		}
		texts[i] = strings.ReplaceAll(string(text), in.dir, "")
	}
	if texts[0] == texts[1] {
		*r = l.verdict(*r, NoEffect, l.Effect, "%s prints the same as before", l.Effect)
		return true, nil
	}
	return false, nil
}

// compare measures base and change alternately. bad says why the change has no figure; if the base has none, that is an error of the machinery.
func (l *Loop) compare(ctx context.Context, run judgeRun, name, text string, before, after room) (f *Figures, bad string, err error) {
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

func figure(ctx context.Context, run judgeRun, name, text string, in room) (x float64, bad string, err error) {
	o, err := run(ctx, name, text, in)
	if err != nil || o.fault != "" {
		return 0, strings.TrimSuffix(fmt.Sprintf("%s: %s; %s", text, o.fault, o.words()), "; "), err
	}
	x, fault := strconv.ParseFloat(o.last, 64)
	if fault != nil || !(x > 0) || math.IsInf(x, 0) {
		return 0, fmt.Sprintf("%s: its last line is %q, and a positive number was expected", text, clip(o.words(), 80)), nil
	}
	return x, "", nil
}

// output returns the output of a command in a clone of a commit.
func (l *Loop) output(ctx context.Context, n int, name, text, commit string) (string, error) {
	in, err := l.enter(ctx, baseRoom, commit)
	if err != nil {
		return "", err
	}
	blind := *l // it runs code of kept changes, and its output goes to the next agent: no hold-out
	blind.Holdout = ""
	o, err := blind.judgeRun(n, "1")(ctx, name, text, in)
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

// final measures the first and the last commit again, with a seed that no decision used.
func (l *Loop) final(ctx context.Context) error {
	done := ends(l.records())
	kept := slices.IndexFunc(done, func(r Record) bool { return meaning(r.Verdict).Moves })
	if kept < 0 {
		return nil
	}
	if last := l.records()[len(l.records())-1]; last.Kind == KindSession { // this session added nothing to a complete run
		return nil
	}
	r := Record{Kind: KindFinal, Base: done[0].Base, Seed: strconv.FormatUint(seed(), 10)}
	for _, d := range done {
		if meaning(d.Verdict).Moves {
			r.Commit, r.Iteration = d.Commit, d.Iteration
		}
	}
	run := l.judgeRun(r.Iteration, r.Seed)
	var rooms [2]room
	for i, x := range [][2]string{{figuresRoom, r.Commit}, {baseRoom, r.Base}} {
		in, bad, err := l.built(ctx, run, x[0], x[1])
		if err == nil && bad != "" {
			err = fmt.Errorf("%s: %s", l.Build, bad)
		}
		if err != nil {
			return err
		}
		rooms[i] = in
	}
	f, bad, err := l.compare(ctx, run, "final", l.Measure, rooms[1], rooms[0])
	if err != nil {
		return err
	}
	r.Figures, r.Reason = f, bad
	return l.book.add(r)
}

// seed draws a seed of 53 bits, which a float64 holds exactly.
func seed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	var x uint64
	for _, v := range b {
		x = x<<8 | uint64(v)
	}
	return x>>11 | 1
}
