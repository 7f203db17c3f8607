package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop/logbook"
)

// LogName is the log of a run, for readers. It is rewritten from the records after each iteration.
const LogName = "log.md"

// writeLog writes the log and checks its last entry by the rules of logs.
func (l *Loop) writeLog(done []Record) error {
	text := Log(l.Config, done)
	if faults := logbook.Lint(logbook.Parse(text), logbook.Rules{Fields: logFields, Last: true}); len(faults) > 0 {
		return fmt.Errorf("the log of iteration %d is not fit to be read: %v", done[len(done)-1].Iteration, faults[0])
	}
	return writeSynced(l.path(LogName), []byte(text))
}

// logFields are the required fields of an entry.
var logFields = append([]string{"commit"}, logbook.Required...)

// Log returns the log of a run in Markdown.
func Log(c Config, done []Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Loop on branch %s\n\nAgent `%s`; figure `%s`, less is better. Attempts are at %s.\n", c.Branch, clip(c.Agent, 200), clip(c.Measure, 200), strings.TrimSuffix(Ref(c.Dir, 0), "/000"))
	for _, r := range done {
		entry(&b, c, r)
	}
	return b.String()
}

func entry(b *strings.Builder, c Config, r Record) {
	p := r.Plan
	if p == nil {
		p = &Plan{}
	}
	title := string(r.Verdict)
	if p.Hypothesis != "" {
		title = clip(p.Hypothesis, 80)
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "- **%s**: %s\n", name, logbook.Finished(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(b, "\n## %d. %s\n\n", r.Iteration, logbook.Finished(title))
	line("Hypothesis", "%s", orElse(p.Hypothesis, "none was given"))
	if p.Hypothesis != "" {
		line("Expected", "%v less, risk %v", p.Gain, p.Risk)
	}
	if p.Bottleneck != "" {
		line("Bottleneck", "%s", p.Bottleneck)
	}
	line("Command", "`gdngen loop show %d --run %s`", r.Iteration, c.Dir)
	for _, c := range r.Checks {
		line("Check", "%s", c)
	}
	line("Result", "%s", orElse(result(r), "no figure"))
	if r.HotSpots != "" {
		line("Hot spots before", "%s", spots(r.HotSpots))
	}
	if r.HotAfter != "" {
		line("Hot spots after", "%s", spots(r.HotAfter))
	}
	for _, e := range r.Evidence {
		line("Evidence", "%s (%s)", e.Note.String(), e.By)
	}
	line("Verdict", "%s: %s", r.Verdict, r.Reason)
	if meaning(r.Verdict).Moves {
		line("Commit", "%s", r.Commit)
	} else {
		line("Commit", "%s", logbook.NoCommit)
		if r.Commit != "" {
			line("Attempt", "%s", Ref(c.Dir, r.Iteration))
		}
	}
	if len(r.Notes) > 0 {
		line("Notes", "%s", strings.Join(r.Notes, "; "))
	}
	next := "none was given"
	if p.Next != nil && p.Next.Change != "" {
		next = fmt.Sprintf("%s (expected %v less, risk %v)", p.Next.Change, p.Next.Gain, p.Next.Risk)
		if p.Next.Command != "" {
			next += fmt.Sprintf("; `%s`", strings.ReplaceAll(p.Next.Command, "`", "'"))
		}
	}
	if r.Verdict == Keep && r.Figures.Gain() < lowImpact {
		next += "; low impact, so the next step should be larger"
	}
	line("Next", "%s", next)
}

// lowImpact: a keep with a smaller gain is marked.
const lowImpact = .03

func result(r Record) string {
	f := r.Figures
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("%.6g -> %.6g, %s", f.Before, f.After, fall(f.Gain()))
	if f.Pairs > 1 {
		text += fmt.Sprintf(" [%v, %v], %d pairs", Share(1-f.High), Share(1-f.Low), f.Pairs)
	}
	for _, g := range r.Guards {
		text += fmt.Sprintf("; guard %s: %.6g -> %.6g", clip(g.Command, 60), g.Before, g.After)
	}
	return text
}

// Rules checks a log in a repository: commits must exist, and commands begin with an existing program.
func Rules(ctx context.Context, repo string, fields []string, last bool) logbook.Rules {
	return logbook.Rules{Fields: fields, Last: last,
		Commit: func(name string) error {
			if _, err := git(ctx, repo, "cat-file", "-e", name+"^{commit}"); err != nil {
				return fmt.Errorf("commit: %s is not in %s", name, repo)
			}
			return nil
		},
		Head: func() (string, error) { return git(ctx, repo, "log", "-1", "--format=%B") },
		Program: func(name string) error {
			if name == "gdngen" {
				return nil
			}
			at := name
			if strings.Contains(name, "/") && !filepath.IsAbs(name) {
				at, _ = filepath.Abs(filepath.Join(repo, name))
			}
			if _, err := exec.LookPath(at); errors.Is(err, os.ErrPermission) {
				return fmt.Errorf("%s is not executable", name)
			} else if err != nil {
				return fmt.Errorf("there is no program %s", name)
			}
			return nil
		}}
}

// Lint lists the faults of a run's log and journal.
func Lint(ctx context.Context, c Config) (faults []logbook.Fault, err error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, LogName))
	if err != nil {
		return nil, fmt.Errorf("run %s has no log yet: %w", c.Dir, err)
	}
	records, err := ReadRecords(c.Dir)
	if err != nil {
		return nil, err
	}
	faults = logbook.Lint(logbook.Parse(string(text)), Rules(ctx, c.Repo, logFields, false))
	done := ends(records)
	if want := Log(c, done); want != string(text) {
		faults = append(faults, logbook.Fault{Line: 1, Text: "the log is not the one of the records"})
	}
	for _, r := range done {
		if r.Commit == "" {
			continue
		}
		if at, err := git(ctx, c.Repo, "rev-parse", "--verify", "-q", Ref(c.Dir, r.Iteration)); err != nil || at != r.Commit {
			faults = append(faults, logbook.Fault{Line: 1, Entry: fmt.Sprint(r.Iteration), Text: fmt.Sprintf("%s is not the attempt %.10s", Ref(c.Dir, r.Iteration), r.Commit)})
		}
	}
	return faults, nil
}
