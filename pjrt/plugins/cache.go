package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gdngen/gdngen/pjrt/machine"
)

// Entry is one plugin in the cache.
type Entry struct {
	Name  string // lammps-jax-pjrt-cpu-0.11.2
	Bytes int64
}

// CacheDir returns the directory of all that gdngen caches; it may not exist yet.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "gdngen"), nil
}

// LockEnv names the variable with the directory of the machine's lock, instead of the cache: for containers that share a cache but not a
// machine.
const LockEnv = "GDNGEN_LOCK"

// Machine returns this user's lock for measuring or computing on this machine. tell receives the processes that a caller waits for.
func Machine(tell func([]machine.Holder)) (*machine.Lock, error) {
	if dir := os.Getenv(LockEnv); dir != "" {
		return machine.New(dir, tell), nil
	}
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return machine.New(filepath.Join(dir, "machine"), tell), nil
}

// Cache lists the plugins in the cache, and returns their total size in bytes.
func Cache() (dir string, entries []Entry, bytes int64, err error) {
	cache, err := CacheDir()
	if err != nil {
		return "", nil, 0, err
	}
	dir = filepath.Join(cache, "plugins")
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil, 0, nil
	}
	if err != nil {
		return dir, nil, 0, err
	}
	for _, d := range list {
		if !d.IsDir() {
			continue
		}
		size := treeSize(filepath.Join(dir, d.Name()))
		entries = append(entries, Entry{Name: d.Name(), Bytes: size})
		bytes += size
	}
	return dir, entries, bytes, nil
}

// Clean removes the plugins from the cache, and returns the number of bytes freed. It waits for running downloads.
func Clean(ctx context.Context) (int64, error) {
	dir, entries, _, err := Cache()
	if err != nil {
		return 0, err
	}
	var freed int64
	for _, e := range entries {
		unlock, err := lock(ctx, filepath.Join(dir, e.Name), nil)
		if err != nil {
			return freed, err
		}
		err = os.RemoveAll(filepath.Join(dir, e.Name))
		unlock()
		if err != nil {
			return freed, err
		}
		freed += e.Bytes
	}
	return freed, nil
}

// lock excludes other processes from a directory of the cache, and creates the directory's parent. waiting, if not nil, is called once
// if another process holds the lock.
func lock(ctx context.Context, dir string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	l := flock.New(filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".lock"))
	ok, err := l.TryLock()
	if err == nil && !ok {
		if waiting != nil {
			waiting()
		}
		_, err = l.TryLockContext(ctx, 100*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", l.Path(), err)
	}
	return func() { l.Unlock() }, nil
}

// treeSize returns the size of the files below dir; unreadable ones count as 0.
func treeSize(dir string) int64 {
	var sum int64
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// removeLeftovers deletes working directories of downloads that were killed. The lock must be held.
func removeLeftovers(dir string) {
	list, _ := os.ReadDir(dir)
	for _, d := range list {
		if strings.HasPrefix(d.Name(), workPrefix) {
			os.RemoveAll(filepath.Join(dir, d.Name()))
		}
	}
}
