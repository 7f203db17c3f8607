package ladder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Decision is a ladder's decision about the candidate.
type Decision string

// The decisions.
const (
	Keep         Decision = "keep"         // every rung gained, and no guard lost more than it may
	Revert       Decision = "revert"       // a rung did not move, or a guard lost
	Inconclusive Decision = "inconclusive" // the measured interval covers what is asked
)

// Outcome is the result of one rung.
type Outcome string

// The outcomes.
const (
	Passed    Outcome = "passed" // right numbers, or a guard that holds
	Gained    Outcome = "gained"
	Unmoved   Outcome = "unmoved" // less than what is asked
	Lost      Outcome = "lost"    // slower; of a guard more than it may be
	Refused   Outcome = "refused" // wrong numbers, or no program
	Undecided Outcome = "undecided"
)

// Ends reports whether the climb stops at a rung with this outcome: it neither passed nor gained.
func (o Outcome) Ends() bool { return o != Passed && o != Gained }

// UnmarshalText reads a decision by its present name, or by the one that older journals have.
func (d *Decision) UnmarshalText(text []byte) error {
	if *d = Decision(text); *d == "hold" {
		*d = Inconclusive
	}
	return nil
}

// Record is one line of the journal: the configuration first, then a line for each rung, then the decision.
type Record struct {
	At       time.Time     `json:"at"`
	Config   *Config       `json:"config,omitempty"`
	Rung     string        `json:"rung,omitempty"`
	Kind     Kind          `json:"kind,omitempty"`
	Outcome  Outcome       `json:"outcome,omitempty"`
	Figures  *Figures      `json:"figures,omitempty"`
	Missing  journal.Cause `json:"missing,omitempty"` // piece
	Evidence string        `json:"evidence,omitempty"`
	Command  string        `json:"command,omitempty"` // that shows the candidate's figures
	Seconds  float64       `json:"seconds,omitempty"`
	Decision Decision      `json:"decision,omitempty"`
	Reason   string        `json:"reason,omitempty"`
}

// Climb is the result of a ladder.
type Climb struct {
	Dir      string        `json:"run"`
	Config   Config        `json:"config"`
	Rungs    []Record      `json:"rungs"`
	Decision Decision      `json:"decision"`
	Reason   string        `json:"reason"`
	Missing  journal.Cause `json:"missing,omitempty"`
	Goal     string        `json:"goal,omitempty"` // how far the utilisation is from what is asked
}

// Last is the rung that decided.
func (c *Climb) Last() *Record { return &c.Rungs[len(c.Rungs)-1] }

// LockedError says that another process climbs in the folder.
type LockedError struct{ Dir string }

func (e *LockedError) Error() string { return "another process climbs in " + e.Dir }

// Run climbs, or goes on with the climb in the folder. begun is called before a rung that is not known yet.
func Run(ctx context.Context, dir string, c Config, e Evaluator, begun func(Rung)) (*Climb, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, lockName))
	if mine, err := lock.TryLock(); err != nil || !mine {
		return nil, errors.Join(err, &LockedError{dir})
	}
	defer lock.Unlock()
	b, err := openBook(dir, &c)
	if err != nil {
		return nil, err
	}
	climb := &Climb{Dir: dir, Config: c}
	below := 0.
	for _, r := range c.rungs() {
		rec := b.rung(r.Name())
		if rec == nil {
			if begun != nil {
				begun(r)
			}
			if rec, err = c.step(ctx, e, r, below); err != nil {
				return nil, err
			}
			if err := b.add(*rec); err != nil {
				return nil, err
			}
		}
		climb.Rungs = append(climb.Rungs, *rec)
		if rec.Outcome.Ends() {
			break
		}
		if rec.Outcome == Gained && rec.Figures.Ratio > 0 {
			below = rec.Figures.Gain()
		}
	}
	climb.decide()
	if b.decision() == nil {
		err = b.add(Record{Decision: climb.Decision, Reason: climb.Reason, Missing: climb.Missing})
	}
	return climb, err
}

// step judges a rung; below is the share that the rung below gained.
func (c *Config) step(ctx context.Context, e Evaluator, r Rung, below float64) (*Record, error) {
	start := time.Now()
	f, err := e.Figures(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if f.Ratio == 0 && f.Base.Score > 0 && f.Candidate.Score > 0 {
		f.Ratio = float64(f.Candidate.Score) / float64(f.Base.Score)
	}
	rec := &Record{Rung: r.Name(), Kind: r.Kind, Figures: f, Command: r.Command(c.Variant, c.Forward), Outcome: c.outcome(r, f)}
	if rec.Outcome.Ends() {
		rec.Missing, rec.Evidence = missing(r, f, below, c.least(r))
		if rec.Outcome == Undecided {
			rec.Missing, rec.Evidence = "", fmt.Sprintf("%d pairs give %.4f to %.4f of the base's time; at most %.4f is asked: more pairs may tell", f.Pairs, f.Low, f.High, 1-c.least(r))
		}
	}
	rec.Seconds = time.Since(start).Seconds()
	return rec, nil
}

// least is the share that a rung gains at least. What is static has no noise, so any gain of the kernel is one.
func (c *Config) least(r Rung) float64 {
	if r.Kind == Kernel && c.Device == "" {
		return 0
	}
	return c.MinGain
}

func (c *Config) outcome(r Rung, f *Figures) Outcome {
	low, high := f.Ratio, f.Ratio
	if f.Pairs > 0 {
		low, high = f.Low, f.High
	}
	asked := 1 - c.least(r)
	switch {
	case f.Candidate.Verdict != "":
		return Refused
	case r.Kind == Correct:
		return Passed
	case f.Base.Verdict != "": // what the base can not do at all
		return Gained
	case r.Kind == Guarded && (f.Same || high <= 1+r.Share):
		return Passed
	case r.Kind == Guarded && low > 1+r.Share:
		return Lost
	case r.Kind == Guarded:
		return Undecided
	case f.Same:
		return Unmoved
	case high <= asked && f.Ratio < 1:
		return Gained
	case low > 1:
		return Lost
	case f.Pairs > 0 && low <= asked:
		return Undecided
	}
	return Unmoved
}

// decide sums the rungs up.
func (c *Climb) decide() {
	last := c.Last()
	c.Missing = last.Missing
	switch {
	case !last.Outcome.Ends():
		c.Decision, c.Reason = Keep, fmt.Sprintf("all %d rungs pass", len(c.Rungs))
	case last.Outcome == Undecided:
		c.Decision, c.Reason = Inconclusive, last.Rung+": "+last.Evidence
	default:
		c.Decision, c.Reason = Revert, fmt.Sprintf("%s: %s", last.Rung, last.Evidence)
	}
	if c.Config.Goal == 0 {
		return
	}
	for _, r := range c.Rungs {
		if x := r.Figures.Candidate; r.Kind == Model || r.Kind == Layer && c.Config.Model == nil {
			c.Goal = fmt.Sprintf("%.1f %% of %.1f %% is reached", 100*x.MFU, 100*c.Config.Goal)
			if x.Score > x.Rule {
				c.Goal += fmt.Sprintf("; were the rule free of the time that it takes alone, it would be %.1f %%", 100*x.MFU*float64(x.Score)/float64(x.Score-x.Rule))
			}
		}
	}
}
