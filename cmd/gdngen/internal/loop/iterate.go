package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// iterate runs one iteration, up to its end record.
func (l *Loop) iterate(ctx context.Context, n int) (r Record, err error) {
	begun := time.Now()
	r = Record{Kind: KindEnd, Iteration: n}
	defer func() { r.Seconds = time.Since(begun).Round(time.Millisecond).Seconds() }()
	if err := os.MkdirAll(l.folder(n), 0o755); err != nil {
		return r, err
	}
	if fault := l.sync(ctx, n); fault != nil {
		return r, fault
	}
	if r.Base, err = l.repo.tip(ctx, l.Branch); err != nil {
		return r, err
	}
	l.Step("begin")
	if err := l.book.add(Record{Kind: KindBegin, Iteration: n, Base: r.Base}); err != nil {
		return r, err
	}
	if l.HotSpots != "" {
		if l.hot, err = l.output(ctx, n, "hotspots", l.HotSpots, r.Base); err != nil {
			return r, err
		}
	}
	r.HotSpots = l.hot
	start, err := l.dirty(ctx, r.Base)
	if apart := (*conflictError)(nil); errors.As(err, &apart) {
		return l.verdict(r, Blocked, "--include-dirty", "%s", apart.reason), nil
	} else if err != nil {
		return r, err
	}
	tree := l.path("work", "clone")
	was, err := l.repo.treeState(ctx)
	if err != nil {
		return r, err
	}
	fault, err := l.runAgent(ctx, n, tree, start, &r)
	if err != nil {
		return r, err
	}
	l.Step("capture")
	r.Plan, r.Notes = readPlan(tree, l.MinExpected)
	made, err := l.store.capture(ctx, tree, start, l.message(n, &r), l.MaxFile)
	apart := (*conflictError)(nil)
	if made != nil && start != r.Base {
		var alone string
		if alone, err = l.store.onto(ctx, start, r.Base, made.commit, l.message(n, &r)); err == nil {
			made.commit = alone
		} else if !errors.As(err, &apart) {
			return r, err
		} else {
			err = nil
		}
	}
	if made != nil {
		r.Commit = made.commit
		if err := l.repo.take(ctx, l.store.dir, made.commit, Ref(l.Dir, n)); err != nil {
			return r, err
		}
	}
	bounds := (*boundsError)(nil)
	if errors.As(err, &bounds) {
		return l.verdict(r, OutOfBounds, bounds.subject, "%s", bounds.reason), nil
	} else if err != nil {
		return r, err
	}
	if done, err := l.bounds(ctx, was, made, &r); done || err != nil {
		return r, err
	}
	switch {
	case fault != "":
		return l.verdict(r, AgentFailed, "", "%s", fault), nil
	case r.Plan != nil && r.Plan.Blocked != nil:
		return l.verdict(r, Blocked, r.Plan.Blocked.Command, "the agent: %s", r.Plan.Blocked.Text), nil
	case apart != nil:
		return l.verdict(r, Blocked, "--include-dirty", "the change needs what is not committed: %s", apart.reason), nil
	case made == nil:
		return l.verdict(r, NoChange, "", "the tree is as it was"), nil
	}
	if err := l.book.add(Record{Kind: KindCapture, Iteration: n, Base: r.Base, Commit: r.Commit, Plan: r.Plan}); err != nil {
		return r, err
	}
	if err := l.judge(ctx, &r); errors.As(err, &bounds) {
		return l.verdict(r, OutOfBounds, bounds.subject, "%s", bounds.reason), nil
	} else if err != nil {
		return r, err
	}
	l.Step("decide")
	told, err := l.store.reword(ctx, r.Commit, l.message(n, &r)+trailers(&r))
	if err != nil {
		return r, err
	}
	r.Seconds = time.Since(begun).Round(time.Millisecond).Seconds()
	decided := r
	decided.Kind, decided.Commit = KindDecide, told
	if err := l.book.add(decided); err != nil {
		return r, err
	}
	r.Commit = told
	return r, l.carryOut(ctx, &r)
}

func (l *Loop) verdict(r Record, v Verdict, subject, format string, args ...any) Record {
	r.Verdict, r.Subject, r.Reason = v, plain(subject), clip(fmt.Sprintf(format, args...), 400)
	return r
}

