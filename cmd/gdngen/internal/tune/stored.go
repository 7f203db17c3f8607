package tune

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
)

// stored has results of gdngen tune CONFIG --work prefill,decode -o jsonl, one file a model. A row holds for exactly its program and what the cost
// model knows of its target, so rows of older programs are never taken.
//
//go:embed stored/*.jsonl
var stored embed.FS

// storedSource stands before the compiler of a stored cost.
const storedSource = "stored, "

// Stored holds costs of programs that were compiled elsewhere.
type Stored map[string]*Row

// ReadStored reads the costs embedded in this program.
func ReadStored() (Stored, error) {
	s := Stored{}
	return s, fs.WalkDir(stored, "stored", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := stored.ReadFile(name)
		if err != nil {
			return err
		}
		rows, err := parseStored(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path.Base(name), err)
		}
		maps.Copy(s, rows)
		return nil
	})
}

func parseStored(data []byte) (Stored, error) {
	s := Stored{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	for {
		row := &Row{}
		err := d.Decode(row)
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		if row.Cycles > 0 {
			row.Source = strings.TrimPrefix(row.Source, storedSource) // of an earlier file
			s[row.key()] = row
		}
	}
}

// key identifies everything that a cost depends on, except the compiler, which Source names.
func (row *Row) key() string {
	return row.Target + " " + row.Facts + " " + row.Program + " " + row.Load
}

// fill sets a row's cost if it is stored.
func (s Stored) fill(row *Row) bool {
	found, ok := s[row.key()]
	if ok {
		row.Source = storedSource + found.Source
		row.set(found.Cycles, found.Issue)
	}
	return ok
}
