package aot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

const (
	scratchPrefix = "gdngen-held-"
	lockSuffix    = ".lock"
)

// Scratch is a folder for temporary files. Its process holds a lock file next to it, created before the folder. The next process of this
// user that makes a Scratch removes the folders of killed processes.
type Scratch struct {
	Dir  string
	lock *flock.Flock
}

var sweepOnce sync.Once

// NewScratch makes a folder in the system's folder for temporary files.
func NewScratch() (*Scratch, error) {
	sweepOnce.Do(func() { sweep(os.TempDir()) })
	for {
		f, err := os.CreateTemp("", scratchPrefix+"*"+lockSuffix)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		s := &Scratch{strings.TrimSuffix(f.Name(), lockSuffix), flock.New(f.Name())}
		locked, err := s.lock.TryLock()
		if err != nil {
			return nil, err
		}
		if _, gone := os.Lstat(f.Name()); !locked || gone != nil {
			s.lock.Unlock() // a sweep removed the file meanwhile, so it locks nothing
			continue
		}
		if err := os.Mkdir(s.Dir, 0o700); err != nil {
			return nil, errors.Join(err, os.Remove(f.Name()), s.lock.Unlock())
		}
		return s, nil
	}
}

// Close removes the folder.
func (s *Scratch) Close() error {
	err := os.RemoveAll(s.Dir)
	return errors.Join(err, os.Remove(s.Dir+lockSuffix), s.lock.Unlock())
}

// dying is how long a killed worker may keep writing into a folder.
const dying = 5 * time.Second

// removeDying removes a folder into which workers of a killed process may still write: they die soon after it.
func removeDying(dir string) (err error) {
	for end := time.Now().Add(dying); ; time.Sleep(time.Millisecond) {
		if err = os.RemoveAll(dir); !errors.Is(err, syscall.ENOTEMPTY) || time.Now().After(end) {
			return err
		}
	}
}

// sweep removes the folders whose lock is free. It skips what it can not remove.
func sweep(below string) (removed []string) {
	found, _ := filepath.Glob(filepath.Join(below, scratchPrefix+"*"))
	for _, path := range found {
		dir := strings.TrimSuffix(path, lockSuffix)
		if _, err := os.Lstat(path); err != nil {
			continue // removed meanwhile, with its folder or lock
		}
		lock := flock.New(dir + lockSuffix)
		if locked, err := lock.TryLock(); err != nil || !locked {
			continue
		}
		if removeDying(dir) == nil && os.Remove(dir+lockSuffix) == nil {
			removed = append(removed, dir)
		}
		lock.Unlock()
	}
	return removed
}