// runAgent runs the agent in a fresh clone of a commit, with retries. fault says why it failed.
func (l *Loop) runAgent(ctx context.Context, n int, tree, start string, r *Record) (fault string, err error) {
	prompt := l.render(n, r.Base)
	file := filepath.Join(l.folder(n), "prompt.md")
	if err := os.WriteFile(file, []byte(prompt), 0o644); err != nil {
		return "", err
	}
	for attempt := range l.AgentRetries + 1 {
		l.Step("clone")
		if err := errors.Join(fresh(l.path("work", "tmp")), os.MkdirAll(l.path("work", "home"), 0o755), l.store.clone(ctx, tree, l.Branch, start)); err != nil {
			return "", err
		}
		name := "agent.log"
		if attempt > 0 {
			name = fmt.Sprintf("agent-%d.log", attempt+1)
		}
		screen := &screen{show: l.ShowFileUpdates, out: l.Note}
		c := command{text: l.Agent, dir: tree, stdin: prompt, log: filepath.Join(l.folder(n), name), box: l.box.only(l.path("work"), l.path("work", "home"), l.AgentNetwork, append(l.references(), file, l.path(LogName))...), limit: l.AgentTimeout, silence: l.AgentIdle, show: screen.line,
			env: l.environment(l.path("work", "home"), l.path("work", "tmp"), "GDNGEN_PROMPT="+file, "GDNGEN_ITERATION="+fmt.Sprint(n), "GDNGEN_PLAN="+filepath.Join(tree, PlanName))}
		if !l.box.none() {
			c.env = append(c.env, l.JudgeEnv...) // paths of plugins: the agent's home has none
		}
		l.Step("agent")
		over, done := l.watch(ctx, true)
		c.over = over
		o, err := c.run(ctx)
		done()
		if err != nil {
			return "", err
		}
		screen.end()
		r.Left += o.left
		if fault = o.fault; fault == "" {
			return "", nil
		}
		if o.last != "" {
			fault += "; its last words: " + clip(o.last, 200)
		}
		if l.crowded() != "" || l.Spend != "" && l.poor() != "" {
			return fault, nil
		}
	}
	return fault, nil
}

// references lists the existing files and folders of Config.References.
func (l *Loop) references() (files []string) {
	for _, r := range l.References {
		if p, err := shown(r); err == nil {
			files = append(files, p)
		}
	}
	return files
}

