package loop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Noted is a note that a command of the judge wrote.
type Noted struct {
	journal.Note
	By string `json:"by"` // name of the command: check-1, measure, hot-spots
}

// Limits on the notes of one command.
const (
	mostNotes = 64 << 10 // bytes
	fewNotes  = 8        // notes
)

func notesFile(in room) string { return filepath.Join(in.tmp(), "notes.jsonl") }

// takeNotes reads a command's notes and removes the file. The content is only data: invalid lines are skipped.
func takeNotes(in room, by string) (l []Noted, err error) {
	path := notesFile(in)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, remove(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, mostNotes))
	if err = errors.Join(err, f.Close(), remove(path)); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan() && len(l) < fewNotes; {
		n := Noted{By: by}
		if json.Unmarshal(lines.Bytes(), &n.Note) != nil || n.Note.String() == "" || n.StepMS < 0 || n.Tokens < 0 || n.MFU < 0 || n.MFU > 1 {
			continue
		}
		n.Job, n.Trace, n.Text = clip(n.Job, 200), clip(n.Trace, 400), clip(n.Text, 400)
		l = append(l, n)
	}
	return l, nil
}
