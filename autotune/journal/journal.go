package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/gdngen/gdngen/internal/disk"
)

// FileName is the journal's name in the folder of a run.
const FileName = "journal.jsonl"

// lockName is the name of the file that excludes a second writer.
const lockName = "lock"

// LockedError says that another driver writes the run.
type LockedError struct{ Dir string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("run %s is in use by another driver: wait for its end, or choose another folder", e.Dir)
}

// Journal is a journal open for writing. It is safe for concurrent use.
type Journal struct {
	mu    sync.Mutex
	file  disk.File
	lock  *flock.Flock
	size  int64
	seq   int
	last  string
	state *State
	bad   error // a failed write that could not be undone
	made  bool  // Open made the folder
}

// Driven reports whether a driver is writing the run in a folder.
func Driven(dir string) bool {
	lock := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	if err != nil {
		return false
	}
	return !free || lock.Unlock() != nil
}

// Take takes the lock of a folder. It waits up to a second: a process killed while it started a worker keeps the lock
// some milliseconds longer, through the child.
func Take(lock *flock.Flock) (bool, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	taken, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return taken, err
}

// NoRunError says that a folder has no journal. It is an fs.ErrNotExist.
type NoRunError struct{ Dir string }

func (e *NoRunError) Error() string { return "there is no run in " + e.Dir }
func (e *NoRunError) Unwrap() error { return fs.ErrNotExist }

// Open opens the journal in a folder for writing, makes folder and file if missing, and folds its records. Warnings
// describe an unfinished last line, which is removed.
func Open(dir string) (j *Journal, warnings []string, err error) {
	_, err = os.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if err := disk.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockName))
	locked, err := Take(lock)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: locking %s: %w", dir, err)
	}
	if !locked {
		return nil, nil, &LockedError{Dir: dir}
	}
	path := filepath.Join(dir, FileName)
	f, err := disk.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("journal: %w", err), lock.Unlock())
	}
	j = &Journal{file: f, lock: lock, state: NewState(), made: made}
	var torn int64
	j.size, torn, j.last, j.seq, err = scan(f, j.state.Add)
	if err == nil && torn > 0 {
		warnings = append(warnings, tornWarning(path, j.seq, torn))
		err = f.Truncate(j.size)
	}
	if err == nil {
		err = errors.Join(f.Sync(), disk.SyncDir(dir))
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close(), lock.Unlock())
	}
	return j, warnings, nil
}

func tornWarning(path string, seq int, bytes int64) string {
	return fmt.Sprintf("journal %s: line %d was cut while it was written: its %d bytes are dropped", path, seq+1, bytes)
}

// Read folds the journal in a folder without writing or locking. each, if not nil, is called for every record.
func Read(dir string, each func(Record) error) (s *State, warnings []string, err error) {
	f, err := os.Open(filepath.Join(dir, FileName))
	if err != nil {
		return nil, nil, &NoRunError{dir}
	}
	defer f.Close()
	s = NewState()
	_, torn, _, seq, err := scan(f, func(r Record) error {
		if each != nil {
			if err := each(r); err != nil {
				return err
			}
		}
		return s.Add(r)
	})
	if err != nil {
		return nil, nil, err
	}
	if torn > 0 {
		warnings = append(warnings, tornWarning(f.Name(), seq, torn))
	}
	if s.Header == nil {
		return nil, warnings, fmt.Errorf("the run in %s was stopped before it began: start it anew", dir)
	}
	return s, warnings, nil
}

// State returns the fold of all records; Append keeps it up to date.
func (j *Journal) State() *State { return j.state }

// Append writes one record and waits until it is on the disk. A failed write leaves the journal unchanged.
func (j *Journal) Append(kind Kind, body any) error { return j.AppendTimed(kind, body, Times{}) }

// AppendTimed is Append with times; it sets times.At.
func (j *Journal) AppendTimed(kind Kind, body any, times Times) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.bad != nil {
		return j.bad
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	times.At = time.Now().UTC()
	r := Record{Seq: j.seq, Prev: j.last, Kind: kind, Body: text, Times: times}
	line, sum, err := encode(r)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.state.check(r); err != nil {
		return fmt.Errorf("journal: record %d: %w", j.seq, err)
	}
	_, err = j.file.WriteAt(line, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		err = fmt.Errorf("journal: writing record %d: %w", j.seq, err)
		if undo := j.file.Truncate(j.size); undo != nil {
			j.bad = errors.Join(err, undo)
		}
		return err
	}
	j.size += int64(len(line))
	j.seq++
	j.last = sum
	return j.state.Add(r)
}

// Close releases the journal to other writers.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := errors.Join(j.file.Close(), j.lock.Unlock())
	j.file, j.bad = nil, errors.New("journal: closed already")
	return err
}

// Discard closes the journal as Close does. A journal without records is removed, with its folder if Open made that.
func (j *Journal) Discard() error {
	j.mu.Lock()
	empty, dir := j.file != nil && j.seq == 0 && j.size == 0, ""
	var err error
	if empty {
		dir = filepath.Dir(j.file.Name())
		err = errors.Join(disk.Remove(j.file.Name()), disk.Remove(j.lock.Path()))
	}
	j.mu.Unlock()
	if err = errors.Join(err, j.Close()); err == nil && empty && j.made {
		err = disk.Remove(dir)
	}
	return err
}
