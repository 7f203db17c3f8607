package measure

import (
	"context"
	"path/filepath"

	"github.com/gdngen/gdngen/pjrt/plugins"
)

// CacheEntry is one plugin in the cache, or all measurements.
type CacheEntry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// CacheContents is what the folders of plugins and measurements hold.
type CacheContents struct {
	Dir     string       `json:"dir"`
	Entries []CacheEntry `json:"entries"`
	Bytes   int64        `json:"bytes"`
}

// Cached lists what is in the user's cache.
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
	if size > 0 {
		r.Entries = append(r.Entries, CacheEntry{filepath.Base(kept.Dir), size})
	}
	r.Bytes += size
	return r, nil
}

// Clean removes measurements from the user's cache, and plugins unless measurements alone are meant. It gives the bytes that are free now.
func Clean(ctx context.Context, measured bool) (freed int64, err error) {
	kept, err := OpenCache()
	if err != nil {
		return 0, err
	}
	if freed, err = kept.Size(); err == nil {
		err = kept.Clear()
	}
	if err == nil && !measured {
		var more int64
		more, err = plugins.Clean(ctx)
		freed += more
	}
	return freed, err
}
