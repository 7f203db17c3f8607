package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/disk"
	chain "github.com/gdngen/gdngen/internal/store"
)

// Kind is the kind of a record.
type Kind string

// The kinds, in the order of an iteration.
const (
	KindSession Kind = "session" // a loop began or resumed the run
	KindBegin   Kind = "begin"   // an iteration is about to begin
	KindCapture Kind = "capture" // the agent has ended; its change is a commit
	KindDecide  Kind = "decide"  // the judgement, before the branch moves
	KindEnd     Kind = "end"     // the iteration is over
	KindFinal   Kind = "final"   // first and last commit, measured with a seed that no decision used
	KindStop    Kind = "stop"    // a loop stopped, and why
)

// Record is one line of the journal.
type Record struct {
	Kind      Kind      `json:"kind"`
	At        time.Time `json:"at"`
	Iteration int       `json:"iteration,omitempty"`
	Base      string    `json:"base,omitempty"`
	Commit    string    `json:"commit,omitempty"` // of the attempt, also if it was not kept
	Verdict   Verdict   `json:"verdict,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Subject   string    `json:"subject,omitempty"` // the file or command that the reason is about
	Figures   *Figures  `json:"figures,omitempty"`
	Guards    []Figures `json:"guards,omitempty"`
	Seed      string    `json:"seed,omitempty"` // of the hold-out inputs
	Plan      *Plan     `json:"plan,omitempty"` // written by the agent
	Checks    []Checked `json:"checks,omitempty"`
	HotSpots  string    `json:"hot_spots,omitempty"`
	HotAfter  string    `json:"hot_spots_after,omitempty"`
	Evidence  []Noted   `json:"evidence,omitempty"` // notes by the judge's commands: jobs, traces, times
	Left      int       `json:"left,omitempty"`     // processes that outlived the agent, and were ended
	Notes     []string  `json:"notes,omitempty"`
	Seconds   float64   `json:"seconds,omitempty"`
	Spent     float64   `json:"spent,omitempty"`   // last output of --spend, before the iteration or while its agent ran
	Process   int       `json:"process,omitempty"` // of the loop, in a session's record
	Sandbox   string    `json:"sandbox,omitempty"`
	Network   string    `json:"network,omitempty"` // who has network access, in a session's record
	Holdout   string    `json:"holdout,omitempty"` // SHA-256 of the hold-out, in a session's record
}

// Checked is the result of a check.
type Checked struct {
	Command string  `json:"command"`
	Passed  bool    `json:"passed"`
	Tries   int     `json:"tries"`
	Seconds float64 `json:"seconds"`
}

func (c Checked) String() string {
	text := fmt.Sprintf("`%s` %s", strings.ReplaceAll(clip(c.Command, 100), "`", "'"), map[bool]string{true: "passed", false: "failed"}[c.Passed])
	if c.Tries > 1 {
		text += fmt.Sprintf(" at try %d", c.Tries)
	}
	return text + fmt.Sprintf(" (%.1f s)", c.Seconds)
}

// MFU returns the last model flop utilisation noted by a command; 0: none.
func (r *Record) MFU() float64 {
	for _, n := range slices.Backward(r.Evidence) {
		if n.MFU > 0 {
			return n.MFU
		}
	}
	return 0
}

// Figures are the outputs of a command for base and change. Less is better.
type Figures struct {
	Command string  `json:"command"`
	Before  float64 `json:"before"`        // median
	After   float64 `json:"after"`         // median
	Ratio   float64 `json:"ratio"`         // median of the pairs' ratios
	Low     float64 `json:"low,omitempty"` // interval of the ratio, if there are several pairs
	High    float64 `json:"high,omitempty"`
	Pairs   int     `json:"pairs"`
}

// Gain returns the share by which the figure fell; below 0 it rose.
func (f *Figures) Gain() float64 {
	if f == nil {
		return 0
	}
	return 1 - f.Ratio
}

// JournalName is the file of records in the folder of a run.
const JournalName = "loop.jsonl"

// book is the journal of a run, open for writing. It keeps a copy, so that changes by other programs are detected and undone.
type book struct {
	path    string
	content []byte
	records []Record
	last    string // sum of the last line
	old     bool   // lines of an earlier release, without sums
}

// ReadRecords reads the records of a run. An incomplete last line is skipped.
func ReadRecords(dir string) ([]Record, error) {
	b := book{path: filepath.Join(dir, JournalName)}
	err := b.load()
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no loop in %s: %w", dir, err)
	}
	return b.records, err
}

func (b *book) load() error {
	text, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	var whole int
	whole, b.last, b.old, err = chain.ReadChain(text, func(record []byte) error {
		var r Record
		err := json.Unmarshal(record, &r)
		if err == nil && r.Verdict != "" && place(r.Verdict) < 0 {
			err = fmt.Errorf("verdict %q is none that this gdngen knows", r.Verdict)
		}
		b.records = append(b.records, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s is damaged at %w; restore the file, or begin a new run", b.path, err)
	}
	b.content = text[:whole:whole]
	return nil
}

// openBook opens the journal of a folder, or begins one, and drops an incomplete last line.
func openBook(dir string) (*book, error) {
	b := &book{path: filepath.Join(dir, JournalName)}
	if err := b.load(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return b, b.restore()
}

// restore writes the journal from this process's copy.
func (b *book) restore() error {
	if info, err := os.Lstat(b.path); err == nil && !info.Mode().IsRegular() {
		if err := remove(b.path); err != nil {
			return err
		}
	}
	return writeSynced(b.path, b.content)
}

// intact reports whether the file equals this process's copy.
func (b *book) intact() bool {
	if info, err := os.Lstat(b.path); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(b.content)) {
		return false
	}
	text, err := os.ReadFile(b.path)
	return err == nil && bytes.Equal(text, b.content)
}

// add appends a record and waits until it is on the disk.
func (b *book) add(r Record) error {
	r.At = time.Now().UTC().Truncate(time.Millisecond)
	line, sum, err := chain.Link(b.last, r)
	if b.old && len(b.content) > 0 {
		line, err = json.Marshal(r)
		line = append(line, '\n')
	}
	if err != nil {
		return err
	}
	if err := disk.Append(b.path, line); err != nil {
		return errors.Join(err, b.restore())
	}
	b.content, b.records, b.last = append(b.content, line...), append(b.records, r), sum
	return nil
}

// ends returns the end records of iterations, in order.
func ends(records []Record) (l []Record) {
	for _, r := range records {
		if r.Kind == KindEnd {
			l = append(l, r)
		}
	}
	return l
}

// open returns the records of the unfinished iteration, from begin on, without session records.
func open(records []Record) (l []Record) {
	for _, r := range records {
		switch r.Kind {
		case KindEnd:
			l = nil
		case KindBegin:
			l = []Record{r}
		case KindCapture, KindDecide:
			l = append(l, r)
		}
	}
	return l
}

func writeSynced(path string, text []byte) error {
	part := path + ".part"
	f, err := disk.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := disk.Rename(part, path); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}