func (l *Loop) environment(home, tmp string, more ...string) []string {
	if l.On != "" {
		more = append(more, "GDNGEN_ON="+l.On)
	}
	env := environment(l.Env, home, tmp, append(more, l.goEnv...)...)
	if l.tools != "" {
		env = append(env, "PATH="+l.tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	return env
}

// fresh empties a folder.
func fresh(dir string) error {
	if err := remove(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// bounds checks whether the agent changed files outside its clone, or protected ones.
func (l *Loop) bounds(ctx context.Context, was map[string]string, made *attempt, r *Record) (done bool, err error) {
	refuse := func(subject, format string, args ...any) (bool, error) {
		*r = l.verdict(*r, OutOfBounds, subject, format, args...)
		return true, nil
	}
	if !l.book.intact() {
		if err := l.book.restore(); err != nil {
			return false, err
		}
		return refuse(JournalName, "the loop's journal was changed; it is restored")
	}
	if broken := (*boundsError)(nil); errors.As(l.unbroken(), &broken) {
		return refuse(broken.subject, "%s", broken.reason)
	}
	is, err := l.repo.treeState(ctx)
	if err != nil {
		return false, err
	}
	own := "\x00"
	if in, err := filepath.Rel(l.repo.tree, l.Dir); err == nil && !strings.HasPrefix(in, "..") {
		own = in + "/" // the run's folder may be in the work tree
	}
	if l.box.Name == "none" { // with a sandbox, only the user can have done it
		if file := differs(was, is, own); file != "" {
			return refuse(file, "%s of the user's tree changed while the agent ran; without a sandbox nobody can tell by whom", plain(file))
		}
	}
	if made != nil {
		if file := forbidden(made.changed, l.Protect, l.Allow); file != "" {
			return refuse(file, "it changes %s, which is protected", plain(file))
		}
	}
	tip, err := l.repo.tip(ctx, l.Branch)
	if err == nil && tip != r.Base {
		*r = l.verdict(*r, Blocked, l.Branch, "branch %s moved from %.10s to %.10s meanwhile", l.Branch, r.Base, tip)
		return true, nil
	}
	return false, err
}

// message returns the commit message of an iteration.
func (l *Loop) message(n int, r *Record) string {
	title, body := fmt.Sprintf("loop: iteration %d", n), ""
	if p := r.Plan; p != nil && p.Hypothesis != "" {
		title = "loop: " + clip(p.Hypothesis, 72)
		body = p.Hypothesis + "\n\n"
		if p.Bottleneck != "" {
			body += "Bottleneck: " + p.Bottleneck + "\n"
		}
		body += fmt.Sprintf("Expected: %v, risk %v\n\n", p.Gain, p.Risk)
	}
	return fmt.Sprintf("%s\n\n%sGdngen-Iteration: %d\nGdngen-Base: %s\n", title, body, n, r.Base)
}

// trailers returns the evidence of a judged commit, as trailers of its message.
func trailers(r *Record) string {
	var b strings.Builder
	line := func(name, text string) {
		if text = clip(text, 400); text != "" {
			fmt.Fprintf(&b, "Gdngen-%s: %s\n", name, text)
		}
	}
	line("Verdict", string(r.Verdict))
	line("Figure", result(*r))
	for _, c := range r.Checks {
		line("Check", c.String())
	}
	line("Hot-Spots-Before", spots(r.HotSpots))
	line("Hot-Spots-After", spots(r.HotAfter))
	for _, e := range r.Evidence {
		line("Evidence", e.Note.String())
	}
	return b.String()
}

// spots returns hot spots on one line.
func spots(text string) string { return strings.Join(strings.Split(text, "\n"), "; ") }

// carryOut puts the commit of a decision on its side ref, and moves the branch if the verdict says so. It does not
// touch a branch that someone else moved meanwhile.
func (l *Loop) carryOut(ctx context.Context, r *Record) error {
	if err := l.repo.take(ctx, l.store.dir, r.Commit, Ref(l.Dir, r.Iteration)); err != nil {
		return err
	}
	if !meaning(r.Verdict).Moves {
		return nil
	}
	l.Step("keep")
	tip, err := l.repo.tip(ctx, l.Branch)
	switch {
	case err != nil:
		return err
	case tip == r.Commit:
		return nil
	case tip == r.Base:
		if err := l.repo.move(ctx, l.Branch, r.Base, r.Commit); err == nil {
			return nil
		}
	}
	*r = l.verdict(*r, Blocked, l.Branch, "branch %s moved from %.10s meanwhile; the commit is at %s", l.Branch, r.Base, Ref(l.Dir, r.Iteration))
	return nil
}

// sync rebases the branch on its upstream, or on the checked-out branch, in a clone of the loop's own.
func (l *Loop) sync(ctx context.Context, n int) error {
	if l.SyncBase == "off" || l.SyncBase == "once" && len(ends(l.records())) > 0 {
		return nil
	}
	base, err := l.repo.tip(ctx, l.Branch)
	if err != nil {
		return err
	}
	up, err := git(ctx, l.repo.dir(), "rev-parse", "--verify", "-q", l.Branch+"@{upstream}^{commit}")
	if err != nil {
		if up, err = git(ctx, l.repo.dir(), "rev-parse", "--verify", "-q", "HEAD^{commit}"); err != nil {
			return err
		}
	}
	tree := l.path("judge", "sync")
	if err := l.store.clone(ctx, tree, l.Branch, base); err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if _, err := git(ctx, tree, "fetch", "-q", "--no-tags", "--no-write-fetch-head", l.store.dir, up+":refs/gdngen/upstream"); err != nil {
		return err
	}
	if _, err := git(ctx, tree, "rebase", "-q", "refs/gdngen/upstream"); err != nil {
		return fmt.Errorf("--sync-base: branch %s does not go onto %.10s: %w", l.Branch, up, err)
	}
	moved, err := git(ctx, tree, "rev-parse", "HEAD")
	if err != nil || moved == base {
		return err
	}
	if _, err := git(ctx, l.store.dir, "fetch", "-q", "--no-tags", "--no-write-fetch-head", tree, "+refs/heads/"+l.Branch+":refs/gdngen/synced"); err != nil {
		return err
	}
	if err := l.repo.take(ctx, l.store.dir, moved, fmt.Sprintf("%s-base", Ref(l.Dir, n))); err != nil {
		return err
	}
	return l.repo.move(ctx, l.Branch, base, moved)
}
