// Package promoted stores a user's own champions: variants that a search found better than auto's choice. They are rows
// of a JSON file in the user's configuration. A row holds only for its exact spec, target and class of accuracy.
package promoted

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// DirEnv names the environment variable with the folder of the configuration. The value Off means no configuration.
const (
	DirEnv = "GDNGEN_CONFIG"
	Off    = "off"
)

// FileName is the name of the file in the folder of the configuration.
const FileName = "champions.json"

// Row is a champion of a user.
type Row struct {
	Spec      string      `json:"spec"` // text of the gdn.Spec
	Target    string      `json:"target"`
	Accuracy  string      `json:"accuracy"`  // class that its errors stay within
	Variant   string      `json:"variant"`   // text of the gdn.Variant
	Cycles    int64       `json:"cycles"`    // the score that it was ranked by
	Ruler     ruler.Ruler `json:"ruler"`     // of the score; none in older files, where it is ruler.Issue
	Libtpu    string      `json:"libtpu"`    // the compiler whose schedules were counted
	Run       string      `json:"run"`       // name of the run's folder
	Candidate int         `json:"candidate"` // in its journal
	Date      string      `json:"date"`      // of the promotion, such as 2026-01-31
}

func (r *Row) String() string {
	return fmt.Sprintf("promoted on %s from candidate %d of run %s, %d %s cycles, libtpu %s", r.Date, r.Candidate, r.Run, r.Cycles, cmp.Or(r.Ruler, ruler.Issue), r.Libtpu)
}

// Class returns the class of accuracy of a search whose matrix products have at least precision least.
func Class(least string) gdn.Accuracy {
	if strategy.Reaches(ir.PrecBF16x1.String(), least) {
		return gdn.AccuracyFast
	}
	return gdn.AccuracyF32
}

// ClassOf returns the class of accuracy of a search with an objective.
func ClassOf(o objective.Objective, least string) gdn.Accuracy {
	if o.Class != gdn.AccuracyAny {
		return o.Class
	}
	return Class(least)
}

type file struct {
	Champions []Row `json:"champions"`
}

// File returns the path of the rows; empty if there is no configuration.
func File() string {
	dir := os.Getenv(DirEnv)
	if dir == Off {
		return ""
	}
	if dir == "" {
		user, err := os.UserConfigDir()
		if err != nil {
			return "" // no home directory: nothing was promoted
		}
		dir = filepath.Join(user, "gdngen")
	}
	return filepath.Join(dir, FileName)
}

// Read returns the rows of the configuration; nil if there is no file. An error names the file, the row and the fix.
func Read() ([]Row, error) {
	path := File()
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f := new(file)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err = d.Decode(&f); err == nil {
			if _, more := d.Token(); f == nil {
				err = errors.New("it is null")
			} else if more != io.EOF {
				err = errors.New("there is more behind the rows")
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: mend or delete the file, or go without by %s=%s", path, err, DirEnv, Off)
	}
	for i := range f.Champions {
		err := f.Champions[i].check()
		if err == nil && slices.ContainsFunc(f.Champions[:i], f.Champions[i].replaces) {
			err = errors.New("an earlier row is for the same")
		}
		if err != nil {
			r := f.Champions[i]
			return nil, fmt.Errorf("%s: row %d (%s on %s): %w: mend or delete the row, or go without by %s=%s", path, i+1, r.Spec, r.Target, err, DirEnv, Off)
		}
	}
	return f.Champions, nil
}

// check returns what is wrong with a row, or nil. It writes spec and variant out in full.
func (r *Row) check() error {
	s, err := gdn.Parse(r.Spec)
	if err != nil {
		return err
	}
	if _, err := target.Lookup(r.Target); err != nil {
		return err
	}
	v, err := gdn.ParseVariant(r.Variant)
	if err == nil {
		err = v.Check(s)
	}
	if err != nil {
		return err
	}
	switch a, err := gdn.ParseAccuracy(r.Accuracy); {
	case err != nil:
		return err
	case a != gdn.AccuracyFast && a != gdn.AccuracyF32:
		return fmt.Errorf("no search ranks by accuracy %q (known: %s %s)", r.Accuracy, gdn.AccuracyFast, gdn.AccuracyF32)
	case a == gdn.AccuracyF32 && Class(v.Precision().String()) != a:
		return fmt.Errorf("the variant computes in %s, less than accuracy %s asks for", v.Precision(), a)
	}
	if r.Cycles < 1 || r.Candidate < 1 || r.Run == "" || r.Libtpu == "" {
		return errors.New("cycles, candidate, run and libtpu say where it comes from, and one is missing")
	}
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
		return fmt.Errorf("date: %w", err)
	}
	r.Spec, r.Variant = s.String(), v.String()
	return nil
}

// replaces reports whether two rows are for the same spec, target and class.
func (r *Row) replaces(o Row) bool {
	return r.Spec == o.Spec && r.Target == o.Target && r.Accuracy == o.Accuracy
}

// Find returns the row for a spec on a target in the requested class of accuracy, or nil.
func Find(rows []Row, s gdn.Spec, target string, wish gdn.Accuracy) *Row {
	key := Row{Spec: s.String(), Target: target, Accuracy: wish.For(s).String()}
	if i := slices.IndexFunc(rows, key.replaces); i >= 0 {
		return &rows[i]
	}
	return nil
}

// Champion looks a spec up in the user's configuration. It is a route.Champions.
func Champion(s gdn.Spec, target string, class gdn.Accuracy) (variant, origin string, err error) {
	rows, err := Read()
	if err != nil {
		return "", "", err
	}
	row := Find(rows, s, target, class)
	if row == nil {
		return "", "", nil
	}
	return row.Variant, row.String(), nil
}

// Digest returns a hash of rows, for the header of a run that depends on them; empty without rows.
func Digest(rows []Row) string {
	if len(rows) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, r := range rows {
		fmt.Fprintln(sum, r)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// Write adds a row to the configuration, and returns the path of its file. It replaces a row for the same spec, target
// and class. The file is replaced atomically.
func Write(r Row) (path string, err error) {
	if path = File(); path == "" {
		return "", fmt.Errorf("there is no configuration to write to: let %s name its folder", DirEnv)
	}
	if err := r.check(); err != nil {
		return path, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return path, err
	}
	lock := flock.New(path + ".lock") // of two concurrent promotions one would be lost
	if err := lock.Lock(); err != nil {
		return path, err
	}
	defer lock.Unlock()
	rows, err := Read()
	if err != nil {
		return path, err
	}
	rows = append(slices.DeleteFunc(rows, r.replaces), r)
	slices.SortFunc(rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(x.Spec, y.Spec), cmp.Compare(x.Target, y.Target), cmp.Compare(x.Accuracy, y.Accuracy))
	})
	text, err := json.MarshalIndent(file{rows}, "", "  ")
	if err != nil {
		return path, err
	}
	return path, store.WriteFile(path, append(text, '\n'))
}
