package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/store"
)

// Records is the folder of the jobs submitted from here, one folder a job.
type Records struct{ Dir string }

// RecordsDir is the folder of records, below the folder in which the program was started.
const RecordsDir = ".gdngen/remote"

const recordName = "job.json"

func (r Records) folder(id string) string { return filepath.Join(r.Dir, id) }

// Add writes a job, without the values of its variables. An existing job of the same id must have the same place and command.
func (r Records) Add(j *Job) error {
	if old, err := r.Load(j.ID); err == nil {
		if old.Place != j.Place || !slices.Equal(old.Command, j.Command) {
			return badPlace("job %s was submitted to %s as %q: choose another --id", j.ID, old.Place, strings.Join(old.Command, " "))
		}
		return nil
	}
	text, err := json.MarshalIndent(j, "", " ")
	if err == nil {
		err = os.MkdirAll(r.folder(j.ID), 0o755)
	}
	if err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(r.folder(j.ID), recordName), append(text, '\n'))
}

// Load reads the record of a job.
func (r Records) Load(id string) (*Job, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(r.folder(id), recordName))
	if err != nil {
		return nil, err
	}
	j := new(Job)
	if err := json.Unmarshal(text, j); err != nil {
		return nil, fmt.Errorf("the record of job %s: %w", id, err)
	}
	return j, nil
}

// Find returns a job and its place, as recorded at submission. on names the place if there is no record, or if it differs from the usual place.
func (r Records) Find(id, on, usual string) (Place, *Job, error) {
	if err := CheckID(id); err != nil {
		return nil, nil, err
	}
	j, err := r.Load(id)
	if err != nil {
		if on == "" {
			return nil, nil, badPlace("job %s was not submitted from here: give --on PLACE", id)
		}
		j = &Job{ID: id}
	} else if on == usual {
		on = j.Place
	}
	p, full, err := Parse(on)
	j.Place = full
	return p, j, err
}

// All lists the jobs, the latest first.
func (r Records) All() (l []*Job, err error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if j, err := r.Load(e.Name()); err == nil {
			l = append(l, j)
		}
	}
	slices.SortFunc(l, func(a, b *Job) int { return b.Submitted.Compare(a.Submitted) })
	return l, err
}

// Out returns the default folder for the results of a job.
func (r Records) Out(id string) string { return filepath.Join(r.folder(id), "out") }

// Fetched is a result that was copied.
type Fetched struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Fetch copies the results of a job whose names match a glob (empty: all) into a folder. A copy gets its name once it is complete.
func Fetch(ctx context.Context, p Place, id, glob, dir string) (l []Fetched, err error) {
	if _, err := path.Match(glob, ""); err != nil {
		return nil, badPlace("%q is no pattern of names: %v", glob, err)
	}
	return fetchSome(ctx, p, id, dir, func(f File) bool {
		whole, _ := path.Match(glob, f.Name)
		base, _ := path.Match(glob, path.Base(f.Name))
		return glob == "" || whole || base
	})
}

// fetchSome copies the results that are wanted.
func fetchSome(ctx context.Context, p Place, id, dir string, wanted func(File) bool) (l []Fetched, err error) {
	files, err := p.Files(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !local(f.Name) {
			return l, fmt.Errorf("the place lists %q, which is outside of the results", f.Name)
		}
		if !wanted(f) {
			continue
		}
		x, err := fetch(ctx, p, id, f, filepath.Join(dir, filepath.FromSlash(f.Name)))
		if err != nil {
			return l, fmt.Errorf("%s: %w", f.Name, err)
		}
		l = append(l, x)
	}
	return l, nil
}

// mostResult bounds a result whose size is not listed, in bytes.
const mostResult = 64 << 30

func fetch(ctx context.Context, p Place, id string, f File, to string) (x Fetched, err error) {
	r, err := p.Open(ctx, id, f.Name)
	if err != nil {
		return x, err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return x, err
	}
	w, err := os.CreateTemp(filepath.Dir(to), ".fetch-*")
	if err != nil {
		return x, err
	}
	defer os.Remove(w.Name())
	sum := sha256.New()
	most := f.Size // a growing file is cut at its listed size: the next call copies the rest
	if most < 0 {
		most = mostResult
	}
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, most))
	if err = errors.Join(err, w.Close()); err != nil {
		return x, err
	}
	if f.Size >= 0 && n < f.Size {
		return x, fmt.Errorf("%d bytes of %d came", n, f.Size)
	}
	return Fetched{f.Name, to, n, hex.EncodeToString(sum.Sum(nil))}, os.Rename(w.Name(), to)
}

// LimitError says that a job was stopped at its limit.
type LimitError struct {
	ID    string
	Limit time.Duration
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("job %s was stopped at its limit of %v", e.ID, e.Limit)
}

// Attend waits for a job, and stops it when limit is over since its submission (0: no limit); then the error is a *LimitError.
func (f *Follower) Attend(ctx context.Context, limit time.Duration, submitted time.Time) (*State, error) {
	if limit <= 0 {
		return f.Wait(ctx)
	}
	bounded, cancel := context.WithDeadline(ctx, submitted.Add(limit))
	defer cancel()
	s, err := f.Wait(bounded)
	if ctx.Err() == nil && bounded.Err() != nil {
		return s, errors.Join(&LimitError{f.ID, limit}, f.Place.Stop(ctx, f.ID))
	}
	return s, err
}
