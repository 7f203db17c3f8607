package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// KindNote is a Note: a result from elsewhere. No decision depends on it.
const KindNote Kind = "note"

// Note records a candidate in use: a job, its trace and its figures.
type Note struct {
	Candidate int     `json:"candidate"`
	Job       string  `json:"job,omitempty"`     // id, such as of gdngen remote
	Trace     string  `json:"trace,omitempty"`   // file, folder or address
	StepMS    float64 `json:"step_ms,omitempty"` // of a training step
	Tokens    float64 `json:"tokens_per_second,omitempty"`
	MFU       float64 `json:"mfu,omitempty"` // share of one
	Text      string  `json:"text,omitempty"`
}

// Check returns why a note is invalid for the run, or nil.
func (n *Note) Check(v View) error {
	switch {
	case v.Candidate(n.Candidate) == nil:
		return fmt.Errorf("the run has no candidate %d: it has 1 to %d", n.Candidate, v.Len())
	case n.Job == "" && n.Trace == "" && n.StepMS == 0 && n.Tokens == 0 && n.MFU == 0 && n.Text == "":
		return errors.New("a note says something: a job, a trace, a step's time, tokens per second, a utilisation or a text")
	case n.StepMS < 0 || n.Tokens < 0 || n.MFU < 0 || n.MFU > 1:
		return errors.New("times and rates are not negative, and a utilisation is a share of one")
	}
	return nil
}

// String returns the note on one line.
func (n *Note) String() string {
	var l []string
	add := func(format string, x any, is bool) {
		if is {
			l = append(l, fmt.Sprintf(format, x))
		}
	}
	add("job %s", n.Job, n.Job != "")
	add("step %.4g ms", n.StepMS, n.StepMS > 0)
	add("%.6g tokens/s", n.Tokens, n.Tokens > 0)
	add("MFU %.1f %%", 100*n.MFU, n.MFU > 0)
	add("trace %s", n.Trace, n.Trace != "")
	add("%s", n.Text, n.Text != "")
	return strings.Join(l, ", ")
}

// NotesOf lists the notes of a candidate, oldest first.
func (s *State) NotesOf(id int) (l []Note) {
	for _, r := range s.Events() {
		var n Note
		if r.Kind == KindNote && json.Unmarshal(r.Body, &n) == nil && n.Candidate == id {
			l = append(l, n)
		}
	}
	return l
}

// AddNote appends a note to the journal of a folder. It errs while a driver writes the journal.
func AddNote(dir string, n Note) error {
	if _, _, err := Read(dir, nil); err != nil { // do not create a run in an empty folder
		return err
	}
	j, _, err := Open(dir)
	if err != nil {
		return err
	}
	if err := n.Check(j.State().Now()); err != nil {
		return errors.Join(&NoteError{err}, j.Close())
	}
	return errors.Join(j.Append(KindNote, n), j.Close())
}

// NoteError says why a note is invalid.
type NoteError struct{ Err error }

func (e *NoteError) Error() string { return e.Err.Error() }
func (e *NoteError) Unwrap() error { return e.Err }

// NoteEnv names the file to which commands of a loop's judge append notes, one JSON line each: gdngen remote, profile,
// mfu, trace mfu and loop figure do, and any other program may.
const NoteEnv = "GDNGEN_NOTE"

// Hand appends the note to the file of NoteEnv, if it is set.
func (n Note) Hand() error {
	path := os.Getenv(NoteEnv)
	if path == "" {
		return nil
	}
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", NoteEnv, err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
