package measure

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/pjrt/plugins"
)

// CacheEntry is one plugin in the cache, or all measurements together.
type CacheEntry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// CacheContents lists the folders of plugins and measurements.
type CacheContents struct {
	Dir     string       `json:"dir"`
	Entries []CacheEntry `json:"entries"`
	Bytes   int64        `json:"bytes"`
}

// Cached lists the user's cache.
func Cached() (*CacheContents, error) {
	r := &CacheContents{Entries: []CacheEntry{}}
	dir, entries, total, err := plugins.Cache()
	if err != nil {
		return nil, err
	}
	r.Dir, r.Bytes = filepath.Dir(dir), total
	for _, e := range entries {
		r.Entries = append(r.Entries, CacheEntry(e))
	}
	kept, err := OpenCache()
	if err != nil {
		return nil, err
	}
	size, err := kept.Size()
	if err != nil {
		return nil, err
	}
	exams, err := exams()
	if err != nil {
		return nil, err
	}
	more, err := exams.Size()
	if err != nil {
		return nil, err
	}
	for _, e := range []CacheEntry{{filepath.Base(kept.Dir), size}, {filepath.Base(exams.Dir), more}} {
		if e.Bytes > 0 {
			r.Entries = append(r.Entries, e)
			r.Bytes += e.Bytes
		}
	}
	return r, nil
}

// exams opens the folder of references, and makes it if missing.
func exams() (*Cache, error) {
	dir, err := ExamsDir()
	if err != nil {
		return nil, err
	}
	return &Cache{Dir: dir}, os.MkdirAll(dir, 0o755)
}

// Clean removes measurements and references of accuracy tests from the user's cache; unless measured, also plugins. It returns the bytes freed.
func Clean(ctx context.Context, measured bool) (freed int64, err error) {
	kept, err := OpenCache()
	if err != nil {
		return 0, err
	}
	exams, err := exams()
	if err != nil {
		return 0, err
	}
	for _, c := range []*Cache{kept, exams} {
		size, bad := c.Size()
		freed += size
		err = errors.Join(err, bad, c.Clear())
	}
	if err == nil && !measured {
		var more int64
		more, err = plugins.Clean(ctx)
		freed += more
	}
	return freed, err
}
