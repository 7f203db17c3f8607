package measure

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// Cache stores measurements on disk, each in a file named by the hash of everything it depends on. A nil cache stores nothing.
type Cache struct {
	Dir   string
	Fresh bool // ignore existing entries
}

// OpenCache opens the folder of measurements in the user's cache.
func OpenCache() (*Cache, error) {
	below, err := plugins.CacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(below, "measured")
	return &Cache{Dir: dir}, os.MkdirAll(dir, 0o755)
}

// ExamsDir returns the folder of the cached references of accuracy tests.
func ExamsDir() (string, error) {
	below, err := plugins.CacheDir()
	return filepath.Join(below, "exams"), err
}

// Size returns the size of all entries, in bytes.
func (c *Cache) Size() (bytes int64, err error) {
	files, err := os.ReadDir(c.Dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil { // it may have been removed meanwhile
			bytes += info.Size()
		}
	}
	return bytes, err
}

// Clear removes all entries.
func (c *Cache) Clear() error { return os.RemoveAll(c.Dir) }

// path returns the file of an entry, by the texts that it depends on.
func (c *Cache) path(from ...string) string {
	h := sha256.New()
	for _, text := range from {
		fmt.Fprintf(h, "%d\n%s", len(text), text)
	}
	return filepath.Join(c.Dir, fmt.Sprintf("%x.json.gz", h.Sum(nil)[:16]))
}

// get reads an entry into v and reports whether there is one. A file that can not be read counts as absent.
func (c *Cache) get(v any, from ...string) bool {
	if c == nil || c.Fresh {
		return false
	}
	data, err := os.ReadFile(c.path(from...))
	if err != nil {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return false
	}
	text, err := io.ReadAll(z)
	return err == nil && json.Unmarshal(text, v) == nil
}

// put stores v.
func (c *Cache) put(v any, from ...string) error {
	if c == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(text)
	if err = errors.Join(err, z.Close()); err != nil {
		return err
	}
	return store.WriteFile(c.path(from...), b.Bytes())
}

// Kept returns the cached value for the texts in from, or calls make and stores its result. The first text names the kind of value.
func Kept[T any](c *Cache, make func() (T, error), from ...string) (T, error) {
	var v T
	if c.get(&v, from...) {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return v, err
	}
	return v, c.put(v, from...)
}

// took is how long a program of so many bytes was compiled.
type took struct {
	Bytes   int
	Seconds float64
}

// tookKept is the number of compiles for a target whose times are kept.
const tookKept = 100

// times returns how long the last compiles for a target took here.
func (c *Cache) times(target string) (l []took) {
	if c != nil {
		(&Cache{Dir: c.Dir}).get(&l, "took", target)
	}
	return l
}

// tookSo stores the times of a target. They only inform, so an error is dropped, and of two compiles that end together one counts.
func (c *Cache) tookSo(target string, l []took) {
	_ = c.put(l[max(0, len(l)-tookKept):], "took", target)
}

// expected says how long programs took that are at most a third larger or smaller than one of size bytes.
func expected(l []took, size int) string {
	least, most := math.Inf(1), 0.
	for _, t := range l {
		if 4*t.Bytes >= 3*size && 3*t.Bytes <= 4*size {
			least, most = min(least, t.Seconds), max(most, t.Seconds)
		}
	}
	switch {
	case most == 0:
		return "this can take minutes the first time"
	case most < 1.5*least || most < 2:
		return fmt.Sprintf("such programs took %.0f s here", math.Ceil(most))
	}
	return fmt.Sprintf("such programs took %.0f to %.0f s here", math.Floor(least), math.Ceil(most))
}
