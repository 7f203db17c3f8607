package loop

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gofrs/flock"
)

// Summary has the state and the results of a loop's run.
type Summary struct {
	Dir        string          `json:"dir"`
	Branch     string          `json:"branch"`
	State      string          `json:"state"` // running, killed, or why the last session ended
	Sandbox    string          `json:"sandbox"`
	Network    string          `json:"network,omitempty"` // who has network access
	Wanted     int             `json:"wanted"`            // iterations
	Verdicts   map[Verdict]int `json:"verdicts"`
	First      float64         `json:"first,omitempty"` // figures
	Now        float64         `json:"now,omitempty"`
	Final      *Figures        `json:"final,omitempty"` // first and last commit, with a seed that no decision used
	Iterations []Record        `json:"iterations"`
	Spent      float64         `json:"spent,omitempty"` // last output of --spend
	Busy       int             `json:"busy,omitempty"`  // the unfinished iteration
}

// Status summarizes a run, which may be in progress.
func Status(dir string) (*Summary, error) {
	c, err := Load(dir)
	if err != nil {
		return nil, err
	}
	records, err := ReadRecords(dir)
	if err != nil {
		return nil, err
	}
	s := &Summary{Dir: dir, Branch: c.Branch, Wanted: c.Iterations, Verdicts: map[Verdict]int{}, Iterations: ends(records), State: "not begun"}
	for _, r := range records {
		switch r.Kind {
		case KindSession:
			s.Sandbox, s.Network, s.State = r.Sandbox, r.Network, "killed: gdngen loop resume --run "+dir
		case KindStop:
			s.State = r.Reason
		case KindFinal:
			s.Final = r.Figures
		}
	}
	for _, r := range s.Iterations {
		s.Spent = max(s.Spent, r.Spent)
		s.Verdicts[r.Verdict]++
		if r.Figures != nil && s.First == 0 {
			s.First, s.Now = r.Figures.Before, r.Figures.Before
		}
		if r.Figures != nil && meaning(r.Verdict).Moves {
			s.Now = r.Figures.After
		}
	}
	if was := open(records); was != nil {
		s.Busy = was[0].Iteration
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if free, err := lock.TryRLock(); err == nil && !free {
		s.State = "running"
	} else if free {
		lock.Unlock()
	}
	return s, nil
}

// Text writes the summary for a reader.
func (s *Summary) Text(w io.Writer) {
	fmt.Fprintf(w, "%s on branch %s: %s\n", s.Dir, s.Branch, s.State)
	fmt.Fprintf(w, "%d of %d iterations, sandbox %s", len(s.Iterations)-s.Verdicts[Interrupted], s.Wanted, s.Sandbox)
	if s.Sandbox != "none" && s.Network != "" {
		fmt.Fprintf(w, " (network %s)", s.Network)
	}
	for _, m := range Meanings {
		if n := s.Verdicts[m.Verdict]; n > 0 {
			fmt.Fprintf(w, ", %d %s", n, m.Verdict)
		}
	}
	fmt.Fprintln(w)
	if s.First > 0 {
		fmt.Fprintf(w, "the figure was %.6g and is %.6g, %s\n", s.First, s.Now, fall(1-s.Now/s.First))
	}
	if f := s.Final; f != nil {
		fmt.Fprintf(w, "measured anew, with a seed that decided nothing: %.6g and %.6g, %s\n", f.Before, f.After, fall(f.Gain()))
	}
	if s.Spent > 0 {
		fmt.Fprintf(w, "agents have spent %g\n", s.Spent)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.Iterations) > 0 {
		fmt.Fprintf(t, "  N\tVERDICT\tGAIN\tCOMMIT\tTIME\tHYPOTHESIS OR REASON\n")
	}
	for _, r := range s.Iterations {
		gain := "-"
		if r.Figures != nil {
			gain = fmt.Sprintf("%.3g %%", 100*r.Figures.Gain())
		}
		fmt.Fprintf(t, "  %d\t%s\t%s\t%s\t%v\t%s\n", r.Iteration, r.Verdict, gain, orElse(r.Commit[:min(10, len(r.Commit))], "-"), time.Duration(r.Seconds*1e9).Round(100*time.Millisecond), clip(orElse(keptWords(r), r.Reason), 110))
	}
	t.Flush()
	if s.Busy > 0 {
		fmt.Fprintf(w, "iteration %d has begun\n", s.Busy)
	}
}

// Words returns the hypothesis of a kept iteration; "" for others, whose reason says more.
func Words(r Record) string { return keptWords(r) }

// Moves reports whether a verdict moves the branch.
func Moves(v Verdict) bool { return meaning(v).Moves }

// keptWords returns the hypothesis of a kept iteration, else "".
func keptWords(r Record) string {
	if meaning(r.Verdict).Moves {
		return hypothesis(r)
	}
	return ""
}

// Iteration returns the end record of an iteration, or an error if it has none.
func Iteration(dir string, n int) (*Record, error) {
	records, err := ReadRecords(dir)
	if err != nil {
		return nil, err
	}
	done := ends(records)
	for i := range done {
		if done[i].Iteration == n {
			return &done[i], nil
		}
	}
	return nil, fmt.Errorf("run %s has no iteration %d that is over: it has %d", dir, n, len(done))
}

// Text prints an iteration: its record, and where its files are.
func (r *Record) Text(w io.Writer, c Config) {
	var b strings.Builder
	entry(&b, c, *r)
	fmt.Fprint(w, strings.TrimSpace(b.String()), "\n\n")
	if r.Plan != nil {
		for _, i := range r.Plan.Shortlist {
			fmt.Fprintf(w, "weighed: %s, %v less, risk %v\n", i.Change, i.Gain, i.Risk)
		}
	}
	fmt.Fprintf(w, "base %s, %.1f s\n", r.Base, r.Seconds)
	if r.Seed != "" {
		fmt.Fprintf(w, "hold-out seed %s\n", r.Seed)
	}
	if r.Left > 0 {
		fmt.Fprintf(w, "%d processes that the agent left were ended\n", r.Left)
	}
	if r.Commit != "" {
		fmt.Fprintf(w, "git -C %s show %s\n", c.Repo, Ref(c.Dir, r.Iteration))
	}
	folder := filepath.Join(c.Dir, fmt.Sprintf("iter-%03d", r.Iteration))
	files, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			fmt.Fprintf(w, "%s  %d bytes\n", filepath.Join(folder, f.Name()), info.Size())
		}
	}
}

