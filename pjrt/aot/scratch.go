package aot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	scratchPrefix = "gdngen-scratch-"
	scratchLock   = ".lock"
	scratchYoung  = time.Minute // a folder younger than this may not be locked yet
)

// Scratch is a folder for temporary files, locked while its process lives. One that a killed process left is removed by the next
// process of this user that makes one.
type Scratch struct {
	Dir  string
	lock *flock.Flock
}

var sweepOnce sync.Once

// NewScratch makes a folder below the system's for temporary files.
func NewScratch() (*Scratch, error) {
	sweepOnce.Do(func() { sweep(os.TempDir(), time.Now().Add(-scratchYoung)) })
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return nil, err
	}
	s := &Scratch{dir, flock.New(filepath.Join(dir, scratchLock))}
	locked, err := s.lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("%s is locked by another process", dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Close removes the folder.
func (s *Scratch) Close() error { return errors.Join(os.RemoveAll(s.Dir), s.lock.Unlock()) }

// sweep removes the folders that nobody holds and that were made before a time. What can not be removed is left to its owner.
func sweep(below string, before time.Time) (removed []string) {
	dirs, _ := filepath.Glob(filepath.Join(below, scratchPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || info.ModTime().After(before) {
			continue
		}
		lock := flock.New(filepath.Join(dir, scratchLock))
		if locked, err := lock.TryLock(); err != nil || !locked {
			continue
		}
		if os.RemoveAll(dir) == nil {
			removed = append(removed, dir)
		}
		lock.Unlock()
	}
	return removed
}
