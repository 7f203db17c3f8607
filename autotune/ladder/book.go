package ladder

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gdngen/gdngen/internal/store"
)

// File names in the folder of a climb.
const (
	JournalName = "ladder.jsonl"
	lockName    = "ladder.lock"
)

// book is the journal of a climb.
type book struct {
	path    string
	records []Record
}

// openBook opens the journal of a folder, or begins one. Another configuration's journal is an *OtherError. The seed is kept.
func openBook(dir string, c *Config) (*book, error) {
	b := &book{path: filepath.Join(dir, JournalName)}
	var err error
	if b.records, err = store.ReadLines[Record](b.path, "restore it, or climb in another folder"); err != nil {
		return nil, err
	}
	if len(b.records) == 0 {
		return b, b.add(Record{Config: c})
	}
	had := b.records[0].Config
	if had == nil {
		return nil, fmt.Errorf("%s does not begin with what is compared: it is no journal of a ladder", b.path)
	}
	c.Seed = had.Seed
	if was, is := inLine(had), inLine(c); was != is {
		return nil, &OtherError{dir, *had}
	}
	return b, nil
}

// OtherError says that a folder holds another climb.
type OtherError struct {
	Dir  string
	Held Config
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("%s holds another climb, of %s against %s on %s, or one by other settings: choose another --run", e.Dir, e.Held.Variant, e.Held.Base, e.Held.Kernel)
}

// inLine returns a configuration as one line of JSON.
func inLine(c *Config) string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // of plain data
	}
	return string(text)
}

// add appends a record and waits until it is on the disk.
func (b *book) add(r Record) error {
	r.At = time.Now().UTC().Truncate(time.Millisecond)
	if err := store.AppendLine(b.path, r); err != nil {
		return err
	}
	b.records = append(b.records, r)
	return nil
}

// rung returns the record of a rung; nil if it was not judged yet.
func (b *book) rung(name string) *Record {
	for i := range b.records {
		if b.records[i].Rung == name {
			return &b.records[i]
		}
	}
	return nil
}

func (b *book) decision() *Record {
	for i := range b.records {
		if b.records[i].Decision != "" {
			return &b.records[i]
		}
	}
	return nil
}

// Load reads a climb, complete or not.
func Load(dir string) (*Climb, error) {
	path := filepath.Join(dir, JournalName)
	records, err := store.ReadLines[Record](path, "restore it, or climb in another folder")
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || records[0].Config == nil {
		return nil, fmt.Errorf("%s does not begin with what is compared: it is no journal of a ladder", path)
	}
	c := &Climb{Dir: dir, Config: *records[0].Config}
	for _, r := range records[1:] {
		if r.Rung != "" {
			c.Rungs = append(c.Rungs, r)
		}
	}
	if len(c.Rungs) == 0 {
		return nil, fmt.Errorf("%s has no rung yet", path)
	}
	if b := (&book{records: records}); b.decision() != nil {
		c.decide()
	}
	return c, nil
}