// Preview returns the prompt of the next iteration of a run, or of a new one.
func Preview(ctx context.Context, c Config) (string, error) {
	if err := c.Validate(); err != nil {
		return "", err
	}
	repo, err := openRepository(ctx, c.Repo)
	if err != nil {
		return "", err
	}
	l := &Loop{Config: c, start: time.Now(), book: &book{}}
	if records, err := ReadRecords(c.Dir); err == nil {
		l.book.records = records
	}
	base, err := repo.tip(ctx, c.Branch)
	if err != nil {
		if base, err = git(ctx, repo.dir(), "rev-parse", "HEAD"); err != nil {
			return "", err
		}
	}
	n := 1
	for _, r := range ends(l.records()) {
		n, l.hot = r.Iteration+1, r.HotSpots
	}
	return l.render(n, base), nil
}

// Text prints what a loop would do.
func (c *Config) Text(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("repository", "%s, branch %s; attempts at %s", c.Repo, c.Branch, strings.TrimSuffix(Ref(c.Dir, 0), "/000"))
	line("agent", "%s (%v at most, silent for %v at most, tried %d times)", c.Agent, c.AgentTimeout, c.AgentIdle, c.AgentRetries+1)
	line("iterations", "%d, budget %v, at most %d failures in a row (0: no limit)", c.Iterations, c.Budget, c.MaxFailures)
	for _, x := range c.Checks {
		line("check", "%s", x)
	}
	line("figure", "%s, %d pairs; a keep is %v less", c.Measure, c.Repeat, Share(c.MinGain))
	for _, g := range c.Guards {
		line("guard", "%s, %v more is allowed", g.Command, Share(g.Share))
	}
	line("protected", "%s", list(c.Protect, "nothing"))
	if len(c.Allow) > 0 {
		line("but not", "%s", list(c.Allow, ""))
	}
}
